"""Groups of a stream as a region has them now, from CRDT.GROUPS."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from anabranch.answers import vector_of
from anabranch.console.view import Facts
from anabranch.crdt.vector import Dot


class SpanSet:
    """Spans `(from, to]` of counters, by region log."""

    def __init__(self, spans: list[Any]) -> None:
        self._starts: dict[int, list[int]] = {}
        self._ends: dict[int, list[int]] = {}
        for region_id, start, end in spans:
            self._starts.setdefault(int(region_id), []).append(int(start))
            self._ends.setdefault(int(region_id), []).append(int(end))

    def contains(self, dot: Dot) -> bool:
        """Whether a span holds this dot."""
        ends = self._ends.get(dot[0], [])
        index = bisect_left(ends, dot[1])
        return index < len(ends) and self._starts[dot[0]][index] < dot[1]

    def listed(self) -> list[list[int]]:
        """[region_id, first counter, last counter] of each span."""
        return [
            [region_id, start + 1, end]
            for region_id in sorted(self._ends)
            for start, end in zip(self._starts[region_id], self._ends[region_id], strict=True)
        ]


class LiveGroup:
    """A group as CRDT.GROUPS tells it; texts are printable already."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.name: Final = str(reply["name"])
        self._acked: Final = SpanSet(reply["acked"])
        self._given: Final = SpanSet(reply["given"])
        self._floors: Final = vector_of(reply["floor-counters"])
        self._dropped: Final = {(int(one[0]), int(one[1])) for one in reply["dropped"]}
        self._pending: Final = {(int(one[0]), int(one[1])): str(one[3]) for one in reply["pending"]}
        self._reply: Final = reply

    def status(self, dot: Dot) -> tuple[str, str]:
        """As `GroupView.status`."""
        if dot in self._pending:
            return "pending", self._pending[dot]
        is_below = dot[1] <= self._floors.get(dot[0], 0)
        # After a SETID to below it, an acknowledged entry is delivered again.
        if self._acked.contains(dot) and (self._given.contains(dot) or is_below):
            return "acked", ""
        if dot in self._dropped:
            return "dropped", ""
        if self._given.contains(dot):
            return "done", ""
        return ("below" if is_below else "open"), ""

    def facts(self) -> Facts:
        """As `GroupView.facts`."""
        reply = self._reply
        return {
            "name": self.name,
            "creates": [{"dot": dot, "start": place_of(start)} for dot, start in reply["creates"]],
            "floor": None if reply["floor"] is None else place_of(reply["floor"]),
            "given": self._given.listed(),
            "acked": self._acked.listed(),
            "dropped": len(self._dropped),
            "consumers": [
                {"name": name, "pending": int(count)} for name, count in reply["consumers"]
            ],
            "pending": int(reply["pending-count"]),
            "oldest_pending": [
                {
                    "dot": [int(one[0]), int(one[1])],
                    "id": one[2],
                    "consumer": one[3],
                    "deliveries": int(one[5]),
                }
                for one in reply["pending"][:OLDEST]
            ],
            "last_delivered": reply["last-delivered-id"],
            "lag": int(reply["lag"]),
        }


# Pending entries that the page lists of a group.
OLDEST: Final = 8


def place_of(place: Any) -> Any:
    """A place as text: an entry ID, or a vector for a place that `$` set."""
    if isinstance(place, str):
        return place
    return {str(one): counter for one, counter in sorted(vector_of(place).items())}
