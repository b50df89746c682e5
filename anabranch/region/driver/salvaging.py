"""The merging of a salvage during a recovery (S13.7). Sans-IO; a part of the driver.

The items are read from the disk page by page. Most of them are covered, because peers hold them. An
item that does not follow yet waits, and the recovery may bring what it lacks. When the region
holds everything that the other members hold and the item still does not follow, the rest cannot be
used: it is counted, named in the log, and stays in the files that `anabranch repair` set aside.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.region.driver.event_log import EventLog
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.rows import BlockRow
from anabranch.region.storage.salvage import UNKNOWN, ReadSalvage, is_gap

# Bytes of items read and merged at once.
_PAGE_BYTES: Final = 128 << 10


class Salvaging:
    """The items of one salvage on their way into the engine. Times are steady times in ms."""

    def __init__(self, engine: Engine, events: EventLog, retry_after_ms: int) -> None:
        self._engine: Final = engine
        self._events: Final = events
        self._retry_after_ms: Final = retry_after_ms
        # Items that were read and are not dealt with, and the number of the last item read.
        self._items: list[Block] = []
        self._number = 0
        self._is_reading = False
        self._read_after_ms = 0
        # Why no further item is used; empty while they are merged.
        self._gave_up = ""
        # The region's own counter before the first item, and the effects that cannot be used, by
        # region: their number, and the highest counter.
        self._own_before: Final = engine.vector.get(engine.region_id, 0)
        self._unused: Final[dict[int, tuple[int, int]]] = {}
        # The salvage itself is damaged, so the effects after that place cannot be counted.
        self._is_cut_off = False

    def next_read(self, steady_ms: int) -> Optional[ReadSalvage]:
        """The read to perform now; None if none is due."""
        if self._is_reading or self._items or steady_ms < self._read_after_ms:
            return None
        if not self._engine.salvage.is_wanted():
            return None
        self._is_reading = True
        return ReadSalvage(self._number, _PAGE_BYTES)

    def read(self, rows: list[BlockRow], now_ms: int) -> bool:
        """The disk has answered with the next items; none are left if there are no rows.

        Returns whether some were merged.
        """
        self._is_reading = False
        if not rows:
            self._end()
            return False
        self._number = rows[-1].position
        self._items = [row.block for row in rows]
        return self.merge(now_ms)

    def cannot_read(self, error: str, is_damaged: bool, steady_ms: int) -> None:
        """The read failed. It is tried again, unless a row `is_damaged`."""
        self._is_reading = False
        self._read_after_ms = steady_ms + self._retry_after_ms
        if is_damaged:
            self._gave_up = self._gave_up or error
            self._is_cut_off = True
            self._end()

    def merge(self, now_ms: int) -> bool:
        """Merges the items that were read, as far as they follow. Call it at every tick.

        Returns whether some were merged.
        """
        if not self._items or not self._engine.salvage.is_wanted():
            return False
        done = 0
        if not self._gave_up:
            try:
                done = self._engine.salvage.merge(self._items, now_ms)
            except PeerError as error:
                self._gave_up = str(error)
            else:
                del self._items[:done]
                if self._items and self._engine.salvage.is_final():
                    self._gave_up = self._missing(self._items[0])
        if self._gave_up:
            self._count_unused()
        return done > 0

    def _missing(self, item: Block) -> str:
        """What the next item demands and no member holds, in words."""
        if item.last == UNKNOWN:
            return "a part of the damaged log cannot be read"
        first = self._engine.vector.get(item.origin, 0) + 1
        last = item.last if is_gap(item) else item.first - 1
        name = self._engine.state.members.name_of(item.origin)
        return f"effects {first} to {last} of {name} are damaged, and no other region has them"

    def _count_unused(self) -> None:
        for item in self._items:
            applied = self._engine.vector.get(item.origin, 0)
            if item.last > applied and not is_gap(item):
                effects, last = self._unused.get(item.origin, (0, 0))
                effects += item.last - max(item.first - 1, applied)
                self._unused[item.origin] = (effects, max(last, item.last))
        self._items = []

    def _end(self) -> None:
        """All items are dealt with."""
        engine = self._engine
        engine.salvage.end()
        own = engine.vector.get(engine.region_id, 0)
        self._events.salvaged(self._own_before, own)
        if self._gave_up:
            names = engine.state.members.name_of
            unused = [
                f"{effects} of {names(origin)} up to {last}"
                for origin, (effects, last) in sorted(self._unused.items())
            ]
            if self._is_cut_off:
                unused.append("all that follows")
            self._events.salvage_ended_early(self._gave_up, ", ".join(unused) or "none")
