"""The entries that `XREADGROUP … >` would still deliver (S7.3).

These are the entries above each floor that are not given, merged in ID order. Late arrivals are
never skipped. The given entries of a log are nearly always one span, so finding the next entry is
one step of a cursor.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.delivery import ReadMemo
from anabranch.crdt.groups import Group
from anabranch.crdt.ids import MAX_ID
from anabranch.crdt.merge import NO_LIMIT, sorted_logs
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.scan import words
from anabranch.crdt.slices import Entries
from anabranch.crdt.spans import Spans, SpansByRegion
from anabranch.crdt.stream import Stream

# Spans that nobody changes.
_NOTHING: Final = Spans()


class UndeliveredCursor:
    """Walks the undelivered entries of one region log upward."""

    def __init__(self, group: Group, log: RegionLog) -> None:
        self.log = log
        delivery = group.delivery
        self._given = delivery.given.get(log.region_id, _NOTHING)
        memo = delivery.memos.get(log.region_id)
        if memo is None:
            self._reached = group.floor_counter(log)
        else:
            self._reached = max(memo.reached, self._given.end_covering(memo.reached + 1))
        if memo is not None and memo.cursor.log is log and memo.cursor.resume():
            self.cursor = memo.cursor
        else:
            self.cursor = LogCursor(log)
        self.cursor.seek_counter(self._reached)
        if self.cursor.valid and not group.is_above_floor(
            log.region_id, self.cursor.counter, self.cursor.id()
        ):
            # The floor is an ID, and entries arrived below it after the memo was made (S6.3).
            self._reached = group.floor_counter(log)
            self.cursor.seek_counter(self._reached)
        self._skip_given()
        delivery.memos[log.region_id] = ReadMemo(self._reached, self.cursor)
        # What was handed out and is not in `spans` yet: from the counter `_begin` to the counter
        # `_end` with the ID `_end_id`.
        self.spans = Spans()
        self._begin = 0
        self._end = 0
        self._end_id = 0

    def _skip_given(self) -> None:
        """Moves to the next entry that is not given."""
        cursor = self.cursor
        while cursor.valid:
            end = self._given.end_covering(cursor.counter)
            if end == 0:
                break
            self._reached = end
            cursor.seek_counter(end)

    def hand_out(self, entries: Entries, until: int, count: int) -> None:
        """Adds undelivered entries to `entries`, and moves past them.

        These are the current one and those that follow it in its node, at most `count` and up to
        the ID `until`. Their span begins after the present entry before them, 0 if there is none.
        """
        cursor = self.cursor
        before = cursor.before()
        if before != self._end or before == 0:
            self.flush()
            self._begin = before
        given = self._given.ends
        ms, seq = words(until)
        cursor.take(entries, ms, seq, count if not given or given[-1] < cursor.counter else 1)
        self._end = entries.last_counter()
        self._end_id = entries.last_id()
        self._skip_given()

    def flush(self) -> None:
        """Adds to `spans` what was handed out."""
        self.spans.add(self._begin, self._end, self._end_id)

    def step(self) -> None:
        self.cursor.step()
        self._skip_given()

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
    """Reads of a group, one after the other. They change only the memos."""

    def __init__(self, stream: Stream, group: Group) -> None:
        self._cursors: Final = [UndeliveredCursor(group, log) for log in sorted_logs(stream.logs)]

    def read(self, count: int) -> Entries:
        """Returns the next entries to deliver.

        Stops after `count` entries (0: no limit), but never between entries of one ID (S7.1). So
        the result can be longer than `count`.
        """
        entries = Entries()
        while True:
            best = _first_of(self._cursors)
            if best is None:
                break
            left = count - entries.count if count > 0 else NO_LIMIT
            if left <= 0:
                if not entries.end_with_id_of(best.cursor.scan):
                    break
                left = 1
            best.hand_out(entries, _end_of_run(best, self._cursors), left)
        return entries

    def end(self) -> SpansByRegion:
        """Ends the reads; returns the spans that they add to the given ones."""
        spans: SpansByRegion = {}
        for cursor in self._cursors:
            cursor.flush()
            cursor.cursor.rest()
            if cursor.spans:
                spans[cursor.log.region_id] = cursor.spans
        return spans


def _first_of(cursors: list[UndeliveredCursor]) -> Optional[UndeliveredCursor]:
    """Returns the cursor on the least (ID, region_id), or None when all are at their end."""
    best: Optional[UndeliveredCursor] = None
    for candidate in cursors:
        one = candidate.cursor
        if one.valid and (best is None or one.goes_before(best.cursor)):
            best = candidate
    return best


def _end_of_run(best: UndeliveredCursor, cursors: list[UndeliveredCursor]) -> int:
    """Returns the ID up to which no other log has an entry that comes before one of `best`."""
    if len(cursors) == 1:
        return MAX_ID
    other = _first_of([cursor for cursor in cursors if cursor is not best])
    return MAX_ID if other is None else max(other.cursor.id() - 1, best.cursor.id())


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
        log = stream.find_log(region_id)
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
