"""Thousands of idle clients and hundreds of slow ones: bounded memory, and others are served.

The idle clients have sent PING once. Of the slow ones, some send a request byte by byte, some send
half a command and stop, some ask for megabytes and never read, and some wait in a blocked read.
Meanwhile a fast client adds and reads. At the end all hang up, and the region must be as before.
"""

from __future__ import annotations

import argparse
import resource
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from anabranch.bench.harness import Figures, percentile, resident_bytes, show_build, wait_for
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, RegionProcess

# Addresses of clients: one address has too few ports for very many.
SOURCES = [f"127.0.0.{number}" for number in range(1, 9)]
FILES_RESERVED = 200
PATIENCE_S = 60.0
VALUE_BYTES = 1000
LONG_ENTRIES = 2000
# Replies that a region keeps for one client that never reads: see OUTPUT_HIGH_BYTES.
OUTPUT_LIMIT_BYTES = 8 << 20
TURNS = 10
WAYS = ("byte by byte", "half a command", "never reads", "blocked")
IDLE_KIB_MAX = 16.0
LATENCY_MS_MAX = 500.0
GROWTH_MIB_MAX = 16.0
ROUNDS = 2
REST_S = 2.0

_HALF = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$100"
_WHOLE = b"*2\r\n$4\r\nECHO\r\n$5\r\n12345\r\n"
_LONG_READ = b"*4\r\n$6\r\nXRANGE\r\n$4\r\nlong\r\n$1\r\n-\r\n$1\r\n+\r\n"
_BLOCKED = (
    b"*6\r\n$5\r\nXREAD\r\n$5\r\nBLOCK\r\n$1\r\n0\r\n$7\r\nSTREAMS\r\n$4\r\nwake\r\n$1\r\n$\r\n"
)


def connect(region: RegionProcess, number: int) -> socket.socket:
    """A new connection, from one of `SOURCES`."""
    source = SOURCES[number % len(SOURCES)]
    address = (HOST, region.resp_port)
    return socket.create_connection(address, PATIENCE_S, source_address=(source, 0))


def exchange(client: socket.socket, request: bytes, ending: bytes = b"\r\n") -> bytes:
    """Sends a request and reads until the reply has `ending`."""
    client.sendall(request)
    answer = b""
    while not answer.endswith(ending):
        piece = client.recv(1 << 16)
        if not piece:
            raise ClusterError(f"the region hung up after {answer[-100:]!r}")
        answer += piece
    return answer


def allow_files(count: int) -> None:
    """Raises the limit of open files of this process to `count`; ClusterError if that fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(count, hard)))
        except (OSError, ValueError):
            raise ClusterError(
                f"{count} open files are needed, and {hard} are allowed: see `ulimit -Hn`"
            ) from None


@contextmanager
def idle_clients(region: RegionProcess, count: int) -> Iterator[list[socket.socket]]:
    """Clients that say PING once."""
    with ExitStack() as stack:
        clients = []
        for number in range(count):
            client = stack.enter_context(connect(region, number))
            if exchange(client, b"PING\r\n") != b"+PONG\r\n":
                raise ClusterError("PING was not answered")
            clients.append(client)
        yield clients


class SlowClients:
    """Slow clients of each way, in equal numbers."""

    def __init__(self, region: RegionProcess, count: int, stack: ExitStack) -> None:
        self.by_way: dict[str, list[socket.socket]] = {way: [] for way in WAYS}
        self.echoes = 0
        self._sent = 0
        self._asked = 0
        for number in range(count):
            client = stack.enter_context(connect(region, number))
            self.by_way[WAYS[number % len(WAYS)]].append(client)
        for client in self.by_way["half a command"]:
            client.sendall(_HALF)
        for client in self.by_way["blocked"]:
            client.sendall(_BLOCKED)
        for client in self.by_way["never reads"]:
            client.setblocking(False)

    def step(self) -> None:
        """Each byte by byte client sends its next byte; those that never read ask for more."""
        byte = _WHOLE[self._sent % len(_WHOLE)]
        self._sent += 1
        for client in self.by_way["byte by byte"]:
            client.sendall(bytes([byte]))
        if self._sent % len(_WHOLE) == 0:
            for client in self.by_way["byte by byte"]:
                if exchange(client, b"", b"12345\r\n") == b"$5\r\n12345\r\n":
                    self.echoes += 1
        self.ask_for_more()

    def ask_for_more(self) -> None:
        """Some of those that never read ask for two more megabytes."""
        self._asked += 1
        # In turns: a read of two megabytes takes the region some milliseconds, whoever asks.
        for client in self.by_way["never reads"][self._asked % TURNS :: TURNS]:
            try:
                client.send(_LONG_READ)
            except (BlockingIOError, ConnectionError):
                continue  # The region reads no more of it, or has hung up: both are right.

    def woken(self) -> int:
        """How many of the blocked clients have a reply within the patience."""
        waiting = self.by_way["blocked"]
        deadline = time.monotonic() + PATIENCE_S
        found = 0
        with selectors.DefaultSelector() as selector:
            for client in waiting:
                selector.register(client, selectors.EVENT_READ)
            while found < len(waiting) and time.monotonic() < deadline:
                for key, _ in selector.select(1.0):
                    woken = key.fileobj
                    assert isinstance(woken, socket.socket)
                    found += woken.recv(1 << 16).startswith(b"*1\r\n")
                    selector.unregister(woken)
        return found


class FastClient:
    """A client that adds and reads. `latencies_s`: of single commands."""

    def __init__(self, region: RegionProcess) -> None:
        self.latencies_s: list[float] = []
        self._region = region

    def work(self, commands: int) -> float:
        """Runs so many commands; returns the 99th percentile of their times, in ms."""
        times = []
        with self._region.connect(PATIENCE_S) as client:
            for number in range(commands):
                begun = time.perf_counter()
                client.ask("XADD", "fast", "MAXLEN", "~", 1000, "*", "n", number)
                times.append(time.perf_counter() - begun)
        return percentile(times, 0.99) * 1000


def run(idle: int, slow: int, steps: int, limits: bool) -> Figures:
    """`idle` and `slow` clients at once. `limits`: require bounds of memory and latency."""
    figures = Figures(f"{idle:,} idle and {slow:,} slow clients")
    allow_files(idle + slow + FILES_RESERVED)
    flags = {"client-output-limit": str(OUTPUT_LIMIT_BYTES), "maxclients": str(idle + slow + 100)}
    with ProcessCluster(["us"], settings=flags) as cluster:
        region = cluster.start("us")
        show_build(figures, region)
        granted = int(region.info()["maxclients"])
        figures.require("the region takes all of them", granted >= idle + slow + 10, granted)
        _fill(region)
        figures.show("a fast client alone, p99", FastClient(region).work(500), "ms")
        before = _resident(region)
        left = [_round(figures, region, idle, slow, steps, limits) for _ in range(ROUNDS)]
        figures.show("memory before", before / (1 << 20), "MiB")
        grown = (left[-1] - left[0]) / (1 << 20)
        figures.at_most(
            "growth by a second round", grown, GROWTH_MIB_MAX if limits else None, "MiB"
        )
        text = region.log.read_text(errors="replace")
        figures.require("no traceback in the log", "Traceback" not in text)
        figures.show("lines in the log", text.count("\n"))
    return figures


def _round(
    figures: Figures, region: RegionProcess, idle: int, slow: int, steps: int, limits: bool
) -> int:
    """All clients once; returns the memory after all have hung up, bytes."""
    before = _resident(region)
    with idle_clients(region, idle) as idlers:
        each = (_resident(region) - before) / max(idle, 1) / 1024
        figures.at_most(
            "memory for each idle client", each, IDLE_KIB_MAX if limits else None, "KiB"
        )
        p99_ms = FastClient(region).work(500)
        bound = LATENCY_MS_MAX if limits else None
        figures.at_most("a fast client beside the idle ones, p99", p99_ms, bound, "ms")
        with ExitStack() as stack:
            _judge_slow(figures, region, SlowClients(region, slow, stack), steps, limits)
        answered = sum(exchange(client, b"PING\r\n") == b"+PONG\r\n" for client in idlers)
        figures.require("every idle client is still answered", answered == idle, answered)
    wait_for(lambda: int(region.info()["connected_clients"]) == 1, "the end of all connections")
    # Free memory goes back to the system within a tick of the region.
    time.sleep(REST_S)
    after = _resident(region)
    figures.show("memory after all have hung up", after / (1 << 20), "MiB")
    return after


def _fill(region: RegionProcess) -> None:
    with region.connect(PATIENCE_S) as client:
        for _ in range(LONG_ENTRIES):
            client.call("XADD", "long", "*", "f", b"x" * VALUE_BYTES)


def _judge_slow(
    figures: Figures, region: RegionProcess, slow: SlowClients, steps: int, limits: bool
) -> None:
    base, closed = _resident(region), _disconnected(region)
    fast = FastClient(region)
    peak, worst_ms = base, 0.0
    for _ in range(steps):
        slow.step()
        worst_ms = max(worst_ms, fast.work(20))
        peak = max(peak, _resident(region))
    silent = len(slow.by_way["never reads"])
    figures.show("memory with the slow ones, at most", peak / (1 << 20), "MiB")
    allowed = silent * (OUTPUT_LIMIT_BYTES + (8 << 20)) + (64 << 20)
    if limits:
        figures.at_most(
            "growth by the slow ones", (peak - base) / (1 << 20), allowed / (1 << 20), "MiB"
        )
    figures.at_most(
        "a fast client beside the slow ones, worst p99",
        worst_ms,
        LATENCY_MS_MAX if limits else None,
        "ms",
    )
    whole = steps // len(_WHOLE) * len(slow.by_way["byte by byte"])
    figures.require("byte by byte, every request was answered", slow.echoes == whole, slow.echoes)
    _end_those_that_never_read(figures, region, slow, closed + silent)
    region.ask("XADD", "wake", "*", "f", "v")
    woken = slow.woken()
    blocked = len(slow.by_way["blocked"])
    figures.require("every blocked client was woken", woken == blocked, woken)


def _end_those_that_never_read(
    figures: Figures, region: RegionProcess, slow: SlowClients, closed: int
) -> None:
    """They go on asking until the region has disconnected all of them."""

    def are_closed() -> bool:
        slow.ask_for_more()
        return _disconnected(region) >= closed

    wait_for(are_closed, "the end of the clients that never read")
    figures.require("those that never read are disconnected", _disconnected(region) == closed)


def _disconnected(region: RegionProcess) -> int:
    return int(region.info()["client_output_buffer_limit_disconnections"])


def _resident(region: RegionProcess) -> int:
    return resident_bytes(region.pid())


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.many_clients", description=__doc__
    )
    parser.add_argument("--idle", type=int, default=5000)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--steps", type=int, default=100, help="bytes of those byte by byte")
    given = parser.parse_args(arguments)
    return run(given.idle, given.slow, given.steps, limits=True).finish()
