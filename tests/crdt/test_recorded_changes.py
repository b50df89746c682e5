"""What a step records besides the state itself.

These are the changes for blocked readers and WATCH, the statistics, the late arrivals, and the keys
that a checkpoint must write.
"""

from __future__ import annotations

from anabranch.crdt.apply import apply
from anabranch.crdt.collecting import collect_flush
from anabranch.crdt.delivery import Delivery
from anabranch.crdt.ids import make
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from tests.crdt.support import Twin, add_run, receive

K, G = b"k", b"g"
FIELDS = (b"f", b"v")


def run_of(keyspace: Keyspace, origin: int, *ms: int) -> None:
    """Applies a run of adds of region `origin`, which is one effect."""
    first = keyspace.vector.get(origin, 0) + 1
    apply(
        keyspace,
        add_run(K, [(make(each, 0), FIELDS) for each in ms], first),
        origin,
        first,
        0,
        False,
    )
    keyspace.vector[origin] = first + len(ms) - 1


def test_late_arrivals_of_a_run_are_those_not_above_what_was_read() -> None:
    """S7.2: after an XREAD returned 7-0, the entries 5, 6 and 7 of a merged run 5 to 9 are late."""
    keyspace = Keyspace(1, NodeLimits())
    run_of(keyspace, 2, 1, 2)
    assert keyspace.late.arrivals == 0, "nothing was read"
    keyspace.keys[K].xread_high_id = make(7, 0)
    run_of(keyspace, 3, 5, 6, 7, 8, 9)
    assert keyspace.late.arrivals == 3
    run_of(keyspace, 2, 8, 9)
    assert keyspace.late.arrivals == 3
    run_of(keyspace, 4, 1, 2)
    assert keyspace.late.arrivals == 5


def test_late_arrivals_of_idempotent_adds() -> None:
    one, two = Twin(1), Twin(2)
    for ms in (5, 7, 8):
        two.add(K, entry_id=make(ms, 0), pid=b"p", iid=b"%d" % ms)
    one.add(K, entry_id=make(1, 0))
    one.keyspace.keys[K].xread_high_id = make(7, 0)
    one.pull(two)
    assert one.keyspace.late.arrivals == 2


def test_what_a_region_adds_itself_is_not_late() -> None:
    """S7.2: only merged entries count as late arrivals, not those that this region adds.

    Another region's DEL removed the entries that an XREAD had returned, and spared a lower entry
    that it had not seen. The next ID generated here follows that lower entry. The bug, from
    simulator seed 201676: adds with a producer's pair were counted like merged ones.
    """
    one = Twin(1)
    one.add(K, entry_id=make(1, 0))
    one.keyspace.keys[K].xread_high_id = make(7, 0)
    one.add(K, entry_id=make(2, 0))
    one.add(K, entry_id=make(3, 0), pid=b"p", iid=b"i")
    assert one.keyspace.late.arrivals == 0


def test_late_arrivals_of_a_snapshot() -> None:
    one, two = Twin(1), Twin(2)
    for ms in (1, 5):
        two.add(K, entry_id=make(ms, 0))
    one.pull(two)
    for ms in (6, 7, 8):
        two.add(K, entry_id=make(ms, 0))
    one.keyspace.keys[K].xread_high_id = make(7, 0)
    one.join(two)
    assert one.keyspace.late.arrivals == 2, "entries present before the join are not late"
    assert one.keyspace.keys[K].entries_added == 5, "two before, three with the snapshot"


def test_what_was_added_wakes_readers() -> None:
    """Adds and creates wake blocked readers; other effects do not."""
    keyspace = Keyspace(1, NodeLimits())
    one, two = Twin(1), Twin(2)
    run_of(keyspace, 2, 1)
    assert set(keyspace.changes.added_keys) == {K}
    for unit in (
        lambda: two.add(K, entry_id=make(5, 0), pid=b"p", iid=b"i"),
        lambda: two.create(K, G, 0),
    ):
        sent = unit()[0]
        one.keyspace.changes.added_keys.clear()
        receive(one.keyspace, sent.effect, sent.dot)
        assert set(one.keyspace.changes.added_keys) == {K}, sent
    for unit in (
        lambda: two.expire_at(K, 5000),
        lambda: two.set_id(K, make(9, 0)),
        lambda: two.delete_entry(K, make(5, 0)),
    ):
        sent = unit()[0]
        one.keyspace.changes.added_keys.clear()
        receive(one.keyspace, sent.effect, sent.dot)
        assert set(one.keyspace.changes.added_keys) == set(), sent
        assert set(one.keyspace.changes.changed_keys) == {K}


def test_a_create_that_is_buried_wakes_nobody() -> None:
    """A create that a tombstone kills on arrival wakes no reader."""
    one, two = Twin(1), Twin(2)
    sent = two.create(K, G, 0)
    one.create(K, G, 0)
    one.destroy(K, G)
    one.keyspace.changes.added_keys.clear()
    one.receive(sent[0])
    assert set(one.keyspace.changes.added_keys) == set()
    assert one.keyspace.changes.dropped_groups == [(K, G)]


def test_pairs_and_deadlines_are_told() -> None:
    """Effects and joins report the keys with new deadlines, and the merged pairs.

    The pair of an own add is not reported: the add covers all pairs here and conflicts with none
    (S9.2).
    """
    twin, peer = Twin(1), Twin(3)
    sent = twin.add(K, entry_id=make(5, 0), pid=b"p", iid=b"i")
    twin.expire_at(K, 5000)
    assert twin.keyspace.changes.pairs == []
    peer.receive(sent[0])
    assert peer.keyspace.changes.pairs == [(K, b"p", b"i")]
    assert set(twin.keyspace.changes.deadlines) == {K}
    other = Twin(2)
    other.join(twin)
    assert other.keyspace.changes.pairs == [(K, b"p", b"i")]
    assert set(other.keyspace.changes.deadlines) == {K}
    assert set(other.keyspace.changes.added_keys) == {K}
    again = Twin(3)
    again.add(b"else", entry_id=make(5, 0))
    again.keyspace.changes.deadlines.clear()
    other.keyspace.changes.deadlines.clear()
    other.join(again)
    assert set(other.keyspace.changes.deadlines) == set(), "again has not seen the deadline"
    assert set(again.keyspace.changes.deadlines) == set()
    twin.expire_at(K, 6000)
    other.join(twin)
    assert set(other.keyspace.changes.deadlines) == {K}


def test_changes_that_a_watcher_means_are_numbered() -> None:
    """S10.7: every effect except an acknowledgement counts as a change for WATCH."""
    twin = Twin(1)
    numbers: list[int] = []
    for unit in (
        lambda: twin.add(K, entry_id=make(5, 0)),
        lambda: twin.create(K, G, 0),
        lambda: twin.expire_at(K, 5000),
        lambda: twin.set_id(K, make(6, 0)),
    ):
        unit()
        numbers.append(twin.keyspace.keys[K].change)
    assert len(set(numbers)) == 4 and 0 not in numbers
    twin.read(K, G)
    twin.acknowledge(K, G, {make(5, 0)})
    twin.announce(K, G)
    assert twin.keyspace.keys[K].change == numbers[-1]


def test_statistics_follow_a_key_and_begin_anew_with_it() -> None:
    """S3.4: local statistics are reset when the key is deleted."""
    one, two = Twin(1), Twin(2)
    for ms in (1, 2, 3):
        one.add(K, entry_id=make(ms, 0))
    one.add(K, entry_id=make(4, 0), pid=b"p", iid=b"i")
    run_of(two.keyspace, 1, 1, 2, 3)
    assert two.keyspace.keys[K].entries_added == 3
    stream = one.keyspace.keys[K]
    assert (stream.entries_added, stream.iids_added, stream.max_deleted_id) == (4, 1, 0)
    one.delete_entry(K, make(2, 0))
    one.delete_entry(K, make(1, 0))
    assert stream.max_deleted_id == make(2, 0), "the highest ID of the deleted entries"
    stream.iids_duplicates = 1
    stream.xread_high_id = make(3, 0)
    one.delete(K)
    assert one.keyspace.keys[K] is stream, "the tombstone of the key is kept"
    statistics = (
        stream.entries_added,
        stream.iids_added,
        stream.max_deleted_id,
        stream.iids_duplicates,
        stream.xread_high_id,
    )
    assert statistics == (0, 0, 0, 0, 0)


def test_joined_entries_count_as_added() -> None:
    one, two = Twin(1), Twin(2)
    for ms in (1, 2, 3):
        one.add(K, entry_id=make(ms, 0))
    two.add(K, entry_id=make(1, 5))
    one.add(K, entry_id=make(4, 0), pid=b"p", iid=b"i")
    two.join(one)
    stream = two.keyspace.keys[K]
    assert (stream.entries_added, stream.iids_added) == (5, 1)


def test_a_key_is_dirty_from_the_first_change_on() -> None:
    """`dirty` holds the position after which the key first changed.

    A checkpoint that began before this position need not write the key; a replay of the key must
    begin there.
    """
    twin = Twin(1)
    twin.keyspace.position = 7
    twin.create(K, G, 0)
    twin.keyspace.position = 9
    twin.add(K, entry_id=make(1, 0))
    assert twin.keyspace.dirty == {K: 7}
    twin.keyspace.dirty.clear()
    twin.read(K, G)
    assert twin.keyspace.dirty == {K: 9}, "local state is stored, too"
    twin.keyspace.dirty.clear()
    twin.keyspace.is_dirty = False
    twin.flush()
    twin.keyspace.free_some()
    assert twin.keyspace.dirty == {K: 9} and twin.keyspace.is_dirty
    twin.keyspace.is_dirty = False
    twin.collect({1: 100})
    assert twin.keyspace.is_dirty and not twin.keyspace.flush_tombstone
    twin.keyspace.is_dirty = False
    twin.collect({1: 100})
    assert not twin.keyspace.is_dirty, "nothing was left to drop"


def test_scans_forget_what_is_gone() -> None:
    """A key that holds nothing is removed from the keyspace and from the scan order."""
    keyspace = Keyspace(1, NodeLimits())
    run_of(keyspace, 2, 1, 2)
    assert [key for _, key in keyspace.scan_order.from_hash(0)] == [K]
    stream = keyspace.keys[K]
    stream.remove_observed({2: 2})
    stream.header.touched.clear()
    stream.clears.clear()
    keyspace.drop_if_empty(stream)
    assert keyspace.keys == {} and list(keyspace.scan_order.from_hash(0)) == []


def test_what_is_forgotten_of_a_flush_is_written_down() -> None:
    """Collecting FLUSHALL state marks it for the next checkpoint (S6.2, S13.1).

    Otherwise a start would restore the collected state from the former checkpoint.
    """
    keyspace = Keyspace(1, NodeLimits())
    keyspace.flush_tombstone, keyspace.flush_clears = {2: 3}, {2: 9}
    keyspace.is_dirty = False
    collect_flush(keyspace, {2: 2})
    assert not keyspace.is_dirty
    collect_flush(keyspace, {2: 3})
    assert keyspace.is_dirty and not keyspace.flush_tombstone and keyspace.flush_clears
    keyspace.is_dirty = False
    collect_flush(keyspace, {2: 9})
    assert keyspace.is_dirty and not keyspace.flush_clears


def test_what_was_dropped_and_is_deleted_is_forgotten() -> None:
    """A deleted entry is removed from the dropped entries: its dot never comes back (S8.1)."""
    keyspace = Keyspace(1, NodeLimits())
    run_of(keyspace, 2, 1, 2)
    run_of(keyspace, 3, 1)
    delivery = Delivery()
    delivery.dropped = {2: {1, 2}, 3: {1}, 4: {7}}
    keyspace.keys[K].remove_entry(2, 1)
    keyspace.keys[K].remove_entry(3, 1)
    delivery.forget_dropped(keyspace.keys[K].logs)
    assert delivery.dropped == {2: {2}}
