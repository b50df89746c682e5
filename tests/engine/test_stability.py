"""Knowledge of the other regions (S6.2), beside a naive model, and gossip (S1.3, S13.7)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt.gossip import Heard
from anabranch.crdt.vector import Vector
from anabranch.region.engine.stability import Stability

OTHERS = [2, 3]


class NaiveStability:
    """Everything heard is kept; what counts is looked for each time."""

    def __init__(self) -> None:
        self.said: dict[int, list[Heard]] = {2: [], 3: []}
        self.counting: dict[int, list[Heard]] = {2: [], 3: []}

    def newest_life(self, region_id: int) -> int:
        return max((heard.life for heard in self.said[region_id]), default=-1)

    def hear(self, heard: Heard) -> None:
        if heard.life > self.newest_life(heard.region_id):
            self.said[heard.region_id] = []
            self.counting[heard.region_id] = []
        if heard.life >= self.newest_life(heard.region_id):
            self.said[heard.region_id].append(heard)

    def count(self, applied: Vector) -> None:
        for region_id, said in self.said.items():
            self.counting[region_id] += [
                heard
                for heard in said
                if heard.counts and heard.vector.get(region_id, 0) <= applied.get(region_id, 0)
            ]

    def vector(self, heard: list[Heard]) -> Vector:
        return {
            region_id: top
            for region_id in (1, 2, 3)
            if (top := max([one.vector.get(region_id, 0) for one in heard], default=0))
        }


# (region, its next statement, which of all statements so far arrives, effects applied here since)
vectors = st.dictionaries(st.integers(1, 3), st.integers(1, 3), max_size=2)
steps_ = st.tuples(
    st.sampled_from(OTHERS),
    st.sampled_from(["more", "more", "counts", "life"]),
    vectors,
    st.integers(0, 30),
    vectors,
)


class Speaker:
    """A region: in one life its vector and clock only grow, and once it counts it counts on."""

    def __init__(self, region_id: int) -> None:
        self.now = Heard(region_id, 1, False, {}, 0)

    def say(self, what: str, more: Vector) -> Heard:
        now = self.now
        if what == "life":
            self.now = Heard(now.region_id, now.life + 1, False, {1: 1}, now.clock_ms)
        else:
            vector = {
                region_id: now.vector.get(region_id, 0) + more.get(region_id, 0)
                for region_id in sorted({**now.vector, **more})
            }
            self.now = Heard(
                now.region_id,
                now.life,
                now.counts or what == "counts",
                vector,
                now.clock_ms + len(more),
            )
        return self.now


@settings(max_examples=300)
@given(st.lists(steps_, max_size=14))
def test_stability_is_what_was_heard(steps: list[tuple[int, str, Vector, int, Vector]]) -> None:
    """Statements arrive in any order, and more than once.

    The vectors that count never exceed those of the naive model. Once everything is applied, they
    all count.
    """
    stability, naive = Stability(), NaiveStability()
    applied: Vector = {}
    speakers = {region_id: Speaker(region_id) for region_id in OTHERS}
    said: list[Heard] = []
    for speaker, what, grown, which, more in steps:
        said.append(speakers[speaker].say(what, grown))
        heard = said[which % len(said)]
        stability.hear(heard)
        naive.hear(heard)
        for region_id, counter in more.items():
            applied[region_id] = max(applied.get(region_id, 0), counter)
        stability.count(applied)
        naive.count(applied)
        for region_id in OTHERS:
            known = naive.said[region_id]
            newest = stability.newest(region_id)
            assert (newest is None) == (not known)
            if newest is not None:
                assert newest.life == naive.newest_life(region_id)
                assert newest.vector == naive.vector(known)
                assert newest.clock_ms == max(one.clock_ms for one in known)
                assert newest.counts == any(one.counts for one in known)
            counted, limit = (
                stability.counted.get(region_id, {}),
                naive.vector(naive.counting[region_id]),
            )
            assert all(counter <= limit.get(origin, 0) for origin, counter in counted.items())
            assert stability.clocks_ms.get(region_id, 0) <= max(
                [one.clock_ms for one in naive.counting[region_id]], default=0
            )
    everything = {1: 42, 2: 42, 3: 42}  # 14 steps of at most 3 each
    stability.count(everything)
    naive.count(everything)
    for region_id in OTHERS:
        for heard in [one for one in naive.said[region_id] if one.counts]:
            assert all(
                stability.counted[region_id].get(origin, 0) >= counter
                for origin, counter in heard.vector.items()
            )
            assert stability.clocks_ms[region_id] >= heard.clock_ms
    own = {1: 3, 2: 2, 3: 1}
    stable = stability.stable(OTHERS, own)
    for origin in (1, 2, 3):
        held = [own, *(stability.counted.get(region_id, {}) for region_id in OTHERS)]
        least = min(vector.get(origin, 0) for vector in held)
        assert stable.get(origin, 0) == least
        for counter in range(1, 6):
            assert stability.all_hold(OTHERS, origin, counter) == all(
                vector.get(origin, 0) >= counter for vector in held[1:]
            )
    for at_ms in range(10):
        assert stability.all_clocks_past(OTHERS, at_ms) == all(
            stability.clocks_ms.get(region_id, 0) > at_ms for region_id in OTHERS
        )


def test_news_is_told_from_what_is_known() -> None:
    stability = Stability()
    assert stability.hear(Heard(2, 5, False, {1: 3}, 10))
    assert not stability.hear(Heard(2, 5, False, {1: 3}, 10))
    assert not stability.hear(Heard(2, 5, False, {1: 2}, 9)), "older"
    assert not stability.hear(Heard(2, 4, True, {1: 9}, 99)), "of a life that is over"
    assert stability.hear(Heard(2, 5, False, {1: 3}, 11)), "a later clock"
    assert stability.hear(Heard(2, 5, True, {1: 3}, 11)), "it counts now"
    assert stability.hear(Heard(2, 5, True, {1: 3, 3: 1}, 11)), "a region more"
    assert stability.hear(Heard(2, 6, False, {}, 0)), "a higher life"
    newest = stability.newest(2)
    assert newest is not None and (newest.life, newest.vector, newest.clock_ms, newest.counts) == (
        6,
        {},
        0,
        False,
    )
    assert stability.newest(3) is None


def test_a_higher_life_throws_away_what_counted() -> None:
    """S6.2: it may claim what a restore lost, and would stop collection for good."""
    stability = Stability()
    stability.hear(Heard(2, 5, True, {1: 3, 2: 4}, 10))
    stability.count({2: 4})
    assert stability.stable([2], {1: 9, 2: 9}) == {1: 3, 2: 4}
    stability.hear(Heard(2, 6, False, {1: 1, 2: 2}, 20))
    stability.count({2: 4})
    assert stability.stable([2], {1: 9, 2: 9}) == {} and not stability.all_clocks_past([2], 5)
    stability.hear(Heard(2, 6, True, {1: 1, 2: 2}, 20))
    stability.count({2: 4})
    assert stability.stable([2], {1: 9, 2: 9}) == {1: 1, 2: 2} and stability.all_clocks_past(
        [2], 19
    )


def test_what_counts_replaces_what_does_not_count() -> None:
    """A region in recovery was put back to a backup, and its next life had the same number.

    What it had told in recovery covered what it then counted with, which therefore seemed to be
    known, and counted only once there was traffic again (seed 50000732 with `--restores`).
    """
    stability = Stability()
    stability.hear(Heard(2, 5, False, {1: 4, 2: 1}, 10))
    stability.hear(Heard(2, 5, True, {1: 3, 2: 1}, 10))
    stability.count({2: 1})
    assert stability.stable([2], {1: 9, 2: 9}) == {1: 3, 2: 1}
    assert not stability.hear(Heard(2, 5, False, {1: 4, 2: 1}, 10)), "older"
    assert stability.hear(Heard(2, 5, True, {1: 4, 2: 1}, 10))
    stability.count({2: 1})
    assert stability.stable([2], {1: 9, 2: 9}) == {1: 4, 2: 1}


def test_a_lost_member_is_left_out_once_all_others_call_it_lost() -> None:
    """S13.8: until then they may get more from it. What they got must be applied here."""
    stability = Stability()
    for region_id in (2, 3):
        stability.hear(Heard(region_id, 5, True, {4: 1}, 10))
    stability.count({4: 1})
    assert stability.knows_what_lost_left([2, 3])
    stability.lost = [4]
    assert not stability.knows_what_lost_left([2, 3])
    assert stability.clock_that_counts(2) is None
    assert stability.hear(Heard(2, 5, True, {4: 1}, 10, lost=[4])), "it calls 4 lost now"
    assert stability.hear(Heard(3, 5, True, {4: 2}, 10, lost=[4]))
    stability.count({4: 1})
    assert stability.clock_that_counts(2) == 10
    assert not stability.knows_what_lost_left([2, 3]), "an effect of 4 is still to come from 3"
    stability.count({4: 2})
    assert stability.knows_what_lost_left([2, 3])
    newest = stability.newest(3)
    assert newest is not None and newest.lost == {4}, "gossip passes it on"
    stability.hear(Heard(3, 6, True, {4: 2}, 11))
    stability.count({4: 2})
    assert not stability.knows_what_lost_left([2, 3]), "a new life was not told"


def test_what_a_region_calls_lost_counts_with_the_effects_of_that_vector() -> None:
    """It was told before this region was, which applied its effects of the lost one later."""
    stability = Stability()
    stability.hear(Heard(2, 5, True, {4: 2}, 10, lost=[4]))
    stability.count({4: 1})
    stability.lost = [4]
    assert not stability.knows_what_lost_left([2])
    stability.count({4: 2})
    assert stability.knows_what_lost_left([2])


def test_what_waits_to_count_is_bounded_and_still_moves() -> None:
    stability = Stability()
    for counter in range(1, 100):
        stability.hear(Heard(2, 5, True, {2: counter, 1: counter}, counter))
    stability.count({2: 1})
    assert stability.stable([2], {1: 100, 2: 100}) == {1: 1, 2: 1}, (
        "the oldest is kept, so that something counts soon"
    )
    stability.count({2: 99})
    assert stability.stable([2], {1: 100, 2: 100}) == {1: 99, 2: 99}, "and the newest"
    assert not stability.all_clocks_past([2], 99) and stability.all_clocks_past([2], 98)
