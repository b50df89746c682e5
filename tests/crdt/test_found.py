"""Bugs that were found stay here as the stories that showed them."""

from __future__ import annotations

import pytest

from anabranch.crdt import undelivered
from anabranch.crdt.encoding import Malformed
from anabranch.crdt.ids import make
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.state import read_snapshot
from tests.crdt.support import Twin, assert_equal, snapshot_bytes

K, G = b"k", b"g"


def reading_region(ids: list[int], start: int = 0) -> Twin:
    """A region with entries of these IDs and a group over them."""
    twin = Twin(1)
    for entry_id in ids:
        twin.issue(twin.engine().add(K, entry_id=entry_id))
    twin.issue(twin.engine().create(K, G, start))
    return twin


def test_noack_read_of_a_dropped_entry_lets_it_be_announced() -> None:
    """A consumer is deleted with an entry pending, so the entry is dropped and never announced. SETID goes back, and a NOACK read delivers
    it again, which acknowledges it (S8.3): from then on it must be announced like any other (S8.1, "until delivered or claimed again").
    Only reads that made it pending took it off the dropped ones."""
    twin = reading_region([make(5, 1), make(6, 1)])
    twin.read(K, G, b"c")
    twin.acknowledge(K, G, {make(6, 1)})
    twin.delete_consumer(K, G, b"c")
    twin.check()
    twin.set_floor(K, G, 0)
    twin.read(K, G, b"d", no_ack=True)
    twin.check()
    twin.issue(twin.engine().announce(K, G))
    assert twin.naive.keys[K].acked(G) == {(1, 1), (1, 2)}
    twin.check()


def test_raised_floor_is_heeded_by_a_cursor_made_before_it() -> None:
    """A read takes the first of three entries, so a cursor remembers the place. XCLAIM LASTID then raises the floor over the second
    (S7.4: an entry must be above both), yet the cursor went on from where it was, and `>` delivered what had been jumped over."""
    twin = reading_region([make(5, 1), make(6, 1), make(7, 1)])
    twin.read(K, G, count=1)
    twin.raise_floor(K, G, make(6, 1))
    assert [entry.entry_id for entry in twin.read(K, G)] == [make(7, 1)]
    twin.check()


def test_late_arrival_below_a_start_given_as_an_id_is_skipped() -> None:
    """A group starts at 100-0, above everything. A read finds nothing, and its cursor remembers that it is at the log's beginning. Then
    an entry below the start comes: it must be skipped (S6.3, "late arrivals below it are skipped"), but the cursor delivered it."""
    twin = reading_region([make(5, 1)], start=make(100, 0))
    assert twin.read(K, G) == []
    twin.issue(twin.engine().add(K, entry_id=make(6, 1)))
    assert twin.read(K, G) == []
    twin.issue(twin.engine().add(K, entry_id=make(101, 1)))
    assert [entry.entry_id for entry in twin.read(K, G)] == [make(101, 1)]
    twin.check()


def test_key_made_again_after_a_flush_is_in_the_digest() -> None:
    """XADD, FLUSHALL, a digest, XADD. After the flush nothing was left of the key, but it was still noted as changed since the last
    checkpoint, so the new key was not noted as one to hash: the digest left it out, and peers with equal vectors would have raised
    `crdt_divergence` (S13.9)."""
    twin, peer = Twin(1), Twin(2)
    twin.issue(twin.engine().add(K))
    twin.issue(twin.engine().flush())
    assert twin.keyspace.digest() == bytes(16)
    twin.issue(twin.engine().add(K))
    peer.pull(twin)
    assert_equal(twin, peer)
    assert twin.keyspace.digest() != bytes(16)


def test_snapshot_without_its_end_is_refused() -> None:
    """A staged snapshot that lost its last chunks read as a whole one. Its vector covered all that was missing, so joining it would have
    removed every such entry, here and by the next snapshot everywhere (S11.3). The head says how many records follow."""
    twin = Twin(1)
    for key in (b"a", b"b"):
        for _ in range(3):
            twin.issue(twin.engine().add(key))
    chunks = snapshot_bytes(twin.keyspace, 1)
    assert len(chunks) > 4
    for length in range(len(chunks)):
        with pytest.raises(Malformed):
            read_snapshot(chunks[:length], twin.limits)
    with pytest.raises(Malformed):
        read_snapshot([*chunks, chunks[-1]], twin.limits)
    whole: Keyspace = read_snapshot(chunks, twin.limits)
    assert whole.digest() == twin.keyspace.digest()


def test_lag_counts_nothing_below_a_start_to_come() -> None:
    """What the cursor delivered wrongly, `lag` counted wrongly (S7.6)."""
    twin = reading_region([make(5, 1)], start=make(100, 0))
    stream = twin.keyspace.keys[K]
    assert undelivered.lag(stream, stream.groups[G]) == 0
    twin.issue(twin.engine().add(K, entry_id=make(6, 1)))
    assert undelivered.lag(stream, stream.groups[G]) == 0
