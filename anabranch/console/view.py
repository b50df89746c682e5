"""The parts of a stream as one region has it, and the rows in which the page shows several regions.

A row is one entry, that is one dot. For each region it says whether the entry is present there, was
removed, or has not arrived, and its state in each group. Rows are ordered as a stream is read:
by entry ID, then by the region_id of the region that added it (S1), newest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from anabranch.crdt.ids import parse
from anabranch.crdt.vector import Dot, Vector
from anabranch.escapes import shown
from anabranch.study.history.wording import VALUE_MAX, short

JsonObject = dict[str, Any]

# Pairs of an entry that a row holds.
PAIRS: Final = 12


class Entry(NamedTuple):
    """An entry: its ID and its fields (names and values in turn), all printable."""

    entry_id: str
    fields: tuple[str, ...]
    # Pairs that were left out or cut short.
    left_out: int = 0

    @property
    def number(self) -> int:
        """The ID as a number, by which entries are ordered."""
        return parse(self.entry_id.encode(), 0)


class Removed(NamedTuple):
    """An entry that a region has removed, and the act that removed it, in words."""

    entry: Entry
    by: str


class GroupView(Protocol):
    """A group as one region has it."""

    @property
    def name(self) -> str:
        """Its name."""

    def status(self, dot: Dot) -> tuple[str, str]:
        """The state of an entry in the group, and the consumer for which it is pending.

        The state is `acked` (announced as acknowledged, everywhere), `done` (handed out here, not
        pending, not announced), `pending`, `dropped` (by DELCONSUMER), `below` (below the start or
        floor), or `open` (not handed out).
        """

    def facts(self) -> JsonObject:
        """What the page shows of the group as a whole."""


class RegionView:
    """A stream as one region has it; `error` instead if the region does not answer."""

    def __init__(self, name: str, region_id: int) -> None:
        self.name: Final = name
        self.region_id: Final = region_id
        self.error = ""
        self.vector: Vector = {}
        self.entries: dict[Dot, Entry] = {}
        self.removed: dict[Dot, Removed] = {}
        self.groups: list[GroupView] = []
        # Name and vector of each group tombstone.
        self.tombstones: list[tuple[str, Vector]] = []
        self.length = 0
        self.exists = False
        # The removals before this time are not known; 0: all are.
        self.log_since_ms = 0
        # Why the removals are not known.
        self.log_error = ""

    def status(self, dot: Dot) -> str:
        """`present`, `removed`, or `absent` (it has not arrived)."""
        if dot in self.entries:
            return "present"
        return "removed" if self.vector.get(dot[0], 0) >= dot[1] else "absent"


def entry_of(entry_id: str, fields: Sequence[bytes]) -> Entry:
    """An entry with printable fields, shortened."""
    words = fields[: 2 * PAIRS]
    left_out = len(fields) // 2 - len(words) // 2
    cut = sum(len(shown(word)) > VALUE_MAX for word in words)
    return Entry(entry_id, tuple(map(short, words)), left_out + cut)


def rows(views: list[RegionView], low: int, count: int) -> tuple[list[JsonObject], bool]:
    """The newest rows with IDs from `low` on, at most `count`, and whether older ones were left."""
    found: dict[Dot, Entry] = {}
    for view in views:
        for dot, gone in view.removed.items():
            found.setdefault(dot, gone.entry)
        found.update(view.entries)
    ordered = sorted(((entry.number, dot, entry) for dot, entry in found.items()), reverse=True)
    kept = [one for one in ordered if one[0] >= low]
    shown = kept[:count]
    return [_row(dot, entry, views) for _, dot, entry in shown], len(shown) < len(ordered)


def _row(dot: Dot, entry: Entry, views: list[RegionView]) -> JsonObject:
    row: JsonObject = {
        "dot": list(dot),
        "id": entry.entry_id,
        "fields": list(entry.fields),
        "in": {},
    }
    if entry.left_out:
        row["left_out"] = entry.left_out
    for view in views:
        if view.error:
            continue
        state: JsonObject = {"state": view.status(dot)}
        if state["state"] == "removed" and dot in view.removed:
            state["by"] = view.removed[dot].by
        if state["state"] == "present":
            groups = {group.name: _group_state(group, dot) for group in view.groups}
            if groups:
                state["groups"] = groups
        row["in"][view.name] = state
    return row


def _group_state(group: GroupView, dot: Dot) -> list[str]:
    status, consumer = group.status(dot)
    return [status, consumer] if consumer else [status]


def waits(view: RegionView, group: GroupView) -> list[JsonObject]:
    """Why acknowledgements are not announced yet: only contiguous runs are (S8.1).

    For each region log: the number of entries above the first one that is not acknowledged, which
    are acknowledged here and wait for it. Only the entries in the window are looked at.
    """
    found: list[JsonObject] = []
    first: dict[int, JsonObject] = {}
    for dot, entry in sorted(view.entries.items()):
        status, consumer = group.status(dot)
        if status in ("pending", "open", "dropped") and dot[0] not in first:
            first[dot[0]] = {
                "region_id": dot[0],
                "id": entry.entry_id,
                "status": status,
                "consumer": consumer,
                "waiting": 0,
            }
        elif status == "done" and dot[0] in first:
            first[dot[0]]["waiting"] += 1
    found += [facts for _, facts in sorted(first.items()) if facts["waiting"]]
    return found


def region_facts(view: RegionView) -> JsonObject:
    """What the page shows of a stream in one region as a whole."""
    return {
        "name": view.name,
        "region_id": view.region_id,
        "error": view.error or None,
        "exists": view.exists,
        "length": view.length,
        "vector": {str(one): counter for one, counter in sorted(view.vector.items())},
        "groups": [{**group.facts(), "waits": waits(view, group)} for group in view.groups],
        "tombstones": [
            {"group": name, "vector": {str(one): counter for one, counter in sorted(seen.items())}}
            for name, seen in view.tombstones
        ],
        "log_since_ms": view.log_since_ms or None,
        "log_error": view.log_error or None,
    }
