"""A region that is gone for good, and what it left on its way (S13.8, S6.2)."""

from __future__ import annotations

from tests.review.support import Place, carry, cluster, tell


def tombstones(place: Place) -> bool:
    stream = place.engine.keyspace.get(b"x")
    return stream is not None and bool(stream.tombstones)


def us_destroys_what_ap_makes_anew() -> list[Place]:
    """us has destroyed a group, and knows that eu has that; then ap is gone for good.

    eu holds what ap did meanwhile, and us does not.
    """
    us, eu, ap = cluster(3)
    us.ok("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
    carry(us, eu)
    carry(us, ap)
    us.ok("XGROUP", "DESTROY", "x", "g")
    carry(us, eu)
    tell(eu, us)
    ap.ok("XGROUP", "DESTROY", "x", "g")
    ap.ok("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
    carry(ap, eu, gossip=False)
    assert eu("EXISTS", "x") == 0
    us.ok("CRDT.MEMBER", "LOST", "ap")
    us.at(1100)
    return [us, eu]


def test_what_a_lost_region_left_still_meets_the_tombstone() -> None:
    """S6.1: a create of a lost region meets the tombstone here, too.

    us once dropped its tombstone as soon as it no longer waited for ap. Then ap's create came by
    way of eu, and lived on in us alone.
    """
    us, eu = us_destroys_what_ap_makes_anew()
    assert tombstones(us)
    carry(eu, us)
    assert us.engine.vector == eu.engine.vector
    assert us("EXISTS", "x") == 0
    assert us.engine.keyspace.digest() == eu.engine.keyspace.digest()


def test_the_tombstone_goes_once_all_that_the_lost_left_is_here() -> None:
    """The tombstone is kept until eu holds an effect of us from after ap was said to be lost.

    By then eu has everything of ap that it will ever have.
    """
    us, eu = us_destroys_what_ap_makes_anew()
    us.ok("XADD", "y", "*", "f", "1")
    carry(us, eu)
    tell(eu, us)
    us.at(1200)
    assert tombstones(us)  # eu speaks of more of ap than us has
    carry(eu, us)
    us.at(1300)
    assert not tombstones(us)


def test_a_start_asks_again_what_the_lost_left() -> None:
    """Statements from before the loss may be passed on for long.

    A start notes the lost members as the command does.
    """
    us, eu = us_destroys_what_ap_makes_anew()
    us.ok("XADD", "y", "*", "f", "1")
    carry(us, eu)
    carry(eu, us)
    us.at(1200)
    assert us.engine.state.stable_vector()
    us.engine.state.note_lost()
    assert not us.engine.state.stable_vector()


def test_nothing_more_is_taken_from_a_lost_region() -> None:
    """What lay unread when it was said might come after everybody had said what they have."""
    us, _, ap = cluster(3)
    ap.ok("XADD", "x", "*", "f", "1")
    us.ok("CRDT.MEMBER", "LOST", "ap")
    carry(ap, us)
    assert us("EXISTS", "x") == 0
    assert 3 not in us.engine.vector
