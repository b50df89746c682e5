"""Measured values of rows, and a whole result as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, Optional

from anabranch.bench.table.rows import BY_NAME, ROWS, TableRow

VERSION: Final = 1
"""Of the form of the JSON file."""
CLIENT_SHARE_MAX: Final = 0.85
"""If a client used a larger share of one core, the client may be what limits the rate."""


@dataclass
class Cost:
    """What a server did in all rounds of a row."""

    rates: list[float] = field(default_factory=list)
    """Commands per second, one for each round."""
    commands: int = 0
    server_cpu_s: float = 0.0
    client_cpu_s: float = 0.0
    seconds: float = 0.0

    def add(self, commands: int, seconds: float, server_cpu_s: float, client_cpu_s: float) -> None:
        """Counts one round."""
        self.rates.append(commands / seconds)
        self.commands += commands
        self.server_cpu_s += server_cpu_s
        self.client_cpu_s += client_cpu_s
        self.seconds += seconds

    @property
    def cpu_us(self) -> float:
        """CPU of the server per command, in µs."""
        return 1e6 * self.server_cpu_s / self.commands if self.commands else 0.0

    @property
    def client_share(self) -> float:
        """The share of one core that the client used."""
        return self.client_cpu_s / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """For the result."""
        return {
            "rates": [round(rate, 1) for rate in self.rates],
            "rate": round(median(self.rates), 1) if self.rates else 0.0,
            "server_cpu_us": round(self.cpu_us, 3),
            "client_share": round(self.client_share, 2),
        }


@dataclass
class Values:
    """The values of one row, one for each round; `theirs` is redis-server, if it ran beside us."""

    values: list[float]
    ours: Optional[Cost] = None
    theirs: Optional[Cost] = None
    note: str = ""

    def as_json(self, row: TableRow) -> dict[str, Any]:
        """The row of the result."""
        middle = median(self.values)
        one: dict[str, Any] = {
            "name": row.name,
            "text": row.text,
            "unit": row.unit,
            "goal": row.goal,
            "value": _rounded(middle),
            "min": _rounded(min(self.values)),
            "max": _rounded(max(self.values)),
            "values": [_rounded(value) for value in self.values],
            "met": row.met(middle),
            "note": "; ".join(note for note in (self.note, self._bound()) if note),
        }
        for name, cost in (("ours", self.ours), ("theirs", self.theirs)):
            if cost is not None:
                one[name] = cost.as_json()
        if self.cpu_ratio is not None:
            one["cpu_ratio"] = _rounded(self.cpu_ratio)
        return one

    @property
    def cpu_ratio(self) -> Optional[float]:
        """CPU of redis-server per command, divided by ours; above 1 if we use less.

        Other work on the machine hardly changes it. None without both figures.
        """
        if self.ours is None or self.theirs is None or not self.ours.cpu_us:
            return None
        return self.theirs.cpu_us / self.ours.cpu_us

    def _bound(self) -> str:
        names = [
            name
            for name, cost in (("ours", self.ours), ("Redis", self.theirs))
            if cost is not None and cost.client_share > CLIENT_SHARE_MAX
        ]
        return f"the client is the bound ({', '.join(names)})" if names else ""


def _rounded(value: float) -> float:
    """Four digits that count."""
    return float(f"{value:.4g}") if abs(value) < 1000 else float(round(value))


@dataclass
class Run:
    """What is measured, how often, and how large. A measuring module yields rows of it."""

    rows: list[TableRow]
    rounds: int = 5
    scale: float = 1.0
    say: Callable[[str], None] = print
    """Shows the state of the run to people."""

    def wants(self, name: str) -> bool:
        """Whether a row is to be measured."""
        return any(row.name == name for row in self.rows)

    def wanted(self, measure: str) -> list[TableRow]:
        """The rows of a module."""
        return [row for row in self.rows if row.measure == measure]

    def scaled(self, count: int, least: int = 1) -> int:
        """A count of entries or commands at the scale of the run."""
        return max(least, int(count * self.scale))


Measured = Iterator[tuple[str, Values]]
"""The names of rows with their values, as they come."""


def machine() -> dict[str, Any]:
    """The machine, and how busy it is: the processes that wanted to run in the last minute.

    ``load_before`` is that before the run, ``load_max`` the most after any row of the run.
    """
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cores": os.cpu_count() or 0,
        "processor": models[0] if models else platform.machine(),
        "load_before": round(os.getloadavg()[0], 1),
        "load_max": 0.0,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def load(path: Path) -> dict[str, Any]:
    """A result that was written before; ValueError if it is of another form."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError(f"{path} is no result of version {VERSION}")
    return found


def dump(result: dict[str, Any], path: Path) -> None:
    """Writes a result."""
    text = json.dumps(result, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def updated(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """A result with the rows of `now`, and with those of `before` that `now` lacks.

    The latter say in ``run`` when, on which build and how they were measured.
    """
    head = {name: before.get(name) for name in ("date", "build", "scale", "rounds")}
    head["load_max"] = before.get("machine", {}).get("load_max")
    kept = [{**row, "run": row.get("run", head)} for row in before["rows"]]
    rows = {row["name"]: row for row in (*kept, *now["rows"]) if row["name"] in BY_NAME}
    return {**now, "rows": [rows[row.name] for row in ROWS if row.name in rows]}
