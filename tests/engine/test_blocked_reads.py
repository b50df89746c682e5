"""In which order clients that wait for entries are answered."""

from __future__ import annotations

from tests.review.support import Place, cluster


def blocked(place: Place, *words: str) -> int:
    """A client of its own sends a read that blocks. Returns the id of its session."""
    place.session = place.engine.connect("test", "test", place.now_ms)
    number = place.session.session_id
    place(*words)
    place.session = place.engine.connect("test", "test", place.now_ms)
    return number


def answered(place: Place) -> list[int]:
    return [late.session.session_id for late in place.engine.take_replies()]


def test_flushall_answers_readers_in_the_order_in_which_they_blocked() -> None:
    """The order was that of the keys in memory, those without tombstones first.

    That order changes with a start, and no client can know it. From simulator seed 16002324.
    """
    (us,) = cluster(1)
    for key in ("plain", "other", "kept"):
        us.ok("XGROUP", "CREATE", key, "g", "$", "MKSTREAM")
    us.ok("XGROUP", "CREATE", "kept", "gone", "0")
    us.ok("XGROUP", "DESTROY", "kept", "gone")
    group = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS")
    numbers = [blocked(us, *group, key, ">") for key in ("kept", "other", "plain")]
    us.ok("FLUSHALL")
    assert answered(us) == numbers


def test_a_reader_of_two_keys_does_not_pass_one_that_blocked_before_it() -> None:
    """The second reader was run for its first key, and got the entries of both."""
    (us,) = cluster(1)
    for key in ("s", "t"):
        us.ok("XGROUP", "CREATE", key, "g", "$", "MKSTREAM")
    group = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS")
    first = blocked(us, *group, "t", ">")
    second = blocked(us, *group, "s", "t", ">", ">")
    for words in (["MULTI"], ["XADD", "s", "*", "f", "v"], ["XADD", "t", "*", "f", "v"], ["EXEC"]):
        us.ok(*words)
    assert answered(us) == [first, second]
