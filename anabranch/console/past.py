"""A stream as it was in one region at a time: the events of its log up to then, replayed.

The log does not reach back for ever, and the newest events are enough for the newest rows: all that
happened to an entry comes after its add. So the newest events up to that time are read, and the
rows are those whose add is among them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Optional

from anabranch.console.groups import json_place, json_spans
from anabranch.console.keys import name_of
from anabranch.console.regions import Region
from anabranch.console.view import JsonObject, RegionView, Removed, entry_of, region_facts, rows
from anabranch.crdt.vector import Dot, raise_to
from anabranch.escapes import shown
from anabranch.study.history.wording import RegionNames, tell
from anabranch.study.replies.events import DESTROYS, OBSERVED_REMOVES, REMOVALS, KeyEvent
from anabranch.study.replies.histories import KeyHistory
from anabranch.study.replies.parts import ToldPlace
from anabranch.study.replies.spans import Span

EVENTS: Final = 5000
STEPS: Final = 2000


class PastGroup:
    """A group as the replayed events leave it; only entries in these events are known."""

    def __init__(self, name: bytes) -> None:
        self.name: Final = shown(name)
        # Live creates by dot.
        self.creates: Final[dict[Dot, KeyEvent]] = {}
        self._given: Final[set[Dot]] = set()
        self._acked: Final[list[Span]] = []
        # The consumers of the pending entries.
        self._pending: dict[Dot, bytes] = {}
        self._dropped: Final[set[Dot]] = set()
        self.floor: Optional[ToldPlace] = None

    def status(self, dot: Dot) -> tuple[str, str]:
        """As `GroupView.status`; the floor is not replayed, so no entry is `below`."""
        if dot in self._pending:
            return "pending", shown(self._pending[dot])
        if any(region == dot[0] and low < dot[1] <= high for region, low, high in self._acked):
            return "acked", ""
        if dot in self._dropped:
            return "dropped", ""
        return ("done" if dot in self._given else "open"), ""

    def facts(self) -> JsonObject:
        """As `GroupView.facts`, as far as it can be replayed."""
        consumers = Counter(map(shown, self._pending.values()))
        return {
            "name": self.name,
            "creates": [
                {"dot": list(dot), "start": json_place(create.start)}
                for dot, create in sorted(self.creates.items())
            ],
            "floor": None if self.floor is None else json_place(self.floor),
            "given": None,
            "acked": json_spans(self._acked),
            "dropped": len(self._dropped),
            "consumers": [
                {"name": name, "pending": count} for name, count in sorted(consumers.items())
            ],
            "pending": len(self._pending),
            "oldest_pending": [],
            "last_delivered": None,
            "lag": None,
        }

    def take(self, event: KeyEvent) -> None:
        """Applies a local record, or an announced acknowledgement."""
        if event.kind == "acknowledge":
            self._acknowledged(event.spans)
        elif event.kind in ("delivered", "claimed"):
            for dot in event.entries:
                self._dropped.discard(dot)
                self._given.add(dot)
                if event.kind == "claimed" or not event.no_ack:
                    self._pending[dot] = event.consumer or b""
        elif event.kind == "left-pel":
            for dot in event.entries:
                self._pending.pop(dot, None)
        elif event.kind == "consumer-deleted":
            gone = {dot for dot, name in self._pending.items() if name == event.consumer}
            self._dropped.update(gone)
            for dot in gone:
                del self._pending[dot]
        elif event.kind in ("floor-set", "floor-raised"):
            self.floor = event.floor

    def _acknowledged(self, spans: list[Span]) -> None:
        self._acked.extend(spans)
        for region, low, high in spans:
            for dot in list(self._pending):
                if dot[0] == region and low < dot[1] <= high:
                    del self._pending[dot]


class Replay:
    """Applies events in their order."""

    def __init__(self, view: RegionView, names: RegionNames) -> None:
        self._view: Final = view
        self._names: Final = names
        self._groups: Final[dict[bytes, PastGroup]] = {}
        self._destroys: Final[list[KeyEvent]] = []

    def take(self, event: KeyEvent) -> None:
        """Applies one event."""
        view = self._view
        if event.is_effect:
            raise_to(view.vector, event.reached)
        if event.kind == "add":
            view.entries[event.dot] = entry_of(event.id or "", event.fields)
        elif event.kind in REMOVALS:
            self._remove(event)
        if event.kind == "create-group":
            self._create(event)
        elif event.kind in DESTROYS or event.kind in OBSERVED_REMOVES:
            self._destroy(event)
        elif event.group in self._groups:
            self._groups[event.group].take(event)
        view.groups = sorted(self._groups.values(), key=lambda group: group.name)

    def _remove(self, event: KeyEvent) -> None:
        view = self._view
        gone = [dot for dot in view.entries if event.removes(dot)]
        by = self._names.act(event)
        for dot in gone:
            view.removed[dot] = Removed(view.entries.pop(dot), by)

    def _create(self, event: KeyEvent) -> None:
        """Adds a create, unless a destroy that came before ends it."""
        if not any(destroy.ends(event) for destroy in self._destroys):
            name = event.group or b""
            self._groups.setdefault(name, PastGroup(name)).creates[event.dot] = event

    def _destroy(self, event: KeyEvent) -> None:
        """Ends creates of groups."""
        if event.kind in DESTROYS:
            self._destroys.append(event)
        for name, group in list(self._groups.items()):
            for dot, create in list(group.creates.items()):
                if event.ends(create):
                    del group.creates[dot]
            if not group.creates:
                del self._groups[name]


async def past(
    region: Region, key: bytes, until_ms: int, names: dict[int, str], count: int
) -> JsonObject:
    """The newest rows of a stream as they were, in the shape of a live look."""
    reply = await region.slow_line.ask("CRDT.HISTORY", key, "NEWEST", EVENTS, "UNTIL", until_ms)
    history = KeyHistory(reply)
    view = RegionView(region.name, region.place.region_id)
    replay = Replay(view, RegionNames(names))
    for event in history.events:
        replay.take(event)
    view.exists = bool(view.entries or view.groups)
    view.length = len(view.entries)
    shown, are_older_left = rows([view], 0, count)
    return {
        "key": name_of(key),
        "at_ms": until_ms,
        "rows": shown,
        "has_older": are_older_left or bool(history.left_out),
        "regions": [region_facts(view)],
        "names": {str(region_id): name for region_id, name in sorted(names.items())},
        "is_whole": history.is_whole,
        "last": _step(history.events[-1], history, RegionNames(names)) if history.events else None,
    }


async def timeline(region: Region, key: bytes, names: dict[int, str]) -> JsonObject:
    """The times at which the key changed in a region, oldest first, with what happened."""
    reply = await region.slow_line.ask("CRDT.HISTORY", key, "NEWEST", STEPS)
    history = KeyHistory(reply)
    steps: list[JsonObject] = []
    for event in history.events:
        step = _step(event, history, RegionNames(names))
        if steps and steps[-1]["at_ms"] == step["at_ms"]:
            steps[-1]["more"] = steps[-1].get("more", 0) + 1
            steps[-1]["removes"] = steps[-1]["removes"] or step["removes"]
        else:
            steps.append(step)
    return {"steps": steps, "left_out": history.left_out, "is_whole": history.is_whole}


def _step(event: KeyEvent, history: KeyHistory, names: RegionNames) -> JsonObject:
    return {
        "at_ms": event.clock_ms,
        "kind": event.kind,
        "text": tell(event, history, names),
        "removes": event.kind in REMOVALS or event.kind == "destroy-group",
    }
