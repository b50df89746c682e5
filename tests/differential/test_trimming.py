"""Approximate trimming removes whole nodes: with equal node sizes both sides keep equal entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.differential.script import split
from tests.differential.sides import Pair

pytestmark = pytest.mark.oracle


@pytest.fixture
def pair(new_pair: Callable[[int], Pair]) -> Iterator[Pair]:
    """Both sides with nodes of ten entries."""
    pair = new_pair(2)
    pair.run(split("CONFIG SET stream-node-max-entries 10"))
    yield pair
    pair.run(split("CONFIG SET stream-node-max-entries 100"))


def equal(pair: Pair, text: str) -> None:
    """Runs a command and asserts equal replies."""
    theirs, own = pair.run(split(text))
    assert theirs == own, f"{text}: redis {theirs}, ours {own}"


def test_xtrim_by_nodes(pair: Pair) -> None:
    for ms in range(1, 96):
        equal(pair, f"XADD s {ms}-0 a {ms}")
    for options in [
        "MAXLEN ~ 55",
        "MINID ~ 57",
        "MAXLEN ~ 5 LIMIT 10",
        "MAXLEN ~ 5 LIMIT 25",
        "MAXLEN ~ 5 LIMIT 5",
        "MAXLEN ~ 0",
        "MAXLEN ~ 0 LIMIT 0",
    ]:
        equal(pair, f"XTRIM s {options}")
        equal(pair, "XRANGE s - +")


def test_xadd_trims_by_nodes(pair: Pair) -> None:
    for ms in range(100, 150):
        equal(pair, f"XADD s MAXLEN ~ 20 {ms}-0 a {ms}")
        equal(pair, "XLEN s")
    for ms in range(150, 200):
        equal(pair, f"XADD s MINID ~ {ms - 15} {ms}-0 a {ms}")
        equal(pair, "XLEN s")


def test_deleted_entries_and_exact_trimming(pair: Pair) -> None:
    for ms in range(1, 41):
        equal(pair, f"XADD s {ms}-0 a {ms}")
    equal(pair, "XDEL s 12-0 13-0 14-0 15-0 16-0 33-0")
    for options in ["MAXLEN = 31", "MAXLEN 25", "MINID 20", "MAXLEN 3", "MAXLEN 0"]:
        equal(pair, f"XTRIM s {options}")
        equal(pair, "XRANGE s - +")
