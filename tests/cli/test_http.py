"""The HTTP server: the replies of /metrics, /health and /ready, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from anabranch.region.engine.figures.figure import Metric
from anabranch.region.live import http
from anabranch.region.live.http import Health, HttpServer

FIGURES: list[Metric] = [
    ("anabranch_keys", "Streams.", "gauge", [("", {}, 3)]),
    (
        "anabranch_effects_total",
        "Effects applied.",
        "counter",
        [("", {"origin": "us"}, 5), ("", {"origin": 'e"u'}, 7)],
    ),
]


class Region:
    """A stand-in for a region, with a `health` that tests change."""

    def __init__(self) -> None:
        self.health: Health = ("serving", {"region": "us"})
        self.behind_ms = 0
        self.port = 0

    def ready(self, lag_ms_max: int | None) -> tuple[bool, dict[str, Any]]:
        tolerated = 1000 if lag_ms_max is None else lag_ms_max
        return self.behind_ms <= tolerated, {"lag_ms_max": tolerated}


@pytest.fixture
async def region() -> AsyncIterator[Region]:
    one = Region()
    server = HttpServer(lambda: FIGURES, lambda: one.health, one.ready)
    one.port = await server.start("127.0.0.1", 0)
    yield one
    await server.close()


async def ask(region: Region, request: bytes) -> tuple[int, bytes, bytes]:
    """The status, head and body of the reply to a request; the status is 0 if there is no reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", region.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]) if head else 0, head, body


async def test_metrics_are_what_prometheus_reads(region: Region) -> None:
    status, head, body = await ask(region, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == 200 and b"text/plain" in head and b"Content-Length: %d" % len(body) in head
    samples = {
        (s.name, tuple(s.labels.values())): s.value
        for family in text_string_to_metric_families(body.decode())
        for s in family.samples
    }
    assert samples == {
        ("anabranch_keys", ()): 3,
        ("anabranch_effects_total", ("us",)): 5,
        ("anabranch_effects_total", ('e"u',)): 7,
    }


@pytest.mark.parametrize(
    ("state", "expected"), [("starting", 503), ("serving", 200), ("recovery", 503), ("failed", 503)]
)
async def test_health(region: Region, state: str, expected: int) -> None:
    region.health = (state, {"region": "us"})
    status, _, body = await ask(region, b"GET /health?verbose HTTP/1.1\r\n\r\n")
    assert status == expected and json.loads(body) == {"state": state, "region": "us"}


@pytest.mark.parametrize(
    ("query", "behind_ms", "expected"),
    [
        ("", 1000, (200, {"lag_ms_max": 1000})),
        ("", 1001, (503, {"lag_ms_max": 1000})),
        ("?lag_ms=5000", 1001, (200, {"lag_ms_max": 5000})),
        ("?lag_ms=0", 1, (503, {"lag_ms_max": 0})),
    ],
)
async def test_ready(
    region: Region, query: str, behind_ms: int, expected: tuple[int, dict[str, int]]
) -> None:
    region.behind_ms = behind_ms
    status, _, body = await ask(region, f"GET /ready{query} HTTP/1.1\r\n\r\n".encode())
    assert (status, json.loads(body)) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("lag_ms=", "a number of milliseconds, such as 5000"),
        ("lag_ms=-1", "a number of milliseconds"),
        ("lag_ms=1e3", "a number of milliseconds"),
        ("lag_ms=%C2%B2", "a number of milliseconds"),
        ("lag_ms=" + "9" * 40, "a number of milliseconds"),
        ("lag=5", "the only parameter of /ready is lag_ms"),
    ],
)
async def test_ready_refuses_other_queries(region: Region, query: str, message: str) -> None:
    status, _, body = await ask(region, f"GET /ready?{query} HTTP/1.1\r\n\r\n".encode())
    assert status == 400 and message in body.decode()


async def test_head_has_no_body(region: Region) -> None:
    status, head, body = await ask(region, b"HEAD /metrics HTTP/1.0\r\n\r\n")
    assert status == 200 and body == b"" and b"Content-Length: 0" not in head


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /secret HTTP/1.1\r\n\r\n", 404),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / SMTP/9\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431),
    ],
)
async def test_what_is_refused(region: Region, request_bytes: bytes, expected: int) -> None:
    status, _, _ = await ask(region, request_bytes)
    assert status == expected


async def test_t13_idle_connections_leave_a_place_to_probes(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """70 idle connections blinded /health for as long as they were opened again."""
    monkeypatch.setattr(http, "REQUEST_PATIENCE_S", 600)
    idle = [await asyncio.open_connection("127.0.0.1", region.port) for _ in range(500)]
    for _ in range(3):
        async with asyncio.timeout(60):
            assert (await ask(region, b"GET /health HTTP/1.1\r\n\r\n"))[0] == 200
    # The oldest ones gave their places away.
    closed = await asyncio.gather(*(reader.read() for reader, _ in idle[:400]))
    assert closed == [b""] * 400
    for _, writer in idle:
        writer.close()


async def test_t13_the_host_with_the_most_connections_gives_a_place(region: Region) -> None:
    """A flood from one host ends no connection of another one."""
    flood = [await asyncio.open_connection("127.0.0.1", region.port) for _ in range(100)]
    slow = asyncio.open_connection("127.0.0.1", region.port, local_addr=("127.0.0.2", 0))
    reader, writer = await slow
    flood += [await asyncio.open_connection("127.0.0.1", region.port) for _ in range(100)]
    writer.write(b"GET /health HTTP/1.1\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    for _, one in (*flood, (reader, writer)):
        one.close()


async def test_the_slow_and_the_many_are_dropped(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle connections and those above the limit are closed; the server then serves on."""
    with monkeypatch.context() as patched:
        patched.setattr(http, "REQUEST_PATIENCE_S", 0.5)
        idle = [
            await asyncio.open_connection("127.0.0.1", region.port)
            for _ in range(http.CONNECTIONS_MAX + 6)
        ]
        closed = await asyncio.gather(*(asyncio.wait_for(reader.read(), 60) for reader, _ in idle))
    assert closed == [b""] * len(idle)
    for _, writer in idle:
        writer.close()
    assert (await ask(region, b"GET /health HTTP/1.1\r\n\r\n"))[0] == 200
