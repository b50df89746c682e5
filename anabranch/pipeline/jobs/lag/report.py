"""The report of the job `lag`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from anabranch.pipeline.jobs.lag.redeliveries import Redeliveries
from anabranch.pipeline.jobs.report import Report, Table, listed
from anabranch.plural import counted

_SHOWN_MAX: Final = 50
# Columns of numbers in the table by hour.
_NUMBERS: Final = (
    *("entries", "arrived", "skipped", "below_max_ms"),
    *("lag_p50_ms", "lag_p99_ms", "lag_max_ms"),
)


@dataclass
class Lag:
    """What the job has found in the logs of the last `hours_read`.

    `untold` counts the arrivals that no log tells. `hours` are the rows of `by_hour`.
    """

    regions: list[str]
    down: dict[str, str]
    hours_read: float
    untold: int
    redeliveries: list[Redeliveries]
    hours: list[dict[str, Any]] = field(default_factory=list)

    def total(self, column: str) -> int:
        """The sum of a column of `hours`."""
        return sum(int(row[column]) for row in self.hours)


def hour_text(hour: datetime | None) -> str:
    """An hour as ``2024-02-29 12:00``; ``none`` for an ID beyond the calendar."""
    return "none" if hour is None else f"{hour:%Y-%m-%d %H:00}"


def report(lag: Lag) -> Report:
    """The report; it passes if all regions answered."""
    missing = lag.total("entries") - lag.total("arrived")
    arrived, skipped = counted(lag.total("arrived"), "arrival"), lag.total("skipped")
    begins = f"read the logs of {listed(lag.regions)} for the last {lag.hours_read:g} h"
    lines = [f"{begins}: {arrived}, {skipped} of which an XREAD cursor would have skipped"]
    if missing:
        lines.append(f"{counted(missing, 'arrival')} had not taken place at the end")
    lines.append("lags compare the clocks of two regions, and are as exact as these agree")
    if lag.untold:
        lines.append(
            f"{counted(lag.untold, 'arrival')} came in a snapshot, or before the log of that "
            "region begins: these are not counted"
        )
    lines += [f"{name} was not looked at: {why}" for name, why in lag.down.items()]
    return Report(not lag.down, lines, _tables(lag), _facts(lag))


def _tables(lag: Lag) -> list[Table]:
    tables: list[Table] = []
    if lag.hours:
        rows = [
            [
                row["stream"],
                f"{row['origin']} → {row['region']}",
                hour_text(row["hour"]),
                *("" if row[column] is None else str(row[column]) for column in _NUMBERS),
            ]
            for row in sorted(lag.hours, key=lambda row: -row["skipped"])[:_SHOWN_MAX]
        ]
        title = "Arrivals, by the hour of their IDs (UTC)"
        if len(lag.hours) > _SHOWN_MAX:
            title += f": {_SHOWN_MAX} of {len(lag.hours)}; --json has all"
        heads = ["stream", "from → in", "hour", "entries", "arrived", "skipped", "below ms"]
        heads += ["p50 ms", "p99 ms", "max ms"]
        tables.append(Table(title, heads, rows, frozenset(range(3, 10))))
    again = [one for one in lag.redeliveries if one.redelivered]
    if again:
        columns = ("stream", "group", "region", "pending", "redelivered", "deliveries", "most")
        rows = [[str(getattr(one, name)) for name in columns] for one in again[:_SHOWN_MAX]]
        heads = ["stream", "group", "region", "pending", "redelivered", "again", "most"]
        tables.append(
            Table("Pending entries that were redelivered", heads, rows, frozenset(range(3, 7)))
        )
    return tables


def _facts(lag: Lag) -> dict[str, Any]:
    return {
        "regions": lag.regions,
        "not_looked_at": lag.down,
        "hours_read": lag.hours_read,
        "untold": lag.untold,
        "entries": lag.total("entries"),
        "arrived": lag.total("arrived"),
        "skipped": lag.total("skipped"),
        "hours": [
            {**row, "hour": None if row["hour"] is None else f"{row['hour']:%Y-%m-%dT%H:00Z}"}
            for row in lag.hours
        ],
        "redeliveries": [asdict(one) for one in lag.redeliveries],
    }
