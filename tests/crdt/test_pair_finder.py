"""The table of hashes that finds the run of a pair, beside a dict."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from anabranch.crdt.pair_finder import PairFinder


def buckets_of(finder: PairFinder) -> list[int]:
    """How many items each bucket has."""
    return [len(bucket) // 8 for bucket in finder._buckets]


@pytest.mark.parametrize("seed", range(5))
def test_each_pair_is_found_in_its_runs_while_the_table_grows_and_shrinks(seed: int) -> None:
    chance = Random(seed)
    finder = PairFinder()
    held: Counter[tuple[bytes, int]] = Counter()
    most = 0
    for phase in range(6):
        adds = 0.8 if phase % 2 == 0 else 0.1
        for _ in range(600):
            if chance.random() < adds or not held:
                one = (b"iid %d" % chance.randrange(400), chance.randrange(50))
                finder.add(*one)
                held[one] += 1
            else:
                one = chance.choice(list(held))
                finder.remove(*one)
                held[one] -= 1
                held += Counter()
        most = max(most, len(buckets_of(finder)))
        found = {iid: set(finder.runs_of(iid)) for iid in (b"iid %d" % n for n in range(400))}
        for iid, runs in found.items():
            assert {run for one, run in held if one == iid} <= runs
            assert finder.may_have(iid) == bool(runs)
        assert sum(map(len, found.values())) <= len(held) + 2, "hardly any hash is shared"
        assert sum(buckets_of(finder)) == held.total()
    while held:
        one = chance.choice(list(held))
        finder.remove(*one)
        held[one] -= 1
        held += Counter()
    assert most > 20 and buckets_of(finder) == [0]


def test_the_buckets_are_of_a_bounded_size() -> None:
    """A bucket is searched from its beginning for each add, so none may become long."""
    finder = PairFinder()
    for number in range(50_000):
        finder.add(b"order-%d" % number, number // 32)
    sizes = buckets_of(finder)
    # Those that were not split yet have twice the items of the others.
    assert max(sizes) < 80 and len(sizes) > 50_000 // 13
    # 31 bits are left for the number of a run.
    finder.add(b"last", (1 << 31) - 1)
    assert finder.runs_of(b"last") == [(1 << 31) - 1]
    finder.remove(b"last", (1 << 31) - 1)
    assert finder.runs_of(b"last") == []
