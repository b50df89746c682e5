"""Packed pairs beside a list of the pairs themselves."""

from __future__ import annotations

from random import Random

import pytest

from anabranch.crdt.pair import Pair
from anabranch.crdt.pair_run import RUN_MAX, PairRun
from anabranch.crdt.vector import covers

HALF_MAX = (1 << 64) - 1
NUMBERS = (0, 1, 127, 128, 1_795_000_000_000, (1 << 62) - 1, 1 << 62, 1 << 63, HALF_MAX)
COUNTERS = (1, 2, 127, 128, 1 << 40, (1 << 63) - 1)
IIDS = (b"", b"a", b"\0\xff", b"a" * 127, b"b" * 128, b"c" * 17_000)
VECTORS: tuple[dict[int, int], ...] = ({}, {2: 7}, {2: 7, 3: 1 << 62})


def plain(pair: Pair) -> tuple[object, ...]:
    """All fields of a pair."""
    return (
        pair.pid,
        pair.iid,
        pair.dot,
        pair.entry_id,
        pair.recorded_ms,
        pair.held_ms,
        pair.seen_own,
        pair.seen,
        pair.is_retired,
    )


def any_pair(chance: Random) -> Pair:
    return Pair(
        b"p",
        chance.choice(IIDS),
        chance.choice((1, 2, 1000)),
        chance.choice(COUNTERS),
        chance.choice(NUMBERS),
        chance.choice(NUMBERS),
        chance.choice(NUMBERS),
        chance.choice(NUMBERS),
        chance.choice((0, *COUNTERS)),
        chance.choice(VECTORS),
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_run_is_a_list_of_pairs(seed: int) -> None:
    """With the largest numbers, differences below 0, and iids of every length of a varint."""
    chance = Random(seed)
    run = PairRun(b"p", 0)
    wanted: list[Pair] = []
    for _ in range(120):
        retired = sum(one.is_retired for one in wanted)
        step = chance.random()
        if step < 0.5 and run.room():
            pair = any_pair(chance)
            run.append(pair)
            wanted.append(pair)
        elif step < 0.7 and retired < len(wanted):
            run.retire_first()
            wanted[retired].is_retired = True
        elif step < 0.9 and retired:
            assert run.drop_first() == wanted.pop(0).iid
        elif step > 0.97:
            chance.shuffle(wanted)
            wanted.sort(key=lambda one: not one.is_retired)
            run.fill(wanted)
        assert (run.count, run.retired) == (len(wanted), sum(one.is_retired for one in wanted))
        assert [plain(one) for one in run.pairs()] == [plain(one) for one in wanted]
        assert 0 <= run.room() <= RUN_MAX - run.count
        for iid in IIDS:
            assert sorted(map(repr, map(plain, run.of(iid)))) == sorted(
                repr(plain(one)) for one in wanted if one.iid == iid
            )
        _tells_of(run, wanted, chance)


def _tells_of(run: PairRun, wanted: list[Pair], chance: Random) -> None:
    """Asserts that what the run tells without an object is right."""
    vector = {region: chance.choice((0, *COUNTERS)) for region in (1, 2)}
    assert run.has_covered(vector) == any(covers(vector, *one.dot) for one in wanted)
    answering = [one for one in wanted if not one.is_retired]
    if wanted:
        assert run.is_first_covered(vector) == covers(vector, *wanted[0].dot)
        assert run.oldest_ms <= min(one.held_ms for one in wanted)
    if answering:
        assert plain(run.first_answering()) == plain(answering[0])
        assert run.is_first_answering_covered(vector) == covers(vector, *answering[0].dot)
        assert run.last_age_ms == wanted[-1].age_ms
    age_ms = chance.choice(NUMBERS)
    places = [
        place for place, one in enumerate(wanted, 1) if not one.is_retired and one.age_ms <= age_ms
    ]
    assert run.place_after(age_ms) == max(places, default=0)
