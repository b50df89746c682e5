"""The engine's side of idempotent adds (S9): what configuration is in force, what is evicted, which add loses a conflict."""

from __future__ import annotations

from typing import Optional

from xxhash import xxh3_128_intdigest

from anabranch.crdt.effects import RemoveEntries
from anabranch.crdt.encoding import put_varint
from anabranch.crdt.idempotency import is_conflict
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import covers
from anabranch.region.engine.core import Core
from anabranch.region.engine.lifecycle import SERVING


def automatic_iid(fields: list[bytes]) -> bytes:
    """IDMPAUTO's iid (S9.5): a sum, so order does not matter and equal pairs do not cancel out. Part of the wire contract."""
    total = 0
    for index in range(0, len(fields), 2):
        pair = bytearray()
        put_varint(pair, len(fields[index]))
        pair += fields[index]
        pair += fields[index + 1]
        total += xxh3_128_intdigest(pair)
    return (total & ((1 << 128) - 1)).to_bytes(16, "big")


def configuration(core: Core, stream: Optional[Stream]) -> tuple[int, int]:
    """(duration in s, maxsize) in force for a stream (S9.4)."""
    value = None if stream is None else stream.configuration()
    return (
        value
        if value is not None
        else (
            core.settings.integer("stream-idmp-duration"),
            core.settings.integer("stream-idmp-maxsize"),
        )
    )


def evict_pairs(core: Core, stream: Stream, pid: bytes, maxsize: int) -> None:
    """Keeps a producer within its maxsize (S9.3); an evicted pair that is not yet stable may leave a duplicate, and is counted."""
    evicted = stream.pairs.evict(pid, maxsize)
    if evicted:
        stable = core.stable_vector()
        core.statistics.idmp_evicted_early += sum(
            1 for pair in evicted if not covers(stable, *pair.dot)
        )


# -- conflicts ---------------------------------------------------------------------------------------------------------


def remove_losers(core: Core) -> None:
    """Removes this region's losing adds among the pairs just merged: in the commit that merges the winners, also while one fails (S9.2)."""
    pairs = core.keyspace.changes.pairs
    core.keyspace.changes.pairs = []
    if core.lifecycle.state == SERVING:  # else all pairs are looked through once it serves
        for key, pid, iid in dict.fromkeys(pairs):
            _remove_losers_of(core, key, pid, iid)


def remove_all_losers(core: Core) -> None:
    """The same over all pairs: first of all once this region may issue again."""
    for key in list(core.keyspace.keys):
        stream = core.keyspace.keys[key]
        for pair in stream.pairs.everything():
            if pair.dot[0] == core.region_id:
                _remove_losers_of(core, key, pair.pid, pair.iid)


def _remove_losers_of(core: Core, key: bytes, pid: bytes, iid: bytes) -> None:
    stream = core.keyspace.get(key)
    if stream is None:
        return
    pairs = stream.pairs.of(pid, iid)
    duration_ms = configuration(core, stream)[0] * 1000
    for own in list(pairs):
        if own.dot[0] != core.region_id:
            continue
        if not any(
            is_conflict(own, other, duration_ms) and other.order() < own.order() for other in pairs
        ):
            continue
        log = stream.logs.get(core.region_id)
        if log is not None and log.has_counter(own.dot[1]):
            core.issue(RemoveEntries(key, [own.dot]))
            core.statistics.idmp_conflicts += 1
