"""`/metrics` for Prometheus and `/health` for load balancers: a tiny HTTP/1.1 server on asyncio.

It answers one GET or HEAD request per connection, then closes. Requests are bounded to 8 KiB of
head and 5 seconds, on at most 64 connections at once. Requests and connections above these bounds
are refused or dropped, so that HTTP clients cannot exhaust the region's memory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from anabranch.region.engine.figures import Figure

HEAD_BYTES_MAX: Final = 8 << 10
REQUEST_PATIENCE_S: Final = 5.0
CONNECTIONS_MAX: Final = 64

# State of the region, and the further fields of /health (values that JSON can represent).
Health: TypeAlias = tuple[str, dict[str, Any]]

# A region in recovery serves reads and acknowledgements but refuses writes (S13.8), so it counts as
# unhealthy: load balancers should send writers to other regions.
_HEALTHY: Final = frozenset({"serving"})
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

    def __init__(self, figures: Callable[[], Iterable[Figure]]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        for name, text, kind, samples in self._figures():
            metric = Metric(name.removesuffix("_total") if kind == "counter" else name, text, kind)
            for labels, value in samples:
                metric.add_sample(
                    metric.name + ("_total" if kind == "counter" else ""), labels, value
                )
            yield metric


class HttpServer:
    """Serves one region's figures and health. `start` listens, `close` ends the server."""

    def __init__(
        self, figures: Callable[[], Iterable[Figure]], health: Callable[[], Health]
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Figures(figures))
        self._health = health
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

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
            writer.close()
            return
        self._tasks.add(task)
        try:
            async with asyncio.timeout(REQUEST_PATIENCE_S):
                writer.write(await self._answer(reader))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client is gone or too slow: it gets no answer.
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(431, "text/plain", b"request too large\n")
        request = head.split(b"\r\n", 1)[0].split(b" ")
        if len(request) != 3 or not request[2].startswith(b"HTTP/1."):
            return _response(400, "text/plain", b"not an HTTP/1.1 request\n")
        method, path = request[0], request[1].split(b"?", 1)[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, "text/plain", b"only GET and HEAD\n", "Allow: GET, HEAD\r\n")
        return self._page(path, head_only=method == b"HEAD")

    def _page(self, path: bytes, *, head_only: bool) -> bytes:
        if path == b"/metrics":
            return _response(
                200, CONTENT_TYPE_LATEST, generate_latest(self._registry), head_only=head_only
            )
        if path == b"/health":
            state, facts = self._health()
            body = json.dumps({"state": state, **facts}).encode() + b"\n"
            return _response(
                200 if state in _HEALTHY else 503, "application/json", body, head_only=head_only
            )
        return _response(
            404, "text/plain", b"there are /metrics and /health\n", head_only=head_only
        )


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
