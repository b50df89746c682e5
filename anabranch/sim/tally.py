"""Sums over many seeds, and the closing table of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from anabranch.sim.draw import FAULTS
from anabranch.sim.rules import CONFLICTS, NOT_SIMULATED, RULES
from anabranch.sim.run import Result

RARE_PERCENT: Final = 1.0
"""A fault or rule that fewer seeds exercise is named below the table."""
SECTIONS: Final = (
    ("fault", "Faults injected"),
    ("conflict", "Conflicts met"),
    ("rule", "Rules exercised"),
    ("error", "Errors returned to clients"),
    ("message", "Messages between regions"),
    ("question", "Questions to the logs"),
    ("batch", "Batches of commands"),
    ("pipeline", "Pipelines within which this happened"),
    ("figure", "Figures of the regions"),
    ("sync", "Figures of sync"),
    ("", "Other"),
)
"""(part of a counter's name before the colon, heading)."""


class Tally:
    """The sums over many seeds. The order in which results are added does not matter."""

    def __init__(self) -> None:
        self.seeds = 0
        self.virtual_ms = 0
        self.times: Counter[str] = Counter()
        self.in_seeds: Counter[str] = Counter()  # counter name → number of seeds that counted it
        self.failed: list[Result] = []

    def add(self, result: Result) -> None:
        """Adds the result of one seed."""
        self.seeds += 1
        self.virtual_ms += result.virtual_ms
        for name, count in result.counters.items():
            if count:
                self.times[name] += count
                self.in_seeds[name] += 1
        if result.violations:
            self.failed.append(result)

    def add_sums(
        self, seeds: int, virtual_ms: int, counters: Iterable[tuple[str, int, int]]
    ) -> None:
        """Adds sums over further seeds: (counter, times, number of seeds that counted it)."""
        self.seeds += seeds
        self.virtual_ms += virtual_ms
        for name, times, in_seeds in counters:
            self.times[name] += times
            self.in_seeds[name] += in_seeds

    def percent(self, name: str) -> float:
        """The percentage of the seeds that counted `name` at least once."""
        return 100.0 * self.in_seeds[name] / self.seeds if self.seeds else 0.0

    def cells(self, section: str, name: str) -> list[str]:
        """The row of a counter in the table of its section: name, times, seeds, percent."""
        return [
            name.removeprefix(f"{section}:") if section else name,
            f"{self.times[name]:,}",
            f"{self.in_seeds[name]:,}",
            f"{self.percent(name):.1f}",
        ]

    def names(self, section: str, known: Sequence[str] = ()) -> list[str]:
        """The counters of a section: those of `known`, in their order, then others by name.

        Section "" has the counters without a known prefix.
        """
        prefixes = {prefix for prefix, _ in SECTIONS if prefix}
        found = sorted(
            name
            for name in self.times
            if (_prefix(name) if _prefix(name) in prefixes else "") == section
        )
        expected = [f"{section}:{name}" for name in known]
        return expected + [name for name in found if name not in expected]

    def rare(self, known: dict[str, Sequence[str]]) -> list[str]:
        """Faults and rules that under 1 % of the seeds exercised. `known`: see `known_names`."""
        names = [
            name
            for section in ("fault", "rule")
            for name in self.names(section, known.get(section, ()))
        ]
        return [name for name in names if self.percent(name) < RARE_PERCENT]

    def as_json(self) -> dict[str, Any]:
        """The sums as JSON; failed seeds by number, with their violations."""
        return {
            "seeds": self.seeds,
            "virtual_ms": self.virtual_ms,
            "failed": {
                str(each.seed): [str(one) for one in each.violations]
                for each in sorted(self.failed, key=lambda one: one.seed)
            },
            "counters": {
                name: {"times": self.times[name], "seeds": self.in_seeds[name]}
                for name in sorted(self.times)
            },
        }


def known_names() -> dict[str, Sequence[str]]:
    """section → names that a table shows even at zero: every kind of fault, conflict and rule."""
    return {
        "fault": (*FAULTS, "answer lost"),
        "conflict": list(CONFLICTS),
        "rule": [rule for rule in RULES if rule not in NOT_SIMULATED],
    }


def show(tally: Tally, console: Console, known: dict[str, Sequence[str]]) -> None:
    """Prints the closing table, and the names of rare faults and rules."""
    for section, heading in SECTIONS:
        names = tally.names(section, known.get(section, ()))
        if names:
            console.print(_table(tally, section, heading, names))
    rare = tally.rare(known)
    if rare:
        console.print(
            f"in less than {RARE_PERCENT:g} % of the seeds: {', '.join(rare)}",
            style="yellow",
            highlight=False,
        )


def _table(tally: Tally, section: str, heading: str, names: list[str]) -> Table:
    table = Table(
        box=None,
        pad_edge=False,
        title=heading,
        title_justify="left",
        title_style="bold",
        padding=(0, 2, 0, 0),
    )
    table.add_column("", min_width=30)
    for column in ("times", "seeds", "%"):
        table.add_column(column, justify="right", min_width=8)
    for name in names:
        percent = tally.percent(name)
        style = "yellow" if section in ("fault", "rule") and percent < RARE_PERCENT else ""
        table.add_row(*tally.cells(section, name), style=style)
    return table


def _prefix(name: str) -> str:
    return name.partition(":")[0] if ":" in name else ""
