"""One difference between a scenario's table and a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mismatch:
    """One difference between the table and the run."""

    path: str
    line: int
    time: str
    region: str
    command: str
    expected: str
    got: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        where = f"{place}: {self.time}, {self.region}" + (
            f": {self.command}" if self.command else ""
        )
        return f"{where}\n    expected {self.expected}\n    got      {self.got}"
