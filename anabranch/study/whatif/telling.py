"""What regions tell, as values: vectors, effects that are on one disk alone, states of groups.

Replies may have names as bytes or as text; names of keys, groups and consumers stay bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Optional

from anabranch.answers import vector_of
from anabranch.crdt import ids
from anabranch.crdt.place import Place, at_counters, at_id
from anabranch.crdt.spans import UNKNOWN_ID, Spans, SpansByRegion
from anabranch.crdt.vector import Dot, Vector, covers

# Of one key: (origin, counter) → entry ID.
Entries = dict[Dot, int]
# A counter above all.
NO_END: Final = ids.MAX_HALF >> 1


def word(value: Any) -> str:
    """A word of a reply as text."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def raw(value: Any) -> bytes:
    """The name of a key, group or consumer as bytes."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")


def fields_of(reply: Any) -> dict[str, Any]:
    """A map reply by names, from a RESP3 map or a flat array."""
    if isinstance(reply, dict):
        return {word(name): value for name, value in reply.items()}
    return {word(reply[index]): reply[index + 1] for index in range(0, len(reply), 2)}


def joined(vectors: Iterable[Vector]) -> Vector:
    """The highest counter of each region."""
    found: Vector = {}
    for vector in vectors:
        for region_id, counter in vector.items():
            found[region_id] = max(counter, found.get(region_id, 0))
    return found


def id_of(value: Any) -> int:
    """An entry ID of a reply as a number."""
    return ids.parse(raw(value), 0)


def place_of(value: Any) -> Place:
    """A start or a floor: an entry ID, or a flat vector."""
    return at_counters(vector_of(value)) if isinstance(value, list) else at_id(id_of(value))


def span(region_id: int, low: int, high: int) -> SpansByRegion:
    """The counters of one region log above `low` and up to `high`."""
    spans = Spans()
    spans.add(low, high, UNKNOWN_ID)
    return {region_id: spans}


def spans_of(reply: list[Any]) -> SpansByRegion:
    """Spans from [region_id, from, to] triples."""
    found: SpansByRegion = {}
    for region_id, low, high in reply:
        found.setdefault(int(region_id), Spans()).add(int(low), int(high), UNKNOWN_ID)
    return found


def minus(spans: SpansByRegion, other: SpansByRegion) -> SpansByRegion:
    """The counters of `spans` that `other` lacks."""
    empty = Spans()
    left = {one: mine.minus(other.get(one, empty)) for one, mine in spans.items()}
    return {one: mine for one, mine in left.items() if mine}


def union(*parts: SpansByRegion) -> SpansByRegion:
    """The counters of all parts."""
    found: SpansByRegion = {}
    for part in parts:
        for region_id, spans in part.items():
            found.setdefault(region_id, Spans()).union(spans)
    return found


def holds(spans: SpansByRegion, dot: Dot) -> bool:
    """Whether spans hold the counter of a dot."""
    mine = spans.get(dot[0])
    return mine is not None and mine.contains(dot[1])


def spans_with(dots: Iterable[Dot]) -> SpansByRegion:
    """Spans that hold these dots and no others."""
    found: SpansByRegion = {}
    for region_id, counter in dots:
        found.setdefault(region_id, Spans()).add(counter - 1, counter, UNKNOWN_ID)
    return found


class Effect:
    """One effect of CRDT.EFFECTS. `key` None: it changes every key. `facts`: all its fields."""

    def __init__(self, reply: Any) -> None:
        facts = fields_of(reply)
        self.key: Final[Optional[bytes]] = None if facts["key"] is None else raw(facts["key"])
        self.kind: Final = word(facts["kind"])
        self.command: Final = word(facts["command"]).replace("|", " ").upper()
        self.dot: Final[Dot] = (int(facts["dot"][0]), int(facts["dot"][1]))
        self.facts: Final = facts

    @property
    def had_seen(self) -> Vector:
        """The vector of what it removes; empty for effects without one."""
        return vector_of(self.facts.get("had-seen", []))

    def removed(self) -> SpansByRegion:
        """The counters of entries that it removes if they are there."""
        if self.kind == "remove-entries":
            return spans_with((int(dot[0]), int(dot[1])) for dot in self.facts["dots"])
        if self.kind not in ("trim", "delete", "flush", "expire", "remove-observed"):
            return {}
        return union(*(span(one, 0, counter) for one, counter in self.had_seen.items()))


class GroupState:
    """One group of a key in one region: a map of CRDT.GROUPS."""

    def __init__(self, reply: Any) -> None:
        facts = fields_of(reply)
        self.name: Final = raw(facts["name"])
        self.creates: Final[dict[Dot, Place]] = {
            (int(dot[0]), int(dot[1])): place_of(start) for dot, start in facts["creates"]
        }
        self.acked: Final = spans_of(facts["acked"])
        self.given: Final = spans_of(facts["given"])
        self.pending: Final = spans_of(facts["pending-spans"])
        self.dropped: Final = spans_of(facts["dropped-spans"])
        floor, raised = facts["floor"], facts["raised-to"]
        self.floor: Final[Optional[Place]] = None if floor is None else place_of(floor)
        self.raised_to: Final = 0 if raised is None else id_of(raised)
        self.consumers: Final = [(raw(name), int(count)) for name, count in facts["consumers"]]

    def handed_out(self) -> SpansByRegion:
        """Counters that are given, or pending without that, after XCLAIM with FORCE (S7.4)."""
        return union(self.given, self.pending)

    def unannounced(self) -> SpansByRegion:
        """Counters that are given, and neither pending, dropped nor announced: acknowledged here.

        They may hold entries that were removed before they were delivered.
        """
        return minus(self.given, union(self.acked, self.pending, self.dropped))


class DeliveredThere:
    """The entries that a log tells as delivered while creates of a group were live.

    Takes the events of CRDT.HISTORY in their order. `floor`: the log holds every effect after it,
    so creates up to it are live from the beginning.
    """

    def __init__(self, name: bytes, creates: set[Dot], floor: Vector) -> None:
        self.name: Final = name
        self.dots: Final[set[Dot]] = set()
        self._creates: Final = creates
        self._live: set[Dot] = {dot for dot in creates if covers(floor, *dot)}

    def take(self, event: dict[str, Any]) -> None:
        """Takes the next event of the key."""
        kind = word(event["kind"])
        if "group" in event and raw(event["group"]) != self.name:
            return
        if kind == "create-group":
            self._live |= {dot for dot in self._creates if list(dot) == event["dot"]}
        elif kind in ("destroy-group", "delete", "flush"):
            # An effect stands in the log after all that its vector covers, so no create that
            # stands before a destroy covers it (S6.1).
            self._live = set()
        elif kind in ("expire", "remove-observed"):
            had_seen = vector_of(event["had-seen"])
            self._live = {dot for dot in self._live if not covers(had_seen, *dot)}
        elif kind == "delivered" and self._live:
            self.dots.update((int(entry[0]), int(entry[1])) for entry in event["entries"])


class KeyTelling:
    """What one region tells of one key.

    `groups` by name. `entries` are the entries present, as far as their counters were asked for.
    """

    def __init__(self, groups: dict[bytes, GroupState]) -> None:
        self.groups: Final = groups
        self.entries: Final[Entries] = {}


def groups_of(reply: Any) -> dict[bytes, GroupState]:
    """The reply of CRDT.GROUPS, by name."""
    states = [GroupState(one) for one in fields_of(reply)["groups"]]
    return {state.name: state for state in states}
