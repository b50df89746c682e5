"""The collection of tombstones and clears that are causally stable (S6.2, S11.3)."""

from __future__ import annotations

from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector, covers, includes


def collect(keyspace: Keyspace, stream: Stream, stable: Vector) -> None:
    """Drops the group tombstones (S6.2) and the vectors of clears (S11.3) that are causally stable.

    No effect that they could affect is still in flight.
    """
    changed = False
    for name in list(stream.tombstones):
        changed = _drop_stable(stream.tombstones[name], stable) or changed
        if not stream.tombstones[name]:
            del stream.tombstones[name]
    changed = _drop_stable(stream.tombstone_of_all, stable) or changed
    if stream.clears and includes(stable, stream.header.touched):
        stream.clears = {}
        changed = True
    if changed:
        keyspace.touch(stream)


def collect_flush(keyspace: Keyspace, stable: Vector) -> None:
    """Drops the tombstone and the clears of FLUSHALL that are causally stable."""
    if _drop_stable(keyspace.flush_tombstone, stable):
        keyspace.is_dirty = True
    if (
        keyspace.flush_clears
        and not keyspace.flush_tombstone
        and includes(stable, keyspace.flush_clears)
    ):
        keyspace.flush_clears = {}
        keyspace.is_dirty = True


def _drop_stable(tombstone: Vector, stable: Vector) -> bool:
    gone = [
        region_id for region_id, counter in tombstone.items() if covers(stable, region_id, counter)
    ]
    for region_id in gone:
        del tombstone[region_id]
    return bool(gone)
