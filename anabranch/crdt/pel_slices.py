"""Pending entries as commands see them: one, or those that follow each other in the columns.

A window is a copy of a part of a chunk, in bytes, from which compiled code reads a number without
making an object. A slice is a range of a window, so it stays as it is while the PEL changes. The
encoder of replies writes the text of a slice (`region/resp/entries.py`).

Numbers are words here, as `crdt/scan.py` describes them.
"""

from __future__ import annotations

import sys
from array import array
from typing import Final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64, mypyc_attr

from anabranch.crdt.ids import IS_COMPILED
from anabranch.crdt.pel_chunk import NARROW_MAX, Chunk
from anabranch.crdt.scan import is_below, is_up_to, unsigned, word

# Arrays hold numbers in the byte order of the machine, and windows the lowest byte first.
_IS_SWAPPED: Final = sys.byteorder == "big"


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
class Window:
    """The entries of a chunk from offset `start` up to `stop`, as they are now.

    `names`: consumer number → name.
    """

    def __init__(
        self, region_id: int, chunk: Chunk, start: int, stop: int, names: dict[int, bytes]
    ) -> None:
        self.region_id: Final = region_id
        self._ms: Final = copied(chunk.ms, start, stop)
        self._seqs: Final = copied(chunk.seqs, start, stop)
        self._counters: Final = copied(chunk.counters, start, stop)
        self._delivered_ms: Final = copied(chunk.delivered_ms, start, stop)
        self._deliveries: Final = copied(chunk.deliveries, start, stop)
        self._has_wide_counts: Final = chunk.has_wide_counts()
        self._consumers: Final = copied(chunk.consumers, start, stop)
        self.size: i64 = len(self._ms) // 8
        # The consumers of the chunk.
        self.names: Final = {number: names[number] for number in chunk.held}

    def ms(self, n: i64) -> i64:
        return word_of(self._ms, n)

    def seq(self, n: i64) -> i64:
        return word_of(self._seqs, n)

    def delivered_ms(self, n: i64) -> i64:
        return word_of(self._delivered_ms, n)

    def deliveries(self, n: i64) -> i64:
        if self._has_wide_counts:
            return word_of(self._deliveries, n)
        return i64(read_i32_le(self._deliveries, n * 4)) & NARROW_MAX

    def consumer(self, n: i64) -> i64:
        """Returns the number of a consumer."""
        return int(read_i32_le(self._consumers, n * 4))

    def is_up_to(self, n: i64, ms: i64, seq: i64) -> bool:
        """Whether the ID of entry `n` is not above the one of these words."""
        return is_up_to(self.ms(n), self.seq(n), ms, seq)

    def id(self, n: i64) -> int:
        return (unsigned(self.ms(n)) << 64) | unsigned(self.seq(n))

    def pending(self, n: i64) -> Pending:
        return Pending(
            self.id(n),
            self.region_id,
            unsigned(word_of(self._counters, n)),
            self.names[int(self.consumer(n))],
            unsigned(self.delivered_ms(n)),
            unsigned(self.deliveries(n)),
        )


def copied(column: array[int], start: int, stop: int) -> bytes:
    """Returns the numbers of a column from offset `start` up to `stop`, the lowest byte first."""
    some = column[start:stop]
    if _IS_SWAPPED:
        some.byteswap()
    return some.tobytes()


def word_of(column: bytes, n: i64) -> i64:
    """Returns number `n` of the copy of a column, as a word."""
    number = read_i64_le(column, n * 8)
    if IS_COMPILED or number >= 0:
        return number
    return unsigned(number)


@mypyc_attr(acyclic=True)
class PendingSlice:
    """Entries that follow each other: those of a window from `start` up to `stop`, at least one."""

    def __init__(self, window: Window, start: i64, stop: i64) -> None:
        self.window: Final = window
        self.start: i64 = start
        self.stop: i64 = stop

    def size(self) -> int:
        return int(self.stop - self.start)

    def last_id(self) -> int:
        return self.window.id(self.stop - 1)

    def delivered_up_to(self, time_ms: int) -> list[PendingSlice]:
        """Returns those of the entries that were not delivered after a time, from 0 on."""
        latest = word(time_ms)
        window = self.window
        found: list[PendingSlice] = []
        start = n = self.start
        while n < self.stop:
            if is_below(latest, window.delivered_ms(n)):
                if start < n:
                    found.append(PendingSlice(window, start, n))
                start = n + 1
            n += 1
        if start < n:
            found.append(PendingSlice(window, start, n))
        return found

    def listed(self) -> list[Pending]:
        """Returns the entries as objects."""
        found: list[Pending] = []
        n = self.start
        while n < self.stop:
            found.append(self.window.pending(n))
            n += 1
        return found
