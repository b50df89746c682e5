"""Lags in time: marks of counters, peers that fall behind, links that are gone, sync delays."""

from __future__ import annotations

import random

import pytest

from anabranch.crdt.gossip import Heard
from anabranch.region.engine.figures.shared import behind_ms, lag_ms
from anabranch.region.engine.lags import Lags, Marks, SyncDelays
from anabranch.region.engine.statistics import ReplicationStatistics
from tests.support.engine_cluster import Place, carry, cluster, sync, tell


def test_marks_say_since_when_a_counter_is_known() -> None:
    marks = Marks()
    assert marks.first_above(0) is None
    for counter, at_ms in [(3, 100), (5, 200), (5, 300), (4, 400), (9, 150), (9, 500)]:
        marks.note(counter, at_ms)
    assert [marks.first_above(held) for held in (0, 2, 3, 4, 5, 8, 9)] == [
        *(100, 100, 200, 200, 500, 500, None)
    ]
    marks.forget(5)
    assert len(marks) == 1 and marks.first_above(0) == 500


@pytest.mark.parametrize("seed", range(5))
def test_marks_are_bounded_and_stay_right(seed: int) -> None:
    """Beside the full list: old marks are coarser, the oldest and the newest are exact."""
    draw = random.Random(seed)
    marks, everything = Marks(), list[tuple[int, int]]()
    counter = at_ms = 0
    for _ in range(5000):
        counter += draw.randint(1, 9)
        at_ms += draw.randint(1, 300)
        marks.note(counter, at_ms)
        everything.append((counter, at_ms))
    assert len(marks) <= 512
    assert marks.first_above(0) == everything[0][1]
    for known, moment in everything[-200:]:
        assert marks.first_above(known - 1) == moment
    last = 0
    for known, moment in everything:
        found = marks.first_above(known - 1)
        assert found is not None and found >= max(moment, last)
        last = found


def test_a_peer_lags_by_the_age_of_what_it_lacks() -> None:
    lags = Lags()
    for n in range(10):
        lags.note_own(10 * n, 0, 1000 + 100 * n)
    # The peer holds 35: it lacks 36, which was on disk when the counter was 40.
    assert lags.peer_lag_ms(35, 2000) == 2000 - 1400
    assert lags.peer_lag_ms(90, 2000) == 0
    lags.note_own(90, 90, 2000)
    assert lags.peer_lag_ms(0, 3000) == 0


def test_a_link_that_is_gone_counts_as_a_lag() -> None:
    lags = Lags()
    lags.note_peer(2, True, 5, 5, 1000)
    assert lags.behind_ms(2, 0, 5, 1000) == 0
    assert lags.behind_ms(2, 250, 5, 1000) == 250
    for at_ms in range(1100, 2100, 100):
        lags.note_peer(2, False, 5, 5, at_ms)
    assert lags.behind_ms(2, 0, 5, 2000) == 1000
    lags.note_peer(2, True, 7, 5, 2100)
    assert lags.behind_ms(2, 0, 5, 2400) == 300
    lags.note_peer(2, True, 7, 7, 2500)
    assert lags.behind_ms(2, 0, 7, 2500) == 0
    assert lags.behind_ms(3, 0, 0, 2500) == 0


def test_a_peer_that_is_heard_through_others_is_not_behind() -> None:
    """In a full mesh with one link cut, a region that lacked nothing counted as ever more behind.

    So /ready named a lag that was none, and an alert paged. What the region cannot know still
    counts: whether a peer of which it hears nothing has nothing new.
    """
    lags = Lags()
    lags.note_peer(2, True, 5, 5, 1000)
    for n in range(1, 20):
        lags.note_peer(2, False, 5 + n, 5 + n, 1000 + 100 * n)
    assert lags.behind_ms(2, 0, 24, 2900) == 0
    lags.note_peer(2, False, 24, 24, 3000)
    assert lags.behind_ms(2, 0, 24, 3900) == 1000
    lags.note_peer(2, False, 30, 24, 4000)
    assert lags.behind_ms(2, 0, 24, 4200) == 200, "since it heard of the effects that it lacks"


def pass_time(place: Place, ms: int) -> None:
    """Ticks a region for so many ms."""
    for _ in range(ms // 50):
        place.now_ms += 50
        place.engine.tick(place.now_ms)


def test_the_lags_of_two_regions() -> None:
    us, eu = cluster(2)
    us.ok("XADD", "s", "*", "f", "1")
    sync(us, eu)
    us.engine.peers.links.is_in_state(2, "up", "")
    pass_time(us, 1000)
    tell(eu, us)
    pass_time(us, 200)
    assert (lag_ms(us.engine.state, 2), behind_ms(us.engine.state, 2)) == (0, 0)
    us.ok("XADD", "s", "*", "f", "2")
    us.commit()
    pass_time(us, 1000)
    assert 800 <= lag_ms(us.engine.state, 2) <= 1000
    carry(us, eu)
    tell(eu, us)
    assert lag_ms(us.engine.state, 2) == 0
    # An effect of eu that us has heard of, and does not have.
    eu.ok("XADD", "s", "*", "f", "3")
    eu.commit()
    tell(eu, us)
    pass_time(us, 700)
    assert 500 <= behind_ms(us.engine.state, 2) <= 700
    carry(eu, us)
    assert behind_ms(us.engine.state, 2) == 0
    us.engine.peers.links.is_in_state(2, "connecting", "lost")
    pass_time(us, 2000)
    assert 1800 <= behind_ms(us.engine.state, 2) <= 2100
    us.ok("CRDT.MEMBER", "LOST", "eu")
    assert (lag_ms(us.engine.state, 2), behind_ms(us.engine.state, 2)) == (0, 0)


def test_sync_delays_are_measured_from_disk_to_disk() -> None:
    statistics = ReplicationStatistics()
    delays = SyncDelays()

    def stated(counter: int, clock_ms: int) -> None:
        delays.stated(Heard(2, 1, True, {2: counter}, clock_ms), statistics)

    stated(5, 500)  # The first statement says nothing: the effects may be old.
    delays.committed({1: 1, 2: 5}, 1, 1000, statistics)
    assert statistics.sync_delays == {}
    delays.committed({1: 1, 2: 8}, 1, 1200, statistics)
    delays.committed({1: 1, 2: 9}, 1, 1300, statistics)
    stated(8, 1150)  # It was on this disk at 1200 already.
    stated(8, 1250)  # Nothing new.
    stated(12, 1400)
    stated(14, 1450)
    assert statistics.sync_delays[2].count == 1 and statistics.sync_delays[2].sum_us == 50_000
    delays.committed({2: 13}, 1, 1600, statistics)
    assert statistics.sync_delays[2].count == 2
    delays.committed({2: 14}, 1, 1700, statistics)
    histogram = statistics.sync_delays[2]
    assert (histogram.count, histogram.sum_us) == (3, 50_000 + 200_000 + 250_000)
    # The clock of the other region is ahead: a delay is never negative.
    stated(15, 9000)
    delays.committed({2: 15}, 1, 1800, statistics)
    assert (histogram.count, histogram.sum_us) == (4, 500_000)
    # Statements that wait are bounded.
    for counter in range(20, 1000):
        stated(counter, 2000)
    delays.committed({2: 1000}, 1, 3000, statistics)
    assert histogram.count == 4 + 64
