"""The logical stream: the k-way merge of the region logs by (entry ID, region_id) (S1).

A cluster has at most sixteen regions. So the merge finds the least cursor by looking at each one: a
heap is not faster at this size.
"""

from __future__ import annotations

from typing import Final, Optional, Union

from mypy_extensions import mypyc_attr

from anabranch.crdt.ids import MAX_ID
from anabranch.crdt.region_log import LogCursor, RegionLog, ReverseCursor


@mypyc_attr(acyclic=True)
class Entry:
    """One entry as commands see it; its identity is the dot (region_id, counter)."""

    def __init__(self, entry_id: int, region_id: int, counter: int, fields: list[bytes]) -> None:
        self.entry_id = entry_id
        self.region_id = region_id
        self.counter = counter
        # field, value, field, value, …
        self.fields = fields


def lowest(cursors: list[LogCursor]) -> Optional[LogCursor]:
    """Returns the cursor on the least (ID, region_id), or None when all are at their end.

    `cursors` must ascend by region_id.
    """
    best: Optional[LogCursor] = None
    for cursor in cursors:
        if cursor.valid and (
            best is None or cursor.ms < best.ms or (cursor.ms == best.ms and cursor.seq < best.seq)
        ):
            best = cursor
    return best


def highest(cursors: list[ReverseCursor]) -> Optional[ReverseCursor]:
    """Returns the cursor on the greatest (ID, region_id), or None when all are at their end.

    `cursors` must ascend by region_id.
    """
    best: Optional[ReverseCursor] = None
    for cursor in cursors:
        if cursor.valid and (
            best is None or cursor.ms > best.ms or (cursor.ms == best.ms and cursor.seq >= best.seq)
        ):
            best = cursor
    return best


def _entry(cursor: Union[LogCursor, ReverseCursor]) -> Entry:
    return Entry(cursor.id(), cursor.region_id, cursor.counter, cursor.fields())


def sorted_logs(logs: dict[int, RegionLog]) -> list[RegionLog]:
    return [logs[region_id] for region_id in sorted(logs)] if len(logs) > 1 else list(logs.values())


def forward(logs: dict[int, RegionLog], start: int, end: int, count: int) -> list[Entry]:
    """Returns the entries with start ≤ ID ≤ end, ascending.

    Stops after `count` entries (below 0: no limit), but never between entries of one ID (S7.1). So
    the result can be longer than `count`.
    """
    cursors: list[LogCursor] = []
    for log in sorted_logs(logs):
        cursor = LogCursor(log)
        cursor.seek_id(start)
        cursors.append(cursor)
    result: list[Entry] = []
    while True:
        cursor_ = lowest(cursors)
        if cursor_ is None or cursor_.id() > end:
            return result
        if 0 <= count <= len(result) and (not result or result[-1].entry_id != cursor_.id()):
            return result
        result.append(_entry(cursor_))
        cursor_.step()


def backward(logs: dict[int, RegionLog], start: int, end: int, count: int) -> list[Entry]:
    """As `forward`, but descending from `end` to `start`."""
    cursors: list[ReverseCursor] = []
    for log in sorted_logs(logs):
        cursor = ReverseCursor(log)
        cursor.seek_id(end)
        cursors.append(cursor)
    result: list[Entry] = []
    while True:
        cursor_ = highest(cursors)
        if cursor_ is None or cursor_.id() < start:
            return result
        if 0 <= count <= len(result) and (not result or result[-1].entry_id != cursor_.id()):
            return result
        result.append(_entry(cursor_))
        cursor_.step()


def first_entry(logs: dict[int, RegionLog]) -> Optional[Entry]:
    entries = forward(logs, 0, MAX_ID, 1)
    return entries[0] if entries else None


def last_entry(logs: dict[int, RegionLog]) -> Optional[Entry]:
    entries = backward(logs, 0, MAX_ID, 1)
    return entries[0] if entries else None


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
    cursors: list[LogCursor] = []
    for log in sorted_logs(logs):
        cursor = LogCursor(log)
        cursor.seek_counter(0)
        cursors.append(cursor)
    for _ in range(count):
        cursor_ = lowest(cursors)
        if cursor_ is None:
            break
        prefix[cursor_.region_id] = cursor_.counter
        cursor_.step()
    return prefix


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
        for node in logs[region_id].rax.nodes:
            if node.last_counter > prefix[region_id] or (limit and removed + node.live() > limit):
                break
            removed += node.live()
            result[region_id] = node.last_counter
    return result
