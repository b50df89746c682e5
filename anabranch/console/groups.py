"""Groups of a stream as a region has them now, from CRDT.GROUPS."""

from __future__ import annotations

from typing import Final

from anabranch.answers import vector_of
from anabranch.console.view import JsonObject
from anabranch.crdt.vector import Dot
from anabranch.escapes import shown
from anabranch.study.replies.groups import GroupState
from anabranch.study.replies.parts import ToldPlace
from anabranch.study.replies.spans import Span, holds

# Pending entries that the page lists of a group.
OLDEST: Final = 8


class LiveGroup:
    """A group as CRDT.GROUPS tells it."""

    def __init__(self, state: GroupState) -> None:
        self.name: Final = shown(state.name)
        self._state: Final = state

    def status(self, dot: Dot) -> tuple[str, str]:
        """As `GroupView.status`."""
        state = self._state
        if dot in state.first_pending:
            return "pending", shown(state.first_pending[dot].consumer)
        is_below = dot[1] <= state.floor_counters.get(dot[0], 0)
        is_given = holds(state.given, dot)
        # After a SETID to below it, an acknowledged entry is delivered again.
        if holds(state.acked, dot) and (is_given or is_below):
            return "acked", ""
        if dot in state.first_dropped:
            return "dropped", ""
        if is_given:
            return "done", ""
        return ("below" if is_below else "open"), ""

    def facts(self) -> JsonObject:
        """As `GroupView.facts`."""
        state = self._state
        oldest = list(state.first_pending.items())[:OLDEST]
        return {
            "name": self.name,
            "creates": [
                {"dot": dot, "start": json_place(start)} for dot, start in state.creates.items()
            ],
            "floor": None if state.floor is None else json_place(state.floor),
            "given": json_spans(state.given_spans),
            "acked": json_spans(state.acked_spans),
            "dropped": len(state.first_dropped),
            "consumers": [
                {"name": shown(name), "pending": count} for name, count in state.consumers
            ],
            "pending": state.pending_count,
            "oldest_pending": [
                {
                    "dot": dot,
                    "id": one.entry_id,
                    "consumer": shown(one.consumer),
                    "deliveries": one.deliveries,
                }
                for dot, one in oldest
            ],
            "last_delivered": state.last_delivered_id,
            "lag": state.lag,
        }


def json_place(place: ToldPlace) -> object:
    """A place for the page: an entry ID, or a vector for a place that `$` set."""
    if isinstance(place, str):
        return place
    return {str(one): counter for one, counter in sorted(vector_of(place).items())}


def json_spans(spans: list[Span]) -> list[list[int]]:
    """[region_id, first counter, last counter] of each span."""
    return [[region_id, low + 1, high] for region_id, low, high in sorted(spans)]
