"""The report of `anabranch pipeline totals`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Optional

from anabranch.pipeline.jobs.report import Report, Table, entries_text
from anabranch.pipeline.jobs.totals.folder import Counted
from anabranch.plural import counted

LARGEST: Final = 20


@dataclass(frozen=True)
class FieldFacts:
    """One summed field over all keys.

    `total` is the sum of its `numbers`; `missing` counts entries without the field, `others` those
    whose value is no number.
    """

    field: str
    total: str
    numbers: int
    missing: int
    others: int


@dataclass(frozen=True)
class Found:
    """The totals after a micro-batch.

    Attributes:
        counted: What is counted.
        batch: The number of the newest committed micro-batch; None if there is none.
        keys: The number of keys.
        entries: The number of entries.
        fields: The facts of each summed field.
        largest: The rows with the largest totals of the first field: its columns by name.
        out: Where the totals were put out, if asked.
    """

    counted: Counted
    batch: Optional[int]
    keys: int
    entries: int
    fields: list[FieldFacts]
    largest: list[dict[str, Any]]
    out: Optional[Path]


def report(found: Found) -> Report:
    """The totals, and what could not be summed."""
    lines = [f"counted: {entries_text(found.entries)} of {counted(found.keys, 'key')}"]
    for one in found.fields:
        lines.append(f"sum of '{one.field}': {one.total}, of {counted(one.numbers, 'number')}")
        if one.others:
            lines.append(
                f"no numbers, and not summed: {counted(one.others, 'value')} of '{one.field}'"
            )
        if one.missing:
            lines.append(f"without a field '{one.field}': {entries_text(one.missing)}")
    if found.out is not None and found.batch is not None:
        lines.append(f"The totals of all keys are in {found.out / 'totals'}.")
    return Report(True, lines, [_table(found)] if found.largest else [], _facts(found))


def _table(found: Found) -> Table:
    by = found.counted.by
    heads = [found.counted.key, *by, "entries", f"sum of {found.counted.sums[0]}", "no numbers"]
    rows = [
        [
            _shown(row["key"], found.counted.key),
            *(_shown(row[name], name) for name in by),
            str(row["entries"]),
            row["exact"],
            str(row["others"]),
        ]
        for row in found.largest
    ]
    first = len(by) + 1
    title = f"The largest totals of '{found.counted.sums[0]}'"
    return Table(title, heads, rows, frozenset({first, first + 1, first + 2}))


def _shown(value: Any, name: str) -> str:
    return f"(no {name})" if value is None else str(value)


def _facts(found: Found) -> dict[str, Any]:
    return {
        "batch": found.batch,
        "keys": found.keys,
        "entries": found.entries,
        "fields": [
            {
                "field": one.field,
                "total": one.total,
                "numbers": one.numbers,
                "missing": one.missing,
                "not_numbers": one.others,
            }
            for one in found.fields
        ],
        "largest": [
            {
                "key": row["key"],
                **{name: _json(row[name]) for name in found.counted.by},
                "entries": row["entries"],
                "total": row["exact"],
                "not_numbers": row["others"],
            }
            for row in found.largest
        ],
    }


def _json(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int)) else str(value)
