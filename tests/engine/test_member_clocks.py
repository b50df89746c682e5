"""The clocks of members: readings that count, regions that are apart, floors, deadlines (S10.2)."""

from __future__ import annotations

import pytest

from anabranch.crdt.gossip import Gossip, Heard, StartAnswer
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.lifecycle import SERVING, STARTING
from anabranch.region.engine.member_clocks import MemberClocks
from anabranch.region.engine.members import Member, Members
from anabranch.region.engine.replies import OK, ErrorReply, Reply
from anabranch.region.engine.state import EngineState
from tests.support.engine_cluster import Place

YEAR_MS = 365 * 24 * 3600 * 1000
NOW_MS = 1_000_000
LIMIT_MS = 500


class Region:
    """The clock of region 1 of some members, which leaps when the test says so."""

    def __init__(self, members: int = 3, kept_ms: int = NOW_MS) -> None:
        self.true_ms = NOW_MS
        self.leap_ms = 0
        self.clock = EngineClock(NOW_MS, lambda: self.true_ms)
        self.clock.distrust(kept_ms, LIMIT_MS)
        names = [Member(one, f"r{one}") for one in range(1, members + 1)]
        self.clocks = MemberClocks(self.clock, Members("test", 1, "r1", names))

    def passes(self, ms: int) -> None:
        self.true_ms += ms
        self.clock.read(self.true_ms + self.leap_ms)

    def leaps(self, ms: int) -> None:
        self.leap_ms = ms
        self.passes(1)

    def hears(self, *others: int, leap_ms: int = 0) -> None:
        """Others with right clocks, or with clocks that leapt. They see this region's clock."""
        for other in others:
            ahead_ms = self.leap_ms - leap_ms
            self.clocks.hear(other, self.true_ms + leap_ms, {1: ahead_ms})

    @property
    def counts_ms(self) -> int:
        """How far the time that counts is ahead of true time."""
        return self.clock.now_ms - self.true_ms


@pytest.mark.parametrize("leap_ms", [LIMIT_MS + 1, 3_600_000, 20 * YEAR_MS])
def test_a_leap_does_not_count(leap_ms: int) -> None:
    region = Region()
    region.hears(2, 3)
    region.passes(1000)
    region.leaps(leap_ms)
    assert region.counts_ms == 0 and region.clock.read_ms == region.true_ms + leap_ms
    region.passes(50)
    assert region.counts_ms == 0, "time goes on with steady time"
    region.leaps(0)
    assert region.counts_ms == 0


def test_no_part_of_a_leap_counts_after_starts() -> None:
    """Once, each start under a leap took the tolerance, and these added up."""
    kept_ms = NOW_MS
    for _ in range(5):
        region = Region(kept_ms=kept_ms)
        region.hears(2, 3)
        region.leaps(YEAR_MS)
        kept_ms = region.clock.now_ms
    assert kept_ms <= NOW_MS + 5


def test_a_small_difference_counts() -> None:
    region = Region()
    region.leaps(LIMIT_MS)
    assert region.counts_ms == LIMIT_MS


def test_a_leap_that_the_others_made_counts() -> None:
    """All clocks were set, or the machine slept: steady time did not go on."""
    region = Region()
    region.hears(2, 3)
    region.leaps(3_600_000)
    assert region.counts_ms == 0
    region.hears(2, leap_ms=3_600_000)
    assert region.counts_ms == 3_600_000, "with this region, most clocks agree"


def test_a_start_takes_the_time_that_a_member_confirms() -> None:
    """The region was down for an hour."""
    region = Region(kept_ms=NOW_MS - 3_600_000)
    region.passes(1)
    assert region.counts_ms == -3_600_000 and not region.clock.is_confirmed
    region.hears(2)
    assert region.counts_ms == 0 and region.clock.is_confirmed


def test_a_region_is_apart_from_most_others() -> None:
    region = Region()
    region.hears(2, 3)
    assert region.clocks.problem(False) == ""
    region.leaps(3_600_000)
    assert region.clocks.problem(False) == "3600.0 s ahead of r2, r3"
    region.leaps(-3_600_000)
    assert region.clocks.problem(False) == "3600.0 s behind r2, r3"
    region.leaps(LIMIT_MS)
    assert region.clocks.problem(False) == ""


def test_one_wrong_clock_of_three_makes_no_other_region_apart() -> None:
    region = Region()
    region.hears(2)
    region.hears(3, leap_ms=YEAR_MS)
    assert region.clocks.problem(False) == "" == region.clocks.problem(True)


def test_a_slow_link_makes_no_region_apart() -> None:
    """A message that travels for ten seconds says little, and what it says is true."""
    region = Region()
    for other in (2, 3):
        region.clocks.hear(other, region.true_ms - 10_000, {1: -10_000})
    assert region.clocks.problem(False) == ""
    region.clock.confirm()
    assert region.clocks.problem(True) == ""


def test_of_two_clocks_nobody_knows_which_is_wrong() -> None:
    region = Region(members=2)
    region.leaps(3_600_000)
    region.hears(2)
    assert region.clocks.problem(False) == ""
    assert region.clocks.problem(True) == "3600.0 s ahead of r2"
    region.clocks.trust()
    assert region.clocks.problem(True) == "" and region.counts_ms == 3_600_000
    region.leaps(YEAR_MS)
    assert region.clocks.problem(True) != "", "the word was about another reading"


def test_a_region_that_is_reset_goes_on_from_its_clock() -> None:
    region = Region()
    region.leaps(YEAR_MS)
    region.clock.confirm()
    assert region.counts_ms == YEAR_MS
    region.leaps(0)
    assert region.counts_ms > YEAR_MS - 10, "it never runs back by itself"
    region.clock.reset()
    assert region.counts_ms == 0
    region.leaps(YEAR_MS)
    assert region.counts_ms == 0, "a later leap counts as little as an earlier one"


# -- the engine


class Engines:
    """Region 1 of three, starting, on a machine whose clock leaps when the test says so."""

    def __init__(self) -> None:
        self.true_ms = NOW_MS
        self.leap_ms = 0
        self.place = Place(1, 3, NOW_MS, 100_000, lambda: self.true_ms)
        self.state.clock.distrust(NOW_MS, LIMIT_MS)

    @property
    def state(self) -> EngineState:
        return self.place.engine.state

    def __call__(self, *words: object) -> Reply:
        return self.place(*words)

    def passes(self, ms: int) -> None:
        self.true_ms += ms
        self.place.at(self.true_ms + self.leap_ms)

    def leaps(self, ms: int) -> None:
        self.leap_ms = ms
        self.passes(1)

    def hears(self, *others: int, leap_ms: int = 0) -> None:
        """Heartbeats of members whose clocks are right, or leapt."""
        for other in others:
            read_ms = self.true_ms + leap_ms
            ahead = {1: self.leap_ms - leap_ms}
            beat = Heard(other, 7, True, {}, read_ms, False, (), read_ms, ahead)
            self.place.engine.peers.hear(Gossip([beat], [], []), self.place.now_ms)
        self.passes(1)

    def answers(self, peer: int, clock_ms: int) -> None:
        """A member answers the start. Its machine's clock is right."""
        question = self.place.engine.peers.start_question()
        number = 1 if question is None else question.number
        told = StartAnswer(number, 7, {}, clock_ms, {}, {}, self.true_ms)
        self.place.engine.peers.start_answered(peer, told, self.place.now_ms)


def serving() -> Engines:
    us = Engines()
    us.hears(2, 3)
    for peer in (2, 3):
        us.answers(peer, NOW_MS)
    assert us.state.lifecycle.state == SERVING
    return us


def test_a_region_that_is_apart_takes_no_writes() -> None:
    us = serving()
    assert isinstance(us("XADD", "k", "*", "f", "v"), bytes)
    us.hears(2, 3, leap_ms=3_600_000)
    refused = us("XADD", "k", "*", "f", "v")
    assert isinstance(refused, ErrorReply)
    assert refused.message.startswith(
        "READONLY region us takes no writes: its clock is 3600.0 s behind eu, ap"
    )
    assert us("XLEN", "k") == 1 and us.state.lifecycle.shown == "apart"
    us.hears(2, 3)
    assert isinstance(us("XADD", "k", "*", "f", "v"), bytes)


def test_a_start_waits_for_a_clock_that_is_right() -> None:
    us = Engines()
    us.leaps(YEAR_MS)
    us.hears(2, 3)
    for peer in (2, 3):
        us.answers(peer, NOW_MS)
    assert us.state.lifecycle.state == STARTING
    refused = us("XADD", "k", "*", "f", "v")
    assert isinstance(refused, ErrorReply) and "its clock is" in refused.message
    assert us("CRDT.CLOCK", "TRUST") == OK
    us.passes(1)
    assert us.state.lifecycle.state == SERVING


def test_a_far_clock_raises_no_floor() -> None:
    """T5: one answer with a clock of 2046 raised the floor of IDs for ever."""
    us = Engines()
    us.hears(2, 3)
    us.answers(2, NOW_MS + 20 * YEAR_MS)
    us.answers(3, NOW_MS + 100)
    assert us.state.stability.time.id_floor_ms == NOW_MS + 100


def test_false_clocks_do_not_pile_up() -> None:
    us = Engines()
    us.hears(2, 3)
    for number in range(1000):
        us.answers(2, NOW_MS + YEAR_MS + number)
    kept = us.state.peers.clocks.far_floors
    assert len(kept) <= 64 and max(kept) < NOW_MS + YEAR_MS + 100, "the lowest may be true"


def test_a_floor_counts_once_a_slow_clock_is_right() -> None:
    """An answer looked far ahead only because this region's clock was behind."""
    us = Engines()
    us.leaps(-3_600_000)
    us.hears(2, 3)
    us.answers(2, NOW_MS + 7)
    assert us.state.stability.time.id_floor_ms == 0
    us.leaps(0)
    us.hears(2, 3)
    assert us.state.stability.time.id_floor_ms == NOW_MS + 7


def test_no_region_removes_a_key_by_its_own_clock_alone() -> None:
    """T20: a region ahead removed keys with deadlines from all regions at once."""
    us = serving()
    us("XADD", "k", "*", "f", "v")
    us("PEXPIRE", "k", 1000)
    us.leaps(3_600_000)
    assert us("CRDT.CLOCK", "TRUST") == OK, "the operator errs"
    us.passes(1)
    us.passes(500)
    assert us("XLEN", "k") == 0, "it is hidden here"
    held = us.state.keyspace.keys[b"k"]
    assert held.length() == 1, "and not removed"
    us.passes(1000)
    us.passes(500)
    assert held.length() == 0, "the others' clocks are past the deadline by now"


def test_a_reset_brings_hidden_keys_back() -> None:
    us = serving()
    us("XADD", "k", "*", "f", "v")
    us("PEXPIRE", "k", 3_600_000)
    us.leaps(YEAR_MS)
    us.state.clock.confirm()
    us.passes(1)
    assert us("XLEN", "k") == 0
    life = us.place.engine.life
    us.leaps(0)
    assert us("XLEN", "k") == 0, "time does not run back by itself"
    assert us("CRDT.CLOCK", "RESET") == OK
    us.passes(1)
    assert us("XLEN", "k") == 1 and us.place.engine.life > life
    assert us.state.disk.clock_ms <= us.true_ms
    us.passes(3_600_000)
    assert us("XLEN", "k") == 0, "its deadline passes in time"


def test_a_reset_needs_a_clock_that_is_right() -> None:
    us = serving()
    us.leaps(YEAR_MS)
    refused = us("CRDT.CLOCK", "RESET")
    assert isinstance(refused, ErrorReply) and "set it right first" in refused.message
