"""What the logs of several regions tell together about one key.

An effect comes after every effect that its region had seen, in every log (S2.1). So the order of
two effects in any log tells something, and the log of the region that issued one of them tells
all: what stands before it there is what that region had seen.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final, Optional

from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.study.replies.events import KeyEvent
from anabranch.study.replies.histories import ExplainedHistory


@dataclass(frozen=True)
class ToldEffect:
    """An effect, and the region_id of the region whose log tells it.

    `is_certain`: False if another effect may have done the same before.
    """

    event: KeyEvent
    told_by: int
    is_certain: Optional[bool] = None

    @property
    def dot(self) -> Dot:
        """The dot of the effect."""
        return self.event.dot


@dataclass(frozen=True)
class EndingEffect(ToldEffect):
    """The effect that ended a create of a group.

    `had_seen_create`: whether the region that destroyed had applied the create; None if the logs do
    not tell.
    """

    had_seen_create: Optional[bool] = None


class Evidence:
    """The region in question, `asked`, and the `others` that answered the same question."""

    def __init__(self, asked: ExplainedHistory, others: list[ExplainedHistory]) -> None:
        self.asked: Final = asked
        self.others: Final = others
        self.histories: Final = [asked, *others]

    def told(self, dot: Dot) -> Optional[ToldEffect]:
        """The effect with this dot, as the log of its own region tells it, else any log."""
        for history in sorted(self.histories, key=lambda one: one.region_id != dot[0]):
            event = history.effect(dot)
            if event is not None:
                return ToldEffect(event, history.region_id)
        return None

    def applied(self, kinds: Container[str]) -> list[ToldEffect]:
        """The effects of these kinds that the region in question has applied, each once.

        Those of its own log come first, in its order. It applied the others before its log begins,
        or with a snapshot.
        """
        found: dict[Dot, ToldEffect] = {}
        for history in self.histories:
            for event in history.events:
                if event.kind in kinds and covers(self.asked.vector, *event.dot):
                    found.setdefault(event.dot, ToldEffect(event, history.region_id))
        return list(found.values())

    def is_complete(self) -> bool:
        """Whether the logs together hold all effects that the region in question has applied.

        A log of which no event is left out holds those above its floor, up to its vector.
        """
        whole = [history for history in self.histories if not history.left_out]
        return all(
            _reach([(one.floor.get(region, 0), one.vector.get(region, 0)) for one in whole])
            >= counter
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
        answers = (_had_seen(history, later, earlier) for history in self.histories)
        return next((answer for answer in answers if answer is not None), None)


def _reach(spans: list[tuple[int, int]]) -> int:
    """The counter up to which the spans (from, to] hold all counters of a region."""
    reached = 0
    for low, high in sorted(spans):
        if low <= reached:
            reached = max(reached, high)
    return reached


def _had_seen(history: ExplainedHistory, later: Dot, earlier: Dot) -> Optional[bool]:
    if not covers(history.vector, *later):
        return None
    if not covers(history.vector, *earlier):
        return False
    place, other = history.place(later), history.place(earlier)
    if place is None:
        return None
    if other is not None and other > place:
        return False
    # An effect that came back after a restore has lost its place among those of others.
    if history.region_id != later[0] or history.events[place].source:
        return None
    if other is None and history.has_snapshot_after(place):
        return None
    # An effect that is applied and not told is older than all events.
    return True
