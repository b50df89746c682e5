"""Clients that are no regions talk to the port for other regions.

A region answers or closes, logs at most lines, and goes on serving.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from anabranch.bench.acceptance.malformed_messages import PREFACE, frame, prefixed, request
from anabranch.sync.live.carrier import METHOD
from tests.support.cluster import LiveCluster

pytestmark = pytest.mark.live

PATIENCE_S = 30.0
NOISE = random.Random(7)
RAW = [
    NOISE.randbytes(100),
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"\x16\x03\x01\x02\x00\x01" + NOISE.randbytes(100),
    PREFACE + NOISE.randbytes(200),
    PREFACE + frame(4, 0, 0, b"") + frame(0, 1, 1, b"data before headers"),
    request(prefixed(b"abc")),
    request(prefixed(b"abc"), flags=1),
    request(prefixed(b"abc", 300), flags=1),
    request(prefixed(b"abc", flag=1), flags=1),
    request(prefixed(b"abc", flag=1), flags=1, grpc_encoding="gzip"),
    request(prefixed(b"abc", flag=1), flags=1, grpc_encoding="nonsense"),
    request(prefixed(b"abc", flag=7), flags=1),
    request(prefixed(b"", 0xFFFFFFFF)),
    request(b"", flags=1),
    request(prefixed(b"abc"), flags=1, content_type="text/html"),
]


def say(port: int, data: bytes) -> None:
    """Sends bytes, reads an answer if one comes soon, and hangs up."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(data)
        client.settimeout(0.2)
        try:
            client.recv(1000)
        except OSError:
            pass  # No answer, or a reset: both are allowed.


async def _unary(channel: Any) -> Any:
    return await channel.unary_unary(METHOD)(b"hi")


async def _unary_empty(channel: Any) -> Any:
    return await channel.unary_unary(METHOD)(b"")


async def _wrong_path(channel: Any) -> Any:
    return await channel.unary_unary("/anabranch.sync.v1.Sync/Nothing")(b"hi")


async def _many(channel: Any) -> Any:
    call = channel.stream_stream(METHOD)()
    for _ in range(50):
        await call.write(NOISE.randbytes(100))
    return await call.read()


async def _stream(channel: Any) -> Any:
    call = channel.stream_stream(METHOD)()
    await call.write(b"\xff" * 10)
    return await call.read()


async def _no_message(channel: Any) -> Any:
    call = channel.stream_stream(METHOD)()
    await call.done_writing()
    return await call.read()


async def _cancelled(channel: Any) -> Any:
    call = channel.stream_stream(METHOD)()
    await call.write(b"abc")
    call.cancel()


async def _too_long(channel: Any) -> Any:
    call = channel.stream_stream(METHOD)()
    await call.write(b"\x0a" * (40 << 20))
    return await call.read()


CALLS = [_wrong_path, _unary, _unary_empty, _many, _stream, _no_message, _cancelled, _too_long]


async def _call(port: int, talk: Callable[[Any], Awaitable[Any]]) -> None:
    """Runs one call. It must end, with an answer or with an error of gRPC."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            await asyncio.wait_for(talk(channel), PATIENCE_S)
        except (grpc.RpcError, asyncio.CancelledError, asyncio.InvalidStateError):
            pass  # The region has ended the call.


def test_garbage_leaves_no_traceback(new_cluster: Callable[..., LiveCluster]) -> None:
    """Calls whose client had said all it would say left a traceback, and never ended.

    The region was about to send its refusal, cancelled that when the client's input ended, and
    gRPC then failed to send the status.
    """
    cluster = new_cluster(["us"])
    region = cluster.start("us")
    for data in RAW:
        say(region.sync_port, data)
    for talk in CALLS:
        asyncio.run(_call(region.sync_port, talk))
    assert region.client().ping()
    cluster.stop("us")
    log = Path(region.log).read_text(errors="replace")
    assert "Traceback" not in log and " ERROR " not in log, log
    assert "malformed: " in log
    assert "malformed: malformed" not in log, "the reason stood twice in each line"
