"""Pending entries lists (S1): entries delivered to a group and not yet acknowledged.

Entries are keyed by dot and found by ID. A PEL has a part per region log, ordered by
(entry ID, counter). Commands that take an ID act on every entry that bears it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from sortedcontainers import SortedDict


class Pending:
    """One delivered, unacknowledged entry."""

    def __init__(
        self,
        entry_id: int,
        region_id: int,
        counter: int,
        consumer: bytes,
        delivered_ms: int,
        deliveries: int,
    ) -> None:
        self.entry_id = entry_id
        self.region_id = region_id
        self.counter = counter
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries


class Pel:
    """A set of pending entries, of a group or of one of its consumers."""

    def __init__(self) -> None:
        # region_id → (entry ID, counter) → Pending, ascending
        self.by_region: dict[int, SortedDict[tuple[int, int], Pending]] = {}
        self.length = 0

    def add(self, pending: Pending) -> None:
        """Adds a pending entry, or replaces the one with its dot and ID."""
        entries = self.by_region.get(pending.region_id)
        if entries is None:
            entries = self.by_region[pending.region_id] = SortedDict()
        key = (pending.entry_id, pending.counter)
        if key not in entries:
            self.length += 1
        entries[key] = pending

    def remove(self, region_id: int, counter: int, entry_id: int) -> Optional[Pending]:
        entries = self.by_region.get(region_id)
        pending: Optional[Pending] = (
            None if entries is None else entries.pop((entry_id, counter), None)
        )
        if pending is not None:
            self.length -= 1
        return pending

    def get(self, region_id: int, counter: int, entry_id: int) -> Optional[Pending]:
        entries = self.by_region.get(region_id)
        return None if entries is None else entries.get((entry_id, counter))

    def with_id(self, entry_id: int) -> list[Pending]:
        """Returns all pending entries that bear the ID, ascending by (region_id, counter)."""
        found: list[Pending] = []
        for region_id in sorted(self.by_region):
            entries = self.by_region[region_id]
            found.extend(
                entries[key]
                for key in entries.irange((entry_id, 0), (entry_id + 1, 0), (True, False))
            )
        return found

    def in_region(self, region_id: int, start: int, end: int) -> Iterator[Pending]:
        """Yields the pending entries of one region log with start ≤ ID ≤ end, ascending."""
        entries = self.by_region.get(region_id)
        if entries is not None:
            for key in entries.irange((start, 0), (end + 1, 0), (True, False)):
                yield entries[key]

    def ascending(self, start: int, end: int) -> Iterator[Pending]:
        """Yields the pending entries with start ≤ ID ≤ end, ascending by (ID, region_id).

        This is the merge of the parts of all region logs (S7.5).
        """
        heads: list[tuple[Pending, Iterator[Pending]]] = []
        for region_id in sorted(self.by_region):
            iterator = self.in_region(region_id, start, end)
            for pending in iterator:
                heads.append((pending, iterator))
                break
        while heads:
            best = 0
            for index in range(1, len(heads)):
                if heads[index][0].entry_id < heads[best][0].entry_id:
                    best = index
            pending, iterator = heads[best]
            yield pending
            following = next(iterator, None)
            if following is None:
                del heads[best]
            else:
                heads[best] = (following, iterator)

    def everything(self) -> list[Pending]:
        return [
            pending
            for region_id in sorted(self.by_region)
            for pending in self.by_region[region_id].values()
        ]

    def covered_by(self, region_id: int, start: int, end: int) -> list[Pending]:
        """Returns the pending entries of one region log whose counter lies in (start, end]."""
        entries = self.by_region.get(region_id)
        return (
            []
            if entries is None
            else [pending for pending in entries.values() if start < pending.counter <= end]
        )

    def bounds(self) -> Optional[tuple[int, int]]:
        """Returns (lowest, highest) entry ID, or None when the list is empty."""
        lows = [entries.keys()[0][0] for entries in self.by_region.values() if entries]
        highs = [entries.keys()[-1][0] for entries in self.by_region.values() if entries]
        return (min(lows), max(highs)) if lows else None
