"""The effects of one region after a counter, as events, for CRDT.EFFECTS.

The driver reads the blocks of that region from the disk (`region/driver/histories.py`). The events
have the form of those in CRDT.HISTORY (`history`), with the key that they change.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt import effects as fx
from anabranch.crdt import ids
from anabranch.crdt.block import Unit, read_units
from anabranch.crdt.scan import Scan
from anabranch.region.engine.history import describe, fields_in_run, other_key_of
from anabranch.region.engine.replies import MapReply, Reply
from anabranch.region.engine.rows import BlockRow, LogRow

# Bodies of blocks, in bytes, after which a reply ends.
_BYTES_MAX: Final = 4 << 20


class EffectsAfter:
    """The first `keeps` effects of the region `origin` after the counter `after`.

    `up_to` is the counter up to which the effects are told. `is_full`: more may follow. Without
    `has_fields`, adds are told without fields and values.
    """

    def __init__(self, origin: int, after: int, keeps: int, has_fields: bool) -> None:
        self.origin: Final = origin
        self.up_to = after
        self.events: Final[list[Reply]] = []
        self.is_full = False
        self._keeps: Final = keeps
        self._has_fields: Final = has_fields
        self._bytes = 0

    def take(self, rows: list[LogRow]) -> None:
        """Takes the next blocks of the region.

        Raises:
            Malformed: A block is not one that this version writes.
        """
        for row in rows:
            assert isinstance(row, BlockRow)
            for unit in read_units(row.block):
                self._take_unit(row, unit)
                if self.is_full:
                    return
            self._bytes += len(row.block.body)
            if self._bytes >= _BYTES_MAX:
                self.is_full = True
                return

    def _take_unit(self, row: BlockRow, unit: Unit) -> None:
        counter = unit.first
        for effect in unit.effects:
            if isinstance(effect, fx.AddRun):
                self._take_run(row, unit, effect)
            elif counter > self.up_to and self._has_room():
                facts = other_key_of(unit, fx.key_of(effect) or b"")
                kind = describe(effect, facts, self._has_fields)
                self._tell(row, unit, effect, counter, kind, facts)
            counter += fx.dots_of(effect)

    def _take_run(self, row: BlockRow, unit: Unit, run: fx.AddRun) -> None:
        scan = Scan(run.data, run.base_counter)
        other_key = other_key_of(unit, run.key)
        while scan.step():
            if scan.counter <= self.up_to or not self._has_room():
                continue
            facts: list[Reply] = [b"id", ids.format_id(scan.id())]
            if self._has_fields:
                facts += [b"fields", fields_in_run(run, scan)]
            self._tell(row, unit, run, scan.counter, b"add", facts + other_key)

    def _has_room(self) -> bool:
        self.is_full = self.is_full or len(self.events) == self._keeps
        return not self.is_full

    def _tell(
        self,
        row: BlockRow,
        unit: Unit,
        effect: fx.Effect,
        counter: int,
        kind: bytes,
        facts: list[Reply],
    ) -> None:
        head: list[Reply] = [b"position", row.position, b"clock-ms", row.clock_ms]
        head += [b"source", row.source, b"command", unit.command or fx.usual_command(effect)]
        head += [b"kind", kind, b"key", fx.key_of(effect), b"dot", [self.origin, counter]]
        self.events.append(MapReply(head + facts))
        self.up_to = counter
