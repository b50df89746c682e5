"""The arguments of a slow log's entry: which of them it keeps, and how they are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from anabranch.region.engine.slow_log import shown_arguments
from tests.differential.sides import Pair

pytestmark = pytest.mark.oracle

COMMANDS = [
    [b"XLEN", b"s"],
    [b"XLEN", b"x" * 128],
    [b"XLEN", b"x" * 129],
    [b"xlen", bytes(range(256))],
    [b"DEL", *(b"%d" % number for number in range(31))],
    [b"DEL", *(b"%d" % number for number in range(32))],
    [b"DEL", *(b"%d" % number * 100 for number in range(1000))],
    [b"AUTH", b"sesame"],
    [b"AUTH", b"default", b"sesame"],
    [b"HELLO", b"2", b"AUTH", b"default", b"sesame", b"SETNAME", b"me"],
    [b"CONFIG", b"SET", b"timeout", b"0", b"requirepass", b""],
]


@pytest.fixture
def pair(new_pair: Callable[[int], Pair]) -> Iterator[Pair]:
    """Both sides, while every command of Redis's enters its slow log."""
    pair = new_pair(2)
    pair.redis.ask(b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0")
    yield pair
    pair.redis.ask(b"CONFIG", b"SET", b"slowlog-log-slower-than", b"10000")


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: b" ".join(words[:3])[:20].decode())
def test_as_redis_keeps_them(words: list[bytes], pair: Pair) -> None:
    pair.redis.ask(*words)
    entry = pair.redis.ask(b"SLOWLOG", b"GET", b"1").elements[0]
    theirs = [one.value for one in entry.elements[3].elements]
    assert shown_arguments(words, None, 0) == theirs
