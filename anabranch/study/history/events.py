"""What one region tells of one key: the replies of CRDT.HISTORY and CRDT.EXPLAIN as values.

Texts are printable already (`cli.terminal.shown`). Times are ms since the epoch on the clock of the
region that tells them. An effect's dot is (region_id, counter).
"""

from __future__ import annotations

from typing import Any, Final, Optional

from anabranch.answers import vector_of
from anabranch.crdt.vector import Dot, Vector, covers

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


class Event:
    """One event of a key, as one region applied it.

    `source` is the region_id of the peer that sent it, 0 if the region issued it. `command` is the
    name of the command that issued the effect, as users type it; empty for effects that a region
    issues by itself and for local records. `dot` is None for local records and snapshots. `facts`
    holds the other fields, by kind (docs/commands.md).
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self.position: Final = int(facts["position"])
        self.at_ms: Final = int(facts.get("at-ms") or 0) if "group" in facts else 0
        self.applied_ms: Final = int(facts["clock-ms"])
        self.source: Final = int(facts["source"])
        self.command: Final = str(facts["command"]).replace("|", " ").upper()
        self.kind: Final = str(facts["kind"])
        dot = facts.get("dot")
        self.dot: Final[Optional[Dot]] = None if dot is None else (int(dot[0]), int(dot[1]))
        self.facts: Final = facts

    @property
    def time_ms(self) -> int:
        """The best known time: that of a local record, else that at which it was applied."""
        return self.at_ms or self.applied_ms

    @property
    def had_seen(self) -> Vector:
        """The vector of effects that its region had observed, or the prefix that it removes."""
        return vector_of(self.facts.get("had-seen", []))

    @property
    def dots(self) -> list[Dot]:
        """The dots that a removal names."""
        return [(int(dot[0]), int(dot[1])) for dot in self.facts.get("dots", [])]

    def entry_dots(self) -> list[Dot]:
        """The dots of the entries in a local record."""
        return [(int(one[0]), int(one[1])) for one in self.facts.get("entries", [])]

    def removes(self, dot: Dot) -> bool:
        """Whether it removes the entry with this dot, if it is there."""
        if self.kind == "remove-entries":
            return dot in self.dots
        return self.kind in REMOVALS and covers(self.had_seen, *dot)

    def destroys(self, group: str) -> bool:
        """Whether it destroys the groups of this name, or all groups."""
        return self.kind in DESTROYS and self.facts.get("group", group) == group

    def ends(self, create: Event) -> bool:
        """Whether it ends a create of a group: by S6.1, a destroy that the create had not seen.

        A removal by a deadline, or before a write that creates the key, ends only creates that it
        had observed (S10.3, S10.5).
        """
        assert self.dot is not None and create.dot is not None
        if self.kind in OBSERVED_REMOVES:
            return covers(self.had_seen, *create.dot)
        return self.destroys(str(create.facts["group"])) and not covers(create.had_seen, *self.dot)


class Telling:
    """What one region tells of one key: its history, and with CRDT.EXPLAIN its state."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.region: Final = str(reply["region"])
        self.region_id: Final = int(reply["region_id"])
        self.key: Final = str(reply["key"])
        self.now_ms: Final = int(reply["now-ms"])
        self.vector: Final = vector_of(reply["vector"])
        # The log holds every effect after this vector, and goes back to this time (0: it is empty).
        self.floor: Final = vector_of(reply["log-floor"])
        self.since_ms: Final = int(reply["log-ms"])
        self.events: Final = [Event(facts) for facts in reply["events"]]
        self.left_out: Final = int(reply["left-out"])
        self.next: Final = int(reply["next"] or 0)
        self.state: Final = reply
        # Dot of an effect → its place among the events.
        self._places: Final[dict[Dot, int]] = {
            event.dot: place for place, event in enumerate(self.events) if event.dot is not None
        }

    @property
    def is_whole(self) -> bool:
        """Whether the log goes back to the region's beginning, and no event is left out."""
        return not self.floor and not self.left_out

    def add_of(self, dot: Dot) -> Optional[Event]:
        """The add with this dot, if the log holds it."""
        event = self.effect(dot)
        return event if event is not None and event.kind == "add" else None

    def effect(self, dot: Dot) -> Optional[Event]:
        """The effect with this dot, if the log holds it."""
        place = self._places.get(dot)
        return None if place is None else self.events[place]

    def place(self, dot: Dot) -> Optional[int]:
        """The place of an effect among the events, if the log holds it."""
        return self._places.get(dot)

    def has_snapshot_after(self, place: int, until: Optional[int] = None) -> bool:
        """Whether a snapshot was joined after the event at `place` (and before that at `until`)."""
        return any(event.kind == "snapshot" for event in self.events[place:until])

    def entries(self) -> dict[Dot, dict[str, Any]]:
        """The present entries with the ID that CRDT.EXPLAIN was asked for, by dot."""
        return {
            (int(entry["region_id"]), int(entry["counter"])): entry
            for entry in self.state.get("entries", [])
        }
