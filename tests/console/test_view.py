"""Rows of several regions: present, removed, not arrived; the state of entries in groups."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.console.groups import LiveGroup
from anabranch.console.view import PAIRS, RegionView, Removed, entry_of, region_facts, rows
from anabranch.crdt.vector import Dot
from anabranch.study.history.wording import VALUE_MAX
from anabranch.study.replies.groups import GroupState


def group(**fields: Any) -> LiveGroup:
    """A group as CRDT.GROUPS tells it."""
    usual: dict[str, Any] = {
        "name": "g",
        "creates": [[[1, 1], "0-0"]],
        "floor": None,
        "raised-to": None,
        "floor-counters": [1, 0],
        "given": [],
        "acked": [],
        "dropped": [],
        "dropped-spans": [],
        "pending-spans": [],
        "consumers": [],
        "pending-count": 0,
        "pending": [],
        "last-delivered-id": "0-0",
        "lag": 0,
    }
    return LiveGroup(GroupState({**usual, **fields}))


def view(name: str, region_id: int, vector: dict[int, int], *dots: Dot) -> RegionView:
    """A region that holds entries with the ID ``counter-region``."""
    made = RegionView(name, region_id)
    made.vector = vector
    made.entries = {dot: entry_of(f"{dot[1]}-{dot[0]}", [b"n", b"%d" % dot[1]]) for dot in dots}
    return made


def test_what_one_region_has_and_another_lacks() -> None:
    us = view("us", 1, {1: 3, 2: 1}, (1, 1), (1, 3), (2, 1))
    eu = view("eu", 2, {1: 2, 2: 2}, (1, 1), (2, 2))
    eu.removed = {(2, 1): Removed(us.entries[2, 1], "XDEL in eu (effect 3 of eu)")}
    shown, are_older_left = rows([us, eu], 0, 10)
    assert [row["id"] for row in shown] == ["3-1", "2-2", "1-2", "1-1"] and not are_older_left
    states = [{name: one["state"] for name, one in row["in"].items()} for row in shown]
    assert states == [
        {"us": "present", "eu": "absent"},
        {"us": "absent", "eu": "present"},
        {"us": "present", "eu": "removed"},
        {"us": "present", "eu": "present"},
    ]
    assert shown[2]["in"]["eu"]["by"].startswith("XDEL in eu")


def test_equal_ids_stand_in_the_order_of_the_regions() -> None:
    us = view("us", 1, {1: 1, 2: 1})
    us.entries = {(1, 1): entry_of("5-5", []), (2, 1): entry_of("5-5", [])}
    assert [row["dot"] for row in rows([us], 0, 10)[0]] == [[2, 1], [1, 1]]


def test_ids_are_compared_as_numbers() -> None:
    us = view("us", 1, {1: 2}, (1, 9), (1, 10))
    assert [row["id"] for row in rows([us], 0, 10)[0]] == ["10-1", "9-1"]


def test_a_window_is_cut_at_its_newest_rows() -> None:
    us = view("us", 1, {1: 9}, *((1, n) for n in range(1, 10)))
    shown, are_older_left = rows([us], 4 << 64, 3)
    assert [row["dot"][1] for row in shown] == [9, 8, 7] and are_older_left
    shown, are_older_left = rows([us], 4 << 64, 50)
    assert [row["dot"][1] for row in shown] == [9, 8, 7, 6, 5, 4] and are_older_left


def test_a_region_that_is_down_says_nothing() -> None:
    us, eu = view("us", 1, {1: 1}, (1, 1)), RegionView("eu", 2)
    eu.error = "eu does not answer"
    assert list(rows([us, eu], 0, 10)[0][0]["in"]) == ["us"]
    assert region_facts(eu)["error"] == "eu does not answer"


def test_long_entries_are_shortened() -> None:
    long = entry_of("1-1", [b"f", b"x" * (VALUE_MAX + 1)] + [b"a", b"b"] * PAIRS)
    assert len(long.fields) == 2 * PAIRS and long.left_out == 2
    assert len(long.fields[1]) == VALUE_MAX + 1 and long.fields[1].endswith("…")


@pytest.mark.parametrize(
    ("counter", "status"),
    [
        (1, ("acked", "")),
        (3, ("acked", "")),
        (4, ("pending", "ann")),
        (5, ("done", "")),
        (6, ("dropped", "")),
        (7, ("open", "")),
    ],
)
def test_the_state_of_an_entry_in_a_group(counter: int, status: tuple[str, str]) -> None:
    one = group(
        given=[[1, 0, 6]],
        acked=[[1, 0, 3]],
        dropped=[[1, 6]],
        pending=[[1, 4, "4-1", "ann", 1000, 1]],
    )
    assert one.status((1, counter)) == status


def test_what_was_claimed_again_by_force_is_pending() -> None:
    one = group(acked=[[1, 0, 3]], pending=[[1, 2, "2-1", "ann", 1000, 1]])
    assert one.status((1, 2)) == ("pending", "ann")


def test_an_entry_at_the_floor_is_below_and_one_above_is_open() -> None:
    one = group(**{"floor-counters": [1, 5]})
    assert [one.status((1, n))[0] for n in (5, 6)] == ["below", "open"]
    assert one.status((2, 1)) == ("open", "")


def test_acknowledgements_wait_for_the_entry_before_them() -> None:
    """S8.1: what is acknowledged above a pending entry is not announced."""
    us = view("us", 1, {1: 5}, *((1, n) for n in range(1, 6)))
    us.groups = [
        group(given=[[1, 0, 4]], acked=[[1, 0, 1]], pending=[[1, 2, "2-1", "ann", 1000, 1]])
    ]
    (facts,) = region_facts(us)["groups"]
    assert facts["waits"] == [
        {"region_id": 1, "id": "2-1", "status": "pending", "consumer": "ann", "waiting": 2}
    ]
    us.groups = [group(given=[[1, 0, 4]], acked=[[1, 0, 4]])]
    assert region_facts(us)["groups"][0]["waits"] == []
