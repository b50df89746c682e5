"""A system clock that is set back (S4.1, S10.2).

The clock that hides keys stands still, and everything else goes on.
"""

from __future__ import annotations

from anabranch.region.engine.replies import ReplyLater
from tests.support.engine_cluster import Place, cluster


def test_time_outs_and_rounds_go_on_when_the_clock_was_set_back() -> None:
    """S10.2, S2.5: readers, rounds and commits go on while the clock of deadlines stands.

    That clock never runs back, so here it stands for an hour.
    """
    us = cluster(2, 10_000_000)[0]
    us.ok("XADD", "x", "*", "f", "1")
    us.round()
    us.at(6_400_000)
    assert isinstance(us("XREAD", "BLOCK", "100", "STREAMS", "x", "$"), ReplyLater)
    us.at(6_400_101)
    assert len(us.engine.clients.take_replies()) == 1
    us.ok("XADD", "x", "*", "f", "1")
    assert not us.engine.disk.wants_commit(6_400_102)
    assert us.engine.disk.wants_commit(6_401_200)  # everysec
    us.engine.peers.links.receiver_opened(2)
    assert us.engine.disk.wants_commit(6_401_201)  # a round is due
    assert us.engine.state.clock.now_ms == 10_000_010


def test_a_start_ends_after_its_patience_on_a_clock_that_was_set_back() -> None:
    """S13.6: crdt-start-patience-ms ends a start, wherever the clock of the last life stood."""
    us = Place(1, 2, 10_000_000)
    us.at(10_000_000)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    us.patience_ms = 2000
    us.restart(6_400_000)
    assert isinstance(us("XADD", "x", "*", "f", "2"), ReplyLater)
    us.at(6_400_001)
    us.at(6_402_002)
    assert len(us.engine.clients.take_replies()) == 1
