"""Keys that a snapshot brings and that are new here (S11.3).

A join of many keys is one step, so it must not take long for a key. Where the snapshot has a key
that is absent here, and `keyspace` has seen nothing of what it holds, the join is what the snapshot
has. Then the stream that was read becomes that of the keyspace, and all such keys are noted
together.
"""

from __future__ import annotations

from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.scan_order import ScanOrder
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector


def take_new(keyspace: Keyspace, streams: list[Stream], order: ScanOrder) -> list[Stream]:
    """Puts streams in of which the vector here covers nothing; returns the others.

    All are read ones, of keys that are absent here. `order` has their keys.
    """
    taken: dict[bytes, Stream] = {}
    others: list[Stream] = []
    for theirs in streams:
        if _is_unseen(theirs, keyspace.vector, keyspace.late.stable_id):
            taken[theirs.key] = theirs
        else:
            others.append(theirs)
    keyspace.put_joined(taken, order)
    return others


def _is_unseen(theirs: Stream, our_vector: Vector, stable_id: int) -> bool:
    """Whether a stream has one log, with entries above the vector only; then it is made ours."""
    log = theirs.only_log()
    if log is None or theirs.rare is not None or not theirs.header.is_above(our_vector):
        return False
    counter = our_vector.get(log.region_id, 0)
    if not log.length or log.node_map.node(0).base_counter < counter:
        return False
    if log.node_map.first_id(0) <= stable_id:
        # Each entry that comes late is counted.
        return False
    if log.began:
        log.began = max(log.began, counter + 1)
    theirs.entries_added = log.length
    return True
