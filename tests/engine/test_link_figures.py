"""Figures of links: members that are lost or not dialled, traffic by peer, clocks of peers."""

from __future__ import annotations

import pytest

from tests.engine.test_figures import metrics
from tests.support.engine_cluster import carry, cluster, sync, tell

OF_LINKS = (
    *("link_up", "link_receives", "peer_lag_effects", "behind_effects"),
    *("peer_lag_seconds", "behind_seconds", "peer_clock_ahead_seconds"),
)


def test_a_line_of_regions_has_no_link_that_is_down() -> None:
    """A link that was never dialled was shown as down, and an alert fired for ever."""
    us, _eu, _ap = cluster(3)
    us.engine.peers.links.is_in_state(2, "connecting", "")
    assert metrics(us, "link_up") == {("eu",): 0}
    us.engine.peers.links.is_in_state(2, "up", "")
    assert metrics(us, "link_up") == {("eu",): 1}
    us.ok("CRDT.LINK", "eu", "DOWN")
    assert metrics(us, "link_up") == {("eu",): 0}


@pytest.mark.parametrize("name", OF_LINKS)
def test_a_lost_member_has_no_link_and_no_lag(name: str) -> None:
    """Its link was shown as down and its lag grew, although nobody waits for it any more."""
    us, eu, ap = cluster(3)
    us.ok("XADD", "s", "*", "f", "1")
    sync(us, eu, ap)
    for peer in (2, 3):
        us.engine.peers.links.is_in_state(peer, "up", "")
    assert metrics(us, name).keys() == {("eu",), ("ap",)}
    us.ok("CRDT.MEMBER", "LOST", "ap")
    assert metrics(us, name).keys() == {("eu",)}


def test_a_delayed_link_is_behind_by_its_delay() -> None:
    us, eu = cluster(2)
    eu.ok("XADD", "s", "*", "f", "1")
    sync(us, eu)
    us.engine.peers.links.is_in_state(2, "up", "")
    us.ok("CRDT.LINK", "eu", "DELAY", "5000")
    assert metrics(us, "behind_seconds") == {("eu",): 5.0}


def test_traffic_is_counted_by_peer_and_direction() -> None:
    us, _eu, _ap = cluster(3)
    us.engine.peers.links.message_sent(2, 100)
    us.engine.peers.links.message_sent(2, 20)
    us.engine.peers.links.message_received(3, 7)
    us.engine.peers.links.message_sent(99, 1)  # No member.
    nothing = {(peer, way): 0.0 for peer in ("eu", "ap") for way in ("sent", "received")}
    expected = {("eu", "sent"): 120.0, ("ap", "received"): 7.0}
    assert metrics(us, "sync_bytes_total") == {**nothing, **expected}
    counts = {("eu", "sent"): 2.0, ("ap", "received"): 1.0}
    assert metrics(us, "sync_messages_total") == {**nothing, **counts}
    us.ok("CONFIG", "RESETSTAT")
    assert metrics(us, "sync_bytes_total") == nothing


def test_a_round_ends_when_further_effects_are_reported() -> None:
    us, eu = cluster(2)
    for _ in range(4):
        us.ok("XADD", "s", "*", "f", "1")
    for vector in ({1: 3}, {1: 3}, {1: 3, 2: 9}, {1: 4, 2: 9}):
        us.engine.peers.acknowledged(2, vector, us.now_ms)
    assert metrics(us, "sync_rounds_total")["eu", "sent"] == 2, "its own effects do not count"
    us.ok("XADD", "s", "*", "f", "1")
    carry(us, eu)
    for _ in range(2):
        eu.engine.peers.links.reports_vector(1)
    eu.ok("XADD", "s", "*", "f", "1")
    eu.commit()
    eu.engine.peers.links.reports_vector(1)
    assert metrics(eu, "sync_rounds_total") == {("us", "sent"): 0, ("us", "received"): 1}


def test_a_clock_that_is_ahead_is_shown() -> None:
    us, eu = cluster(2)
    eu.now_ms = us.now_ms + 60_000
    eu.ok("XADD", "s", "*", "f", "1")
    eu.commit()
    tell(eu, us)
    assert 59 < metrics(us, "peer_clock_ahead_seconds")["eu",] <= 60
    us.ok("XADD", "s", "*", "f", "1")
    us.commit()
    tell(us, eu)
    assert metrics(eu, "peer_clock_ahead_seconds") == {("us",): 0}
    us.now_ms += 1000
    us.ok("PING")
    tell(eu, us)
    assert metrics(us, "peer_clock_ahead_seconds")["eu",] > 59, "nothing new was stated"
    us.now_ms = eu.now_ms
    us.ok("PING")
    eu.ok("XADD", "s", "*", "f", "2")
    eu.commit()
    tell(eu, us)
    assert metrics(us, "peer_clock_ahead_seconds") == {("eu",): 0}
