"""The history of a key in one region, and the state of the key there."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Optional

from anabranch.answers import vector_of
from anabranch.crdt.vector import Dot
from anabranch.study.replies import parts, spans
from anabranch.study.replies.events import KeyEvent, event_of


class LiveCreate(NamedTuple):
    """A create of a group that lives in the region."""

    group: bytes
    dot: Dot
    start: parts.ToldPlace
    acked: list[spans.Span]


class KeyDeadline(NamedTuple):
    """A deadline of the key; `at_ms` None: never. The one that `wins` is in force."""

    dot: Dot
    at_ms: Optional[int]
    wins: bool


class EntryInGroup(NamedTuple):
    """The state of an entry in one group. `pending_for` is a consumer, None: it is not pending."""

    group: bytes
    is_above_floor: bool
    is_given: bool
    pending_for: Optional[bytes]
    is_dropped: bool
    is_acked: bool


class KeyState:
    """The state of a key in one region: the reply of CRDT.EXPLAIN without its history.

    `entry_id` is the ID that was asked for, empty if none was. `entries` are the present entries
    with that ID, and their states in the groups.
    """

    def __init__(self, reply: Any) -> None:
        facts = parts.fields_of(reply)
        self.now_ms: Final = int(facts["now-ms"])
        self.vector: Final = vector_of(facts["vector"])
        self.exists: Final = bool(facts["exists"])
        self.is_hidden: Final = bool(facts["hidden"])
        self.length: Final = int(facts["length"])
        self.last_id: Final = parts.word(facts["last-id"])
        self.deadlines: Final = [
            KeyDeadline(parts.dot_of(dot), parts.deadline_of(at_ms), bool(wins))
            for dot, at_ms, wins in facts["deadlines"]
        ]
        self.groups: Final = [
            LiveCreate(
                parts.raw(one["name"]),
                parts.dot_of(one["create"]),
                parts.told_place(one["start"]),
                spans.triples_of(one["acked"]),
            )
            for one in map(parts.fields_of, facts["groups"])
        ]
        self.entry_id: Final = parts.word(facts.get("id", ""))
        self.entries: Final = {
            (int(one["region_id"]), int(one["counter"])): [
                EntryInGroup(
                    parts.raw(group["name"]),
                    bool(group["above-floor"]),
                    bool(group["given"]),
                    None if group["pending-for"] is None else parts.raw(group["pending-for"]),
                    bool(group["dropped"]),
                    bool(group["acked"]),
                )
                for group in map(parts.fields_of, one["groups"])
            ]
            for one in map(parts.fields_of, facts.get("entries", []))
        }


class KeyHistory:
    """The history of a key in one region: the reply of CRDT.HISTORY.

    The log holds every effect after the vector `floor`, and goes back to `since_ms` (0: it is
    empty). `left_out` older events are not told. `next` is the position to continue after, or 0.
    """

    def __init__(self, reply: Any) -> None:
        facts = parts.fields_of(reply)
        self.region: Final = parts.word(facts["region"])
        self.region_id: Final = int(facts["region_id"])
        self.key: Final = parts.raw(facts["key"])
        self.now_ms: Final = int(facts["now-ms"])
        self.vector: Final = vector_of(facts["vector"])
        self.floor: Final = vector_of(facts["log-floor"])
        self.since_ms: Final = int(facts["log-ms"])
        self.events: Final = [event_of(event) for event in facts["events"]]
        self.left_out: Final = int(facts["left-out"])
        self.next: Final = int(facts["next"] or 0)
        # Dot of an effect → its place among the events.
        self._places: Final[dict[Dot, int]] = {
            event.dot: place for place, event in enumerate(self.events) if event.is_effect
        }

    @property
    def is_whole(self) -> bool:
        """Whether the log goes back to the region's beginning, and no event is left out."""
        return not self.floor and not self.left_out

    def effect(self, dot: Dot) -> Optional[KeyEvent]:
        """The effect with this dot, if the log holds it."""
        place = self._places.get(dot)
        return None if place is None else self.events[place]

    def place(self, dot: Dot) -> Optional[int]:
        """The place of an effect among the events, if the log holds it."""
        return self._places.get(dot)

    def has_snapshot_after(self, place: int, until: Optional[int] = None) -> bool:
        """Whether a snapshot was joined after the event at `place` (and before that at `until`)."""
        return any(event.kind == "snapshot" for event in self.events[place:until])


class ExplainedHistory(KeyHistory):
    """The reply of CRDT.EXPLAIN: the history of a key in one region, and its `state`."""

    def __init__(self, reply: Any) -> None:
        super().__init__(reply)
        self.state: Final = KeyState(reply)
