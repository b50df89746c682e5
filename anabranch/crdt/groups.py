"""Consumer groups, which are delete-wins (S6): a group is the set of its live creates.

Group tombstones remove creates. A create survives exactly those destroys that its vector covers. Of
a region's tombstones only the newest matters: a vector that covers the newest covers the older
ones, and the newest is the last to become causally stable. So tombstones are kept as vectors.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from anabranch.crdt.delivery import Delivery
from anabranch.crdt.place import Place
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.spans import Spans, SpansByRegion, union_by_region
from anabranch.crdt.vector import Dot, Vector


@mypyc_attr(acyclic=True)
class Create:
    """One create of a group: its start, and the acked spans announced under it.

    The dot of a create is its key in `Group.creates`.
    """

    def __init__(self, start: Place) -> None:
        self.start = start
        self.acked: SpansByRegion = {}


@mypyc_attr(acyclic=True)
class Group:
    """A consumer group: its live creates (replicated), and the local state of this region."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.creates: dict[Dot, Create] = {}
        self.delivery = Delivery()

    def create_dots(self) -> list[Dot]:
        return sorted(self.creates) if len(self.creates) > 1 else list(self.creates)

    def has_any(self, dots: list[Dot]) -> bool:
        """Whether one of these creates is live."""
        for dot in dots:  # noqa: SIM110 - XREADGROUP asks each time, and a generator costs more.
            if dot in self.creates:
                return True
        return False

    def acked(self, region_id: int) -> Spans:
        """Returns the union of the acked spans of the live creates (S8.3)."""
        if len(self.creates) == 1:
            (only,) = self.creates.values()
            spans = only.acked.get(region_id)
            return Spans() if spans is None else spans
        result = Spans()
        for create in self.creates.values():
            spans = create.acked.get(region_id)
            if spans is not None:
                result.union(spans)
        return result

    def acked_regions(self) -> set[int]:
        return {region_id for create in self.creates.values() for region_id in create.acked}

    def is_above_floor(self, region_id: int, counter: int, entry_id: int) -> bool:
        """Whether an entry lies where `XREADGROUP >` delivers in this region.

        It must lie above the floor, or, where SETID set no floor, above the start of any live
        create (S6.3). In either case it must lie above `raised_id`.
        """
        delivery = self.delivery
        if entry_id <= delivery.raised_id:
            return False
        if delivery.floor is not None:
            return delivery.floor.is_below(region_id, counter, entry_id)
        for create in self.creates.values():
            if create.start.is_below(region_id, counter, entry_id):
                return True
        return False

    def start_counter(self, log: RegionLog) -> int:
        """Returns the counter of the log's last entry not above the group's start, 0 if none."""
        return min(create.start.counter_in(log) for create in self.creates.values())

    def floor_counter(self, log: RegionLog) -> int:
        """Returns the counter of the log's last entry not above the floor, 0 if none."""
        delivery = self.delivery
        counter = (
            self.start_counter(log) if delivery.floor is None else delivery.floor.counter_in(log)
        )
        return (
            max(counter, log.last_counter_not_above(delivery.raised_id))
            if delivery.raised_id
            else counter
        )

    def acknowledge(self, dots: list[Dot], spans: SpansByRegion, is_own: bool) -> bool:
        """Applies an announcement (S8.2); returns whether any part of it was new.

        With `is_own` this region issues the announcement, and its local state does not change.
        """
        named = [self.creates[dot] for dot in dots if dot in self.creates]
        changed = False
        for region_id in spans if named else []:
            new = spans[region_id].minus(self.acked(region_id))
            for create in named:
                before = create.acked.get(region_id)
                if before is None or spans[region_id].minus(before):
                    changed = True
                    union_by_region(create.acked, {region_id: spans[region_id]})
            if new and not is_own:
                self.take_as_given(region_id, new)
        return changed

    def take_as_given(self, region_id: int, new: Spans) -> None:
        """Counts entries acknowledged elsewhere as given and takes them out of the PELs (S8.2)."""
        self.delivery.spans_given(region_id).union(new)
        self.delivery.unassign_covered(region_id, new)


def is_buried(tombstones: list[Vector], vector: Vector) -> bool:
    """Whether `vector` leaves a tombstone uncovered, so that its create dies (S6.1)."""
    for tombstone in tombstones:
        for region_id, counter in tombstone.items():
            if vector.get(region_id, 0) < counter:
                return True
    return False
