"""The entries that `XREADGROUP … >` would still deliver (S7.3).

These are the entries above each floor that are not given, merged in ID order. Late arrivals are
never skipped. The given entries of a log are nearly always one span, so finding the next entry is
one step of a cursor.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.groups import Group
from anabranch.crdt.merge import Entry, sorted_logs
from anabranch.crdt.region_log import LogCursor, RegionLog
from anabranch.crdt.spans import Spans, SpansByRegion
from anabranch.crdt.stream import Stream


class UndeliveredCursor:
    """Walks the undelivered entries of one region log upward."""

    def __init__(self, group: Group, log: RegionLog) -> None:
        self.log = log
        given = group.delivery.given.get(log.region_id)
        self._given = Spans() if given is None else given
        known = group.delivery.cursors.get(log.region_id, -1)
        self._reached = group.floor_counter(log) if known < 0 else known
        self.cursor = LogCursor(log)
        self.cursor.seek_counter(self._reached)
        if self.cursor.valid and not group.is_above_floor(
            log.region_id, self.cursor.counter, self.cursor.id()
        ):
            # The floor is an ID, and entries arrived below it after the memo was made (S6.3).
            self._reached = group.floor_counter(log)
            self.cursor.seek_counter(self._reached)
        self._skip_given()
        # Counter of the present entry before the current one, 0 if none: the span of the current
        # entry begins there.
        self.previous = log.last_counter_up_to(self.cursor.counter - 1) if self.cursor.valid else 0
        group.delivery.cursors[log.region_id] = self._reached

    def _skip_given(self) -> bool:
        """Moves to the next entry that is not given; returns whether the cursor moved."""
        cursor = self.cursor
        moved = False
        while cursor.valid:
            end = self._given.end_covering(cursor.counter)
            if end == 0:
                break
            self._reached = end
            cursor.seek_counter(end)
            moved = True
        return moved

    def step(self) -> None:
        self.previous = self.cursor.counter
        self.cursor.step()
        if self._skip_given() and self.cursor.valid:
            self.previous = self.log.last_counter_up_to(self.cursor.counter - 1)

    def count(self) -> int:
        """Returns the number of undelivered entries from the current one on."""
        total = 0
        while self.cursor.valid:
            if not self._given.ends or self.cursor.counter > self._given.ends[-1]:
                return total + 1 + self.log.count_above(self.cursor.counter)
            total += 1
            self.step()
        return total


class Handout:
    """The result of one read: the entries, and the spans that the read adds to the given ones."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.spans: SpansByRegion = {}


def take(stream: Stream, group: Group, count: int) -> Handout:
    """Returns the next entries to deliver. Changes only the memo of the cursors.

    Stops after `count` entries (0: no limit), but never between entries of one ID (S7.1). So the
    result can be longer than `count`.
    """
    handout = Handout()
    cursors = [UndeliveredCursor(group, log) for log in sorted_logs(stream.logs)]
    entries = handout.entries
    while True:
        best = _lowest(cursors)
        if best is None:
            return handout
        cursor = best.cursor
        if 0 < count <= len(entries) and entries[-1].entry_id != cursor.id():
            return handout
        entries.append(Entry(cursor.id(), cursor.region_id, cursor.counter, cursor.fields()))
        spans = handout.spans.get(cursor.region_id)
        if spans is None:
            spans = handout.spans[cursor.region_id] = Spans()
        spans.add(best.previous, cursor.counter, cursor.id())
        best.step()


def _lowest(cursors: list[UndeliveredCursor]) -> Optional[UndeliveredCursor]:
    best: Optional[UndeliveredCursor] = None
    for candidate in cursors:
        if candidate.cursor.valid and (best is None or candidate.cursor.id() < best.cursor.id()):
            best = candidate
    return best


def exists(stream: Stream, group: Group) -> bool:
    """Whether an entry is left to deliver."""
    return any(
        log.length > 0 and UndeliveredCursor(group, log).cursor.valid
        for log in stream.logs.values()
    )


def lag(stream: Stream, group: Group) -> int:
    """Returns the number of entries that `>` would still deliver (S7.6)."""
    return sum(UndeliveredCursor(group, log).count() for log in stream.logs.values())


def last_delivered_id(stream: Stream, group: Group) -> int:
    """Returns the highest end of the given spans, or the floor if that is higher (S7.6)."""
    delivery = group.delivery
    highest = 0
    for region_id, spans in delivery.given.items():
        counter, entry_id = spans.highest_end()
        log = stream.logs.get(region_id)
        if entry_id == 0 and counter and log is not None:
            entry_id = max(log.id_at(log.last_counter_up_to(counter)), 0)
        highest = max(highest, entry_id)
    return max(highest, delivery.raised_id, _floor_id(stream, group))


def _floor_id(stream: Stream, group: Group) -> int:
    """Returns the floor as an entry ID; for counters, the ID of the highest entry not above."""
    delivery = group.delivery
    places = (
        [create.start for create in group.creates.values()]
        if delivery.floor is None
        else [delivery.floor]
    )
    ids: list[int] = []
    for place in places:
        if place.is_id:
            ids.append(place.entry_id)
        else:
            ids.append(
                max(
                    [max(log.id_at(place.counter_in(log)), 0) for log in stream.logs.values()],
                    default=0,
                )
            )
    return min(ids, default=0)
