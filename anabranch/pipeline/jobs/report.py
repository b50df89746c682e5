"""What a job found: sentences and tables for people, facts for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from anabranch.plural import counted


@dataclass
class Table:
    """A table of a report. `right` are the columns that are aligned to the right."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    right: frozenset[int] = frozenset()


@dataclass
class Report:
    """The result of a job.

    Attributes:
        passed: Whether all is well; a command ends with code 1 if not.
        lines: Sentences, the verdict first.
        tables: Tables below them.
        facts: The same as JSON values, with units in the names (`delay_ms`).
    """

    passed: bool
    lines: list[str]
    tables: list[Table] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def entries_text(count: int) -> str:
    """``1 entry``, ``2 entries``."""
    return counted(count, "entry", "entries")


def listed(names: list[str]) -> str:
    """``us``, ``us and eu``, ``us, eu and ap``."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
