"""The events of a timeline in order, in groups that are drawn side by side.

    LaneRow     points and marks that stand in lanes, at one height: those of one row of a table, or
                events of different regions that no arrow separates
    Transfers   what regions applied, one line for each (via, to)
    Line        a mark across the lanes: a cut, a heal, a fault
    Edge        a gap, a band or an outage begins or ends; it takes no room

Regions hear of each other only through arrows. So events of different lanes between two groups of
arrows are concurrent, and their heights say nothing about their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from anabranch.study.diagram.model import Arrow, Band, Gap, Mark, Outage, Point, Timeline

InLane = Union[Point, Mark]


@dataclass
class LaneRow:
    """Events in lanes: region_id → its events in order. `begin_ms` is the time of the first."""

    label: str
    begin_ms: int
    lanes: dict[int, list[InLane]] = field(default_factory=dict)


@dataclass
class Crossing:
    """Effects that region `to` applied from its peer `via`, within one group of arrows."""

    via: int
    to: int
    arrows: list[Arrow] = field(default_factory=list)

    def goes_on(self, earlier: Crossing) -> bool:
        """Whether this crossing passes on effects that an earlier one brought."""
        return any(passes_on(arrow, one) for arrow in self.arrows for one in earlier.arrows)


@dataclass
class Transfers:
    """A group of arrows."""

    begin_ms: int
    crossings: list[Crossing] = field(default_factory=list)


@dataclass
class Line:
    """A mark across the lanes."""

    mark: Mark


@dataclass
class Edge:
    """An interval begins or ends."""

    of: Union[Gap, Band, Outage]
    begins: bool


Stage = Union[LaneRow, Transfers, Line, Edge]
_Item = Union[Point, Arrow, Mark, Edge]


def staged(timeline: Timeline) -> list[Stage]:
    """The stages of the timeline, in order."""
    stages: list[Stage] = []
    for item in _in_order(timeline):
        last = stages[-1] if stages else None
        if isinstance(item, Edge):
            stages.append(item)
        elif isinstance(item, Arrow):
            if not isinstance(last, Transfers):
                last = Transfers(item.when.ms)
                stages.append(last)
            _crossing(last, item).arrows.append(item)
        elif isinstance(item, Mark) and len(item.regions) != 1:
            stages.append(Line(item))
        else:
            region = item.region if isinstance(item, Point) else item.regions[0]
            if not (isinstance(last, LaneRow) and _joins(last, item, region)):
                last = LaneRow(item.row, item.when.ms)
                stages.append(last)
            last.lanes.setdefault(region, []).append(item)
    return stages


def _in_order(timeline: Timeline) -> list[_Item]:
    """All events and edges in order. At one moment, intervals end before others begin."""
    found: list[tuple[int, int, _Item]] = []
    intervals: list[Union[Gap, Band, Outage]] = [*timeline.gaps, *timeline.bands, *timeline.outages]
    for interval in intervals:
        found.append((interval.begin.order, 1, Edge(interval, True)))
        if interval.end is not None:
            found.append((interval.end.order, 0, Edge(interval, False)))
    found += [(one.when.order, 2, one) for one in timeline.points]
    found += [(one.when.order, 2, one) for one in timeline.arrows]
    found += [(one.when.order, 2, one) for one in timeline.marks]
    found.sort(key=lambda each: (each[0], each[1]))
    return [item for _, _, item in found]


def _crossing(transfers: Transfers, arrow: Arrow) -> Crossing:
    """The crossing that an arrow joins: none that stands above another one which brought `via` it.

    Otherwise effects would leave a region above the place where they came to it.
    """
    for crossing in reversed(transfers.crossings):
        if (crossing.via, crossing.to) == (arrow.via, arrow.to):
            if crossing.arrows[-1].is_snapshot == arrow.is_snapshot:
                return crossing
        if any(passes_on(arrow, earlier) for earlier in crossing.arrows):
            break
    transfers.crossings.append(Crossing(arrow.via, arrow.to))
    return transfers.crossings[-1]


def passes_on(arrow: Arrow, earlier: Arrow) -> bool:
    """Whether `earlier` brought effects of an arrow to the region that sends it."""
    return (
        (earlier.to, earlier.origin) == (arrow.via, arrow.origin)
        and earlier.first <= arrow.last
        and arrow.first <= earlier.last
    )


def _joins(row: LaneRow, item: InLane, region: int) -> bool:
    """Whether an event belongs to the row that was last.

    A named row takes all its events. An event without a name joins those of other lanes that have
    its time.
    """
    if row.label or item.row:
        return row.label == item.row
    return region not in row.lanes and item.when.ms == row.begin_ms
