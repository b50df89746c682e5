"""Blocking commands, and the events that end the wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential.replies import Typed, show
from tests.differential.script import split
from tests.differential.sides import Pair

pytestmark = pytest.mark.oracle


@pytest.fixture(params=[2, 3])
def pair(request: pytest.FixtureRequest, new_pair: Callable[[int], Pair]) -> Pair:
    return new_pair(request.param)


def equal(pair: Pair, text: str, name: str = "a") -> Typed:
    """Runs a command that does not block, asserts equal replies, and returns our reply."""
    theirs, own = pair.run(split(text), name)
    assert theirs == own, f"{text}: redis {theirs}, ours {own}"
    return own


def number(reply: Typed) -> str:
    """The digits of an integer reply."""
    assert isinstance(reply.value, int)
    return str(reply.value)


def waits(pair: Pair, text: str, name: str, count: int = 1) -> None:
    """Sends a blocking command, and waits until `count` clients are blocked on each side."""
    pair.send(split(text), name)
    pair.await_blocked(count)


def answered(pair: Pair, name: str) -> Typed:
    """Asserts equal replies to a command that had blocked, and returns our reply."""
    theirs, own = pair.receive(name)
    assert theirs is not None and own is not None and theirs == own, f"redis {theirs}, ours {own}"
    return own


def test_xread_wakes_with_the_entry(pair: Pair) -> None:
    waits(pair, "XREAD BLOCK 0 STREAMS s $", "b")
    equal(pair, "XADD s 1-1 a 1")
    assert '"1-1"' in show(answered(pair, "b"))


def test_dollar_is_resolved_when_the_wait_begins(pair: Pair) -> None:
    equal(pair, "XADD s 1-1 a 1")
    waits(pair, "XREAD BLOCK 0 COUNT 10 STREAMS s t $ $", "b")
    equal(pair, "XADD t 5-5 a 1")
    answered(pair, "b")


def test_a_unit_of_several_adds_wakes_once(pair: Pair) -> None:
    waits(pair, "XREAD BLOCK 0 STREAMS s 0", "b")
    for text in ("MULTI", "XADD s 1-1 a 1", "XADD s 1-2 a 2", "EXEC"):
        equal(pair, text)
    assert '"1-2"' in show(answered(pair, "b"))


def test_an_entry_that_goes_within_the_unit_wakes_nobody(pair: Pair) -> None:
    """Redis 7.0 answers the reader with an empty list; this region lets it wait for an entry."""
    waits(pair, "XREAD BLOCK 0 STREAMS s 0", "b")
    for text in ("MULTI", "XADD s 1-1 a 1", "XDEL s 1-1", "EXEC"):
        equal(pair, text)
    assert pair.ours.receive("b", 0.05) is None
    equal(pair, "XADD s 1-2 a 1")
    own = pair.ours.receive("b")
    assert own is not None and '"1-2"' in show(own)


def test_time_out(pair: Pair) -> None:
    pair.send(split("XREAD BLOCK 20 STREAMS s $"), "b")
    answered(pair, "b")
    equal(pair, "XGROUP CREATE s g 0 MKSTREAM")
    pair.send(split("XREADGROUP GROUP g c BLOCK 20 STREAMS s >"), "b")
    answered(pair, "b")


def test_several_readers_all_get_it(pair: Pair) -> None:
    waits(pair, "XREAD BLOCK 0 STREAMS s $", "b")
    waits(pair, "XREAD BLOCK 0 STREAMS s $", "c", 2)
    equal(pair, "XADD s 1-1 a 1")
    answered(pair, "b")
    answered(pair, "c")


def test_of_several_consumers_the_first_gets_it(pair: Pair) -> None:
    equal(pair, "XGROUP CREATE s g 0 MKSTREAM")
    waits(pair, "XREADGROUP GROUP g one BLOCK 0 STREAMS s >", "b")
    waits(pair, "XREADGROUP GROUP g two BLOCK 0 STREAMS s >", "c", 2)
    equal(pair, "XADD s 1-1 a 1")
    answered(pair, "b")
    pair.await_blocked(1)
    equal(pair, "XADD s 1-2 a 1")
    answered(pair, "c")
    equal(pair, "XPENDING s g")


def test_history_never_waits(pair: Pair) -> None:
    equal(pair, "XGROUP CREATE s g 0 MKSTREAM")
    equal(pair, "XREADGROUP GROUP g c BLOCK 0 STREAMS s 0")


def test_setid_backwards_does_not_wake_in_redis_but_does_here(pair: Pair) -> None:
    """SETID makes an entry available: Redis lets the reader wait on, this region serves it."""
    equal(pair, "XADD s 1-1 a 1")
    equal(pair, "XGROUP CREATE s g $")
    waits(pair, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "b")
    equal(pair, "XGROUP SETID s g 0")
    own = pair.ours.receive("b", 1.0)
    assert own is not None and '"1-1"' in show(own)
    assert pair.redis.connection("b").receive(0.05) is None


def test_unblock_with_time_out(pair: Pair) -> None:
    ids = pair.run(split("CLIENT ID"), "b")
    waits(pair, "XREAD BLOCK 0 STREAMS s $", "b")
    assert _unblock(pair, ids) == [1, 1]
    answered(pair, "b")
    assert _unblock(pair, ids) == [0, 0]


def test_unblock_with_error(pair: Pair) -> None:
    ids = pair.run(split("CLIENT ID"), "b")
    waits(pair, "XREAD BLOCK 0 STREAMS s $", "b")
    assert _unblock(pair, ids, "ERROR") == [1, 1]
    assert show(answered(pair, "b")) == "-UNBLOCKED client unblocked via CLIENT UNBLOCK"
    equal(pair, "PING", "b")


def _unblock(pair: Pair, ids: tuple[Typed, Typed], *words: str) -> list[object]:
    """The results of CLIENT UNBLOCK for these client ids: (Redis's, ours)."""
    theirs = pair.redis.ask(
        b"CLIENT", b"UNBLOCK", number(ids[0]).encode(), *(word.encode() for word in words)
    )
    pair.ours.send("control", split(f"CLIENT UNBLOCK {number(ids[1])} {' '.join(words)}"))
    own = pair.ours.receive("control")
    assert own is not None
    return [theirs.value, own.value]


# Since 7.2 a blocked reader gets NOGROUP at once when its group is removed. 7.0 answers UNBLOCKED
# if the key is removed. S6.5 follows 7.2.
@pytest.mark.parametrize(
    "end", ["DEL s", "XGROUP DESTROY s g", "FLUSHALL", "RENAME s t", "EXPIRE s 0"]
)
def test_a_group_that_goes_ends_the_wait(pair: Pair, end: str) -> None:
    equal(pair, "XGROUP CREATE s g 0 MKSTREAM")
    waits(pair, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "b")
    equal(pair, end)
    own = pair.ours.receive("b", 1.0)
    assert own is not None and show(own).startswith(
        "-NOGROUP No such key 's' or consumer group 'g'"
    ), own


def test_xread_waits_on_when_the_key_goes(pair: Pair) -> None:
    equal(pair, "XADD s 1-1 a 1")
    waits(pair, "XREAD BLOCK 0 STREAMS s $", "b")
    equal(pair, "DEL s")
    pair.await_blocked(1)
    equal(pair, "XADD s 2-1 a 1")
    answered(pair, "b")


def test_reply_off_and_skip(pair: Pair) -> None:
    """Replies that CLIENT REPLY OFF or SKIP suppresses are not sent."""
    equal(pair, "CLIENT SETNAME x")
    for text in ("CLIENT REPLY SKIP", "PING one"):
        pair.send(split(text))
    equal(pair, "PING two")
    for text in ("CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING skipped, too"):
        pair.send(split(text))
    equal(pair, "PING after two that skip")
    for text in ("CLIENT REPLY SKIP", "CLIENT REPLY OFF", "PING off"):
        pair.send(split(text))
    equal(pair, "CLIENT REPLY ON")
    pair.send(split("CLIENT REPLY SKIP"))
    equal(pair, "CLIENT REPLY ON")
    equal(pair, "PING on")
    for text in ("CLIENT REPLY SKIP", "RESET"):
        pair.send(split(text))
    equal(pair, "PING reset")
    pair.send(split("CLIENT REPLY OFF"))
    equal(pair, "RESET")
    for text in ("CLIENT REPLY OFF", "PING three", "CLIENT REPLY SKIP", "PING four", "NOSUCH"):
        pair.send(split(text))
    equal(pair, "CLIENT REPLY ON")
    equal(pair, "PING five")


def test_reply_off_silences_what_waited(pair: Pair) -> None:
    pair.send(split("CLIENT REPLY OFF"), "b")
    waits(pair, "XREAD BLOCK 0 STREAMS s $", "b")
    equal(pair, "XADD s 1-1 a 1")
    pair.await_blocked(0)
    equal(pair, "CLIENT REPLY ON", "b")


def test_killed_clients(pair: Pair) -> None:
    """CLIENT KILL by id kills the caller itself only with SKIPME no, and after its reply."""
    theirs, own = pair.run(split("CLIENT ID"), "b")
    assert pair.redis.ask(b"CLIENT", b"KILL", b"ID", number(theirs).encode()).value == 1
    pair.ours.send("control", split(f"CLIENT KILL ID {number(own)}"))
    reply = pair.ours.receive("control")
    assert reply is not None and reply.value == 1
    assert pair.ours.sessions["b"].closing and not pair.ours.sessions["control"].closing
    pair.ours.send("control", split("CLIENT KILL ID 3 SKIPME NO"))
    pair.ours.send("c", split("CLIENT ID"))
    own_id = pair.ours.receive("c")
    assert own_id is not None
    pair.ours.send("c", split(f"CLIENT KILL ID {number(own_id)}"))
    pair.ours.send("c", split(f"CLIENT KILL ID {number(own_id)} SKIPME no"))
    counts = [pair.ours.receive("c"), pair.ours.receive("c")]
    assert [one.value for one in counts if one is not None] == [0, 1]
    assert pair.ours.sessions["c"].closing
