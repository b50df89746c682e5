"""CRDT.LINK … DOWN: what holds once it has replied (DESIGN, contracts; S2.3)."""

from __future__ import annotations

import pytest

from anabranch.region.engine.replies import MapReply
from anabranch.sync.session.messages import Message, VectorAcknowledgement
from tests.driver.regions import Place, mesh


def number_of_link(place: Place, peer: int) -> int:
    connection = place.driver.hub.links[peer].connection
    assert connection is not None
    return connection.number


def test_nothing_said_after_down_calls_the_peer_direct() -> None:
    """Once DOWN has replied, the peer is no longer said to be received directly.

    us takes its link from eu down while an acknowledgement to ap waits to be sent. That one was
    made before DOWN, and must not go out as it is. ap would send eu's blocks as headers, and us
    would wait for their bodies in vain.
    """
    _, (us, _, _) = mesh("us", "eu", "ap")
    connection = us.driver.hub.links[3].connection
    assert connection is not None and connection.receiver is not None
    connection.receiver.acknowledge(us.engine.disk_vector, frozenset({2, 3}), None)
    us.run("CRDT.LINK", "eu", "DOWN")
    message = us.driver.next_message(connection.number)
    assert isinstance(message, VectorAcknowledgement)
    assert message.direct == frozenset({3})


def test_a_link_that_was_opened_is_not_shown_as_cut() -> None:
    """CRDT.PEERS, asked right after UP has replied, showed the link as down until the next tick.

    `anabranch link flap` took that for a change by somebody else, and stopped.
    """
    net, (us, _) = mesh("us", "eu")
    us.run("CRDT.LINK", "eu", "DOWN")
    net.run(20)
    assert us.engine.state.peers.by_id[2].state == "down"
    us.run("CRDT.LINK", "eu", "UP")
    reply = us.run("CRDT.PEERS")
    assert isinstance(reply, list) and isinstance(reply[0], MapReply)
    fields = reply[0].flat
    assert fields[fields.index(b"link") + 1] == b"connecting"


@pytest.mark.parametrize("event", ["message", "merge", "tick"])
def test_nothing_is_taken_in_after_down(event: str) -> None:
    """Once DOWN has replied, a message of the peer is dropped, and so are blocks at hand."""
    net, (us, eu) = mesh("us", "eu")
    us.merges = False
    eu.run("XADD", "x", "*", "f", "v")
    net.run(500)
    eu.run("XADD", "x", "*", "f", "w")
    message = next_from(eu, 1)
    number = number_of_link(us, 2)
    us.run("CRDT.LINK", "eu", "DOWN")
    if event == "message":
        us.driver.received(number, message)
    elif event == "merge":
        us.merge()
    else:
        us.driver.tick()
    assert us.driver.hub.links[2].connection is None
    assert us.engine.vector == {}


def next_from(place: Place, peer: int) -> Message:
    """The next message of a region to a peer that receives from it."""
    connection = place.driver.hub.sending[peer]
    for _ in range(100):
        place.driver.tick()
        place.step()
        message = place.driver.next_message(connection.number)
        if message is not None:
            return message
        place.clock.now += 5
    raise AssertionError("it sends nothing")


def test_down_and_up_between_two_ticks_loses_nothing() -> None:
    """After UP, blocks that DOWN dropped are asked for again, without a gap (S2.2).

    DOWN, a merge that drops the blocks at hand, and UP happen before the driver's next tick. If the
    connection were still the former one, its next block would not follow: a gap, counted as the
    peer's fault.
    """
    net, (us, eu) = mesh("us", "eu")
    us.merges = False
    us.notes.clear()
    eu.run("XADD", "x", "*", "f", "v")
    net.run(500)
    connection = us.driver.hub.links[2].connection
    assert connection is not None and connection.receiver is not None
    assert connection.receiver.ready
    us.run("CRDT.LINK", "eu", "DOWN")
    us.merge()
    us.run("CRDT.LINK", "eu", "UP")
    us.merges = True
    eu.run("XADD", "x", "*", "f", "w")
    net.run(3000)
    assert us.engine.vector == eu.engine.vector == {2: 2}
    assert not [note.text for note in us.notes + eu.notes if "gap" in note.text]
    assert us.engine.state.replication.gaps == eu.engine.state.replication.gaps == 0


def test_sync_waits_for_those_who_still_receive() -> None:
    """S2.5: a peer that took its link down receives nothing, so no CRDT.SYNC waits for it.

    ap takes its link from us down. If us went on to count ap among those who receive, CRDT.SYNC
    would wait for an acknowledgement of ap until its timeout.
    """
    net, (us, _, ap) = mesh("us", "eu", "ap")
    ap.run("CRDT.LINK", "us", "DOWN")
    net.run(100)
    us.run("XADD", "x", "*", "f", "v")
    us.answers = []
    us.run("CRDT.SYNC", "60000")
    net.run(500)
    assert [answer.reply for answer in us.answers] == [1]
