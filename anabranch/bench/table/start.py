"""The time of a start with a large stream, or with many keys, beside redis-server with the same.

Both were stopped in order, redis-server after it rewrote its append-only file, so that each reads
its most compact form. The first reply is a correct XLEN or DBSIZE. Full speed is reached when a
range was read at each of many places of the stream, and thousands of adds were answered.
"""

from __future__ import annotations

import random
import time
from statistics import median
from typing import Final

from anabranch.bench.table.client import Traffic, drive
from anabranch.bench.table.memory import KEYS, STREAM, add_entries, add_keys
from anabranch.bench.table.servers import RedisServer, RegionServer, Server
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.bench.table.workloads import VALUE
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.ports import HOST
from anabranch.region.resp.request import command

ENTRIES: Final = 5_000_000
PLACES: Final = 50
_PAGE: Final = 100
_ADDS: Final = 3_200


def _places(port: int) -> list[str]:
    """IDs spread over the whole time of the stream."""
    with RespClient(HOST, port, 60.0) as client:
        ends = [("XRANGE", STREAM, "-", "+"), ("XREVRANGE", STREAM, "+", "-")]
        pages = [client.ask(*words, "COUNT", 1) for words in ends]
    first, last = (int(page[0][0].split(b"-")[0]) for page in pages)
    chance = random.Random(1)
    return [f"{chance.randint(first, max(first, last - 20))}-0" for _ in range(PLACES)]


def _start(server: Server, length: int, places: list[str]) -> tuple[float, float]:
    """Seconds from the start to the first reply, and to full speed."""
    begun = time.monotonic()
    server.start()
    server.await_answer(lambda reply: reply == length, "XLEN", STREAM)
    first_s = time.monotonic() - begun
    with RespClient(HOST, server.port, 60.0) as client:
        for place in places:
            if not client.ask("XRANGE", STREAM, place, "+", "COUNT", _PAGE):
                raise ClusterError(f"there are no entries from {place} on")
    adds = Traffic([command("XADD", "other", "*", "f", VALUE) * 16], 16, 10, 16)
    drive(server.port, adds, _ADDS // 16)
    return first_s, time.monotonic() - begun


def _stop(server: Server) -> None:
    """Stops a server in order, with its data in their most compact form."""
    if isinstance(server, RedisServer):
        server.call("BGREWRITEAOF")
        time.sleep(0.2)
    server.await_quiet()
    server.stop()


def measure(run: Run) -> Measured:
    """Yields the rows."""
    if run.wants("start.reply") or run.wants("start.speed"):
        yield from _large_stream(run)
    if run.wants("start.keys"):
        yield "start.keys", _many_keys(run)


def _many_keys(run: Run) -> Values:
    """Seconds to the first reply with many streams of one entry."""
    keys = run.scaled(KEYS, 2_000)
    times: dict[str, list[float]] = {}
    for server in (RegionServer(), RedisServer()):
        with server:
            add_keys(server, keys)
            times[server.name] = []
            for _ in range(min(run.rounds, 3)):
                _stop(server)
                begun = time.monotonic()
                server.start()
                server.await_answer(lambda reply: reply == keys, "DBSIZE")
                times[server.name].append(time.monotonic() - begun)
    note = f"redis-server: {median(times['redis-server']):.2f} s; {keys:,} keys"
    return Values(times["anabranch"], note=note)


def _large_stream(run: Run) -> Measured:
    entries = run.scaled(ENTRIES, 20_000)
    rounds = min(run.rounds, 3)
    times: dict[str, list[tuple[float, float]]] = {}
    for server in (RegionServer(), RedisServer()):
        with server:
            add_entries(server, entries)
            length = server.call("XLEN", STREAM)
            assert isinstance(length, int)
            places = _places(server.port)
            _stop(server)
            times[server.name] = []
            for _ in range(rounds):
                times[server.name].append(_start(server, length, places))
                server.await_quiet()
                server.stop()
    ours, theirs = times["anabranch"], times["redis-server"]
    firsts, fulls = ([one[n] for one in theirs] for n in (0, 1))
    count = f"{entries:,} entries"
    if run.wants("start.reply"):
        note = f"redis-server: {median(firsts):.2f} s; {count}"
        yield "start.reply", Values([first for first, _ in ours], note=note)
    if run.wants("start.speed"):
        both = zip(ours, fulls, strict=True)
        seconds = f"{median([full for _, full in ours]):.2f} / {median(fulls):.2f}"
        yield "start.speed", Values([one[1] / full for one, full in both], note=f"s: {seconds}")
