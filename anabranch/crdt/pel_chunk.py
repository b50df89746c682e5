"""A chunk of the pending entries of one region log, in columns, without an object for each entry.

There is an array for each attribute, and entry n of a chunk is element n of every array:

    ms            1700000000000   1700000000000   1700000000002   …
    seqs          1               1001            1
    counters      7               8               9
    delivered_ms  1700000000050   1700000000050   1700000000050
    deliveries    1               1               3
    consumers     2               2               1               numbers, which `crdt/pel.py` gives

Counts of deliveries have 4 bytes each, and 8 in a chunk in which XCLAIM's RETRYCOUNT gave a larger
one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from mypy_extensions import mypyc_attr

from anabranch.crdt.ids import MAX_HALF, is_above

# The number of no consumer: that of an entry which is just put in.
NOBODY: Final = 0
# The highest count of deliveries that has 4 bytes.
NARROW_MAX: Final = (1 << 32) - 1


@mypyc_attr(acyclic=True)
class EntryRef:
    """An entry of a region log: its dot, and the two halves of its ID."""

    def __init__(self, region_id: int, counter: int, ms: int, seq: int) -> None:
        self.region_id: Final = region_id
        self.counter: Final = counter
        self.ms: Final = ms
        self.seq: Final = seq

    @property
    def entry_id(self) -> int:
        return (self.ms << 64) | self.seq

    def is_above(self, ms: int, seq: int) -> bool:
        """Whether its ID is above that of these halves."""
        return is_above(self.ms, self.seq, ms, seq)


def entry_ref(region_id: int, counter: int, entry_id: int) -> EntryRef:
    """An entry with its whole ID."""
    return EntryRef(region_id, counter, entry_id >> 64, entry_id & MAX_HALF)


@mypyc_attr(acyclic=True)
class Chunk:
    """Entries that follow each other, in columns. At least one, except while the chunk is made."""

    def __init__(self) -> None:
        self.ms: array[int] = array("Q")
        self.seqs: array[int] = array("Q")
        self.counters: array[int] = array("Q")
        self.delivered_ms: array[int] = array("Q")
        self.deliveries: array[int] = array("I")
        self.consumers: array[int] = array("I")
        # Consumer number → how many of its entries are here; consumers without any are absent.
        self.held: dict[int, int] = {}
        # A `ChunkImage` holds these arrays, too: they may only become longer.
        self.is_shared = False

    def size(self) -> int:
        return len(self.counters)

    def id_at(self, offset: int) -> int:
        return (self.ms[offset] << 64) | self.seqs[offset]

    def is_at(self, offset: int, ms: int, seq: int, counter: int) -> bool:
        """Whether the entry at `offset` has this ID and counter."""
        return (
            offset < len(self.counters)
            and self.counters[offset] == counter
            and self.seqs[offset] == seq
            and self.ms[offset] == ms
        )

    def bears(self, offset: int, ms: int, seq: int) -> bool:
        """Whether the entry at `offset` has this ID."""
        return offset < len(self.counters) and self.seqs[offset] == seq and self.ms[offset] == ms

    def find(self, ms: int, seq: int, counter: int) -> int:
        """Returns the offset of the first entry at or above (ID, counter)."""
        low = bisect_left(self.ms, ms)
        if low == len(self.ms) or self.ms[low] != ms:
            return low
        high = bisect_right(self.ms, ms, low)
        low = bisect_left(self.seqs, seq, low, high)
        if low == high or self.seqs[low] != seq:
            return low
        return bisect_left(self.counters, counter, low, bisect_right(self.seqs, seq, low, high))

    def insert(self, offset: int, ms: int, seq: int, counter: int) -> None:
        """Makes room for an entry at `offset`. The caller then calls `set`."""
        self._own()
        self.ms.insert(offset, ms)
        self.seqs.insert(offset, seq)
        self.counters.insert(offset, counter)
        self.delivered_ms.insert(offset, 0)
        self.deliveries.insert(offset, 0)
        self.consumers.insert(offset, NOBODY)

    def append(self, entry: EntryRef, consumer: int, delivered_ms: int, deliveries: int) -> None:
        """Adds an entry above all others."""
        self.ms.append(entry.ms)
        self.seqs.append(entry.seq)
        self.counters.append(entry.counter)
        self.delivered_ms.append(delivered_ms)
        self.make_room_for(deliveries)
        self.deliveries.append(deliveries)
        self.consumers.append(consumer)
        change_count(self.held, consumer, 1)

    def set(self, offset: int, consumer: int, delivered_ms: int, deliveries: int) -> None:
        """Sets the columns that a delivery or claim changes. `held` is the caller's business."""
        self._own()
        self.make_room_for(deliveries)
        self.delivered_ms[offset] = delivered_ms
        self.deliveries[offset] = deliveries
        self.consumers[offset] = consumer

    def take(self, other: Chunk, start: int, stop: int) -> None:
        """Appends the entries of `other` from offset `start` up to `stop`."""
        self.ms.extend(other.ms[start:stop])
        self.seqs.extend(other.seqs[start:stop])
        self.counters.extend(other.counters[start:stop])
        self.delivered_ms.extend(other.delivered_ms[start:stop])
        if other.has_wide_counts():
            self._widen()
        self.deliveries.fromlist(other.deliveries[start:stop].tolist())
        self.consumers.extend(other.consumers[start:stop])
        for consumer, count in runs(other.consumers, start, stop):
            change_count(self.held, consumer, count)

    def remove(self, start: int, stop: int) -> None:
        """Removes the entries from offset `start` up to `stop`. The caller changes `held`."""
        self._own()
        del self.ms[start:stop]
        del self.seqs[start:stop]
        del self.counters[start:stop]
        del self.delivered_ms[start:stop]
        del self.deliveries[start:stop]
        del self.consumers[start:stop]

    def make_room_for(self, deliveries: int) -> None:
        """Gives the counts of deliveries 8 bytes if this one needs them."""
        if deliveries > NARROW_MAX:
            self._widen()

    def has_wide_counts(self) -> bool:
        """Whether the counts of deliveries have 8 bytes."""
        return self.deliveries.itemsize == 8

    def _widen(self) -> None:
        if not self.has_wide_counts():
            self.deliveries = array("Q", self.deliveries)

    def _own(self) -> None:
        """Copies the columns if an image holds them, before an entry is changed or moved."""
        if self.is_shared:
            self.fit()

    def fit(self) -> None:
        """Copies the columns, so that they have no room to grow, and no image holds them."""
        self.is_shared = False
        self.ms = self.ms[:]
        self.seqs = self.seqs[:]
        self.counters = self.counters[:]
        self.delivered_ms = self.delivered_ms[:]
        self.deliveries = self.deliveries[:]
        self.consumers = self.consumers[:]


def change_count(counts: dict[int, int], consumer: int, change: int) -> None:
    """Adds `change` to the count of a consumer, and drops a count that becomes 0."""
    count = counts.get(consumer, 0) + change
    if count:
        counts[consumer] = count
    else:
        del counts[consumer]


def runs(consumers: array[int], start: int, stop: int) -> list[tuple[int, int]]:
    """Returns (consumer, length) of each run of equal numbers from offset `start` up to `stop`."""
    if stop - start == 1:
        return [(consumers[start], 1)]
    found: list[tuple[int, int]] = []
    begin = start
    while begin < stop:
        consumer = consumers[begin]
        end = begin + 1
        while end < stop and consumers[end] == consumer:
            end += 1
        found.append((consumer, end - begin))
        begin = end
    return found
