"""Regression tests of bugs in `crdt`; each tells the story of its bug."""

from __future__ import annotations

import pytest

from anabranch.crdt import undelivered
from anabranch.crdt.encoding import Malformed, Reader, put_bytes
from anabranch.crdt.ids import make
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.snapshot import read_snapshot
from tests.crdt.support import Twin, assert_equal, snapshot_bytes

K, G = b"k", b"g"


def reading_region(ids: list[int], start: int = 0) -> Twin:
    """A region with entries of these IDs, and a group that starts at the ID `start`."""
    twin = Twin(1)
    for entry_id in ids:
        twin.add(K, entry_id=entry_id)
    twin.create(K, G, start)
    return twin


def test_noack_read_of_a_dropped_entry_lets_it_be_announced() -> None:
    """A NOACK read must end the state "dropped by DELCONSUMER" (S8.1, S8.3).

    A consumer is deleted while an entry is pending, so the entry is dropped and not announced.
    SETID moves the floor back, and a NOACK read delivers the entry again, which acknowledges it.
    From then on it must be announced like any other (S8.1, "until delivered or claimed again"). The
    bug: only reads that make an entry pending removed it from the dropped entries.
    """
    twin = reading_region([make(5, 1), make(6, 1)])
    twin.read(K, G, b"c")
    twin.acknowledge(K, G, {make(6, 1)})
    twin.delete_consumer(K, G, b"c")
    twin.check()
    twin.set_floor(K, G, 0)
    twin.read(K, G, b"d", no_ack=True)
    twin.check()
    twin.announce(K, G)
    assert twin.model.keys[K].groups[G].acked() == {(1, 1), (1, 2)}
    twin.check()


def test_raised_floor_is_heeded_by_a_cursor_made_before_it() -> None:
    """A read must respect a floor that was raised after its cursor was stored (S7.4).

    A read takes the first of three entries, so a cursor stores the position behind it. XCLAIM
    LASTID then raises the floor above the second entry. The bug: the cursor continued from its
    stored position, and `>` delivered the second entry.
    """
    twin = reading_region([make(5, 1), make(6, 1), make(7, 1)])
    twin.read(K, G, count=1)
    twin.raise_floor(K, G, make(6, 1))
    assert [entry.entry_id for entry in twin.read(K, G)] == [make(7, 1)]
    twin.check()


def test_late_arrival_below_a_start_given_as_an_id_is_skipped() -> None:
    """An entry that arrives below the group's start is skipped (S6.3).

    A group starts at 100-0, above all entries. A read finds nothing, and its cursor stores the
    beginning of the log. Then an entry below the start arrives. The bug: the cursor delivered it.
    """
    twin = reading_region([make(5, 1)], start=make(100, 0))
    assert twin.read(K, G) == []
    twin.add(K, entry_id=make(6, 1))
    assert twin.read(K, G) == []
    twin.add(K, entry_id=make(101, 1))
    assert [entry.entry_id for entry in twin.read(K, G)] == [make(101, 1)]
    twin.check()


def test_key_made_again_after_a_flush_is_in_the_digest() -> None:
    """A key that is created again after FLUSHALL must be hashed again (S13.9).

    The steps: XADD, FLUSHALL, a digest, XADD. After the flush nothing of the key was left, but it
    was still marked as changed since the last checkpoint. The bug: therefore the new key was not
    marked as one to hash, and the digest omitted it. Peers with equal vectors would have raised
    `crdt_divergence`.
    """
    twin, peer = Twin(1), Twin(2)
    twin.add(K)
    twin.flush()
    assert twin.keyspace.digest() == bytes(16)
    twin.add(K)
    peer.pull(twin)
    assert_equal(twin, peer)
    assert twin.keyspace.digest() != bytes(16)


def test_snapshot_without_its_end_is_refused() -> None:
    """A truncated snapshot is refused (S11.3).

    The bug: a staged snapshot without its last chunks was accepted as a complete one. Its vector
    covers the missing entries, so the join would have removed them, in this region and by the next
    snapshot in all others. Now the head of a snapshot states the number of records that follow.
    """
    twin = Twin(1)
    for key in (b"a", b"b"):
        for _ in range(3):
            twin.add(key)
    chunks = []
    reader = Reader(b"".join(snapshot_bytes(twin.keyspace)))
    while not reader.at_end():
        record = bytearray()
        put_bytes(record, reader.bytes_())
        chunks.append(bytes(record))
    assert len(chunks) > 4
    for length in range(len(chunks)):
        with pytest.raises(Malformed):
            read_snapshot(chunks[:length], twin.limits)
    with pytest.raises(Malformed):
        read_snapshot([*chunks, chunks[-1]], twin.limits)
    whole: Keyspace = read_snapshot(chunks, twin.limits)
    assert whole.digest() == twin.keyspace.digest()


def test_lag_counts_nothing_below_a_start_to_come() -> None:
    """Entries below the group's start do not count in `lag` (S7.6).

    The bug: `lag` counted the entries that the cursor delivered wrongly; see
    `test_late_arrival_below_a_start_given_as_an_id_is_skipped`.
    """
    twin = reading_region([make(5, 1)], start=make(100, 0))
    stream = twin.keyspace.keys[K]
    assert undelivered.lag(stream, stream.groups[G]) == 0
    twin.add(K, entry_id=make(6, 1))
    assert undelivered.lag(stream, stream.groups[G]) == 0


def test_an_announcement_adds_no_given_counters_of_deleted_entries() -> None:
    """A region's own announcement leaves its local state as it is (S8.2).

    An entry that was set back, and then deleted, lies within the announced run. The model that
    these tests compare with took it for given, and so differed once the acknowledgements had gone
    with their create.
    """
    one, two, three = Twin(1), Twin(2), Twin(3)
    one.create(K, G, 0)
    for ms in (1, 2, 3):
        one.add(K, entry_id=make(ms, 1))
    one.set_floor(K, G, make(2, 1))
    assert [entry.entry_id for entry in one.read(K, G, no_ack=True)] == [make(3, 1)]
    one.delete_entry(K, make(2, 1))
    assert len(one.announce(K, G)) == 1
    one.check()
    two.create(K, G, 0)
    three.pull(one)
    three.expire_at(K, 2000)
    three.clock_ms = 2001
    three.expire_now(K)
    one.pull(two)
    one.join(three)
    one.check()
    assert list(one.model.keys[K].groups[G].creates) == [(2, 1)]
