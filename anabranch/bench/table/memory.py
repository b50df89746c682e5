"""Memory of a region per entry, pending entry, IDMP pair and key, beside redis-server.

A figure is the growth of resident memory divided by a count. So it contains what the allocator
wastes. Each figure has servers of its own, because memory that was freed may be used again.
"""

from __future__ import annotations

import time
from typing import Final

from anabranch.bench.acceptance.harness import resident_bytes
from anabranch.bench.table.client import Traffic, drive
from anabranch.bench.table.idmp import KEY, PIPELINE
from anabranch.bench.table.idmp import traffic as adds
from anabranch.bench.table.servers import RedisServer, RegionServer, Server
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.bench.table.workloads import VALUE
from anabranch.region.resp.request import command

ENTRIES: Final = 1_000_000
PENDING: Final = 300_000
PAIRS: Final = 200_000
PAIRS_A_PRODUCER: Final = 10_000
KEYS: Final = 100_000
_BATCH: Final = 100
_GIVES_BACK_S: Final = 0.5
STREAM: Final = "s"


def add_entries(server: Server, entries: int, key: str = STREAM) -> None:
    """Adds entries with one field of 16 bytes."""
    one = command("XADD", key, "*", "f", VALUE)
    drive(server.port, Traffic([one * _BATCH], _BATCH, 10, _BATCH), max(1, entries // _BATCH))


def add_keys(server: Server, keys: int) -> None:
    """Makes streams of one entry."""
    ones = [command("XADD", f"key:{number:06}", "*", "f", VALUE) for number in range(keys)]
    batches = [b"".join(ones[at : at + _BATCH]) for at in range(0, keys, _BATCH)]
    drive(server.port, Traffic(batches, _BATCH, 10, _BATCH), len(batches))


def make_pending(server: Server, entries: int, page: int = 100) -> None:
    """Makes a group of `STREAM`, and delivers so many entries to one consumer."""
    server.call("XGROUP", "CREATE", STREAM, "g", "0")
    read = command("XREADGROUP", "GROUP", "g", "c", "COUNT", page, "STREAMS", STREAM, ">")
    # "$": the name of the stream, and ID, field and value of each entry.
    drive(server.port, Traffic([read], 1, 1, 1 + 3 * page), max(1, entries // page))


def keep_pairs(server: Server) -> None:
    """Makes the stream of idempotent adds, which keeps all pairs of `add_by_producers`."""
    server.call("XADD", KEY, "*", "f", VALUE)
    server.call("XCFGSET", KEY, "IDMP-DURATION", 86_400, "IDMP-MAXSIZE", PAIRS_A_PRODUCER)


def add_by_producers(server: Server, kind: str, count: int) -> None:
    """Adds of a kind (`bench/table/idmp.py`), `PAIRS_A_PRODUCER` of each producer."""
    for number, begin in enumerate(range(0, count, PAIRS_A_PRODUCER)):
        load = adds(kind, PAIRS_A_PRODUCER, begin)
        named = [
            batch.replace(b"$8\r\nproducer", b"$8\r\nproduc%02d" % number) for batch in load.batches
        ]
        drive(server.port, load._replace(batches=named), PAIRS_A_PRODUCER // PIPELINE)


def resident(server: Server) -> int:
    """Resident bytes once no work goes on in the background, and free memory is given back."""
    server.await_quiet()
    time.sleep(_GIVES_BACK_S)
    return resident_bytes(server.process_id)


def measure(run: Run) -> Measured:
    """Yields the rows."""
    if run.wants("memory.entry") or run.wants("memory.entry.loaded"):
        yield from _entries(run)
    if run.wants("memory.pending"):
        yield "memory.pending", _pending(run)
    if run.wants("memory.idmp"):
        yield "memory.idmp", _pairs(run)
    if run.wants("memory.key"):
        yield "memory.key", _keys(run)


def _entries(run: Run) -> Measured:
    entries = run.scaled(ENTRIES, 10_000)
    with RegionServer() as region:
        region.stop()
        _restart(region)
        empty = resident(region)
        add_entries(region, entries)
        loaded = resident(region)
        region.stop()
        _restart(region)
        region.await_answer(lambda reply: isinstance(reply, int) and reply > 0, "XLEN", STREAM)
        restarted = resident(region)
    with RedisServer() as theirs:
        before = resident(theirs)
        add_entries(theirs, entries)
        grown = (resident(theirs) - before) / entries
    note = f"redis-server: {grown:.1f}; {entries:,} entries"
    if run.wants("memory.entry"):
        yield "memory.entry", Values([(restarted - empty) / entries], note=note)
    if run.wants("memory.entry.loaded"):
        yield "memory.entry.loaded", Values([(loaded - empty) / entries], note=note)


def _restart(server: Server) -> None:
    server.start()
    server.await_answer(lambda reply: reply == b"PONG", "PING")


def _pending(run: Run) -> Values:
    entries = run.scaled(PENDING, 5_000)
    grown = {}
    for server in (RegionServer(), RedisServer()):
        with server:
            add_entries(server, entries)
            before = resident(server)
            make_pending(server, entries)
            grown[server.name] = (resident(server) - before) / entries
    note = f"redis-server: {grown['redis-server']:.1f}; {entries:,} pending"
    return Values([grown["anabranch"]], note=note)


def _pairs(run: Run) -> Values:
    """The memory of IDMP adds minus that of as many plain adds, in two regions."""
    pairs = run.scaled(PAIRS, PAIRS_A_PRODUCER) // PAIRS_A_PRODUCER * PAIRS_A_PRODUCER
    grown = []
    for kind in ("plain", "idmp"):
        with RegionServer() as region:
            keep_pairs(region)
            before = resident(region)
            add_by_producers(region, kind, pairs)
            grown.append(resident(region) - before)
    return Values([(grown[1] - grown[0]) / pairs], note=f"{pairs:,} pairs; Redis 7 has none")


def _keys(run: Run) -> Values:
    keys = run.scaled(KEYS, 2_000)
    grown = {}
    for server in (RegionServer(), RedisServer()):
        with server:
            before = resident(server)
            add_keys(server, keys)
            grown[server.name] = (resident(server) - before) / keys
    note = f"redis-server: {grown['redis-server']:,.0f}; {keys:,} keys"
    return Values([grown["anabranch"]], note=note)
