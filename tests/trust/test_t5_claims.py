"""T5 and T6: what a stranger, a broken member or one with a wrong clock says harms for a moment."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from anabranch.crdt.block import Block
from anabranch.crdt.gossip import (
    Gossip,
    Heard,
    RecoveryAnswer,
    RecoveryQuestion,
    StartAnswer,
    StartQuestion,
)
from anabranch.region.engine.clock import SteadyClock
from anabranch.region.engine.settings import Settings
from anabranch.sync.session import messages as m
from anabranch.sync.session.claims import COUNTER_MAX, LIFE_AHEAD_MAX_MS
from anabranch.sync.session.hub import Hub
from anabranch.sync.session.links import OtherEnd
from anabranch.sync.session.refusal_log import WINDOW_MS
from tests.driver.regions import mesh
from tests.sync.fakes import NAMES, FakeEngine

NOW_MS = 1_700_000_000_000
TABLE = {1: NAMES[1], 2: NAMES[2], 3: NAMES[3]}
FAR = NOW_MS + LIFE_AHEAD_MAX_MS + 1
NEWEST = 2**63 - 1


class Us:
    """The region us with links to and from eu, and to ap. It has issued three effects.

    `is_sure`: every member has answered its start.
    """

    def __init__(self, is_sure: bool = True) -> None:
        self.engine = FakeEngine(1, TABLE, life=NOW_MS - 1000)
        self.engine.holds_all_own = is_sure
        for _ in range(3):
            self.engine.write("mine")
        self.engine.commit()
        self.hub = Hub(self.engine, Settings(), [2, 3], self.engine.log.tail, SteadyClock(NOW_MS))
        self.now_ms = NOW_MS
        self.from_eu = self.accept(2)
        self.to_eu = self.dial(2)
        self.to_ap = 0
        self.hub.take_work()

    def accept(self, peer: int, life: int = 5, vector: Optional[dict[int, int]] = None) -> int:
        number = self.hub.accepted(self.now_ms, OtherEnd("10.9.9.9:5000"))
        hello = m.Hello(
            *(m.VERSION, "c", TABLE, peer, NAMES[peer], 1, life, vector or {}, {}, frozenset()),
            1 << 20,
        )
        self.hub.received(number, hello, self.now_ms)
        return number

    def dial(self, peer: int, life: int = 5, vector: Optional[dict[int, int]] = None) -> int:
        number = self.hub.dial_opened(peer, self.now_ms, OtherEnd(f"{NAMES[peer]}.example:7102"))
        assert number is not None
        welcome = m.Welcome(m.VERSION, "c", TABLE, peer, NAMES[peer], life, vector or {}, {})
        self.hub.received(number, welcome, self.now_ms)
        return number

    def hears(self, number: int, message: Any) -> None:
        self.hub.received(number, message, self.now_ms)

    def gossip(self, *heard: Heard) -> None:
        """eu passes these statements on."""
        self.hears(self.from_eu, m.VectorAcknowledgement({}, frozenset(), Gossip([*heard], [], [])))

    def refusal(self, number: int) -> str:
        """The text with which a connection was refused; empty if it goes on."""
        said = []
        while (message := self.hub.next_message(number)) is not None:
            said.append(message)
        assert self.hub.finished(number) == any(isinstance(one, m.Refusal) for one in said)
        return "".join(one.text for one in said if isinstance(one, m.Refusal))

    def told(self) -> list[str]:
        """The events since the last call that tell of refusals and of claims left out."""
        return [
            event.text
            for event in self.hub.take_work().events
            if event.name in ("claim_ignored", "link_refused")
        ]


# -- lives


@pytest.mark.parametrize("life", [FAR, NEWEST])
def test_t5_a_life_more_than_a_day_ahead_is_refused(life: int) -> None:
    """A Hello in the life 2^63-1 kept the real peer out for ever: none of its lives was later."""
    us = Us()
    number = us.accept(3, life)
    assert "ahead of the clock of us; at most a day is taken" in us.refusal(number)
    assert 3 not in us.engine.lives, "nothing is stored"
    assert any("ap says that its life is" in text for text in us.told())
    assert not us.refusal(us.accept(3, 7)), "the real one gets in"


def test_t5_a_life_of_a_day_ahead_is_taken() -> None:
    """A clock may be wrong by some hours."""
    us = Us()
    assert not us.refusal(us.accept(3, FAR - 1))
    assert us.engine.lives[3] == FAR - 1


def test_t6_a_welcome_in_a_life_far_ahead_is_refused() -> None:
    us = Us()
    assert "at most a day is taken" in us.refusal(us.dial(3, NEWEST))
    assert 3 not in us.engine.lives
    assert us.engine.states[3][0] == "refused"


@pytest.mark.parametrize(
    "message",
    [
        StartQuestion(1, {2: NEWEST}),
        StartAnswer(1, NEWEST, {}, NOW_MS, {}),
        m.VectorAcknowledgement({}, frozenset(), Gossip([Heard(2, FAR, True, {}, 0)], [], [])),
    ],
    ids=lambda message: type(message).__name__,
)
def test_t5_a_peer_that_says_so_of_itself_later_is_refused(message: Any) -> None:
    us = Us()
    us.hears(us.from_eu, message)
    assert "at most a day is taken" in us.refusal(us.from_eu)
    assert us.engine.lives[2] == 5 and not us.engine.start_answers


def test_t5_a_refusal_that_names_a_far_life_of_this_region_does_not_count() -> None:
    """One message took the last number of lives, and 2^63 is malformed for all others."""
    us = Us()
    us.hears(us.to_eu, m.Refusal("superseded", "no", NEWEST))
    assert us.engine.region_id not in us.engine.lives
    assert any("us has a life 9223372036854775807" in text for text in us.told())


def test_t5_third_regions_lives_far_ahead_are_left_out() -> None:
    us = Us()
    us.gossip(Heard(3, FAR, True, {}, 0), Heard(1, FAR, True, {}, 0))
    us.hears(us.from_eu, StartQuestion(1, {2: 5, 3: FAR, 1: FAR}))
    us.hears(us.from_eu, StartAnswer(1, 5, {}, NOW_MS, {}, {3: FAR, 1: FAR}))
    question = RecoveryQuestion(3, 6, 1, FAR, {})
    other = RecoveryQuestion(3, 6, 1, 6, {1: FAR})
    answers = [RecoveryAnswer(1, 6, 1, 3, {}, FAR, NOW_MS), RecoveryAnswer(1, 6, 1, 3, {}, 0, 0)]
    answers[1].lives = {3: FAR}
    gossip = Gossip([], [question, other], answers)
    us.hears(us.from_eu, m.VectorAcknowledgement({}, frozenset(), gossip))
    assert us.engine.lives == {2: 5}
    assert us.engine.start_answers[0][1].lives == {}
    assert not us.refusal(us.from_eu), "eu may only pass on what it was told"
    assert us.told()


# -- vectors


def test_t5_a_vector_that_claims_more_of_this_region_than_it_issued_is_refused() -> None:
    """Nine such vectors a second kept a region in recovery: two thirds of its writes failed."""
    us = Us()
    us.hears(us.from_eu, m.VectorAcknowledgement({1: 3}, frozenset()))
    assert us.engine.peer_acks[2] == {1: 3}
    us.hears(us.from_eu, m.VectorAcknowledgement({1: 4}, frozenset()))
    assert "eu claims to hold 4 effects of us, which has issued 3" in us.refusal(us.from_eu)
    assert us.engine.peer_acks[2] == {1: 3}


def test_t6_the_same_on_a_link_that_this_region_dialled() -> None:
    for message in (m.Heartbeat({1: 4}, b""), m.HoldingBack(True, {1: 4})):
        us = Us()
        us.hears(us.to_eu, message)
        assert "which has issued 3" in us.refusal(us.to_eu)


def test_t5_the_same_in_a_greeting() -> None:
    us = Us()
    assert "which has issued 3" in us.refusal(us.accept(3, 7, {1: 4}))
    assert "which has issued 3" in us.refusal(us.dial(3, 7, {1: 4}))
    assert 3 not in us.engine.peers_hold and 3 not in us.engine.lives


def test_t5_a_region_whose_start_was_not_answered_by_all_believes_it() -> None:
    """S13.7: it may have been put back to a backup, and a peer then holds what it lost."""
    us = Us(is_sure=False)
    us.hears(us.from_eu, m.VectorAcknowledgement({1: 4}, frozenset()))
    assert not us.refusal(us.from_eu) and us.engine.peer_acks[2] == {1: 4}


def test_t6_a_block_in_this_regions_name_is_refused() -> None:
    us = Us()
    block = Block(1, 4, 4, b'{"deps": {}, "payload": "x"}', bytes(16))
    us.hears(us.to_eu, m.Batch([block]))
    us.hub.merge_some(1000, us.now_ms)
    assert "which has issued 3" in us.refusal(us.to_eu)
    assert us.engine.vector == {1: 3}


def test_t5_counters_that_no_region_reaches_are_refused() -> None:
    """A recovery waits for ever for effects that nobody has ever issued."""
    us = Us(is_sure=False)
    us.hears(us.from_eu, m.VectorAcknowledgement({3: COUNTER_MAX}, frozenset()))
    us.hears(us.from_eu, StartAnswer(1, 5, {1: COUNTER_MAX + 1}, NOW_MS, {}))
    assert "no region issues more than 2^52" in us.refusal(us.from_eu)
    assert not us.engine.start_answers


# -- gossip


def test_t5_a_third_regions_vector_does_not_count_while_that_region_speaks_here() -> None:
    """One false statement of ap, told to two regions, collected a tombstone that ap needed."""
    us = Us()
    us.to_ap = us.dial(3)
    us.gossip(Heard(3, 5, True, {2: 9}, NOW_MS))
    assert 3 not in us.engine.heard
    us.hears(us.to_ap, m.Heartbeat({}, b"", Gossip([Heard(3, 5, True, {2: 1}, NOW_MS)], [], [])))
    assert us.engine.heard[3].vector == {2: 1}, "its own word counts"


def test_t5_a_third_regions_later_life_counts_on_whatever_way_it_comes() -> None:
    """S1.3. What is said of that life's vector does not."""
    us = Us()
    us.to_ap = us.dial(3)
    us.gossip(Heard(3, 6, True, {2: 9}, NOW_MS))
    heard = us.engine.heard[3]
    assert (heard.life, heard.counts, heard.vector) == (6, False, {})


def test_t5_a_third_region_that_does_not_speak_here_is_heard_of_through_others() -> None:
    """S6.2: lines and rings collect, too."""
    us = Us()
    us.gossip(Heard(3, 5, True, {2: 9}, NOW_MS))
    assert us.engine.heard[3].vector == {2: 9}
    ring = Us()
    ring.to_ap = ring.dial(3)
    ring.now_ms += 2000
    ring.gossip(Heard(3, 5, True, {2: 9}, NOW_MS))
    assert ring.engine.heard[3].vector == {2: 9}, "ap has said nothing for ten heartbeats"


def test_t5_claims_about_this_region_that_are_passed_on_are_left_out() -> None:
    us = Us()
    us.gossip(Heard(3, 5, True, {1: 4}, NOW_MS))
    assert 3 not in us.engine.heard and not us.refusal(us.from_eu)
    (text,) = us.told()
    assert "ap claims to hold 4 effects of us, which has issued 3" in text


def test_t5_a_flood_of_false_claims_is_few_lines() -> None:
    us = Us()
    for number in range(100):
        us.gossip(Heard(3, FAR + number, True, {}, 0))
    assert len(us.told()) == 3


def test_t5_the_number_of_false_claims_that_were_no_lines_is_told_after_a_while() -> None:
    us = Us()
    for number in range(100):
        us.gossip(Heard(3, FAR + number, True, {}, 0))
    us.told()
    us.now_ms += WINDOW_MS
    us.gossip(Heard(3, NEWEST, True, {}, 0))
    first, second = [one for one in us.hub.take_work().events if one.name == "claim_ignored"]
    assert first.fields["count"] == 97 and f"has a life {FAR + 99}," in first.text
    assert "count" not in second.fields and f"has a life {NEWEST}," in second.text


# -- a whole region


def test_t5_a_start_that_all_have_answered_knows_all_effects_of_its_region() -> None:
    net, (us, eu) = mesh("us", "eu")
    assert us.driver.engine.peers.holds_all_own and eu.driver.engine.peers.holds_all_own
    us.driver.engine.peers.state.lifecycle.enter_recovery()
    assert not us.driver.engine.peers.holds_all_own
    net.run(2000)
    assert us.driver.engine.peers.state.lifecycle.state == "serving"
    assert us.driver.engine.peers.holds_all_own, "a recovery is left when all have answered"


def test_t5_a_start_that_patience_ended_does_not() -> None:
    net, (us, _) = mesh("us", "eu")
    net.cut()
    us.restart()
    assert not us.driver.engine.peers.holds_all_own
    net.run(5000)
    assert us.driver.engine.peers.state.lifecycle.state == "serving"
    assert not us.driver.engine.peers.holds_all_own
