"""Walking pending entries upward: those of one region log, and the merge of all of them (S7.5).

A walk copies the entries out of the columns, a window at a time (`crdt/pel_slices.py`).
"""

from __future__ import annotations

from typing import Final, Optional

from mypy_extensions import i64

from anabranch.crdt.ids import MAX_HALF
from anabranch.crdt.pel_chunk import NOBODY
from anabranch.crdt.pel_part import PelPart
from anabranch.crdt.pel_slices import Pending, PendingSlice, Window
from anabranch.crdt.scan import words

# Entries of a window. To copy fewer takes hardly less time.
WINDOW_ENTRIES: Final = 64


class PartCursor:
    """Walks a part upward, perhaps only the entries of one consumer (NOBODY: of all).

    `names`: consumer number → name.
    """

    def __init__(self, part: PelPart, start: int, consumer: int, names: dict[int, bytes]) -> None:
        self.region_id: Final = part.region_id
        self._chunks: Final = part.chunks
        self._consumer: Final = consumer
        self._names: Final = names
        self.valid = True
        part.seek(start >> 64, start & MAX_HALF, 0)
        # The chunk of the next window, and the offset of its first entry.
        self._chunk = part.index
        self._next = part.offset
        # The window of the current entry, and the entry's index there.
        self._window: Optional[Window] = None
        self.at: i64 = 0
        self._move(0)

    def step(self) -> None:
        """Moves to the next entry; `valid` becomes False at the end."""
        self._move(self.at + 1)

    def _move(self, at: i64) -> None:
        """Moves to the first entry of the consumer from index `at` of the window on."""
        while True:
            window = self._window
            if window is not None:
                while at < window.size:
                    if self._is_wanted(window, at):
                        self.at = at
                        return
                    at += 1
            if not self._copy():
                self.valid = False
                return
            at = 0

    def _is_wanted(self, window: Window, at: i64) -> bool:
        return self._consumer == NOBODY or int(window.consumer(at)) == self._consumer

    def _copy(self) -> bool:
        """Copies the next window; returns False at the end of the part."""
        chunks = self._chunks
        while self._chunk < len(chunks):
            chunk = chunks[self._chunk]
            start = self._next
            if start < chunk.size() and (self._consumer == NOBODY or self._consumer in chunk.held):
                self._next = start + WINDOW_ENTRIES
                self._window = Window(self.region_id, chunk, start, self._next, self._names)
                return True
            self._chunk += 1
            self._next = 0
        return False

    def is_up_to(self, ms: i64, seq: i64) -> bool:
        """Whether the ID of the current entry is not above the one of these words."""
        return self._here().is_up_to(self.at, ms, seq)

    def is_below(self, other: PartCursor) -> bool:
        """Whether the ID of its current entry is below that of another walk's."""
        window = self._here()
        return not other.is_up_to(window.ms(self.at), window.seq(self.at))

    def id(self) -> int:
        """Returns the ID of the current entry."""
        return self._here().id(self.at)

    def pending(self) -> Pending:
        """Returns the current entry."""
        return self._here().pending(self.at)

    def _here(self) -> Window:
        window = self._window
        assert window is not None
        return window

    def take(self, count: int, last_ms: i64, last_seq: i64) -> PendingSlice:
        """Returns the current entry and those of the walk that follow it, and moves past them.

        At most `count`, and after the current one none above the ID of these words.
        """
        window = self._here()
        start = self.at
        stop = start + 1
        end: i64 = min(int(start) + count, int(window.size))
        while (
            stop < end
            and window.is_up_to(stop, last_ms, last_seq)
            and self._is_wanted(window, stop)
        ):
            stop += 1
        self._move(stop)
        return PendingSlice(window, start, stop)


class PelCursor:
    """Walks pending entries upward by (ID, region_id); usable until the PEL changes.

    It merges the parts of all region logs. It can also be iterated over.
    """

    def __init__(self, cursors: list[PartCursor], end: int) -> None:
        # By ascending region_id.
        self._cursors: Final = cursors
        self._end: Final = end
        end_ms, end_seq = words(end)
        self._end_ms: i64 = end_ms
        self._end_seq: i64 = end_seq
        self.valid = True
        # The cursor of the current entry's part.
        self._at: Optional[PartCursor] = None
        self._choose()

    def _choose(self) -> None:
        best: Optional[PartCursor] = None
        for cursor in self._cursors:
            if cursor.valid and (best is None or cursor.is_below(best)):
                best = cursor
        self._at = best
        self.valid = best is not None and best.is_up_to(self._end_ms, self._end_seq)

    def _current(self) -> PartCursor:
        at = self._at
        assert at is not None
        return at

    def step(self) -> None:
        self._current().step()
        self._choose()

    def take(self, count: int) -> PendingSlice:
        """Returns the entries that the walk meets next and that follow each other in the columns.

        At most `count`, which is at least 1. Moves past them.
        """
        current = self._current()
        ms = self._end_ms
        seq = self._end_seq
        if len(self._cursors) > 1:
            last = self._end
            for cursor in self._cursors:
                if cursor.valid and cursor is not current:
                    # Of equal IDs, that of the lower region_id comes first.
                    is_first = cursor.region_id < current.region_id
                    last = min(last, cursor.id() - 1 if is_first else cursor.id())
            ms, seq = words(last)
        found = current.take(count, ms, seq)
        self._choose()
        return found

    def id(self) -> int:
        """Returns the ID of the current entry."""
        return self._current().id()

    def pending(self) -> Pending:
        """Returns the current entry."""
        return self._current().pending()

    def __iter__(self) -> PelCursor:
        return self

    def __next__(self) -> Pending:
        if not self.valid:
            raise StopIteration
        found = self.pending()
        self.step()
        return found
