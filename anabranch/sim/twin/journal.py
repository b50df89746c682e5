"""The twin's log: everything that was applied, in the rows in which the region has it on disk.

A start replays the rows up to the position that it found. Within the rows of one block, a replay
applies the effects first and then the local records that arose while the block was open (S13.1).
"""

from __future__ import annotations

from typing import Final, Optional, Union

from anabranch.sim import calls
from anabranch.sim.calls import Call
from anabranch.sim.twin.apply import apply
from anabranch.sim.twin.effects import Plain
from anabranch.sim.twin.join import Frozen, join
from anabranch.sim.twin.records import Record, apply_record
from anabranch.sim.twin.replies import Mismatch
from anabranch.sim.twin.state import State
from anabranch.sim.twin.vectors import Dot

Content = Union[list[tuple[Dot, Plain]], list[Record], Frozen, None]


class TwinRow:
    """A row of the log. `is_own`: the region issued its effects. A clock row has no content."""

    def __init__(self, position: int, clock_ms: int, content: Content, is_own: bool) -> None:
        self.position: Final = position
        self.clock_ms: Final = clock_ms
        self.content: Final = content
        self.is_own: Final = is_own


class Journal:
    """All rows of one region, and what is in no row yet.

    Free: at the end of which units the region cuts a block because of its size (S1.4).
    """

    def __init__(self) -> None:
        self.rows: list[TwinRow] = []
        # The last position known to be on disk.
        self.committed = 0
        # The rows that the region made in this call and that the twin has not reached.
        self._told: list[calls.RowFacts] = []
        self._effects: list[tuple[Dot, Plain]] = []
        self._records: list[Record] = []
        self._clock_ms = 0

    @property
    def position(self) -> int:
        """The position of the last row."""
        return self.rows[-1].position if self.rows else 0

    @property
    def next_position(self) -> int:
        """The position of the last row once there is a row of everything."""
        return self.position + bool(self._effects) + bool(self._records)

    @property
    def first(self) -> int:
        """The position at which the log begins."""
        return self.rows[0].position if self.rows else 0

    def issued(self, dot: Dot, effect: Plain) -> None:
        """The region issued an effect."""
        self._effects.append((dot, effect))

    def recorded(self, record: Record) -> None:
        """The region made a local record."""
        self._records.append(record)

    def merged(self, origin: int, first: int, effects: list[Plain], clock_ms: int) -> None:
        """A block of a peer was applied."""
        dots = [((origin, counter), effect) for counter, effect in enumerate(effects, first)]
        self._push(dots, clock_ms, is_own=False)

    def joined(self, cut: Frozen, clock_ms: int) -> None:
        """A snapshot was joined."""
        self._push(cut, clock_ms, is_own=False)

    def cut(self) -> None:
        """Makes a row of the open effects, and one of the records that arose beside them."""
        if self._effects:
            self._push(self._effects, self._clock_ms, is_own=True)
            self._effects = []
        if self._records:
            self._push(self._records, self._clock_ms, is_own=True)
            self._records = []

    def _push(self, content: Content, clock_ms: int, is_own: bool) -> None:
        self.rows.append(TwinRow(self.position + 1, clock_ms, content, is_own))

    def _next_told(self) -> Optional[calls.RowFacts]:
        """The next row that the region made in this call; clock rows before it are taken over."""
        while self._told and self._told[0].position <= self.position + 1:
            row = self._told[0]
            if row.position > self.position:
                if row.kind != "clock":
                    return row
                self._push(None, self._clock_ms, is_own=True)
            del self._told[0]
        return None

    def begin_call(self, call: Call) -> None:
        """A call begins, with the rows that the region made in it."""
        self._clock_ms = call.facts.clock_ms
        self._told = list(call.rows)

    def end_unit(self) -> None:
        """A unit with effects has ended. Cuts here if the region did."""
        row = self._next_told()
        if row is not None and self._effects:
            region, counter = self._effects[-1][0]
            if (row.kind, row.origin, row.last) == ("block", region, counter):
                self.cut()

    def end_call(self, call: Call) -> None:
        """Cuts if the region did; `Mismatch` if the rows are then not the same."""
        self._next_told()
        if call.kind == calls.COMMIT or not call.facts.is_open:
            self.cut()
        self._next_told()
        if self.position != call.facts.position:
            raise Mismatch(
                f"its log ends at position {call.facts.position}; expected {self.position}: "
                "effects or local records are missing, or there are too many"
            )
        if bool(self._effects or self._records) != call.facts.is_open:
            made = [type(record).__name__ for record in self._records]
            raise Mismatch(f"made local records or none; expected {made or 'none'}")
        if call.kind == calls.COMMIT and call.position is not None:
            self.committed = max(self.committed, call.position)

    def begin_at(self, position: int, opened: list[tuple[Dot, Plain]]) -> None:
        """The log begins at this position: what lies before it is unknown.

        `opened` are the effects after it that are in no row yet.
        """
        self.rows = [TwinRow(position, 0, None, False)]
        self.committed = position
        self._effects, self._records = opened, []

    def cut_back(self, position: int) -> None:
        """A start found the log up to this position."""
        self.rows = [row for row in self.rows if row.position <= position]
        self._effects, self._records = [], []
        if self.position != position:
            raise Mismatch(f"found position {position} on its disk; expected {self.position}")

    def replay(self, state: State) -> None:
        """Applies all rows to an empty state."""
        for row in self.rows:
            state.clock_ms = row.clock_ms
            content = row.content
            if isinstance(content, Frozen):
                join(state, content, False)
            elif content is not None:
                for one in content:
                    if isinstance(one, Record):
                        apply_record(state, one)
                    else:
                        apply(state, one[1], one[0], row.is_own)
