"""The twin's log: everything that was applied, in the rows in which the region has it on disk.

A start replays the rows up to the position that it found. Within the rows of one block, a replay
applies the effects first and then the local records that arose while the block was open (S13.1).
"""

from __future__ import annotations

from typing import Final, Union

from anabranch.sim.calls import COMMIT, Call
from anabranch.sim.twin.apply import apply
from anabranch.sim.twin.effects import Plain
from anabranch.sim.twin.join import Frozen, join
from anabranch.sim.twin.records import Record, apply_record
from anabranch.sim.twin.replies import Mismatch
from anabranch.sim.twin.state import Dot, State

Content = Union[list[tuple[Dot, Plain]], list[Record], Frozen, None]


class Row:
    """A row of the log. `is_own`: the region issued its effects. A clock row has no content."""

    def __init__(self, position: int, clock_ms: int, content: Content, is_own: bool) -> None:
        self.position: Final = position
        self.clock_ms: Final = clock_ms
        self.content: Final = content
        self.is_own: Final = is_own


class Journal:
    """All rows of one region, and what is in no row yet."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        # The last position known to be on disk.
        self.committed = 0
        # Records that arise now, after the unit has ended, belong to a later row.
        self.in_settle = False
        self._effects: list[tuple[Dot, Plain]] = []
        self._records: list[Record] = []
        self._later: list[Record] = []
        self._clock_ms = 0

    @property
    def position(self) -> int:
        """The position of the last row."""
        return self.rows[-1].position if self.rows else 0

    def issued(self, dot: Dot, effect: Plain) -> None:
        """The region issued an effect; records that a former unit left belong to its row."""
        self._effects.append((dot, effect))
        self._records += self._later
        self._later = []

    def recorded(self, record: Record) -> None:
        """The region made a local record."""
        (self._later if self.in_settle else self._records).append(record)

    def merged(self, origin: int, first: int, effects: list[Plain], clock_ms: int) -> None:
        """A block of a peer was applied."""
        dots = [((origin, counter), effect) for counter, effect in enumerate(effects, first)]
        self.rows.append(Row(self.position + 1, clock_ms, dots, False))

    def joined(self, cut: Frozen, clock_ms: int) -> None:
        """A snapshot was joined."""
        self.rows.append(Row(self.position + 1, clock_ms, cut, False))

    def cut(self) -> None:
        """Makes rows of everything that is open."""
        if self._effects:
            self._cut_effects(self._effects[-1][0][1])
        self._cut_records()

    def _cut_effects(self, last: int) -> None:
        """Makes a row of the open effects up to the counter `last`."""
        effects = [one for one in self._effects if one[0][1] <= last]
        self._effects = self._effects[len(effects) :]
        self.rows.append(Row(self.position + 1, self._clock_ms, effects, True))

    def _cut_records(self) -> None:
        if self._records:
            self.rows.append(Row(self.position + 1, self._clock_ms, self._records, True))
            self._records = []

    def end_call(self, call: Call) -> None:
        """Cuts where the region did; `Mismatch` if the rows are then not the same."""
        self._clock_ms = call.facts.clock_ms
        for row in call.rows:
            if row.position <= self.position:
                continue
            if row.kind == "block":
                self._cut_effects(row.last)
            elif row.kind == "records":
                if not self._records:
                    self._records, self._later = self._later, []
                self._cut_records()
            elif row.kind == "clock":
                self.rows.append(Row(row.position, call.facts.clock_ms, None, True))
        self._records += self._later
        self._later = []
        if call.kind == COMMIT or not call.facts.is_open:
            self.cut()
        if self.position != call.facts.position:
            raise Mismatch(
                f"its log ends at position {call.facts.position}; expected {self.position}: "
                "effects or local records are missing, or there are too many"
            )
        if bool(self._effects or self._records) != call.facts.is_open:
            made = [type(record).__name__ for record in self._records]
            raise Mismatch(f"made local records or none; expected {made or 'none'}")
        if call.kind == COMMIT and call.position is not None:
            self.committed = max(self.committed, call.position)

    def begin_at(self, position: int, opened: list[tuple[Dot, Plain]]) -> None:
        """The log begins at this position: what lies before it is unknown.

        `opened` are the effects after it that are in no row yet.
        """
        self.rows = [Row(position, 0, None, False)]
        self.committed = position
        self._effects, self._records, self._later = opened, [], []

    def cut_back(self, position: int) -> None:
        """A start found the log up to this position."""
        self.rows = [row for row in self.rows if row.position <= position]
        self._effects, self._records, self._later = [], [], []
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
