"""The pending entries of one region log, in chunks of columns (`crdt/pel_chunk.py`).

A `PelPart` is ordered by (entry ID, counter). Entries are mostly appended at the end and removed
near the front, and a command mostly names entries that follow each other. So the part remembers the
place of the entry that it found last.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from mypy_extensions import i64, mypyc_attr

from anabranch.crdt.pel_chunk import NOBODY, Chunk, EntryRef, change_count, runs
from anabranch.crdt.pel_slices import copied, word_of
from anabranch.crdt.scan import word

# Entries of a full chunk. Removing one entry moves the rest of its chunk.
CHUNK_MAX: Final = 512


@mypyc_attr(acyclic=True)
class PelPart:
    """The pending entries of one region log. `totals` counts those of the whole PEL by consumer."""

    def __init__(self, region_id: int, totals: dict[int, int], chunk_max: int = CHUNK_MAX) -> None:
        self.region_id: Final = region_id
        self.totals: Final = totals
        # Entries of a full chunk.
        self.chunk_max: Final = chunk_max
        self.length = 0
        self.chunks: list[Chunk] = []
        # Where each chunk begins, as ID and as counter. Removals leave both as they are: then they
        # lie below the first entry, and still above the chunk before.
        self.first_ids: list[int] = []
        self.first_counters: list[int] = []
        # Whether IDs and counters ascend together, each strictly. As among the present entries of a
        # log, that holds until IDs come again after an expiry. A range of counters is then a range
        # of entries, and one entry bears an ID. False: it may not hold; True again once empty.
        self.agrees = True
        # The place of the entry that `seek` found last: chunk and offset.
        self.index = 0
        self.offset = 0
        # No entry lies above the ID of these halves, and none above this counter.
        self._ms_max = -1
        self._seq_max = 0
        self._counter_max = 0

    # -- finding

    def seek(self, ms: int, seq: int, counter: int) -> bool:
        """Moves to the first entry at or above (ID, counter); returns whether it is that entry."""
        chunks = self.chunks
        if self.index < len(chunks):
            chunk = chunks[self.index]
            if chunk.is_at(self.offset, ms, seq, counter):
                return True
            if chunk.is_at(self.offset + 1, ms, seq, counter):
                self.offset += 1
                return True
        # An entry with this ID may be the last of the chunk before the one that begins with it.
        index = max(bisect_left(self.first_ids, (ms << 64) | seq) - 1, 0)
        while index < len(chunks):
            chunk = chunks[index]
            offset = chunk.find(ms, seq, counter)
            if offset < chunk.size():
                self.index = index
                self.offset = offset
                return chunk.is_at(offset, ms, seq, counter)
            index += 1
        self.index = len(chunks)
        self.offset = 0
        return False

    def put_refs(self, ms: int, seq: int, found: list[EntryRef]) -> None:
        """Appends the entries that bear the ID to `found`, ascending by counter."""
        if not self.length:
            return
        if self.agrees and self.index < len(self.chunks):
            # Mostly it is the entry after the last one, which may have left.
            chunk = self.chunks[self.index]
            offset = self.offset
            if not chunk.bears(offset, ms, seq):
                offset += 1
            if chunk.bears(offset, ms, seq):
                self.offset = offset
                found.append(EntryRef(self.region_id, chunk.counters[offset], ms, seq))
                return
        self.seek(ms, seq, 0)
        index = self.index
        offset = self.offset
        while index < len(self.chunks):
            chunk = self.chunks[index]
            if not chunk.bears(offset, ms, seq):
                break
            found.append(EntryRef(self.region_id, chunk.counters[offset], ms, seq))
            offset += 1
            if offset == chunk.size():
                index += 1
                offset = 0

    def counters(self) -> list[int]:
        """Returns the counters of all entries, ascending by (ID, counter)."""
        return [counter for chunk in self.chunks for counter in chunk.counters.tolist()]

    # -- adding

    def assign(self, entry: EntryRef, consumer: int, delivered_ms: int, deliveries: int) -> None:
        """Adds an entry, or changes the one with this ID and counter."""
        if self.is_above_all(entry):
            self.append([entry], consumer, delivered_ms, deliveries)
            return
        if not self.seek(entry.ms, entry.seq, entry.counter):
            self._insert(entry)
        chunk = self.chunks[self.index]
        before = chunk.consumers[self.offset]
        if before != consumer:
            if before != NOBODY:
                change_count(chunk.held, before, -1)
                change_count(self.totals, before, -1)
            change_count(chunk.held, consumer, 1)
            change_count(self.totals, consumer, 1)
        chunk.set(self.offset, consumer, delivered_ms, deliveries)

    def append(
        self, entries: list[EntryRef], consumer: int, delivered_ms: int, deliveries: int
    ) -> None:
        """Adds entries above all others. Their IDs and their counters ascend."""
        if len(entries) == 1 and self.chunks and self.chunks[-1].size() < self.chunk_max:
            self.chunks[-1].append(entries[0], consumer, delivered_ms, deliveries)
            start = 1
        else:
            start = 0
        while start < len(entries):
            if not self.chunks or self.chunks[-1].size() >= self.chunk_max:
                if self.chunks:
                    self.chunks[-1].fit()
                first = entries[start]
                self._put_chunk(len(self.chunks), Chunk(), first.entry_id, first.counter)
            chunk = self.chunks[-1]
            some = entries[start : start + self.chunk_max - chunk.size()]
            size = len(some)
            chunk.ms.fromlist([entry.ms for entry in some])
            chunk.seqs.fromlist([entry.seq for entry in some])
            chunk.counters.fromlist([entry.counter for entry in some])
            chunk.delivered_ms.fromlist([delivered_ms] * size)
            chunk.make_room_for(deliveries)
            chunk.deliveries.fromlist([deliveries] * size)
            chunk.consumers.fromlist([consumer] * size)
            change_count(chunk.held, consumer, size)
            start += size
        change_count(self.totals, consumer, len(entries))
        self.length += len(entries)
        last = entries[-1]
        self._ms_max = last.ms
        self._seq_max = last.seq
        self._counter_max = last.counter

    def is_above_all(self, entry: EntryRef) -> bool:
        """Whether an entry can be appended. It may be False for an entry above all that remain."""
        return entry.is_above(self._ms_max, self._seq_max) and entry.counter > self._counter_max

    def _insert(self, entry: EntryRef) -> None:
        """Makes room at the place that `seek` found, and moves there."""
        entry_id = entry.entry_id
        counter = entry.counter
        if self.index == len(self.chunks):
            if not self.chunks:
                self._put_chunk(0, Chunk(), entry_id, counter)
            self.index = len(self.chunks) - 1
            self.offset = self.chunks[-1].size()
        if self.chunks[self.index].size() >= self.chunk_max:
            self._split(self.index)
            self.seek(entry.ms, entry.seq, counter)
            self._insert(entry)
            return
        index = self.index
        self.chunks[index].insert(self.offset, entry.ms, entry.seq, counter)
        self.length += 1
        if entry.is_above(self._ms_max, self._seq_max):
            self._ms_max = entry.ms
            self._seq_max = entry.seq
        self._counter_max = max(self._counter_max, counter)
        self.first_ids[index] = min(self.first_ids[index], entry_id)
        self.first_counters[index] = min(self.first_counters[index], counter)
        self.agrees = self.agrees and self._agrees_with_neighbours(entry_id, counter)

    def _agrees_with_neighbours(self, entry_id: int, counter: int) -> bool:
        """Whether the entry at the place lies between its neighbours by ID and by counter."""
        index = self.index
        chunk = self.chunks[index]
        before = self.offset - 1
        after = self.offset + 1
        if before >= 0:
            if chunk.id_at(before) >= entry_id or chunk.counters[before] >= counter:
                return False
        elif index > 0:
            other = self.chunks[index - 1]
            if other.id_at(-1) >= entry_id or other.counters[-1] >= counter:
                return False
        if after == chunk.size():
            # Only the last chunk gets entries at its end: `seek` goes on to the next one.
            return True
        return chunk.id_at(after) > entry_id and chunk.counters[after] > counter

    # -- removing

    def remove(self, ms: int, seq: int, counter: int) -> bool:
        """Removes an entry; returns whether it was here."""
        if not self.seek(ms, seq, counter):
            return False
        self._cut(self.index, self.offset, self.offset + 1)
        return True

    def remove_some(self, entries: list[EntryRef], n: int) -> int:
        """Removes entry `n` of the list, and at once those after it that follow in its chunk.

        Returns the index of the first entry of the list that was not looked at.
        """
        first = entries[n]
        if not self.seek(first.ms, first.seq, first.counter):
            return n + 1
        start = self.offset
        stop = start + 1
        n += 1
        ranges: list[tuple[int, int]] = []
        if n < len(entries):
            chunk = self.chunks[self.index]
            counters = copied(chunk.counters, 0, chunk.size())
            size: i64 = chunk.size()
            at: i64 = stop
            while n < len(entries) and entries[n].region_id == self.region_id:
                # A dot has one ID, so comparing counters is enough.
                wanted = word(entries[n].counter)
                while at < size and word_of(counters, at) != wanted:
                    at += 1
                if at == size:
                    break
                if at > stop:
                    ranges.append((start, stop))
                    start = int(at)
                at += 1
                stop = int(at)
                n += 1
        ranges.append((start, stop))
        for start, stop in reversed(ranges):
            self._take_out(self.index, start, stop)
        self._tidy(self.index)
        return n

    def remove_counters(self, start: int, end: int) -> None:
        """Removes the entries whose counter lies in (start, end]."""
        if not self.length or start >= end:
            return
        first = max(bisect_right(self.first_counters, start) - 1, 0) if self.agrees else 0
        index = len(self.chunks) - 1
        if self.agrees:
            index = bisect_right(self.first_counters, end) - 1
        while index >= first:
            chunk = self.chunks[index]
            if self.agrees:
                low = bisect_right(chunk.counters, start)
                high = bisect_right(chunk.counters, end)
                if low < high:
                    self._cut(index, low, high)
            else:
                for offset in range(chunk.size() - 1, -1, -1):
                    if start < chunk.counters[offset] <= end:
                        self._cut(index, offset, offset + 1)
            index -= 1

    def remove_consumer(self, consumer: int) -> list[int]:
        """Removes the entries of a consumer; returns their counters."""
        found: list[int] = []
        for index in range(len(self.chunks) - 1, -1, -1):
            chunk = self.chunks[index]
            if consumer not in chunk.held:
                continue
            stop = chunk.size()
            while stop > 0:
                start = stop
                while start > 0 and chunk.consumers[start - 1] == consumer:
                    start -= 1
                if start < stop:
                    found.extend(chunk.counters[start:stop].tolist())
                    self._take_out(index, start, stop)
                stop = start - 1
            self._tidy(index)
        return found

    def _cut(self, index: int, start: int, stop: int) -> None:
        """Removes a range of the chunk at `index`; empty and small chunks are tidied up."""
        self._take_out(index, start, stop)
        self._tidy(index)

    def _take_out(self, index: int, start: int, stop: int) -> None:
        chunk = self.chunks[index]
        if len(chunk.held) == 1:
            counts = [(chunk.consumers[start], stop - start)]
        else:
            counts = runs(chunk.consumers, start, stop)
        for consumer, count in counts:
            change_count(chunk.held, consumer, -count)
            change_count(self.totals, consumer, -count)
        chunk.remove(start, stop)
        self.length -= stop - start

    def _tidy(self, index: int) -> None:
        """Drops the chunk at `index` if it is empty, and joins it with the next if it is small."""
        size = self.chunks[index].size()
        if size == 0:
            self._drop_chunk(index)
            if not self.chunks:
                self.agrees = True
                self._ms_max = -1
                self._seq_max = 0
                self._counter_max = 0
        elif size < self.chunk_max // 4:
            self._join(index)

    # -- chunks

    def _put_chunk(self, index: int, chunk: Chunk, first_id: int, first_counter: int) -> None:
        self.chunks.insert(index, chunk)
        self.first_ids.insert(index, first_id)
        self.first_counters.insert(index, first_counter)

    def _drop_chunk(self, index: int) -> None:
        del self.chunks[index]
        del self.first_ids[index]
        del self.first_counters[index]

    def _split(self, index: int) -> None:
        """Moves the upper half of a full chunk into a new one."""
        chunk = self.chunks[index]
        half = chunk.size() // 2
        upper = Chunk()
        upper.take(chunk, half, chunk.size())
        for consumer, count in upper.held.items():
            change_count(chunk.held, consumer, -count)
        chunk.remove(half, chunk.size())
        self._put_chunk(index + 1, upper, upper.id_at(0), upper.counters[0])

    def _join(self, index: int) -> None:
        """Moves the entries of the next chunk into a small one, if both fit into half a chunk."""
        if index + 1 < len(self.chunks):
            chunk = self.chunks[index]
            after = self.chunks[index + 1]
            if chunk.size() + after.size() <= self.chunk_max // 2:
                chunk.take(after, 0, after.size())
                self._drop_chunk(index + 1)
