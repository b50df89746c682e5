"""The particular histories that SEMANTICS describes, one test each."""

from __future__ import annotations

from anabranch.crdt import undelivered
from anabranch.crdt.effects import RemoveObserved
from anabranch.crdt.ids import make
from anabranch.crdt.join import join
from anabranch.crdt.snapshot import read_snapshot
from anabranch.crdt.spans import UNKNOWN_ID
from anabranch.crdt.stream import NEVER
from anabranch.crdt.vector import Vector
from tests.crdt.histories import ids_of
from tests.crdt.support import Twin, assert_equal, snapshot_bytes

K, G = b"k", b"g"


def regions(count: int = 2) -> list[Twin]:
    return [Twin(region_id) for region_id in range(1, count + 1)]


def sync(*twins: Twin) -> None:
    """Every region pulls from every other; then all must be equal."""
    for _ in range(2):
        for twin in twins:
            for other in twins:
                twin.pull(other)
            twin.check()
    for twin in twins[1:]:
        assert_equal(twins[0], twin)


def add(twin: Twin, *ms: int) -> None:
    for each in ms:
        twin.add(K, entry_id=make(each, 0))


def ms_of(twin: Twin) -> list[int]:
    return [entry_id >> 64 for entry_id in ids_of(twin, K)]


def read(twin: Twin, consumer: bytes = b"c", count: int = -1) -> list[int]:
    return [entry.entry_id >> 64 for entry in twin.read(K, G, consumer, count)]


def pending(twin: Twin) -> list[int]:
    stream = twin.keyspace.keys[K]
    return (
        [each.entry_id >> 64 for each in stream.groups[G].delivery.pel.ascending(0, (1 << 128) - 1)]
        if G in stream.groups
        else []
    )


def announce(twin: Twin) -> int:
    return len(twin.announce(K, G))


def acknowledge(twin: Twin, *ms: int) -> int:
    return twin.acknowledge(K, G, {make(each, 0) for each in ms})


def exists(twin: Twin) -> bool:
    stream = twin.keyspace.keys.get(K)
    return stream is not None and stream.exists_at(twin.clock_ms)


def last_ms(twin: Twin) -> int:
    return twin.keyspace.keys[K].header.last_id() >> 64


# -- entries and header


def test_delete_meets_a_concurrent_add_and_last_id_is_derived() -> None:
    """S3.2: `last_id` is derived from the header.

    Region 1 deletes the key, whose last ID is 900, while region 2 adds 950. Afterwards both regions
    derive 950 from the remaining header. A register would keep the deletion of 900 in one region
    and 950 in the other.
    """
    one, two = regions()
    add(one, 900)
    sync(one, two)
    one.delete(K)
    add(two, 950)
    sync(one, two)
    assert ms_of(one) == ms_of(two) == [950]
    assert last_ms(one) == last_ms(two) == 950


def test_delete_meets_an_add_below_the_deleted_last_id() -> None:
    """S3.2: `last_id` can fall.

    The header holds 900 of region 1. Region 2 has not seen it and adds 100. The DEL of region 1
    removes 900, so `last_id` falls to 100 in both regions.
    """
    one, two = regions()
    add(one, 900)
    add(two, 100)
    one.delete(K)
    sync(one, two)
    assert ms_of(one) == ms_of(two) == [100]
    assert last_ms(one) == last_ms(two) == 100


def test_set_id_meets_delete() -> None:
    """A concurrent XSETID survives as a header without entries: the key exists, empty (S3.1)."""
    one, two = regions()
    add(one, 5)
    sync(one, two)
    two.set_id(K, make(77, 0))
    one.delete(K)
    sync(one, two)
    assert exists(one) and ms_of(one) == [] and last_ms(one) == 77
    assert one.set_id(K, make(76, 0)) == []


def test_emptied_stream_still_exists() -> None:
    """S3.1: after XDEL and XTRIM the key still exists; after DEL it does not."""
    (one,) = regions(1)
    add(one, 5, 6)
    one.delete_entry(K, make(5, 0))
    one.trim(K, 0)
    assert exists(one) and ms_of(one) == [] and last_ms(one) == 6
    one.delete(K)
    assert not exists(one)


def test_trim_meets_a_concurrent_add() -> None:
    """S5.2: after the merge the stream is longer than MAXLEN until the next trim."""
    one, two = regions()
    add(one, 1, 2, 3)
    sync(one, two)
    one.trim(K, 1)
    add(two, 4, 5)
    sync(one, two)
    assert ms_of(one) == [3, 4, 5]


def test_delete_entry_takes_every_entry_that_bears_the_id() -> None:
    """S5.1 and seed 5's duplicate 100-1: only an entry added concurrently under the ID remains."""
    one, two, three = regions(3)
    add(one, 100)
    add(two, 100)
    sync(one, two)
    add(three, 100)
    one.delete_entry(K, make(100, 0))
    sync(one, two, three)
    assert ms_of(one) == [100]
    assert list(one.model.keys[K].entries) == [(3, 1)]


def test_flushall_takes_what_it_saw_and_every_group() -> None:
    """S5.4: FLUSHALL is one vector and one tombstone for all groups of all keys.

    It covers keys not known to the issuer. Deadlines remain.
    """
    one, two = regions()
    add(one, 1)
    one.expire_at(K, 9000)
    sync(one, two)
    two.create(b"unknown", G, 0)
    add(two, 2)
    one.flush()
    sync(one, two)
    assert ms_of(one) == [2]
    assert not two.has_group(b"unknown", G)
    assert [
        stream.winning_deadline() is not None
        for stream in (one.keyspace.keys[K], two.keyspace.keys[K])
    ] == [True, True]


# -- groups


def test_destroy_takes_a_create_it_had_not_seen() -> None:
    """S6.1: a destroy removes a create that it had not seen."""
    one, two, three = regions(3)
    one.create(K, G, 0)
    sync(one, two)
    two.destroy(K, G)
    three.create(K, G, 0)
    sync(one, two, three)
    assert not any(exists(twin) for twin in (one, two, three))


def test_delete_takes_groups_of_all_names() -> None:
    """S6.1, S3.1: afterwards `EXISTS x` → 0."""
    one, two = regions()
    one.create(K, b"group1", 0)
    sync(one, two)
    one.delete(K)
    two.create(K, b"group2", 0)
    sync(one, two)
    assert not exists(one) and not exists(two)


def test_create_that_saw_the_destroy_lives_whatever_order() -> None:
    """S6.1: a create whose vector covers the destroy survives it."""
    one, two, three = regions(3)
    one.create(K, G, 0)
    one.destroy(K, G)
    two.pull(one)
    two.create(K, G, 0)
    three.pull(two)
    sync(one, two, three)
    assert exists(three)


def test_nothing_comes_back_to_life_for_a_region_that_was_long_away() -> None:
    """S6.2: no group comes back to life when a region returns after a long absence.

    Region 3 creates a group and goes silent. Region 2 destroys the name. Region 1 keeps the
    tombstone until region 3 is known to hold the destroy. Region 3 returns, and its create dies.
    Only then is the tombstone dropped. Joining an old snapshot of region 3 afterwards does not
    restore the group.
    """
    one, two, three = regions(3)
    one.create(K, G, 0)
    one.pull(one)
    two.pull(one)
    three.create(K, G, 0)
    old = Twin(3)
    old.pull(three)
    two.destroy(K, G)
    one.pull(two)
    one.collect(least(one, two, three))
    assert one.keyspace.keys[K].tombstones, "the tombstone is not stable: region 3 has not seen it"
    sync(one, two, three)
    assert not exists(one)
    for twin in (one, two, three):
        twin.collect(least(one, two, three))
        twin.check()
        assert K not in twin.keyspace.keys or not twin.keyspace.keys[K].tombstones
    one.join(old)
    one.check()
    old.join(one)
    old.check()
    assert not exists(one) and not exists(old)
    three.create(K, G, 0)
    sync(one, two, three)
    assert exists(one), "a new create that saw the destroy is a new group"


def least(*twins: Twin) -> Vector:
    return {
        region_id: counter
        for region_id in (1, 2, 3)
        if (counter := min(twin.model.vector.get(region_id, 0) for twin in twins))
    }


def test_collecting_too_early_would_bring_a_group_back() -> None:
    """If the tombstone is dropped before region 3 holds the destroy, the digests must differ."""
    one, two, three = regions(3)
    one.create(K, G, 0)
    two.pull(one)
    three.create(K, G, 0)
    two.destroy(K, G)
    one.pull(two)
    one.collect(dict(one.model.vector))
    for twin in (one, two):
        twin.pull(three)
    assert one.keyspace.digest() != two.keyspace.digest()


def test_local_state_goes_with_the_last_create_of_before() -> None:
    """S6.5: local group state is dropped with the last of the former creates.

    One join removes the old create and brings a new one. PEL, floor and consumers are dropped, and
    the group begins at its own start.
    """
    one, two = regions()
    add(one, 1, 2)
    one.create(K, G, 0)
    sync(one, two)
    assert read(one) == [1, 2]
    two.destroy(K, G)
    two.create(K, G, 0)
    one.join(two)
    one.check()
    assert pending(one) == []
    assert one.keyspace.keys[K].groups[G].delivery.consumers == {}
    assert one.keyspace.changes.dropped_groups == [(K, G)]
    assert read(one) == [1, 2]


def test_why_a_frontier_will_not_do() -> None:
    """S8.4: acknowledgements are spans, not a frontier.

    Region 1 creates g at 0 over ten unread entries. Region 2 concurrently creates g at `$`, reads
    two later entries and acknowledges them. After the merge both regions must still deliver the
    ten, and neither may deliver the two again.
    """
    one, two = regions()
    add(one, *range(1, 11))
    sync(one, two)
    one.create(K, G, 0)
    two.create(K, G, None)
    add(two, 11, 12)
    assert read(two) == [11, 12]
    assert acknowledge(two, 11, 12) == 2
    assert announce(two) == 1
    sync(one, two)
    assert read(one) == list(range(1, 11))
    assert read(two) == list(range(1, 11))
    assert read(one) == read(two) == []


def test_the_same_with_the_two_in_the_log_of_the_ten() -> None:
    """As above, but the two later entries are in the same region log as the ten.

    The announced span begins at the last entry not above `$`, never at 0 (S8.1).
    """
    one, two = regions()
    add(one, *range(1, 11))
    sync(one, two)
    two.create(K, G, None)
    one.create(K, G, 0)
    add(one, 11, 12)
    two.pull(one)
    two.set_floor(K, G, make(10, 0))
    assert read(two) == [11, 12]
    acknowledge(two, 11, 12)
    assert announce(two) == 1
    sync(one, two)
    assert read(one) == list(range(1, 11))


def test_acknowledgements_are_announced_in_order() -> None:
    """XACK of 110, 130, 120 → one effect, none, one. Region 2 then delivers nothing (S8.1)."""
    one, two = regions()
    add(one, 110, 120, 130)
    one.create(K, G, 0)
    assert read(one) == [110, 120, 130]
    counts = []
    for ms in (110, 130, 120):
        acknowledge(one, ms)
        counts.append(announce(one))
        counts.append(announce(one))
    assert counts == [1, 0, 0, 0, 1, 0]
    sync(one, two)
    assert read(two) == []


def test_acked_spans_leave_pels_by_effect_and_by_join() -> None:
    """S8.2: acked spans leave the PEL of another region, by effect and by join.

    Both regions have delivered the same entries. One announces, and the other drops the
    acknowledged entries from its PEL.
    """
    for by_join in (False, True):
        one, two = regions()
        add(one, 1, 2, 3)
        one.create(K, G, 0)
        sync(one, two)
        assert read(one) == read(two) == [1, 2, 3]
        acknowledge(one, 1, 2)
        announce(one)
        (two.join if by_join else two.pull)(one)
        two.check()
        assert pending(two) == [3]
        assert pending(one) == [3]


def test_region_that_rewound_is_not_thrown_forward_by_old_spans() -> None:
    """S8.2: old acked spans do not undo a SETID.

    SETID moves the floor of region 2 back to 0, so that it delivers everything again. A snapshot,
    or the same spans in another effect, must not mark as given the entries that the group's acked
    spans already held.
    """
    one, two = regions()
    add(one, 1, 2, 3)
    one.create(K, G, 0)
    read(one)
    acknowledge(one, 1, 2)
    announce(one)
    sync(one, two)
    assert read(two) == [3]
    two.set_floor(K, G, 0)
    two.join(one)
    two.check()
    assert read(two, count=1) == [1]
    acknowledge(one, 3)
    announce(one)
    two.pull(one)
    two.check()
    assert read(two) == [2], "3 is new among the acked spans, 1 and 2 are not"


def test_what_was_claimed_by_force_stays_claimed() -> None:
    """S8.2: an acked entry that is claimed with FORCE stays pending when old spans are joined."""
    one, two = regions()
    add(one, 1)
    one.create(K, G, 0)
    read(one)
    acknowledge(one, 1)
    announce(one)
    sync(one, two)
    two.claim(K, G, b"d", make(1, 0))
    two.join(one)
    two.check()
    assert pending(two) == [1]


def test_own_announcement_after_a_restore_counts_as_any_others() -> None:
    """S8.2: a restored region applies its own lost announcement, which empties its PEL."""
    one, two = regions()
    add(one, 1)
    one.create(K, G, 0)
    read(one)
    sync(one, two)
    restored = Twin(1)
    restored.pull(one)
    restored.read(K, G)
    acknowledge(one, 1)
    announce(one)
    two.pull(one)
    assert pending(restored) == [1]
    restored.pull(two)
    restored.check()
    assert pending(restored) == []


# -- expiry


def test_expiry_meets_a_concurrent_add_and_create() -> None:
    """S10.3, S10.4: the removal takes only the state that it observed.

    A concurrent add and a concurrent create remain. The deadline hides them until a longer one
    arrives.
    """
    one, two = regions()
    add(one, 1)
    one.create(K, b"h", 0)
    one.expire_at(K, 2000)
    sync(one, two)
    add(two, 2)
    two.create(K, G, 0)
    one.clock_ms = 2001
    one.expire_now(K)
    sync(one, two)
    assert ms_of(one) == [2]
    assert two.has_group(K, G) and not two.has_group(K, b"h")
    assert exists(two) and not exists(one), "a key is hidden where the clock is past its deadline"
    two.expire_at(K, NEVER)
    sync(one, two)
    assert exists(one)


def test_expiry_leaves_no_tombstone() -> None:
    """S10.3: expiry is an observed-remove, not delete-wins.

    A create that the removal had not observed lives, although its vector does not cover the
    removal.
    """
    one, two = regions()
    one.create(K, G, 0)
    one.expire_at(K, 2000)
    two.create(K, G, 0)
    one.clock_ms = 2001
    one.expire_now(K)
    sync(one, two)
    assert two.has_group(K, G)
    assert not one.keyspace.keys[K].tombstones and not one.keyspace.keys[K].tombstone_of_all


def test_write_on_a_hidden_key_begins_anew_and_outlives_a_shorter_deadline_under_way() -> None:
    """S10.5: the write's unit removes everything observed, deadlines included.

    It then sets an infinite deadline, which outlives a shorter one that is still in transit.
    """
    one, two = regions()
    add(one, 1)
    one.expire_at(K, 2000)
    sync(one, two)
    two.expire_at(K, 3000)
    one.clock_ms = 2500
    add(one, 7)
    sync(one, two)
    assert ms_of(one) == [7]
    for twin in (one, two):
        twin.clock_ms = 9000
        assert exists(twin)
        assert twin.keyspace.keys[K].winning_deadline() is not None
        winner = twin.keyspace.keys[K].winning_deadline()
        assert winner is not None and winner[1] == NEVER


def test_longest_deadline_wins_and_on_a_tie_the_highest_dot() -> None:
    """S10.2: the longest deadline wins, and on a tie the highest dot."""
    one, two = regions()
    add(one, 1)
    sync(one, two)
    one.expire_at(K, 5000)
    two.expire_at(K, 4000)
    sync(one, two)
    winner = one.keyspace.keys[K].winning_deadline()
    assert winner == ((1, 2), 5000)
    one.expire_at(K, 3000)
    two.pull(one)
    assert two.keyspace.keys[K].winning_deadline() == ((1, 3), 3000), "3000 must replace 5000"
    add(two, 2)
    one.pull(two)
    one.expire_at(K, 6000)
    two.expire_at(K, 6000)
    sync(one, two)
    dots = sorted(one.keyspace.keys[K].deadlines, key=lambda dot: (dot[1], dot[0]))
    assert one.keyspace.keys[K].winning_deadline() == (dots[-1], 6000)


# -- snapshots


def test_long_absent_region_and_the_others_join_each_other() -> None:
    """S11.3 in both directions, with trims and deletes on both sides.

    Only the entries that one side removed after it had seen them are gone.
    """
    one, two = regions()
    add(one, *range(1, 31))
    sync(one, two)
    # Removes 1…10.
    one.trim(K, 20)
    add(one, *range(40, 50))
    for ms in (12, 14, 41):
        one.delete_entry(K, make(ms, 0))
    add(two, *range(31, 39))
    for ms in (13, 14, 32):
        two.delete_entry(K, make(ms, 0))
    # Removes the first five of 35.
    two.trim(K, 30)
    away, home = ms_of(two), ms_of(one)
    assert away and home and away != home
    gone = {*range(1, 11), 12, 13, 14, 32, 41}
    expected = [ms for ms in (*range(1, 39), *range(40, 50)) if ms not in gone]
    before = snapshot_bytes(two.keyspace)
    assert before
    three, four = Twin(3), Twin(4)
    three.join(one)
    three.join(two)
    four.join(two)
    four.join(one)
    one.join(two)
    two.join(one)
    for twin in (one, two, three, four):
        twin.check()
        assert ms_of(twin) == expected
        assert_equal(one, twin)


def test_join_brings_a_delete_of_the_key_and_its_groups() -> None:
    """A DEL that arrives by snapshot also removes groups that it had not seen.

    The receiver's vector does not cover the sender's tombstone (S11.3).
    """
    one, two = regions()
    add(one, 1)
    sync(one, two)
    one.delete(K)
    two.create(K, G, 0)
    add(two, 2)
    two.join(one)
    two.check()
    assert not two.has_group(K, G)
    assert ms_of(two) == [2]
    one.join(two)
    assert_equal(one, two)


def test_join_of_a_flush_takes_keys_the_sender_never_knew() -> None:
    """FLUSHALL by snapshot spares entries that it had not seen, but removes groups of all keys."""
    one, two = regions()
    two.create(b"x", G, 0)
    two.add(b"x")
    one.flush()
    two.join(one)
    two.check()
    assert not two.has_group(b"x", G)
    one.pull(two)
    assert_equal(one, two)


def test_remove_observed_by_join_takes_creates_without_a_tombstone() -> None:
    """S11.3: a snapshot removes the creates that its sender has removed, without a tombstone."""
    one, two = regions()
    one.create(K, G, 0)
    sync(one, two)
    one.issue([RemoveObserved(K, dict(one.model.vector), True)])
    two.create(K, b"h", 0)
    two.join(one)
    two.check()
    assert not two.has_group(K, G) and two.has_group(K, b"h")


def test_pairs_cross_a_join_unless_a_clear_covers_them() -> None:
    """S11.3: the join of pairs.

    A pair that only the sender has is held from the join on. A pair that only the receiver has is
    dropped only if one of the sender's clears covers it.
    """
    one, two = regions()
    one.add(K, (b"f", b"v"), 0, b"p", b"i")
    two.clock_ms = 5000
    two.join(one)
    two.check()
    (pair,) = two.keyspace.keys[K].pairs.everything()
    assert (pair.recorded_ms, pair.held_ms) == (1000, 5000)
    empty = Twin(3)
    empty.pull(one)
    for stream in empty.keyspace.keys.values():
        stream.pairs.collect(dict(empty.model.vector), 10**9, 1)
    assert not empty.keyspace.keys[K].pairs
    two.keyspace.digest()

    join(two.keyspace, read_snapshot(snapshot_bytes(empty.keyspace), two.limits), 6000)
    assert len(two.keyspace.keys[K].pairs.everything()) == 1, (
        "a pair that another region collected was dropped, though no clear covers it"
    )
    one.delete(K)
    join(two.keyspace, read_snapshot(snapshot_bytes(one.keyspace), two.limits), 6000)
    assert K not in two.keyspace.keys or not two.keyspace.keys[K].pairs


def test_a_pair_put_back_goes_though_its_clear_is_forgotten() -> None:
    """S11.3: region 2 is put back to before a DEL that it had on disk.

    Region 1 has collected the clear of the DEL, and its snapshot names it no more. The pair stayed
    in region 2, and answered a retry with an entry that is gone. A pair that region 1 still holds,
    or that it may not have collected, stays.
    """
    one, two = regions()
    one.add(K, (b"f", b"v"), 0, b"p", b"i")
    two.pull(one)
    two.add(b"own", (b"f", b"v"), 0, b"p", b"i")
    one.delete(K)
    one.add(K, (b"f", b"v"), 0, b"p", b"later")
    stable = {1: 3}
    one.collect(stable)
    one.keyspace.collected = dict(stable)
    assert not one.keyspace.keys[K].clears
    two.keyspace.digest()

    join(two.keyspace, read_snapshot(snapshot_bytes(one.keyspace), two.limits), 6000)
    assert [pair.iid for pair in two.keyspace.keys[K].pairs.everything()] == [b"later"]
    assert two.keyspace.keys[b"own"].pairs


def test_rename_meets_a_concurrent_add_of_the_source() -> None:
    """S10.1: RENAME copies the entries that it saw and drops the groups.

    An entry that it had not seen stays under the old name.
    """
    one, two = regions()
    add(one, 1, 2)
    one.create(K, G, 0)
    sync(one, two)
    one.rename(K, b"new")
    add(two, 3)
    sync(one, two)
    assert ms_of(one) == [3]
    assert [entry_id >> 64 for entry_id in ids_of(two, b"new")] == [1, 2]
    assert not one.has_group(b"new", G)


def test_a_given_span_without_an_id_ends_at_its_last_entry() -> None:
    """The end of a piece of an announcement has no ID, so the log tells it (S7.6)."""
    one, two = regions()
    one.create(K, G, 0)
    add(one, 5, 6, 7)
    assert read(one) == [5, 6, 7]
    one.acknowledge(K, G, {make(each, 0) for each in (5, 6, 7)})
    one.announce(K, G)
    two.pull(one)
    stream = two.keyspace.keys[K]
    group = stream.groups[G]
    assert group.delivery.given[1].highest_end() == (4, UNKNOWN_ID)
    assert undelivered.last_delivered_id(stream, group) == make(7, 0)
