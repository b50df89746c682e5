"""A stream as it was in one region at a time: the events of its log up to then, replayed.

The log does not reach back for ever, and the newest events are enough for the newest rows: all that
happened to an entry comes after its add. So the newest events up to that time are read, and the
rows are those whose add is among them.
"""

from __future__ import annotations

from typing import Any, Final

from anabranch.console.groups import place_of
from anabranch.console.keys import name_of
from anabranch.console.regions import Region, text
from anabranch.console.view import Facts, RegionView, Removed, entry_of, region_facts, rows
from anabranch.crdt.vector import Dot
from anabranch.study.history.entry import effect_facts
from anabranch.study.history.events import DESTROYS, OBSERVED_REMOVES, REMOVALS, Event, Telling
from anabranch.study.history.story import tell
from anabranch.study.history.wording import Names

EVENTS: Final = 5000
STEPS: Final = 2000


class PastGroup:
    """A group as the replayed events leave it; only entries in these events are known."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        # Live creates by dot.
        self.creates: Final[dict[Dot, Event]] = {}
        self._given: Final[set[Dot]] = set()
        self._acked: Final[list[tuple[int, int, int]]] = []
        self._pending: dict[Dot, str] = {}
        self._dropped: Final[set[Dot]] = set()
        self.floor: Any = None

    def status(self, dot: Dot) -> tuple[str, str]:
        """As `GroupView.status`; the floor is not replayed, so no entry is `below`."""
        if dot in self._pending:
            return "pending", self._pending[dot]
        if any(region == dot[0] and low < dot[1] <= high for region, low, high in self._acked):
            return "acked", ""
        if dot in self._dropped:
            return "dropped", ""
        return ("done" if dot in self._given else "open"), ""

    def facts(self) -> Facts:
        """As `GroupView.facts`, as far as it can be replayed."""
        consumers: dict[str, int] = {}
        for consumer in self._pending.values():
            consumers[consumer] = consumers.get(consumer, 0) + 1
        return {
            "name": self.name,
            "creates": [
                {"dot": list(dot), "start": place_of(create.facts["start"])}
                for dot, create in sorted(self.creates.items())
            ],
            "floor": None if self.floor is None else place_of(self.floor),
            "given": None,
            "acked": [[region, low + 1, high] for region, low, high in sorted(self._acked)],
            "dropped": len(self._dropped),
            "consumers": [
                {"name": name, "pending": count} for name, count in sorted(consumers.items())
            ],
            "pending": len(self._pending),
            "oldest_pending": [],
            "last_delivered": None,
            "lag": None,
        }

    def take(self, event: Event) -> None:
        """Applies a local record, or an announced acknowledgement."""
        facts = event.facts
        if event.kind == "acknowledge":
            self._acknowledged(facts["spans"])
        elif event.kind in ("delivered", "claimed"):
            for dot in event.entry_dots():
                self._dropped.discard(dot)
                self._given.add(dot)
                if event.kind == "claimed" or not facts["no-ack"]:
                    self._pending[dot] = str(facts["consumer"])
        elif event.kind == "left-pel":
            for dot in event.entry_dots():
                self._pending.pop(dot, None)
        elif event.kind == "consumer-deleted":
            gone = {dot for dot, name in self._pending.items() if name == facts["consumer"]}
            self._dropped.update(gone)
            for dot in gone:
                del self._pending[dot]
        elif event.kind in ("floor-set", "floor-raised"):
            self.floor = facts["floor"]

    def _acknowledged(self, spans: list[Any]) -> None:
        for region, low, high in spans:
            span = (int(region), int(low), int(high))
            self._acked.append(span)
            for dot in list(self._pending):
                if dot[0] == span[0] and span[1] < dot[1] <= span[2]:
                    del self._pending[dot]


class Replay:
    """Applies events in their order."""

    def __init__(self, view: RegionView, names: Names) -> None:
        self._view: Final = view
        self._names: Final = names
        self._groups: Final[dict[str, PastGroup]] = {}
        self._destroys: Final[list[Event]] = []

    def take(self, event: Event) -> None:
        """Applies one event."""
        view = self._view
        if event.dot is not None:
            region_id, counter = event.dot
            view.vector[region_id] = max(view.vector.get(region_id, 0), counter)
        if event.kind == "add" and event.dot is not None:
            view.entries[event.dot] = entry_of(event.facts["id"], event.facts["fields"])
        elif event.kind in REMOVALS:
            self._remove(event)
        if event.kind == "create-group" and event.dot is not None:
            self._create(event, event.dot)
        elif event.kind in DESTROYS or event.kind in OBSERVED_REMOVES:
            self._destroy(event)
        elif event.facts.get("group") in self._groups:
            self._groups[event.facts["group"]].take(event)
        view.groups = [self._groups[name] for name in sorted(self._groups)]

    def _remove(self, event: Event) -> None:
        view = self._view
        gone = [dot for dot in view.entries if event.removes(dot)]
        by = self._names.act(effect_facts(event))
        for dot in gone:
            view.removed[dot] = Removed(view.entries.pop(dot), by)

    def _create(self, event: Event, dot: Dot) -> None:
        """Adds a create, unless a destroy that came before ends it."""
        if not any(destroy.ends(event) for destroy in self._destroys):
            name = str(event.facts["group"])
            self._groups.setdefault(name, PastGroup(name)).creates[dot] = event

    def _destroy(self, event: Event) -> None:
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
) -> Facts:
    """The newest rows of a stream as they were, in the shape of a live look."""
    reply = await region.slow_line.ask("CRDT.HISTORY", key, "NEWEST", EVENTS, "UNTIL", until_ms)
    telling = Telling(text(reply))
    view = RegionView(region.name, region.place.region_id)
    replay = Replay(view, Names(names))
    for event in telling.events:
        replay.take(event)
    view.exists = bool(view.entries or view.groups)
    view.length = len(view.entries)
    shown, are_older_left = rows([view], 0, count)
    return {
        "key": name_of(key),
        "at_ms": until_ms,
        "rows": shown,
        "has_older": are_older_left or bool(telling.left_out),
        "regions": [region_facts(view)],
        "names": {str(region_id): name for region_id, name in sorted(names.items())},
        "is_whole": telling.is_whole,
        "last": _step(telling.events[-1], telling, Names(names)) if telling.events else None,
    }


async def timeline(region: Region, key: bytes, names: dict[int, str]) -> Facts:
    """The times at which the key changed in a region, oldest first, with what happened."""
    reply = await region.slow_line.ask("CRDT.HISTORY", key, "NEWEST", STEPS)
    telling = Telling(text(reply))
    steps: list[Facts] = []
    for event in telling.events:
        step = _step(event, telling, Names(names))
        if steps and steps[-1]["at_ms"] == step["at_ms"]:
            steps[-1]["more"] = steps[-1].get("more", 0) + 1
            steps[-1]["removes"] = steps[-1]["removes"] or step["removes"]
        else:
            steps.append(step)
    return {"steps": steps, "left_out": telling.left_out, "is_whole": telling.is_whole}


def _step(event: Event, telling: Telling, names: Names) -> Facts:
    return {
        "at_ms": event.applied_ms,
        "kind": event.kind,
        "text": tell(event, telling, names),
        "removes": event.kind in REMOVALS or event.kind == "destroy-group",
    }
