"""T5 and T6: no single message makes a region read-only for good (S13.8)."""

from __future__ import annotations

import pytest

from anabranch.region.engine.lifecycle import LOST, RECOVERY, SERVING
from anabranch.region.engine.replies import ErrorReply
from anabranch.sync.session import messages as m
from tests.driver.regions import Net, Place, mesh
from tests.driver.test_events import events
from tests.driver.test_lost_region import info

LOST_HERE = m.Refusal("lost", "you are lost")


def state(place: Place) -> str:
    return place.engine.state.lifecycle.state


def dialled(place: Place, peer: int) -> int:
    """The number of the connection by which a place receives from a peer."""
    connection = place.driver.hub.links[peer].connection
    assert connection is not None
    return connection.number


def called_lost_by_eu(*names: str) -> tuple[Net, list[Place]]:
    """eu alone calls us lost, and us hears it."""
    net, places = mesh(*names)
    events(places[0])
    places[1].run("CRDT.MEMBER", "LOST", "us")
    net.run(500)
    return net, places


def takes_writes(place: Place) -> bool:
    return not isinstance(place.run("XADD", "x", "*", "f", "v"), ErrorReply)


def test_t5_one_word_ends_no_writes() -> None:
    """A stranger that greeted as a member and refused us as lost left us read-only for ever."""
    _, (us, _, _) = called_lost_by_eu("us", "eu", "ap")
    assert state(us) == SERVING and takes_writes(us)
    assert info(us, "crdt_called_lost_unconfirmed") == "eu"
    assert info(us, "crdt_called_lost_by") == ""
    told = [one for one in events(us) if one["event"] in ("lost", "called_lost")]
    assert told == [{"event": "called_lost", "region": "us", "by": "eu"}]


def test_t6_a_second_members_word_ends_them() -> None:
    net, (us, _, ap) = called_lost_by_eu("us", "eu", "ap")
    ap.run("CRDT.MEMBER", "LOST", "us")
    net.run(500)
    assert state(us) == LOST and not takes_writes(us)
    assert info(us, "crdt_called_lost_by") == "eu,ap"
    assert info(us, "crdt_called_lost_unconfirmed") == ""


def test_t6_the_operators_word_ends_them() -> None:
    """Of two regions only one can say it."""
    net, (us, _) = called_lost_by_eu("us", "eu")
    assert takes_writes(us)
    assert not isinstance(us.run("CRDT.MEMBER", "LOST", "us"), ErrorReply)
    net.run(100)
    assert state(us) == LOST
    reply = us.run("XADD", "x", "*", "f", "v")
    assert isinstance(reply, ErrorReply)
    assert reply.message.startswith("READONLY region us was said to be lost by eu: ")
    net.cut()
    us.restart()
    net.run(3000)
    assert state(us) == LOST, "it is on disk"


def test_t5_the_operator_alone_says_nothing() -> None:
    _, (us, _) = mesh("us", "eu")
    for action, text in (("LOST", "cannot declare itself lost"), ("KEEP", "no member says")):
        reply = us.run("CRDT.MEMBER", action, "us")
        assert isinstance(reply, ErrorReply) and text in reply.message
    reply = us.run("CRDT.MEMBER", "KEEP", "eu")
    assert isinstance(reply, ErrorReply) and "only region eu itself" in reply.message


def test_t5_who_dials_cannot_say_that_a_region_is_lost() -> None:
    """Anybody can dial, and greet as one member after the other."""
    net, (us, _, _) = mesh("us", "eu", "ap")
    for connection in list(us.driver.hub.sending.values()):
        us.driver.received(connection.number, LOST_HERE)
    net.run(5)
    assert info(us, "crdt_called_lost_unconfirmed") == "" and state(us) == SERVING


def test_t5_the_word_of_a_member_that_takes_effects_again_is_void() -> None:
    """Otherwise the false word of today and another one next year made two."""
    net, (us, _, _) = mesh("us", "eu", "ap")
    us.driver.received(dialled(us, 2), LOST_HERE)
    net.step()
    assert us.engine.state.lifecycle.lost_words.by == [2]
    net.run(3000)
    assert us.engine.state.lifecycle.lost_words.by == []
    us.driver.received(dialled(us, 3), LOST_HERE)
    net.step()
    assert state(us) == SERVING
    net.run(3000)
    meta = dict(us.database.disk.execute("SELECT name, value FROM meta"))
    assert meta["called_lost"] == b""


def test_t6_the_operator_takes_back_what_was_false() -> None:
    """Both words were false: the region takes writes again once all members have answered."""
    net, (us, eu, ap) = mesh("us", "eu", "ap")
    for peer in (2, 3):
        us.driver.received(dialled(us, peer), LOST_HERE)
    assert state(us) == LOST and not takes_writes(us)
    net.run(2000)
    assert state(us) == LOST
    us.run("CRDT.MEMBER", "KEEP", "us")
    assert state(us) == RECOVERY
    net.run(3000)
    assert state(us) == SERVING and takes_writes(us)
    net.run(500)
    assert [eu.run("XLEN", "x"), ap.run("XLEN", "x")] == [1, 1]
    meta = dict(us.database.disk.execute("SELECT name, value FROM meta"))
    assert meta["called_lost"] == b""


@pytest.mark.parametrize("restarts", [False, True])
def test_t6_what_is_true_cannot_be_taken_back(restarts: bool) -> None:
    """The members refuse the region again, so it never issues an effect."""
    net, (us, eu, ap) = mesh("us", "eu", "ap")
    for place in (eu, ap):
        place.run("CRDT.MEMBER", "LOST", "us")
    net.run(500)
    us.run("CRDT.MEMBER", "KEEP", "us")
    if restarts:
        net.run(5)
        us.restart()
    assert not takes_writes(us)
    net.run(3000)
    assert state(us) == LOST and not takes_writes(us)
