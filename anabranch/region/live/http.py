"""`/metrics`, `/health` and `/ready`: a tiny HTTP/1.1 server on asyncio.

`/metrics` is for Prometheus, `/health` for load balancers, and `/ready` for whoever waits until the
region has what the others have.

It answers one GET or HEAD request per connection, then closes. Requests are bounded to 8 KiB of
head and 5 seconds, on at most 64 connections at once, so that HTTP clients cannot exhaust the
region's memory. A further connection takes the place of another one: of the addresses with the most
connections, the one that has been open for the longest time is closed. So connections that send
nothing do not keep a probe from its answer, neither their own machine's nor another one's.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Optional, TypeAlias
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from anabranch.region.engine.figures.figure import COUNTER, Metric

HEAD_BYTES_MAX: Final = 8 << 10
REQUEST_PATIENCE_S: Final = 5.0
CONNECTIONS_MAX: Final = 64

# State of the region, and the further fields of /health (values that JSON can represent).
Health: TypeAlias = tuple[str, dict[str, Any]]

# Whether the region is ready, given the lag tolerated in ms (None: the setting), and the details.
Ready: TypeAlias = Callable[[Optional[int]], tuple[bool, dict[str, Any]]]
_LAG_PARAMETER: Final = "lag_ms"

# A region in recovery serves reads and acknowledgements but refuses writes (S13.8), so it counts as
# unhealthy: load balancers should send writers to other regions.
_HEALTHY: Final = frozenset({"serving"})
_DIGITS_MAX: Final = 16
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class _Figures(Collector):
    """A region's figures, in prometheus-client's form."""

    def __init__(self, figures: Callable[[], Iterable[Metric]]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Family]:
        for name, text, kind, samples in self._figures():
            # prometheus-client names a family of counters without the suffix of its samples.
            family = Family(name.removesuffix("_total") if kind == COUNTER else name, text, kind)
            for suffix, labels, value in samples:
                family.add_sample(name + suffix, labels, value)
            yield family


class HttpServer:
    """Serves one region's figures and health. `start` listens, `close` ends the server."""

    def __init__(
        self, figures: Callable[[], Iterable[Metric]], health: Callable[[], Health], ready: Ready
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Figures(figures))
        self._health = health
        self._ready = ready
        self._server: asyncio.Server | None = None
        # The open connections, the oldest first, with the host of each.
        self._tasks: dict[asyncio.Task[None], str] = {}

    async def start(self, host: str, port: int) -> int:
        """Listens, and returns the port; port 0 lets the system choose. OSError if it fails."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=HEAD_BYTES_MAX)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stops listening, and ends the open connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= CONNECTIONS_MAX:
            self._make_room()
        name = writer.get_extra_info("peername")
        self._tasks[task] = str(name[0]) if name else ""
        try:
            async with asyncio.timeout(REQUEST_PATIENCE_S):
                writer.write(await self._answer(reader))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # The client is gone or too slow, or gave its place away: it gets no answer, and what
            # it has not read is dropped.
            writer.transport.abort()
        finally:
            self._tasks.pop(task, None)
            writer.close()

    def _make_room(self) -> None:
        """Ends the oldest connection of the host that has the most of them."""
        counts = Counter(self._tasks.values())
        busiest = max(counts.values())
        oldest = next(task for task, host in self._tasks.items() if counts[host] == busiest)
        del self._tasks[oldest]
        oldest.cancel()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(431, "text/plain", b"request too large\n")
        request = head.split(b"\r\n", 1)[0].split(b" ")
        if len(request) != 3 or not request[2].startswith(b"HTTP/1."):
            return _response(400, "text/plain", b"not an HTTP/1.1 request\n")
        method, (path, _, query) = request[0], request[1].partition(b"?")
        if method not in (b"GET", b"HEAD"):
            return _response(405, "text/plain", b"only GET and HEAD\n", "Allow: GET, HEAD\r\n")
        return self._page(path, query, head_only=method == b"HEAD")

    def _page(self, path: bytes, query: bytes, *, head_only: bool) -> bytes:
        if path == b"/metrics":
            return _response(
                200, CONTENT_TYPE_LATEST, generate_latest(self._registry), head_only=head_only
            )
        if path == b"/health":
            state, facts = self._health()
            return _json(state in _HEALTHY, {"state": state, **facts}, head_only)
        if path == b"/ready":
            try:
                lag_ms_max = _lag_ms_max(query.decode("latin-1"))
            except ValueError as error:
                return _response(400, "text/plain", f"{error}\n".encode(), head_only=head_only)
            return _json(*self._ready(lag_ms_max), head_only)
        return _response(
            404, "text/plain", b"there are /metrics, /health and /ready\n", head_only=head_only
        )


def _lag_ms_max(query: str) -> Optional[int]:
    """The lag that a request to /ready tolerates, in ms; None if it names none.

    Raises:
        ValueError: The query is wrong; the message says what would be right.
    """
    parameters = parse_qs(query, keep_blank_values=True)
    values = parameters.pop(_LAG_PARAMETER, [])
    if parameters:
        raise ValueError(f"the only parameter of /ready is {_LAG_PARAMETER}")
    if not values:
        return None
    text = values[-1]
    if not (text.isascii() and text.isdigit() and len(text) < _DIGITS_MAX):
        raise ValueError(f"{_LAG_PARAMETER} is a number of milliseconds, such as 5000")
    return int(text)


def _json(is_well: bool, facts: dict[str, Any], head_only: bool) -> bytes:
    body = json.dumps(facts).encode() + b"\n"
    return _response(200 if is_well else 503, "application/json", body, head_only=head_only)


def _response(
    status: int, kind: str, body: bytes, headers: str = "", *, head_only: bool = False
) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n{headers}"
    )
    return f"{head}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + (
        b"" if head_only else body
    )
