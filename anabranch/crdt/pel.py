"""Pending entries lists (S1): entries delivered to a group and not yet acknowledged.

Entries are keyed by dot and found by ID. A PEL has a part per region log (`crdt/pel_part.py`),
ordered by (entry ID, counter). Commands that take an ID act on every entry that bears it.

The PEL of a consumer is no list of its own: a consumer is a column of the group's PEL, and a chunk
counts its entries by consumer. So a walk over the entries of one consumer passes over chunks in
which it has none.
"""

from __future__ import annotations

from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.ids import MAX_HALF, MAX_ID
from anabranch.crdt.pel_chunk import NOBODY, EntryRef
from anabranch.crdt.pel_cursor import PartCursor, PelCursor
from anabranch.crdt.pel_part import CHUNK_MAX, PelPart
from anabranch.crdt.pel_slices import Pending


@mypyc_attr(acyclic=True)
class Pel:
    """The pending entries of a group, each of one consumer.

    `chunk_max` is the number of entries of a full chunk.
    """

    def __init__(self, chunk_max: int = CHUNK_MAX) -> None:
        self.chunk_max: Final = chunk_max
        self.parts: dict[int, PelPart] = {}
        # Consumer number → its pending entries; consumers without any are absent.
        self.totals: dict[int, int] = {}
        # Numbers of the consumers that had pending entries since they were created.
        self.numbers: dict[bytes, int] = {}
        self.names: dict[int, bytes] = {}
        self._number_max = NOBODY

    @property
    def length(self) -> int:
        total = 0
        for part in self.parts.values():
            total += part.length
        return total

    # -- consumers

    def number_of(self, consumer: bytes) -> int:
        """Returns the number of a consumer that gets an entry."""
        number = self.numbers.get(consumer)
        if number is None:
            number = self._number_max = self._number_max + 1
            self.numbers[consumer] = number
            self.names[number] = consumer
        return number

    def length_of(self, consumer: bytes) -> int:
        """Returns how many pending entries a consumer has."""
        return self.totals.get(self.numbers.get(consumer, NOBODY), 0)

    def remove_consumer(self, consumer: bytes) -> list[tuple[int, int]]:
        """Forgets a consumer, and removes its entries; returns their dots."""
        number = self.numbers.pop(consumer, NOBODY)
        if number == NOBODY:
            return []
        del self.names[number]
        return [
            (region_id, counter)
            for region_id, part in self.parts.items()
            for counter in part.remove_consumer(number)
        ]

    # -- changing

    def assign(
        self, entry: EntryRef, consumer: bytes, delivered_ms: int, deliveries: int = 1
    ) -> None:
        """Makes an entry pending for a consumer, and takes it from any other consumer."""
        number = self.number_of(consumer)
        self.part(entry.region_id).assign(entry, number, delivered_ms, deliveries)

    def part(self, region_id: int) -> PelPart:
        part = self.parts.get(region_id)
        if part is None:
            part = self.parts[region_id] = PelPart(region_id, self.totals, self.chunk_max)
        return part

    def assign_all(self, entries: list[EntryRef], consumer: bytes, delivered_ms: int) -> None:
        """Makes entries pending for a consumer, delivered once.

        Those of one region log mostly lie above all that are here, and are appended at once.
        """
        number = self.number_of(consumer)
        n = 0
        while n < len(entries):
            part = self.part(entries[n].region_id)
            start = n
            if part.is_above_all(entries[n]):
                n += 1
                while n < len(entries) and _follows(entries[n - 1], entries[n]):
                    n += 1
                part.append(entries[start:n], number, delivered_ms, 1)
            else:
                part.assign(entries[n], number, delivered_ms, 1)
                n += 1

    def remove(self, region_id: int, counter: int, entry_id: int) -> bool:
        """Removes an entry; returns whether it was pending."""
        part = self.parts.get(region_id)
        return part is not None and part.remove(entry_id >> 64, entry_id & MAX_HALF, counter)

    def remove_all(self, entries: list[EntryRef]) -> None:
        """Removes entries. Those of a chunk that stand in its order are removed at once."""
        n = 0
        while n < len(entries):
            part = self.parts.get(entries[n].region_id)
            n = n + 1 if part is None else part.remove_some(entries, n)

    def remove_counters(self, region_id: int, start: int, end: int) -> None:
        """Removes the entries of one region log whose counter lies in (start, end]."""
        part = self.parts.get(region_id)
        if part is not None:
            part.remove_counters(start, end)

    # -- finding

    def contains(self, region_id: int, counter: int, entry_id: int) -> bool:
        part = self.parts.get(region_id)
        if part is None or part.length == 0:
            return False
        return part.seek(entry_id >> 64, entry_id & MAX_HALF, counter)

    def get(self, region_id: int, counter: int, entry_id: int) -> Optional[Pending]:
        part = self.parts.get(region_id)
        if part is None or not part.seek(entry_id >> 64, entry_id & MAX_HALF, counter):
            return None
        chunk = part.chunks[part.index]
        n = part.offset
        return Pending(
            entry_id,
            region_id,
            counter,
            self.names[chunk.consumers[n]],
            chunk.delivered_ms[n],
            chunk.deliveries[n],
        )

    def pending_of(self, entry: EntryRef) -> Pending:
        """Returns an entry that is pending."""
        found = self.get(entry.region_id, entry.counter, entry.entry_id)
        assert found is not None
        return found

    def with_id(self, entry_id: int) -> list[EntryRef]:
        """Returns all pending entries that bear the ID, ascending by (region_id, counter)."""
        found: list[EntryRef] = []
        for region_id in sorted(self.parts):
            self.parts[region_id].put_refs(entry_id >> 64, entry_id & MAX_HALF, found)
        return found

    def ascending(
        self, start: int = 0, end: int = MAX_ID, consumer: Optional[bytes] = None
    ) -> PelCursor:
        """Walks the pending entries with start ≤ ID ≤ end, perhaps of one consumer only."""
        number = NOBODY if consumer is None else self.numbers.get(consumer, NOBODY)
        cursors: list[PartCursor] = []
        if consumer is None or number in self.totals:
            for region_id in sorted(self.parts):
                part = self.parts[region_id]
                if part.length:
                    cursors.append(PartCursor(part, start, number, self.names))
        return PelCursor(cursors, end)

    def bounds(self) -> Optional[tuple[int, int]]:
        """Returns (lowest, highest) entry ID, or None when the list is empty."""
        parts = [part for part in self.parts.values() if part.length]
        if not parts:
            return None
        return (
            min(part.chunks[0].id_at(0) for part in parts),
            max(part.chunks[-1].id_at(-1) for part in parts),
        )


def _follows(entry: EntryRef, other: EntryRef) -> bool:
    """Whether `other` lies above `entry` in the same region log."""
    return (
        other.region_id == entry.region_id
        and other.counter > entry.counter
        and other.is_above(entry.ms, entry.seq)
    )
