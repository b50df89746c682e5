"""The live table, and the report at the end.

Distances are shown in kilometres, to the millimetre.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.rocket_rides.progress import Progress
from examples.rocket_rides.run import Outcome

WIDTH = 80
DIFFERENCES_SHOWN_MAX = 20


def kilometres(distance_mm: int) -> str:
    """A distance in kilometres, such as ``2,512.334007``."""
    return f"{distance_mm // 1_000_000:,}.{distance_mm % 1_000_000:06d}"


def totals_table(progress: Progress, crashes: dict[str, int]) -> Table:
    """A row for the API and for each consumer: its totals up to the same ride of each origin.

    A column such as ``us 1–521`` has the total of these rides in km. Six figures of rides fit in 80
    columns.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("km", no_wrap=True)
    table.add_column("rides", justify="right", no_wrap=True)
    for origin, level in progress.level.items():
        table.add_column(f"{origin} 1–{level:,}", justify="right", no_wrap=True)
    for title in ("again", "crashes"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("totals", no_wrap=True)
    rides = sum(progress.rides.values())
    api = [kilometres(progress.totals_mm[origin]) for origin in progress.level]
    table.add_row("API", f"{rides:,}", *api, "", "", "")
    for consumer in progress.consumers:
        are_equal = consumer.totals_mm == progress.totals_mm
        verdict = Text("agree", "green") if are_equal else Text("skips", "yellow")
        if not are_equal and not consumer.uses_one_id:
            verdict = Text("DIFFER", "bold red")
        table.add_row(
            consumer.name,
            f"{consumer.rides:,}",
            *(kilometres(consumer.totals_mm[origin]) for origin in progress.level),
            f"{consumer.seen_again:,}",
            f"{crashes.get(consumer.name, 0):,}",
            verdict,
        )
    return table


class LiveTable:
    """The live table in a terminal; nothing in a pipe. A context manager."""

    def __init__(self, console: Console, rides: int) -> None:
        self._rides = rides
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._is_shown = console.is_terminal

    def __enter__(self) -> LiveTable:
        if self._is_shown:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._live.stop()

    def show(self, phase: str, progress: Progress, crashes: dict[str, int]) -> None:
        """Shows the figures of this moment."""
        if self._is_shown:
            taken = sum(progress.rides.values())
            line = (
                f"{taken:,} of {self._rides:,} rides · {progress.staged:,} staged"
                f" · {progress.trimmed:,} trimmed · {phase}"
            )
            table = totals_table(progress, crashes)
            self._live.update(Group(Text(line), Text(), table), refresh=True)


def listed(names: Sequence[str]) -> str:
    """Names for a sentence: ``us, eu and ap``."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def report(outcome: Outcome) -> RenderableType:
    """The report of a finished run."""
    done = outcome.reconciliation
    regions = listed(outcome.regions)
    parts: list[RenderableType] = [
        Text(
            f"Rocket Rides: {outcome.options.rides:,} rides, seed {outcome.options.seed}, regions"
            f" {regions}, {outcome.database}, {outcome.total_s:.1f} s"
        ),
        Text(),
        totals_table(outcome.progress, outcome.crashes),
        Text(),
    ]
    parts += [Text(line) for line in _facts(outcome)]
    if done.differences:
        parts.append(Text(f"\n{len(done.differences):,} differences:", "bold red"))
        parts += [Text(f"  {line}") for line in done.differences[:DIFFERENCES_SHOWN_MAX]]
        if len(done.differences) > DIFFERENCES_SHOWN_MAX:
            parts.append(Text("  …"))
    else:
        parts.append(Text("\nAll totals agree for every ride, and no record was added twice."))
    return Group(*parts)


def _crashes(outcome: Outcome) -> str:
    count = sum(outcome.crashes.values())
    if not outcome.options.spark:
        return f"{count:,}, each before a commit"
    return f"{count - 1:,}, each before a commit; the Spark job was killed once besides"


def _facts(outcome: Outcome) -> list[str]:
    done = outcome.reconciliation
    twice = sum(sends.twice for sends in done.sends)
    elsewhere = sum(sends.elsewhere for sends in done.sends)
    consumers = [account for account in done.accounts if not account.uses_one_id]
    count = len(consumers)
    lines = [
        f"partition      {outcome.regions[0]} was cut off for {outcome.partition_s:.1f} s",
        f"double sends   {twice:,} batches, {elsewhere:,} of them to another region",
        f"conflicts      {outcome.conflicts:,} second adds of a record, in another region, removed",
        f"crashes        {_crashes(outcome)}",
        f"equal totals   {done.equal_totals:,}: one for each ride and each of {count} consumers",
        f"trimmed        {outcome.progress.trimmed:,} records; {outcome.left:,} are left",
    ]
    lines += [
        f"one ID only    {name} skipped {count:,} rides, which were merged late"
        for name, count in done.skipped.items()
    ]
    return lines
