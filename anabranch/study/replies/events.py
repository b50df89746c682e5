"""The events of a key, as one region applied them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Optional

from anabranch.answers import vector_of
from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.study.replies import parts, spans

# Kinds of events that remove entries they had observed.
REMOVALS: Final = frozenset(
    {"remove-entries", "trim", "delete", "flush", "remove-observed", "expire"}
)
# Those that do not name the entries. They tell what they remove of each log (a trim), or what they
# had seen.
SWEEPS: Final = REMOVALS - {"remove-entries"}
# Kinds that destroy groups by delete-wins (S6.1), and by observed-remove (S10.3).
DESTROYS: Final = frozenset({"destroy-group", "delete", "flush"})
OBSERVED_REMOVES: Final = frozenset({"remove-observed", "expire"})


@dataclass(frozen=True)
class KeyEvent:
    """One event of a key: an effect, a local record of a group, or a snapshot that was joined.

    Times are ms since the epoch on the clock of the region that tells it. `source` is the region_id
    of the peer that sent it, 0 if the region issued it. `command` is the name of the command that
    issued the effect, as users type it; empty for effects that a region issues by itself. `dot` is
    (0, 0) for records and snapshots. The other fields are there or not by the kind, as in the reply
    (docs/commands.md). `entries` maps dots to entry IDs. An `at_ms` of None is never.
    """

    position: int
    clock_ms: int
    source: int
    command: str
    kind: str
    dot: Dot = (0, 0)
    key: Optional[bytes] = None
    group: Optional[bytes] = None
    id: Optional[str] = None
    fields: tuple[bytes, ...] = ()
    pid: Optional[bytes] = None
    iid: Optional[bytes] = None
    other_key: Optional[bytes] = None
    had_seen: Optional[Vector] = None
    dots: list[Dot] = field(default_factory=list)
    start: parts.ToldPlace = ""
    drops_references: bool = False
    spans: list[spans.Span] = field(default_factory=list)
    at_ms: Optional[int] = 0
    replaces: list[Dot] = field(default_factory=list)
    duration_s: int = 0
    maxsize: int = 0
    vector: Vector = field(default_factory=dict)
    entries: dict[Dot, str] = field(default_factory=dict)
    consumer: Optional[bytes] = None
    no_ack: bool = False
    deliveries: tuple[int, ...] = ()
    floor: Optional[parts.ToldPlace] = None

    @property
    def is_effect(self) -> bool:
        """Whether it is an effect."""
        return self.dot != (0, 0)

    @property
    def reached(self) -> Vector:
        """Region_id → the highest counter that the region has applied with it."""
        return dict([self.dot]) if self.is_effect else self.vector

    @property
    def time_ms(self) -> int:
        """The best known time: that of a local record, else that at which it was applied."""
        return (self.at_ms if self.group is not None else 0) or self.clock_ms

    @property
    def covered(self) -> Vector:
        """What its region had observed, or the prefix that it removes; empty for other kinds."""
        return self.had_seen or {}

    def removes(self, dot: Dot) -> bool:
        """Whether it removes the entry with this dot, if it is there."""
        return dot in self.dots or (self.kind in SWEEPS and covers(self.covered, *dot))

    def destroys(self, group: Optional[bytes]) -> bool:
        """Whether it destroys the groups of this name, or all groups."""
        return self.kind in DESTROYS and self.group in (None, group)

    def ends(self, create: KeyEvent) -> bool:
        """Whether it ends a create of a group: by S6.1, a destroy that the create had not seen.

        A removal by a deadline, or before a write that creates the key, ends only creates that it
        had observed (S10.3, S10.5).
        """
        if self.kind in OBSERVED_REMOVES:
            return covers(self.covered, *create.dot)
        return self.destroys(create.group) and not covers(create.covered, *self.dot)


def _entries(reply: Any) -> dict[Dot, str]:
    return {parts.dot_of(one): parts.word(one[2]) for one in reply}


# How each field of an event is read.
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("position", "clock-ms", "source", "duration-s", "maxsize"), int),
    **dict.fromkeys(("group", "pid", "iid", "other-key", "consumer"), parts.raw),
    **dict.fromkeys(("kind", "id"), parts.word),
    **dict.fromkeys(("had-seen", "vector"), vector_of),
    **dict.fromkeys(("dots", "replaces"), parts.dots_of),
    **dict.fromkeys(("start", "floor"), parts.told_place),
    "command": lambda name: parts.word(name).replace("|", " ").upper(),
    "key": lambda key: None if key is None else parts.raw(key),
    "dot": parts.dot_of,
    "fields": lambda words: tuple(map(parts.raw, words)),
    "spans": spans.triples_of,
    "at-ms": parts.deadline_of,
    "entries": _entries,
    **dict.fromkeys(("no-ack", "drops-references"), bool),
    "deliveries": lambda counts: tuple(map(int, counts)),
}


def event_of(reply: Any) -> KeyEvent:
    """An event of a reply."""
    known = {name: value for name, value in parts.fields_of(reply).items() if name in _READERS}
    return KeyEvent(
        **{name.replace("-", "_"): _READERS[name](value) for name, value in known.items()}
    )
