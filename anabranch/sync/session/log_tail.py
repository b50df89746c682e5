"""The end of the committed effect log, in memory.

Senders serve a peer that keeps up from the tail, without reading the disk. The driver reports every
commit to the tail, in the order of the log. What all senders have read is released, but for a small
part that serves links which come back soon. The tail also keeps the floor of the log: the vector
that a peer must hold for the log to reach back to the blocks that the peer lacks (S2.6).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, Optional

from anabranch.crdt.vector import Vector, includes, raise_to
from anabranch.sync.session.interfaces import LogRow

# Memory of a row in addition to the body of its block, in the compiled build.
_ROW_OVERHEAD_BYTES: Final = 320
# The part of the tail's size that is not released.
_KEPT_PART: Final = 64
# Most dropped rows at the beginning of the lists before the lists are cut.
_DROPPED_MAX: Final = 512


class LogTail:
    """The last rows of the log, at most about `bytes_max` bytes of blocks.

    `position` is the position up to which the log is on disk.
    """

    def __init__(self, position: int, floor: Vector, bytes_max: int) -> None:
        self.position = position
        self.floor: Vector = dict(floor)
        self.bytes = 0
        self._bytes_max: Final = bytes_max
        # Every block row on disk after this position is here.
        self._base = position
        self._rows: list[Optional[LogRow]] = []
        self._positions: list[int] = []
        # Rows before this index are dropped, and None.
        self._first = 0

    # -- reports of the driver

    def append(self, row: LogRow) -> None:
        """Adds a block row that is on disk."""
        self._rows.append(row)
        self._positions.append(row.position)
        self.bytes += _size(row)
        while self.bytes > self._bytes_max and self._first < len(self._rows) - 1:
            self._drop_first()

    def raise_floor(self, vector: Vector) -> None:
        """Raises the floor: a peer must hold all of `vector` for the log to reach back."""
        raise_to(self.floor, vector)

    def restart(self, position: int) -> None:
        """Drops all rows, because a snapshot was joined at `position` (S11.2)."""
        self._rows, self._positions, self._first = [], [], 0
        self.bytes = 0
        self._base = position

    def cut_off(self, position: int, floor: Vector) -> None:
        """Drops the rows up to a position, before retention deletes them; the floor rises first."""
        self.raise_floor(floor)
        self._drop(position, 0)

    def release(self, position: int) -> None:
        """Drops rows up to a position, but for the newest: who needs one later reads the disk."""
        self._drop(position, self._bytes_max // _KEPT_PART)

    def _drop(self, position: int, bytes_kept: int) -> None:
        while (
            self._first < len(self._rows)
            and self._positions[self._first] <= position
            and self.bytes > bytes_kept
        ):
            self._drop_first()

    def committed(self, position: int) -> None:
        """Notes that the log is on disk up to a position."""
        self.position = position

    def _drop_first(self) -> None:
        row = self._rows[self._first]
        assert row is not None
        self._base = self._positions[self._first]
        self.bytes -= _size(row)
        self._rows[self._first] = None
        self._first += 1
        if self._first > _DROPPED_MAX:
            del self._rows[: self._first]
            del self._positions[: self._first]
            self._first = 0

    # -- queries of the senders

    def reaches_back(self, vector: Vector) -> bool:
        """Whether the log on disk holds every block that `vector` lacks."""
        return includes(vector, self.floor)

    def holds_all_after(self, position: int) -> bool:
        """Whether the tail holds every block row after a position."""
        return position >= self._base

    def rows_after(self, position: int, bytes_max: int) -> Optional[list[LogRow]]:
        """Returns the block rows after a position, about `bytes_max` bytes of them.

        Returns None when the tail does not reach back to the position.
        """
        if position < self._base:
            return None
        index = bisect_right(self._positions, position, self._first)
        found: list[LogRow] = []
        size = 0
        while index < len(self._rows):
            row = self._rows[index]
            assert row is not None
            if found and size + len(row.block.body) > bytes_max:
                break
            found.append(row)
            size += len(row.block.body)
            index += 1
        return found


def _size(row: LogRow) -> int:
    return len(row.block.body) + _ROW_OVERHEAD_BYTES
