"""The replicated state of one stream beside its entries, as CRDT.EXPLAIN tells it.

The state is a set of elements with a dot each (header, creates of groups, deadlines, configurations
of idempotency), and the acked spans of each create. A region also tells the removals that its log
holds. The functions here are pure; `client` asks the regions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from anabranch.answers import vector_of
from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.pipeline.resp import named, shown

# Parts of a stream.
ENTRY: Final = "entry"
HEADER: Final = "header"
GROUP: Final = "group"
ACKED: Final = "acked span"
DEADLINE: Final = "deadline"
CONFIGURATION: Final = "idempotency window"

# Part, name of the group or "", dot.
Key = tuple[str, str, Dot]
# Group, dot of the create, region_id of the log.
SpanKey = tuple[str, Dot, int]
Spans = frozenset[tuple[int, int]]


# Kinds of events that remove, and their names where no command issued them.
_REMOVALS: Final = {
    "remove-entries": "IDMP conflict",
    "trim": "XTRIM",
    "delete": "DEL",
    "flush": "FLUSHALL",
    "destroy-group": "XGROUP DESTROY",
    "expire": "expiry",
    "remove-observed": "leftovers of an expired or deleted key",
}
# Those of them that leave the rest of the key alone.
_OF_A_PART: Final = ("remove-entries", "trim", "destroy-group")


@dataclass(frozen=True)
class Removal:
    """A removal in a region's log: `name` is its command, `kind` that of the event, `dot` its dot.

    `taken` is the vector that it had observed, `dots` are the entries that it names.
    """

    name: str
    kind: str
    dot: Dot
    group: str
    taken: Vector
    dots: frozenset[Dot]

    def takes(self, part: str, name: str, dot: Dot) -> bool:
        """Whether it can have removed an element; `name` is that of a group, or empty."""
        takes_key = self.kind not in _OF_A_PART
        if part == GROUP:
            is_older = self.dot[0] == dot[0] and self.dot[1] < dot[1]
            return not is_older and (self.group == name if self.group else takes_key)
        if part == ENTRY:
            return dot in self.dots or covers(self.taken, *dot)
        if part == DEADLINE:
            return self.kind == "remove-observed" and covers(self.taken, *dot)
        return takes_key and covers(self.taken, *dot)


@dataclass
class KeyState:
    """What CRDT.EXPLAIN tells of a key in one step of a region.

    `exists`: clients see the key. `hidden`: a deadline hides it from them.
    """

    vector: Vector
    exists: bool = False
    hidden: bool = False
    elements: dict[Key, str] = field(default_factory=dict)
    spans: dict[SpanKey, Spans] = field(default_factory=dict)
    removals: list[Removal] = field(default_factory=list)

    def holds_anything(self) -> bool:
        """Whether clients see the key, or something replicated is left of it."""
        return self.exists or bool(self.elements)

    def groups(self) -> set[str]:
        """The names of the live groups."""
        return {name for part, name, _ in self.elements if part == GROUP}


def key_state(facts: dict[str, Any]) -> KeyState:
    """The state in a reply of CRDT.EXPLAIN, as a map."""
    state = KeyState(vector_of(facts["vector"]), bool(facts["exists"]), bool(facts["hidden"]))
    for region_id, counter, entry_id in facts["header"]:
        state.elements[HEADER, "", (region_id, counter)] = shown(entry_id)
    for dot, at_ms, _ in facts["deadlines"]:
        at = shown(at_ms) if isinstance(at_ms, bytes) else f"{at_ms} ms"
        state.elements[DEADLINE, "", _dot(dot)] = at
    for dot, duration_s, maxsize in facts["configurations"]:
        state.elements[CONFIGURATION, "", _dot(dot)] = f"{duration_s} s, {maxsize} pairs"
    for create in map(named, facts["groups"]):
        name, dot, start = shown(create["name"]), _dot(create["create"]), create["start"]
        state.elements[GROUP, name, dot] = _place(start)
        for region_id, first, last in create["acked"]:
            key = (name, dot, region_id)
            state.spans[key] = state.spans.get(key, frozenset()) | {(first, last)}
    for event in map(named, facts.get("events", [])):
        if shown(event["kind"]) in _REMOVALS:
            state.removals.append(_removal(event))
    return state


def _removal(event: dict[str, Any]) -> Removal:
    kind = shown(event["kind"])
    name = shown(event["command"]).replace("|", " ").upper()
    return Removal(
        name if name and kind not in ("expire", "remove-observed") else _REMOVALS[kind],
        kind,
        _dot(event["dot"]),
        shown(event.get("group", b"")),
        vector_of(event.get("had-seen", [])),
        frozenset(map(_dot, event.get("dots", []))),
    )


def _dot(pair: list[Any]) -> Dot:
    return int(pair[0]), int(pair[1])


def _place(start: Any) -> str:
    if isinstance(start, bytes):
        return f"above {shown(start)}"
    above = ", ".join(f"{counter} of region {one}" for one, counter in vector_of(start).items())
    return f"above {above or 'nothing'}"
