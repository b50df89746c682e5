"""The logical stream: the k-way merge of the region logs by (entry ID, region_id) (S1).

A cluster has at most sixteen regions. So the merge finds the least cursor by looking at each one: a
heap is not faster at this size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Optional

from mypy_extensions import i64

from anabranch.crdt.cursor import Cursor, LogCursor, ReverseCursor
from anabranch.crdt.ids import MAX_ID
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.scan import words
from anabranch.crdt.slices import Entries, Entry

# More entries than a stream holds.
NO_LIMIT: Final = 1 << 62


def first_of(cursors: Sequence[Cursor]) -> Optional[Cursor]:
    """Returns the cursor whose entry comes first, or None when all are at their end.

    `cursors` must ascend by region_id. Upward, the entry with the least (ID, region_id) comes
    first, and downward the one with the greatest.
    """
    best: Optional[Cursor] = None
    for cursor in cursors:
        if cursor.valid and (best is None or cursor.goes_before(best)):
            best = cursor
    return best


def sorted_logs(logs: dict[int, RegionLog]) -> list[RegionLog]:
    return [logs[region_id] for region_id in sorted(logs)] if len(logs) > 1 else list(logs.values())


def forward(logs: dict[int, RegionLog], start: int, end: int, count: int) -> Entries:
    """Returns the entries with start ≤ ID ≤ end, ascending.

    Stops after `count` entries (below 0: no limit), but never between entries of one ID (S7.1). So
    the result can be longer than `count`.
    """
    cursors: list[Cursor] = []
    for log in sorted_logs(logs):
        cursor = LogCursor(log)
        cursor.seek_id(start)
        cursors.append(cursor)
    entries = Entries()
    if len(cursors) == 1:
        ms, seq = words(end)
        _take_of_one(cursors[0], entries, ms, seq, count)
        return entries
    while True:
        best = first_of(cursors)
        if best is None or best.id() > end:
            return entries
        if not _take(best, entries, min(end, _end_of_run(best, cursors)), count):
            return entries


def backward(logs: dict[int, RegionLog], start: int, end: int, count: int) -> Entries:
    """As `forward`, but descending from `end` to `start`."""
    cursors: list[Cursor] = []
    for log in sorted_logs(logs):
        cursor = ReverseCursor(log)
        cursor.seek_id(end)
        cursors.append(cursor)
    entries = Entries()
    if len(cursors) == 1:
        ms, seq = words(start)
        _take_of_one(cursors[0], entries, ms, seq, count)
        return entries
    while True:
        best = first_of(cursors)
        if best is None or best.id() < start:
            return entries
        if not _take(best, entries, max(start, _start_of_run(best, cursors)), count):
            return entries


def _take_of_one(cursor: Cursor, entries: Entries, ms: i64, seq: i64, count: int) -> None:
    """Adds the entries of the only log up to the ID of these words, where `count` allows it.

    No two entries of a log have one ID.
    """
    left = NO_LIMIT if count < 0 else count
    while left > 0 and cursor.reaches(ms, seq):
        before = entries.count
        cursor.take(entries, ms, seq, left)
        left -= entries.count - before


def _end_of_run(best: Cursor, cursors: list[Cursor]) -> int:
    """Returns the ID up to which no other log has an entry that comes before one of `best`."""
    other = first_of([cursor for cursor in cursors if cursor is not best])
    return MAX_ID if other is None else max(other.id() - 1, best.id())


def _start_of_run(best: Cursor, cursors: list[Cursor]) -> int:
    """As `_end_of_run`, downward."""
    other = first_of([cursor for cursor in cursors if cursor is not best])
    return 0 if other is None else min(other.id() + 1, best.id())


def _take(best: Cursor, entries: Entries, until: int, count: int) -> bool:
    """Adds entries of `best` up to the ID `until`, where `count` allows it. False: it does not."""
    left = NO_LIMIT if count < 0 else count - entries.count
    if left <= 0:
        if not entries.end_with_id_of(best.scan):
            return False
        left = 1
    ms, seq = words(until)
    best.take(entries, ms, seq, left)
    return True


def first_entry(logs: dict[int, RegionLog]) -> Optional[Entry]:
    entries = forward(logs, 0, MAX_ID, 1)
    return entries.listed()[0] if entries.count else None


def last_entry(logs: dict[int, RegionLog]) -> Optional[Entry]:
    entries = backward(logs, 0, MAX_ID, 1)
    return entries.listed()[0] if entries.count else None


class Finder:
    """Finds present entries by dot, at best in ascending order: then it goes on where it was."""

    def __init__(self, logs: dict[int, RegionLog]) -> None:
        self._logs: Final = logs
        self._cursors: dict[int, LogCursor] = {}

    def find(self, region_id: int, counter: int) -> Optional[LogCursor]:
        """Returns a cursor on the entry, which the next call moves; None if it is not present."""
        cursor = self._cursors.get(region_id)
        if cursor is None:
            log = self._logs.get(region_id)
            if log is None:
                return None
            cursor = self._cursors[region_id] = LogCursor(log)
        return cursor if cursor.finds(counter) else None


def with_id(logs: dict[int, RegionLog], entry_id: int) -> list[tuple[int, int]]:
    """Returns the dots of all entries that bear the ID, ascending by region_id.

    There is more than one dot if regions duplicated the ID (S5.1).
    """
    dots: list[tuple[int, int]] = []
    for log in sorted_logs(logs):
        counter = log.counter_of_id(entry_id)
        if counter:
            dots.append((log.region_id, counter))
    return dots


def prefix_of_count(logs: dict[int, RegionLog], count: int) -> dict[int, int]:
    """Returns the first `count` entries of the logical stream as a prefix of each region log.

    The result maps region_id → highest counter of the prefix (S5.2).
    """
    prefix: dict[int, int] = {}
    if count <= 0:
        return prefix
    filled = [log for log in sorted_logs(logs) if log.length]
    if len(filled) == 1 or sum([log.length for log in filled]) <= count:
        return {log.region_id: _counter_of(log, min(count, log.length)) for log in filled}
    cursors: list[Cursor] = []
    for log in filled:
        cursor = LogCursor(log)
        cursor.seek_counter(0)
        cursors.append(cursor)
    for _ in range(count):
        first = first_of(cursors)
        if first is None:
            break
        prefix[first.region_id] = first.counter
        first.step()
    return prefix


def _counter_of(log: RegionLog, number: int) -> int:
    """Returns the counter of the present entry with that number, from 1 up to the length."""
    index = 0
    while number > log.node_map.node(index).live():
        number -= log.node_map.node(index).live()
        index += 1
    cursor = LogCursor(log)
    cursor.seek_counter(log.node_map.node(index).base_counter)
    for _ in range(number - 1):
        cursor.step()
    return cursor.counter


def prefix_below_id(logs: dict[int, RegionLog], entry_id: int) -> dict[int, int]:
    """Returns the entries with an ID below `entry_id` as a prefix of each region log."""
    prefix: dict[int, int] = {}
    if entry_id > 0:
        for log in logs.values():
            counter = log.last_counter_not_above(entry_id - 1)
            if counter:
                prefix[log.region_id] = counter
    return prefix


def whole_nodes(logs: dict[int, RegionLog], prefix: dict[int, int], limit: int) -> dict[int, int]:
    """Rounds `prefix` down to whole packed nodes, which a trim with `~` may remove (S5.2).

    The result covers at most `limit` entries in all; 0 means no limit.
    """
    result: dict[int, int] = {}
    removed = 0
    for region_id in sorted(prefix):
        for node in logs[region_id].node_map.nodes:
            if node.last_counter > prefix[region_id] or (limit and removed + node.live() > limit):
                break
            removed += node.live()
            result[region_id] = node.last_counter
    return result
