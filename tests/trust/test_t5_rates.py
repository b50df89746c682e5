"""T5 and T6: a peer that asks in a loop is refused, and an honest one never is."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.sync.session import messages as m
from anabranch.sync.session.question_rates import QuestionRates
from tests.trust.test_t5_claims import NOW_MS, Us

ASKED = [
    (StartQuestion(1, {2: 5}), 100, 100),
    (StartAnswer(1, 5, {}, NOW_MS, {}), 100, 100),
    (m.SnapshotRequest(1), 10, 2000),
    (m.VectorAcknowledgement({}, frozenset()), 10_000, 1),
]


def name(value: Any) -> str:
    return type(value).__name__


@pytest.mark.parametrize(("message", "at_once", "interval_ms"), ASKED, ids=name)
def test_t5_a_peer_that_asks_in_a_loop_is_refused(
    message: Any, at_once: int, interval_ms: int
) -> None:
    """Each answer to a start needs a commit, and each snapshot a cut of all data."""
    us = Us()
    for _ in range(at_once):
        us.hears(us.from_eu, message)
    assert not us.refusal(us.from_eu)
    us.hears(us.from_eu, message)
    assert "too many " in us.refusal(us.from_eu)
    # The real eu, or eu after its mistake, gets in again.
    us.now_ms += 60_000
    again = us.accept(2)
    us.hears(again, message)
    assert not us.refusal(again)


@pytest.mark.parametrize(("message", "at_once", "interval_ms"), ASKED, ids=name)
def test_t6_a_peer_that_asks_now_and_then_goes_on(
    message: Any, at_once: int, interval_ms: int
) -> None:
    rates = QuestionRates()
    for number in range(10 * at_once):
        rates.count(2, message, number * interval_ms)


@pytest.mark.parametrize(
    ("message", "at_once"),
    [(m.Heartbeat({}, b""), 5000), (m.HoldingBack(True, {}), 1000)],
    ids=name,
)
def test_t6_the_same_on_a_link_that_this_region_dialled(message: Any, at_once: int) -> None:
    us = Us()
    for _ in range(at_once):
        us.hears(us.to_eu, message)
    assert not us.refusal(us.to_eu)
    us.hears(us.to_eu, message)
    assert "too many " in us.refusal(us.to_eu)
