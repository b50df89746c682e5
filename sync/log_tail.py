"""The end of the committed log, in memory: a peer that keeps up is shipped from here, and costs no read.

The driver tells it of every commit, in the order of the log. It also keeps the log's floor: what a
peer must hold for the log to reach back to what it lacks (S2.6).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, Optional

from anabranch.crdt.vector import Vector, includes, raise_to
from anabranch.sync.interfaces import Row

# What a row takes beside its block's body.
_ROW_OVERHEAD_BYTES: Final = 200
# Dropped rows that may stand at the beginning of the lists before they are cleared away.
_DROPPED_MAX: Final = 512


class LogTail:
    """`position`: up to which the log is on disk. It holds about `bytes_max` bytes of blocks."""

    def __init__(self, position: int, floor: Vector, bytes_max: int) -> None:
        self.position = position
        self.floor: Vector = dict(floor)
        self.bytes = 0
        self._bytes_max: Final = bytes_max
        # Every block row on disk after this position is here.
        self._base = position
        self._rows: list[Row] = []
        self._positions: list[int] = []
        self._first = 0  # rows before this index are dropped

    # -- what the driver tells

    def append(self, row: Row) -> None:
        """A block row is on disk."""
        self._rows.append(row)
        self._positions.append(row.position)
        self.bytes += _size(row)
        while self.bytes > self._bytes_max and self._first < len(self._rows) - 1:
            self._drop_first()

    def raise_floor(self, vector: Vector) -> None:
        """The log no longer reaches back to what a peer lacks that does not hold all of `vector`."""
        raise_to(self.floor, vector)

    def restart(self, position: int) -> None:
        """A snapshot was joined at that position: nothing before it is served from here (S11.2)."""
        self._rows, self._positions, self._first = [], [], 0
        self.bytes = 0
        self._base = position

    def cut_off(self, position: int, floor: Vector) -> None:
        """Retention drops the rows up to a position: the log's floor rises before they are gone."""
        self.raise_floor(floor)
        while self._first < len(self._rows) and self._positions[self._first] <= position:
            self._drop_first()

    def committed(self, position: int) -> None:
        """Everything up to a position is on disk."""
        self.position = position

    def _drop_first(self) -> None:
        self._base = self._positions[self._first]
        self.bytes -= _size(self._rows[self._first])
        self._first += 1
        if self._first > _DROPPED_MAX:
            del self._rows[: self._first]
            del self._positions[: self._first]
            self._first = 0

    # -- what senders ask

    def reaches_back(self, vector: Vector) -> bool:
        """Whether the log on disk holds every block that `vector` lacks."""
        return includes(vector, self.floor)

    def holds_all_after(self, position: int) -> bool:
        """Whether every block row after a position is here."""
        return position >= self._base

    def rows_after(self, position: int, bytes_max: int) -> Optional[list[Row]]:
        """Block rows after a position, about `bytes_max` bytes of them; None when the tail does not reach back so far."""
        if position < self._base:
            return None
        index = bisect_right(self._positions, position, self._first)
        found: list[Row] = []
        size = 0
        while index < len(self._rows):
            row = self._rows[index]
            if found and size + len(row.block.body) > bytes_max:
                break
            found.append(row)
            size += len(row.block.body)
            index += 1
        return found


def _size(row: Row) -> int:
    return len(row.block.body) + _ROW_OVERHEAD_BYTES
