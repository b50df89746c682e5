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
from anabranch.crdt.pel_part import CHUNK_MAX, PelPart

# Entries that a walk copies out of the columns at first.
WINDOW_MIN: Final = 8


class Pending:
    """One delivered, unacknowledged entry, as commands see it."""

    def __init__(
        self,
        entry_id: int,
        region_id: int,
        counter: int,
        consumer: bytes,
        delivered_ms: int,
        deliveries: int,
    ) -> None:
        self.entry_id: Final = entry_id
        self.region_id: Final = region_id
        self.counter: Final = counter
        self.consumer: Final = consumer
        self.delivered_ms: Final = delivered_ms
        self.deliveries: Final = deliveries


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
        """Removes entries. Those that follow each other in a region log are removed at once."""
        n = 0
        while n < len(entries):
            part = self.parts.get(entries[n].region_id)
            n = n + 1 if part is None else part.remove_run(entries, n)

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
        return PelCursor(self, start, end, consumer)

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


class PartCursor:
    """Walks a part upward, perhaps only the entries of one consumer (NOBODY: of all).

    It copies a few entries out of the columns at a time, and more with each further copy: a list is
    faster to read than an array, and a short walk must not copy a whole chunk.
    """

    def __init__(self, part: PelPart, start: int, consumer: int) -> None:
        self.part: Final = part
        self.consumer: Final = consumer
        self.ms = 0
        self.seq = 0
        self.valid = True
        part.seek(start >> 64, start & MAX_HALF, 0)
        self._chunk = part.index
        # Offset of the first entry that is not copied, and how many are copied next.
        self._next = part.offset
        self._window = WINDOW_MIN
        # The copies, and the current entry's index in them.
        self.at = -1
        self.all_ms: list[int] = []
        self.all_seqs: list[int] = []
        # Whether all copies are of the consumer that is walked.
        self._is_pure = True
        self._counters: list[int] = []
        self.delivered_ms: list[int] = []
        self.deliveries: list[int] = []
        self.consumers: list[int] = []
        self.step()

    def step(self) -> None:
        """Moves to the next entry of the consumer; `valid` becomes False at the end."""
        at = self.at + 1
        while True:
            consumers = self.consumers
            if self.consumer != NOBODY:
                try:
                    at = consumers.index(self.consumer, at)
                except ValueError:
                    at = len(consumers)
            if at < len(consumers):
                self.at = at
                self.ms = self.all_ms[at]
                self.seq = self.all_seqs[at]
                return
            if not self._copy():
                self.valid = False
                return
            at = 0

    def run(self, count: int, end_ms: int, end_seq: int) -> int:
        """Returns how many copies from the current one on the walk takes next.

        At most `count`, which is at least 1, and none above the ID of the halves of `end`.
        """
        if not self._is_pure:
            return 1
        stop = min(self.at + count, len(self.all_ms))
        while stop > self.at + 1 and (
            self.all_ms[stop - 1] > end_ms
            or (self.all_ms[stop - 1] == end_ms and self.all_seqs[stop - 1] > end_seq)
        ):
            stop -= 1
        return stop - self.at

    def _copy(self) -> bool:
        """Copies the next entries; returns False at the end of the part."""
        chunks = self.part.chunks
        while self._chunk < len(chunks):
            chunk = chunks[self._chunk]
            start = self._next
            if start >= chunk.size() or (
                self.consumer != NOBODY and self.consumer not in chunk.held
            ):
                self._chunk += 1
                self._next = 0
                continue
            stop = start + self._window
            self._window *= 2
            self._next = stop
            self._is_pure = self.consumer == NOBODY or len(chunk.held) == 1
            self.all_ms = chunk.ms[start:stop].tolist()
            self.all_seqs = chunk.seqs[start:stop].tolist()
            self._counters = chunk.counters[start:stop].tolist()
            self.delivered_ms = chunk.delivered_ms[start:stop].tolist()
            self.deliveries = chunk.deliveries[start:stop].tolist()
            self.consumers = chunk.consumers[start:stop].tolist()
            return True
        return False

    def pending(self, names: dict[int, bytes]) -> Pending:
        """Returns the current entry. `names`: consumer number → name."""
        at = self.at
        return Pending(
            (self.ms << 64) | self.seq,
            self.part.region_id,
            self._counters[at],
            names[self.consumers[at]],
            self.delivered_ms[at],
            self.deliveries[at],
        )


class PelCursor:
    """Walks pending entries upward by (ID, region_id); usable until the PEL changes.

    This is the merge of the parts of all region logs (S7.5). It can also be iterated over.
    """

    def __init__(self, pel: Pel, start: int, end: int, consumer: Optional[bytes]) -> None:
        self.pel: Final = pel
        self._end_ms: Final = end >> 64
        self._end_seq: Final = end & MAX_HALF
        number = NOBODY if consumer is None else pel.numbers.get(consumer, NOBODY)
        self._cursors: list[PartCursor] = []
        if consumer is None or number in pel.totals:
            for region_id in sorted(pel.parts):
                if pel.parts[region_id].length:
                    self._cursors.append(PartCursor(pel.parts[region_id], start, number))
        self.valid = True
        # The cursor of the current entry's part.
        self._at: Optional[PartCursor] = None
        self._choose()

    def _choose(self) -> None:
        best: Optional[PartCursor] = None
        for cursor in self._cursors:
            if cursor.valid and (
                best is None
                or cursor.ms < best.ms
                or (cursor.ms == best.ms and cursor.seq < best.seq)
            ):
                best = cursor
        self._at = best
        self.valid = best is not None and (
            best.ms < self._end_ms or (best.ms == self._end_ms and best.seq <= self._end_seq)
        )

    def step(self) -> None:
        at = self.current()
        at.step()
        if len(self._cursors) > 1 or not at.valid or at.ms >= self._end_ms:
            self._choose()

    def run(self, count: int) -> int:
        """Returns how many entries stand one after the other in the columns of the current one.

        The walk takes them next, one of its own included. There are at most `count`, or 1.
        """
        if count <= 1 or len(self._cursors) > 1:
            return 1
        return self.current().run(count, self._end_ms, self._end_seq)

    def step_over(self, count: int) -> None:
        """Moves past entries of which `run` told."""
        self.current().at += count - 1
        self.step()

    def current(self) -> PartCursor:
        """Returns the cursor on the current entry, whose columns hold the entry."""
        at = self._at
        assert at is not None
        return at

    def pending(self) -> Pending:
        """Returns the current entry."""
        return self.current().pending(self.pel.names)

    def __iter__(self) -> PelCursor:
        return self

    def __next__(self) -> Pending:
        if not self.valid:
            raise StopIteration
        found = self.pending()
        self.step()
        return found
