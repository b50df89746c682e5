"""The state of running totals, one value for each key, and the processor that Spark calls."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from anabranch.pipeline.jobs.totals.numbers import Sum, plain

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues

NAME: Final = "totals"
# What the query itself returns: the state holds the totals, so it is only a sign of life.
OUTPUT: Final = "entries BIGINT"


def schema(fields: int) -> str:
    """The columns of the state for a number of summed fields."""
    parts = ["entries BIGINT"]
    for n in range(fields):
        parts += [
            f"total_{n} STRING",
            f"numbers_{n} BIGINT",
            f"missing_{n} BIGINT",
            f"others_{n} BIGINT",
        ]
    return ", ".join(parts)


def sums_of(state: Any) -> list[Sum]:
    """The sums in a state that `values_of` made."""
    values = list(state)[1:]
    return [Sum(Decimal(values[at]), *values[at + 1 : at + 4]) for at in range(0, len(values), 4)]


def values_of(entries: int, sums: list[Sum]) -> tuple[Any, ...]:
    """A state as the values of its columns."""
    found: list[Any] = [entries]
    for one in sums:
        found += [plain(one.total), one.numbers, one.missing, one.others]
    return tuple(found)


class Totals(StatefulProcessor):
    """Adds the rows of each key to its state. Each row has a list of the values of the fields."""

    def __init__(self, fields: int) -> None:
        self._fields = fields

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once in each task."""
        self._state = handle.getValueState(NAME, schema(self._fields))

    def handleInputRows(
        self, key: Any, rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        """Called for each key of a micro-batch that has new rows."""
        state = self._state.get() if self._state.exists() else None
        entries = 0 if state is None else state[0]
        sums = [Sum() for _ in range(self._fields)] if state is None else sums_of(state)
        for row in rows:
            entries += 1
            for one, value in zip(sums, row["values"], strict=True):
                one.add(None if value is None else bytes(value))
        self._state.update(values_of(entries, sums))
        yield Row(entries=entries)

    def close(self) -> None:
        """Nothing to do."""
