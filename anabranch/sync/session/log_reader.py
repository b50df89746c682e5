"""The position of one sender in the effect log, and the rows that follow it. Sans-IO.

Rows come in log order, from the tail in memory if the tail reaches back far enough, else from the
disk. At most one question to the log on disk is open at a time. Retention, or a snapshot that this
region joined (S11.2), may cut off the log at any time. So an answer counts only if the log still
reaches back to the vector that the peer was sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Optional, Union

from anabranch.crdt.vector import Vector
from anabranch.sync.session.interfaces import LogRow
from anabranch.sync.session.log_requests import Locate, ReadLog
from anabranch.sync.session.log_tail import LogTail


class LogReader:
    """Reads the log for one sender.

    `cursor`: the position up to which the log was read.
    """

    def __init__(self, tail: LogTail, batch_bytes: int) -> None:
        self.cursor = 0
        self.is_located = False
        self._tail: Final = tail
        self._batch_bytes: Final = batch_bytes
        self._rows: deque[LogRow] = deque()
        self._asking: Optional[Union[Locate, ReadLog]] = None
        self._locate_again = False

    def locate(self) -> None:
        """Looks the position up anew, at once or when the open question is answered."""
        self._locate_again = True

    def leave(self) -> None:
        """Gives the position up, because the log does not reach back."""
        self._rows.clear()
        self.is_located = False

    def misses(self, vector: Vector) -> None:
        """Gives the position up: effects that the vector covers are in no block of this log.

        A peer must hold them from now on for the log to reach back (S13.10).
        """
        self._tail.raise_floor(vector)
        self.leave()

    def next_row(self) -> Optional[LogRow]:
        """Returns the next row without moving; None when no row is in memory."""
        if self._rows:
            return self._rows[0]
        if self.is_located and self._asking is None and self.cursor < self._tail.position:
            found = self._tail.rows_after(self.cursor, self._batch_bytes)
            if found is not None:
                self._rows.extend(found)
                if not found:
                    self.cursor = max(self.cursor, self._tail.position)
        return self._rows[0] if self._rows else None

    def step(self) -> None:
        """Moves beyond the next row."""
        self.cursor = self._rows.popleft().position

    def request(
        self, lacking: Vector, sent: Vector, wants_rows: bool
    ) -> Optional[Union[Locate, ReadLog]]:
        """Returns the next question; None while one is open or none is needed.

        `lacking`: a position is looked up after which every block that this vector lacks follows.
        `sent`: the vector that the peer was sent. `wants_rows`: the window has room for more rows.
        """
        if self._asking is not None:
            return None
        if self._locate_again:
            self._locate_again = False
            self._asking = Locate(dict(lacking), self._tail.position)
        elif wants_rows and self.is_located and not self._rows:
            if self.cursor < self._tail.position and not self._tail.holds_all_after(self.cursor):
                self._asking = ReadLog(
                    self.cursor, self._tail.position, self._batch_bytes, dict(sent)
                )
        return self._asking

    def located(self, request: Locate, position: Optional[int]) -> bool:
        """Takes the answer to Locate; returns False when the log does not reach back."""
        self._asking = None
        if not self._tail.reaches_back(request.vector):
            self.leave()
            return False
        self.is_located = True
        self.cursor = request.committed if position is None else position
        return True

    def rows_read(self, request: ReadLog, rows: Sequence[LogRow]) -> bool:
        """Takes the answer to ReadLog; returns False when the log does not reach back."""
        self._asking = None
        if not self._tail.reaches_back(request.vector):
            self.leave()
            return False
        if rows and self.is_located:
            self._rows.extend(rows)
        elif not rows:
            self.cursor = max(self.cursor, request.committed)
        return True
