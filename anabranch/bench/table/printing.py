"""A result as a table: for a terminal, and for Markdown."""

from __future__ import annotations

from typing import Any, Final

from anabranch.bench.table.rows import ROWS, TableRow

HEADINGS: Final = (
    "row",
    "workload",
    "value",
    "min–max",
    "unit",
    "goal",
    "met",
    "ours/s",
    "Redis/s",
    "CPU µs",
    "by CPU",
    "note",
)
_MET: Final = {True: "yes", False: "no", None: ""}


def number(value: float) -> str:
    """A value with as many digits as say something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of a measured row, in the order of `HEADINGS`."""
    ours, theirs = row.get("ours"), row.get("theirs")
    cpu = [f"{one['server_cpu_us']:.2f}" for one in (ours, theirs) if one is not None]
    spread = f"{number(row['min'])}–{number(row['max'])}" if len(row["values"]) > 1 else ""
    return [
        row["name"],
        row["text"],
        number(row["value"]),
        spread,
        row["unit"],
        row["goal"],
        _MET[row["met"]],
        f"{ours['rate']:,.0f}" if ours else "",
        f"{theirs['rate']:,.0f}" if theirs else "",
        " / ".join(cpu),
        number(row["cpu_ratio"]) if "cpu_ratio" in row else "",
        row["note"],
    ]


def line(row: dict[str, Any]) -> str:
    """One row for a terminal."""
    return _aligned(cells(row))


def heading() -> str:
    """The line above the rows on a terminal."""
    return _aligned(list(HEADINGS))


def _aligned(found: list[str]) -> str:
    name, _, value, spread, unit, goal, met, ours, theirs, cpu, by_cpu, note = found
    parts = f"{name:<22} {value:>9} {spread:>19} {unit:<14} {goal:>11} {met:<3}"
    return f"{parts} {ours:>10} {theirs:>10} {cpu:>15} {by_cpu:>6}  {note}".rstrip()


def described(result: dict[str, Any]) -> str:
    """The build, the machine and the size of a run in one line."""
    machine = result["machine"]
    return (
        f"{result['build']} build of {result['date']}, redis-server {result['redis']},"
        f" {result['rounds']} rounds, scale {result['scale']:g};"
        f" {machine['cores']} cores ({machine['processor']}), {machine['system']},"
        f" Python {machine['python']}, load {machine['load_before']:g} before the run"
        + (f", up to {machine['load_max']:g} during it" if machine["load_max"] else "")
    )


def closing(rows: list[dict[str, Any]]) -> str:
    """How many goals are met."""
    goals = [row for row in rows if row["met"] is not None]
    met = sum(1 for row in goals if row["met"])
    return f"{met} of {len(goals)} goals met, {len(rows)} rows"


def markdown(result: dict[str, Any]) -> list[str]:
    """The table of all rows; a row that was not measured says so."""
    measured = {row["name"]: row for row in result["rows"]}
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    for row in ROWS:
        found = _measured(measured[row.name], result) if row.name in measured else _unmeasured(row)
        lines.append(f"| {' | '.join(found)} |")
    return lines


def _measured(row: dict[str, Any], result: dict[str, Any]) -> list[str]:
    """Its cells; the note says what was different in the run in which the row was measured."""
    head = {**result, "load_max": result.get("machine", {}).get("load_max")}
    run = row.get("run", {})
    other = [
        f"{text} {run[name]:g}" if name != "date" else f"{text} {run[name]}"
        for name, text in (
            ("date", "measured"),
            ("scale", "scale"),
            ("rounds", "rounds"),
            ("load_max", "load up to"),
        )
        if run.get(name) is not None and run[name] != head.get(name)
    ]
    found = cells(row)
    return [*found[:-1], "; ".join(note for note in (found[-1], ", ".join(other)) if note)]


def _unmeasured(row: TableRow) -> list[str]:
    return [row.name, row.text, "", "", row.unit, row.goal, "", "", "", "", "", "not measured"]
