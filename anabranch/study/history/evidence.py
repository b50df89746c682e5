"""What the logs of several regions tell together about one key.

An effect comes after every effect that its region had seen, in every log (S2.1). So the order of
two effects in any log tells something, and the log of the region that issued one of them tells
all: what stands before it there is what that region had seen.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, Optional

from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.study.history.events import Event, Telling


class Told:
    """One effect, and the region whose log tells it."""

    def __init__(self, event: Event, telling: Telling) -> None:
        assert event.dot is not None
        self.event: Final = event
        self.dot: Final[Dot] = event.dot
        self.telling: Final = telling


class Evidence:
    """The region in question, `asked`, and the `others` that answered the same question."""

    def __init__(self, asked: Telling, others: list[Telling]) -> None:
        self.asked: Final = asked
        self.others: Final = others
        self.tellings: Final = [asked, *others]

    def told(self, dot: Dot) -> Optional[Told]:
        """The effect with this dot, as the log of its own region tells it, else any log."""
        tellings = sorted(self.tellings, key=lambda telling: telling.region_id != dot[0])
        for telling in tellings:
            event = telling.effect(dot)
            if event is not None:
                return Told(event, telling)
        return None

    def applied(self, kinds: Container[str]) -> list[Told]:
        """The effects of these kinds that the region in question has applied, each once.

        Those of its own log come first, in its order. It applied the others before its log begins,
        or with a snapshot.
        """
        found: dict[Dot, Told] = {}
        for telling in self.tellings:
            for event in telling.events:
                dot = event.dot
                if dot is not None and event.kind in kinds and covers(self.asked.vector, *dot):
                    found.setdefault(dot, Told(event, telling))
        return list(found.values())

    def is_complete(self) -> bool:
        """Whether the logs together hold all effects that the region in question has applied.

        A log of which no event is left out holds those above its floor, up to its vector.
        """
        whole = [telling for telling in self.tellings if not telling.left_out]
        return all(
            _reach([_span(telling, region) for telling in whole]) >= counter
            for region, counter in self.asked.vector.items()
        )

    def is_older_than_log(self, had_seen: Vector) -> bool:
        """Whether `had_seen` covers all that the region in question applied before its log."""
        return not self.asked.left_out and all(
            covers(had_seen, *dot) for dot in self.asked.floor.items()
        )

    def had_seen(self, later: Dot, earlier: Dot) -> Optional[bool]:
        """Whether the region of the effect `later` had applied `earlier` when it issued `later`.

        None if the logs do not tell. Both must be effects on the key that a log tells if it holds
        them.
        """
        if later[0] == earlier[0]:
            return earlier[1] < later[1]
        for telling in self.tellings:
            answer = _had_seen(telling, later, earlier)
            if answer is not None:
                return answer
        return None


def _span(telling: Telling, region: int) -> tuple[int, int]:
    return telling.floor.get(region, 0), telling.vector.get(region, 0)


def _reach(spans: list[tuple[int, int]]) -> int:
    """The counter up to which the spans (from, to] hold all counters of a region."""
    reached = 0
    for low, high in sorted(spans):
        if low <= reached:
            reached = max(reached, high)
    return reached


def _had_seen(telling: Telling, later: Dot, earlier: Dot) -> Optional[bool]:
    if not covers(telling.vector, *later):
        return None
    if not covers(telling.vector, *earlier):
        return False
    place, other = telling.place(later), telling.place(earlier)
    if place is None:
        return None
    if other is not None and other > place:
        return False
    # An effect that came back after a restore has lost its place among those of others.
    if telling.region_id != later[0] or telling.events[place].source:
        return None
    if other is None and telling.has_snapshot_after(place):
        return None
    # An effect that is applied and not told is older than all events.
    return True
