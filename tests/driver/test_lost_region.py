"""A region that was said to be lost, and comes back (S13.8).

Before, its clients heard OK for writes that nobody would ever have, and nothing showed it.
"""

from __future__ import annotations

import pytest

from anabranch.region.engine.figures.health import health
from anabranch.region.engine.lifecycle import LOST, SERVING
from anabranch.region.engine.replies import ErrorReply, VerbatimText
from tests.driver.regions import Net, Place, mesh


def cut_and_said_lost() -> tuple[Net, Place, Place, Place]:
    """us and eu call ap lost while it is out of reach; both sides have written since."""
    net, (us, eu, ap) = mesh("us", "eu", "ap")
    ap.run("XADD", "x", "*", "before", "it")
    net.run(300)
    net.cut()
    for place in (us, eu):
        place.run("CRDT.MEMBER", "LOST", "ap")
    ap.run("XADD", "x", "*", "only", "here")
    us.run("XADD", "x", "*", "from", "us")
    for _ in range(20):
        net.step()
    return net, us, eu, ap


def info(place: Place, field: str) -> str:
    reply = place.run("INFO", "crdt")
    assert isinstance(reply, VerbatimText)
    text = reply.text.decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)[field]


def test_it_learns_that_it_is_lost_and_takes_no_more_writes() -> None:
    net, us, eu, ap = cut_and_said_lost()
    assert ap.engine.state.lifecycle.state == SERVING, "nobody has told it yet"
    net.is_cut = False
    net.run(3000)
    assert ap.engine.state.lifecycle.state == LOST
    reply = ap.run("XADD", "x", "*", "f", "v")
    assert isinstance(reply, ErrorReply)
    assert reply.message.startswith("READONLY region ap was said to be lost by us, eu: "), reply
    assert ap.run("XLEN", "x") == 2, "reads go on"
    assert [us.run("XLEN", "x"), eu.run("XLEN", "x")] == [2, 2], "nothing was exchanged"
    assert not isinstance(us.run("XADD", "x", "*", "f", "v"), ErrorReply)


def test_it_says_so_wherever_one_looks() -> None:
    net, _, _, ap = cut_and_said_lost()
    net.is_cut = False
    net.run(3000)
    assert info(ap, "crdt_state") == "lost" and info(ap, "crdt_called_lost_by") == "us,eu"
    assert health(ap.engine.state)[0] == "lost"
    (line,) = [note.text for note in ap.notes if note.text.startswith("event=lost ")]
    assert "anabranch export" in line
    link = ap.driver.hub.links[1]
    assert link.state == "refused"
    assert ap.engine.state.peers.by_id[1].detail.startswith("lost: us says: ap was said to be lost")


def test_refusals_are_noted_once() -> None:
    """A lost region dials again and again; the operator's log gets one line for each link."""
    net, us, _, _ = cut_and_said_lost()
    net.is_cut = False
    us.notes.clear()
    net.run(10_000)
    assert us.driver.hub.counts["refusals"] > 5
    texts = [note.text for note in us.notes if ": lost: " in note.text]
    assert len(texts) == len(set(texts)) <= 2, texts


def test_a_region_that_is_connected_is_told_at_once() -> None:
    """`member lost` for a region that is alive after all: its links end, and it is told why."""
    net, (us, eu, ap) = mesh("us", "eu", "ap")
    for place in (us, eu):
        place.run("CRDT.MEMBER", "LOST", "ap")
    net.run(500)
    assert ap.engine.state.lifecycle.state == LOST
    ap_links = [us.driver.hub.links[3].state, eu.driver.hub.links[3].state]
    assert ap_links == ["refused", "refused"]
    us.run("XADD", "x", "*", "f", "v")
    net.run(500)
    assert eu.run("XLEN", "x") == 1, "the others go on with each other"


def test_the_word_of_a_lost_region_does_not_count() -> None:
    """Each side of a partition called the other lost: the word of a lost region is not taken.

    Otherwise both sides would stop at once.
    """
    net, (us, eu) = mesh("us", "eu")
    net.cut()
    us.run("CRDT.MEMBER", "LOST", "eu")
    eu.run("CRDT.MEMBER", "LOST", "us")
    net.is_cut = False
    net.run(3000)
    for place in (us, eu):
        assert place.engine.state.lifecycle.state == SERVING


def test_it_remembers_after_a_restart() -> None:
    net, _, _, ap = cut_and_said_lost()
    net.is_cut = False
    net.run(3000)
    meta = dict(ap.database.disk.execute("SELECT name, value FROM meta"))
    assert meta["called_lost"] == b"1,2"
    net.cut()
    ap.restart()
    net.run(5000)
    assert ap.engine.state.lifecycle.state == LOST
    assert isinstance(ap.run("XADD", "x", "*", "f", "v"), ErrorReply)


@pytest.mark.parametrize("patience_ms", [0, 400])
def test_a_command_that_waits_for_the_start_is_answered(patience_ms: int) -> None:
    """It restarts, a client adds at once, and then a member says that it is lost."""
    net, _, _, ap = cut_and_said_lost()
    ap.restart(crdt_start_patience_ms=60_000)
    ap.answers = []
    late = ap.run("XADD", "x", "*", "f", "v")
    net.run(patience_ms)
    net.is_cut = False
    net.run(3000)
    assert ap.engine.state.lifecycle.state == LOST
    replies = [reply.reply for reply in ap.answers]
    assert not isinstance(late, ErrorReply) and any(
        isinstance(reply, ErrorReply) and "was said to be lost" in reply.message
        for reply in replies
    ), replies
