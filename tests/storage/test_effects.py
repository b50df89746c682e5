"""CRDT.EFFECTS on regions with disks: the effects of one region after a counter, in pages."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.storage.test_history import Us
from tests.study.test_explanation import Cluster


def paged(us: Us, after: int, count: int) -> list[Any]:
    """All effects of us after a counter, read in pages."""
    found: list[Any] = []
    while True:
        page = us.call("CRDT.EFFECTS", "us", str(after), "COUNT", str(count))
        found += page["events"]
        assert len(page["events"]) <= count
        if page["next"] is None:
            return found
        assert page["next"] > after
        after = page["next"]


@pytest.mark.parametrize("seed", range(6))
def test_pages_hold_every_effect_once(seed: int) -> None:
    """The counters run without gaps in pages of any size, and the events are the history's."""
    draw = Random(seed)
    us = Us(**{"crdt-block-max-bytes": draw.choice([1, 300, 1_000_000])})
    for number in range(60):
        word = draw.random()
        if word < 0.5:
            us.call("MULTI")
            for _ in range(draw.randint(1, 9)):
                us.call("XADD", draw.choice("ab"), "*", "n", str(number))
            us.call("EXEC")
        elif word < 0.7:
            us.call("XTRIM", "a", "MAXLEN", str(draw.randint(0, 9)))
        elif word < 0.8:
            us.call("XADD", "a", "IDMP", "p", str(draw.randrange(9)), "*", "n", str(number))
        elif word < 0.9 and us.call("EXISTS", "a"):
            us.call("RENAME", "a", "b")
        else:
            us.restart()
    last = us.call("CRDT.VECTOR")[1]
    whole = paged(us, 0, 10_000)
    assert [event["dot"] for event in whole] == [[1, number] for number in range(1, last + 1)]
    assert paged(us, 0, draw.randint(1, 7)) == whole
    middle = draw.randrange(last)
    assert paged(us, middle, 5) == whole[middle:]
    for key in "ab":
        history = us.call("CRDT.HISTORY", key, "COUNT", "10000")["events"]
        own = [{**event, "key": key} for event in history if "dot" in event]
        assert [event for event in whole if event["key"] == key] == own


def test_without_fields() -> None:
    us = Us()
    us.call("XADD", "a", "*", "n", "1")
    us.call("XADD", "a", "IDMP", "p", "i", "*", "n", "1")
    plain, idempotent = us.call("CRDT.EFFECTS", "us", "0", "NOFIELDS")["events"]
    assert "fields" not in plain and "fields" not in idempotent
    assert idempotent["pid"] == "p" and idempotent["iid"] == "i"


def test_effects_of_another_region() -> None:
    """The log of eu tells the effects of us that eu has, and whom it had them from."""
    cluster = Cluster()
    first = cluster.call("us", "XADD", "k", "*", "a", "1")
    cluster.sync("us", "eu")
    cluster.call("us", "XADD", "k", "*", "a", "2")
    cluster.call("eu", "XADD", "k", "*", "a", "3")
    reply = cluster.call("eu", "CRDT.EFFECTS", "us", "0")
    assert [(event["id"], event["source"]) for event in reply["events"]] == [(first, 1)]
    assert (reply["region"], reply["origin"], reply["vector"]) == ("eu", 1, [1, 1, 2, 1])


def test_the_floor_tells_how_far_the_log_reaches_back() -> None:
    us = Us(**{"crdt-log-max-effects": 20})
    for number in range(100):
        us.call("XADD", "k", "*", "a", str(number))
        if number % 20 == 19:
            us.region.checkpoint()
    reply = us.call("CRDT.EFFECTS", "us", "0")
    floor = reply["log-floor"][1]
    assert 0 < floor < 100
    assert [event["dot"][1] for event in reply["events"]] == list(range(floor + 1, 101))


def test_a_large_answer_ends_after_some_blocks_and_goes_on() -> None:
    us = Us()
    for number in range(12):
        us.call("XADD", "k", "*", "n", str(number), "text", "x" * 1_000_000)
    first = us.call("CRDT.EFFECTS", "us", "0")
    assert 0 < len(first["events"]) < 12 and first["next"] == len(first["events"])
    assert len(paged(us, 0, 1000)) == 12
