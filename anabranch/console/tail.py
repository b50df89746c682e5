"""The newest removals of a key in one region, from the end of its log (CRDT.HISTORY).

A region keeps no entry that was removed, so only its log tells which entries were there. Reading it
costs more than reading the stream. So it is read when an entry has gone, at most once a second, and
from the end: an entry whose add and removal lie further back is not shown.
"""

from __future__ import annotations

import time
from typing import Final

from anabranch.console.regions import Region, Word
from anabranch.console.view import Entry, RegionView, Removed, entry_of
from anabranch.crdt.vector import Dot, covers
from anabranch.study.history.wording import RegionNames
from anabranch.study.replies.events import REMOVALS, KeyEvent
from anabranch.study.replies.histories import KeyHistory

PERIOD_S: Final = 1.0
# Rows and about bytes of the log that are read at once, and events of one answer.
ROWS: Final = 5000
BYTES: Final = 1 << 20
EVENTS: Final = 500
# Entries that are remembered, present and removed ones.
ENTRIES: Final = 4000
REMOVED: Final = 1000


class Tail:
    """The removals of one key in one region, as far as they are known."""

    def __init__(self) -> None:
        # The row after which the log is not read yet; -1: it was never read.
        self._after = -1
        self._read_at_s = -PERIOD_S
        self._signature: object = None
        self._entries: dict[Dot, Entry] = {}
        # Entries that are gone, and whose removal was not read yet.
        self._unread: dict[Dot, Removed] = {}
        self.removed: dict[Dot, Removed] = {}
        self.since_ms = 0
        # Why the log could not be read the last time.
        self.error = ""

    def remember(self, entries: dict[Dot, Entry]) -> None:
        """Takes the entries that are present, so that their removals can be shown."""
        self._entries.update(entries)
        for dot in list(self._entries)[: max(len(self._entries) - ENTRIES, 0)]:
            del self._entries[dot]

    def is_behind(self, signature: object, gone: dict[Dot, Removed]) -> bool:
        """Whether the log is to be read: for an entry in `gone` without an act, or anyway.

        `signature` changes with removals of the key, also of entries that were never seen here.
        """
        return (
            self._after < 0
            or signature != self._signature
            or any(not one.by and dot not in self.removed for dot, one in gone.items())
        )

    def pause_s(self) -> float:
        """How long to wait before the log is read again."""
        return max(self._read_at_s + PERIOD_S - time.monotonic(), 0.0)

    def gone(self, view: RegionView, low: int, high: int) -> dict[Dot, Removed]:
        """The removed entries with IDs from `low` to `high`.

        Those whose removal was not read yet are among them: the region has applied the add, and
        the entry is not there. Their act is empty.
        """
        # Outside of these bounds the view tells nothing of an entry.
        found = {
            dot: Removed(entry, "")
            for dot, entry in self._entries.items()
            if low <= entry.number <= high
            and dot not in view.entries
            and view.status(dot) == "removed"
        }
        self._unread = dict(found)
        found.update(
            (dot, gone)
            for dot, gone in self.removed.items()
            if low <= gone.entry.number <= high and dot not in view.entries
        )
        return found

    async def read(
        self,
        region: Region,
        key: bytes,
        info: dict[str, str],
        names: RegionNames,
        signature: object,
    ) -> None:
        """Reads the log on from where the last reading ended. RegionDown or Refused as `Line`."""
        committed = int(info.get("crdt_committed_position", 0))
        rows = max(int(info.get("crdt_log_rows", 0)), 1)
        row_bytes = max(int(info.get("crdt_log_bytes", 0)) // rows, 1)
        oldest = max(committed - min(ROWS, max(BYTES // row_bytes, 4)), 0)
        is_first = self._after < 0
        after = max(self._after, oldest)
        words: list[Word] = ["CRDT.HISTORY", key, "AFTER", after, "NEWEST", EVENTS]
        history = KeyHistory(await region.slow_line.ask(*words))
        if is_first or history.left_out or after > self._after:
            begins_ms = history.events[0].clock_ms if history.events else history.now_ms
            is_whole = after < 1 and not history.left_out and not history.floor
            self.since_ms = 0 if is_whole else begins_ms
        for event in history.events:
            self._take(event, names)
        last = history.events[-1].position if history.events else 0
        self._after = max(after, committed, last)
        # The log does not tell of these: they are not looked for again.
        for dot, one in self._unread.items():
            if self._entries.pop(dot, None) is not None:
                self.removed[dot] = one
        self._unread = {}
        self._read_at_s = time.monotonic()
        self.error = ""
        self._signature = signature
        for dot in list(self.removed)[: max(len(self.removed) - REMOVED, 0)]:
            del self.removed[dot]

    def fail(self, error: str, signature: object) -> None:
        """The log could not be read; it is asked again with the next removal."""
        self.error = error
        self._read_at_s = time.monotonic()
        self._after = max(self._after, 0)
        self._signature = signature

    def _take(self, event: KeyEvent, names: RegionNames) -> None:
        if event.kind == "add":
            self.remember({event.dot: entry_of(event.id or "", event.fields)})
        elif event.kind in REMOVALS:
            gone = event.dots or [dot for dot in self._entries if covers(event.covered, *dot)]
            by = names.act(event)
            for dot in gone:
                entry = self._entries.pop(dot, None)
                if entry is not None:
                    self.removed[dot] = Removed(entry, by)
