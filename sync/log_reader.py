"""The place of one sender in the log: rows in log order, from the tail in memory where that reaches back, else from the disk. Sans-IO.

At most one question about the order is out at a time. The log may be cut off at any time, by
retention or by a snapshot that this region joined (S11.2), so each answer counts only if the log
still reaches back to what the peer was sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Optional, Union

from anabranch.crdt.vector import Vector
from anabranch.sync.interfaces import Row
from anabranch.sync.log_requests import Locate, ReadLog
from anabranch.sync.log_tail import LogTail


class LogReader:
    """`cursor`: the position up to which the log was read. `reads`: questions asked for rows."""

    def __init__(self, tail: LogTail, batch_bytes: int) -> None:
        self.cursor = 0
        self.is_located = False
        self.reads = 0
        self._tail: Final = tail
        self._batch_bytes: Final = batch_bytes
        self._rows: deque[Row] = deque()
        self._asking: Optional[Union[Locate, ReadLog]] = None
        self._locate_again = False

    def locate(self) -> None:
        """The place is to be looked up, now or when the question that is out is answered."""
        self._locate_again = True

    def leave(self) -> None:
        """The place is lost: the log does not reach back."""
        self._rows.clear()
        self.is_located = False

    def next_row(self) -> Optional[Row]:
        """The next row, which `step` moves beyond; None when none is at hand."""
        if not self._rows and self.is_located and self._asking is None:
            found = self._tail.rows_after(self.cursor, self._batch_bytes)
            if found is not None:
                self._rows.extend(found)
                if not found:
                    self.cursor = max(self.cursor, self._tail.position)
        return self._rows[0] if self._rows else None

    def step(self) -> None:
        """The next row is done with."""
        self.cursor = self._rows.popleft().position

    def request(
        self, lacking: Vector, sent: Vector, wants_rows: bool
    ) -> Optional[Union[Locate, ReadLog]]:
        """The next question; None when there is none now.

        `lacking`: a place is looked for from which all that this vector lacks follows. `sent`: what
        the peer was sent. `wants_rows`: there is room for more.
        """
        if self._asking is not None:
            return None
        if self._locate_again:
            self._locate_again = False
            self._asking = Locate(dict(lacking), self._tail.position)
        elif wants_rows and self.is_located and not self._rows:
            if self.cursor < self._tail.position and not self._tail.holds_all_after(self.cursor):
                self.reads += 1
                self._asking = ReadLog(
                    self.cursor, self._tail.position, self._batch_bytes, dict(sent)
                )
        return self._asking

    def located(self, request: Locate, position: Optional[int]) -> bool:
        """Answers Locate; False when the log does not reach back."""
        self._asking = None
        if not self._tail.reaches_back(request.vector):
            self.leave()
            return False
        self.is_located = True
        self.cursor = request.committed if position is None else position
        return True

    def rows_read(self, request: ReadLog, rows: Sequence[Row]) -> bool:
        """Answers ReadLog; False when the log does not reach back."""
        self._asking = None
        if not self._tail.reaches_back(request.vector):
            self.leave()
            return False
        if rows and self.is_located:
            self._rows.extend(rows)
        elif not rows:
            self.cursor = max(self.cursor, request.committed)
        return True
