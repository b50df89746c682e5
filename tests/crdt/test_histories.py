"""Random histories of three regions, compared with the twin; laws of join (S11.3)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.snapshot import SnapshotCut, SnapshotRecords, read_snapshot
from tests.crdt import histories
from tests.crdt.histories import ACTIONS, History, Step
from tests.crdt.support import Twin, converged, equal, snapshot_bytes

steps = st.lists(
    st.tuples(
        st.integers(0, len(ACTIONS) - 1), st.integers(0, 2), st.integers(0, 65), st.integers(0, 59)
    ),
    max_size=40,
)


def random_steps(seed: int, count: int, without: frozenset[str] = frozenset()) -> list[Step]:
    """`count` random steps, minus those of the actions in `without`."""
    chance = random.Random(seed)
    drawn = [
        (
            chance.randrange(len(ACTIONS)),
            chance.randrange(3),
            chance.randrange(66),
            chance.randrange(60),
        )
        for _ in range(count)
    ]
    return [step for step in drawn if ACTIONS[step[0]].__name__ not in without]


@settings(max_examples=200)
@given(steps)
def test_any_history_agrees_with_the_twin(history: list[Step]) -> None:
    """Every state of a random history equals that of the twin, and the regions converge.

    After every step the test compares entries, header, groups, deadlines, tombstones, pairs, local
    state, the entries that `>` would deliver, and the next announcement. In the end every region
    receives every effect, and all equal a region that received nothing but the effects.
    """
    run = History()
    run.run(history)
    run.heal()


def random_histories(seeds: range) -> None:
    """Runs and heals one random history for each seed; every action must have been effective."""
    done: dict[str, int] = {}
    for seed in seeds:
        run = History()
        try:
            run.run(random_steps(seed, 120))
            run.heal()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        for name, count in run.done.items():
            done[name] = done.get(name, 0) + count
    expected = {action.__name__ for action in ACTIONS} - {"collect"}
    assert set(done) == expected
    assert min(done.values()) > len(seeds) // 20, done


def test_long_random_histories_agree() -> None:
    random_histories(range(200))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_long_random_histories_agree() -> None:
    random_histories(range(1000, 21_000))


# -- laws


def copied(keyspace: Keyspace) -> Keyspace:
    """A new keyspace that has joined a snapshot of this one."""
    fresh = Keyspace(9, NodeLimits(3, 200))
    into(fresh, keyspace)
    return fresh


def into(keyspace: Keyspace, other: Keyspace) -> Keyspace:
    """Joins a snapshot of `other` into `keyspace`. Returns `keyspace`."""
    join(keyspace, read_snapshot(snapshot_bytes(other, 200), NodeLimits(2, 100)), 5)
    return keyspace


def said(keyspace: Keyspace) -> tuple[object, ...]:
    """All state that the laws of join cover, that is all except pair records (S11.3)."""
    tombstones = {
        key: (stream.tombstones, stream.tombstone_of_all) for key, stream in keyspace.keys.items()
    }
    buried = {key: value for key, value in tombstones.items() if value[0] or value[1]}
    return (
        keyspace.vector,
        converged(keyspace),
        keyspace.digest(),
        buried,
        keyspace.flush_tombstone,
    )


def test_join_is_commutative_associative_idempotent_and_equals_shipping() -> None:
    """The laws of join (S11.3), on the states of random histories."""
    different = 0
    for seed in range(250):
        run = History(checks=False)
        run.run(random_steps(seed, 60))
        one, two, three = (twin.keyspace for twin in run.twins.values())
        assert said(into(copied(one), two)) == said(into(copied(two), one)), "commutative"
        left = into(into(copied(one), two), three)
        right = into(copied(one), into(copied(two), three))
        assert said(left) == said(right), "associative"
        assert said(into(copied(one), one)) == said(copied(one)) == said(one), "idempotent"
        assert said(into(into(copied(one), two), two)) == said(into(copied(one), two)), "idempotent"
        shipped = Twin(9)
        for twin in run.twins.values():
            shipped.pull(twin)
        assert (left.digest(), converged(left), left.vector) == (
            shipped.keyspace.digest(),
            shipped.model.converged(),
            shipped.model.vector,
        )
        different += len({one.digest(), two.digest(), three.digest(), left.digest()}) == 4
    assert different > 150, "too few histories have states that differ"


def test_collection_changes_no_outcome() -> None:
    """A history ends in the same states with and without collection."""
    collected = 0
    for seed in range(200):
        drawn = random_steps(seed, 100, frozenset({"collect"}))
        plain, tidy = History(checks=False), History(checks=False)
        plain.run(drawn)
        collects = [(ACTIONS.index(histories.collect), region, 0, 0) for region in range(3)]
        tidy.run([each for step in drawn for each in (step, *collects)])
        for region_id, twin in tidy.twins.items():
            assert twin.model.converged() == plain.twins[region_id].model.converged()
            assert twin.keyspace.digest() == plain.twins[region_id].keyspace.digest()
        kept = [
            sum(len(s.tombstones) for s in t.model.keys.values())
            for h in (plain, tidy)
            for t in h.twins.values()
        ]
        collected += sum(kept[:3]) - sum(kept[3:])
    assert collected > 100


def test_digests_are_equal_exactly_where_states_are() -> None:
    """Digests and states of the twin correspond one to one, over random histories (S13.9)."""
    by_digest: dict[bytes, object] = {}
    states: dict[str, bytes] = {}
    for seed in range(150):
        run = History(checks=False)
        for step in random_steps(seed, 60):
            run.run([step])
            for twin in run.twins.values():
                digest = twin.keyspace.digest()
                contents = twin.model.converged()
                assert by_digest.setdefault(digest, contents) == contents
                name = repr(
                    sorted(
                        (key, [sorted(part.items()) for part in parts])
                        for key, parts in contents.items()
                    )
                )
                assert states.setdefault(name.replace("frozenset", ""), digest) == digest
        one, two, three = run.twins.values()
        equal(one, two), equal(two, three)
    assert len(by_digest) > 3000


# -- snapshots


def test_snapshot_stays_what_it_was_at_the_cut() -> None:
    """Copy on write: a cut that is encoded while the region changes gives the state at the cut.

    Source: S11.2.
    """
    changed = 0
    for seed in range(150):
        run = History(checks=False)
        run.run(random_steps(seed, 80))
        twin = run.twins[1]
        before = (
            twin.model.converged(),
            twin.keyspace.digest(),
            dict(twin.keyspace.vector),
            snapshot_bytes(twin.keyspace),
        )
        chunks = SnapshotCut(twin.keyspace, 0).chunks(1)
        begun = [next(chunks)]
        run.run(random_steps(seed + 10_000, 60))
        twin.check()
        for _ in range(3):
            begun += [chunk for _, chunk in zip(range(2), chunks, strict=False)]
            run.run(random_steps(seed + 20_000, 20))
        read = read_snapshot([*begun, *chunks], twin.limits)
        assert (converged(read), read.digest(), read.vector) == before[:3]
        again = read_snapshot(before[3], twin.limits)
        assert again.digest() == before[1]
        changed += twin.keyspace.digest() != before[1]
        twin.check()
    assert changed > 120


def test_a_cut_with_records_made_ahead() -> None:
    """Records that were made while the region changed are those of a cut made in one step.

    Source: S11.2.
    """
    passes = 0
    for seed in range(150):
        run = History(checks=False)
        run.run(random_steps(seed, 60))
        keyspace = run.twins[1].keyspace
        made = SnapshotRecords(keyspace)
        for n in range(8):
            made.make_some(1 if seed % 2 else 300)
            run.run(random_steps(seed + 10_000 * n, 10))
        is_close = made.make_some(1)
        assert keyspace.unseen.unrecorded is not None
        passes += is_close
        cut = sorted(SnapshotCut(keyspace, 0, made).chunks(1))
        assert cut == sorted(SnapshotCut(keyspace, 0).chunks(1))
        assert keyspace.unseen.unrecorded is None
    assert 0 < passes < 150


def test_cut_shares_no_buffer_that_changes() -> None:
    """Deleting, appending, gluing and trimming do not change the nodes that a cut holds."""
    twin = Twin(1, NodeLimits(5, 0))
    for _ in range(23):
        twin.add(b"k")
    contents = twin.model.converged()
    cut = SnapshotCut(twin.keyspace, 0)
    for number in range(1, 16):
        entry_ids = histories.ids_of(twin, b"k")
        twin.delete_entry(b"k", entry_ids[number * 7 % len(entry_ids)])
        twin.add(b"k")
        if number == 12:
            twin.trim(b"k", 7)
        twin.check()
    twin.delete(b"k")
    assert converged(read_snapshot(list(cut.chunks(50)), twin.limits)) == contents
