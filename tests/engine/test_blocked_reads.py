"""In which order clients that wait for entries are answered."""

from __future__ import annotations

from tests.support.engine_cluster import Place, cluster
from tests.support.engines import execute


def blocked(place: Place, *words: str) -> int:
    """A client of its own sends a read that blocks. Returns the id of its session."""
    place.session = place.engine.clients.connect("test", "test", place.now_ms)
    number = place.session.session_id
    place(*words)
    place.session = place.engine.clients.connect("test", "test", place.now_ms)
    return number


def answered(place: Place) -> list[int]:
    return [late.session.session_id for late in place.engine.clients.take_replies()]


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


def read_to(place: Place, timeout_ms: int, key: str = "s") -> int:
    return blocked(place, "XREAD", "BLOCK", str(timeout_ms), "STREAMS", key, "$")


def test_reads_end_at_their_deadlines_the_earliest_first() -> None:
    (us,) = cluster(1)
    late, early, never = (read_to(us, timeout_ms) for timeout_ms in (300, 100, 0))
    us.engine.tick(us.now_ms + 99)
    assert answered(us) == []
    us.engine.tick(us.now_ms + 100)
    assert answered(us) == [early]
    us.engine.tick(us.now_ms + 299)
    assert answered(us) == []
    us.engine.tick(us.now_ms + 300_000)
    assert answered(us) == [late]
    assert list(us.engine.state.waiting.reads.by_session) == [never]


def test_a_read_that_was_answered_leaves_the_next_one_of_its_client_alone() -> None:
    (us,) = cluster(1)
    us("XREAD", "BLOCK", "100", "STREAMS", "s", "$")
    reader = us.session
    us.session = us.engine.clients.connect("test", "test", us.now_ms)
    us.ok("XADD", "s", "*", "f", "v")
    assert answered(us) == [reader.session_id]
    us.session = reader
    us("XREAD", "BLOCK", "500", "STREAMS", "s", "$")
    us.engine.tick(us.now_ms + 400)
    assert answered(us) == []
    us.engine.tick(us.now_ms + 500)
    assert answered(us) == [reader.session_id]


def test_reads_that_were_answered_long_before_their_deadline_are_not_kept() -> None:
    """A consumer that waits for an hour, and gets an entry a thousand times."""
    (us,) = cluster(1)
    reader, writer = us.session, us.engine.clients.connect("test", "test", us.now_ms)
    for _ in range(1000):
        us.session = reader
        us("XREAD", "BLOCK", "3600000", "STREAMS", "s", "$")
        us.session = writer
        us.ok("XADD", "s", "*", "f", "v")
        assert answered(us) == [reader.session_id]
    assert len(us.engine.state.waiting.reads._deadlines) < 100


# -- quiet: whether the next tick may be later


def test_a_region_is_quiet_unless_a_deadline_is_near() -> None:
    (us,) = cluster(1)
    us.engine.tick(us.now_ms)
    assert us.engine.is_quiet(20)
    read_to(us, 100)
    assert us.engine.is_quiet(99) and not us.engine.is_quiet(100)
    us.engine.tick(us.now_ms + 90)
    assert not us.engine.is_quiet(20)
    us.engine.tick(us.now_ms + 100)
    assert us.engine.is_quiet(20)


def test_a_region_with_work_for_its_ticks_is_not_quiet() -> None:
    (us,) = cluster(1)
    us.engine.tick(us.now_ms)
    execute(us.engine, us.session, [b"XADD", b"s", b"*", b"f", b"v"], us.now_ms)
    assert not us.engine.is_quiet(20)  # It has to be committed.
    us.commit()
    assert not us.engine.is_quiet(20)  # The key has to be counted.
    us.engine.tick(us.now_ms)
    assert us.engine.is_quiet(20)
    us.ok("FLUSHALL")
    us.commit()
    assert not us.engine.is_quiet(20)  # The stream has to be freed.
    us.engine.tick(us.now_ms)
    us.engine.tick(us.now_ms)
    assert us.engine.is_quiet(20)
    blocked(us, "WAIT", "1", "100")
    assert not us.engine.is_quiet(20)
    us.engine.tick(us.now_ms + 100)
    assert len(answered(us)) == 1 and us.engine.is_quiet(20)
