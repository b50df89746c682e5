"""The report of a sweep: failed seeds with the commands that replay them, and the closing table."""

from __future__ import annotations

from typing import Final

from anabranch.pipeline.jobs.report import Report, Table
from anabranch.plural import counted
from anabranch.sim.simulate import options_of, told
from anabranch.sim.sweep import Task
from anabranch.sim.tally import RARE_PERCENT, SECTIONS, Tally, known_names

TOLD_MAX: Final = 10
"""Failed seeds whose violations are shown."""
LISTED_MAX: Final = 20
"""Failed seeds that the verdict names."""


def report_of(tally: Tally, task: Task, seconds: float, partitions: int) -> Report:
    """The report of a finished sweep that took so many seconds in so many tasks."""
    known = known_names()
    lines = _verdict(tally)
    for result in sorted(tally.failed, key=lambda one: one.seed)[:TOLD_MAX]:
        lines += told(result, task)
    hours = tally.virtual_ms / 3_600_000
    lines.append(
        f"{counted(partitions, 'task')} in {seconds:.1f} s: {tally.seeds / seconds:.1f} seeds/s, "
        f"{hours:.2f} simulated hours"
    )
    rare = tally.rare(known)
    if rare:
        lines.append(f"in less than {RARE_PERCENT:g} % of the seeds: {', '.join(rare)}")
    tables = [
        Table(
            heading,
            ["", "times", "seeds", "%"],
            [tally.cells(section, name) for name in names],
            frozenset({1, 2, 3}),
        )
        for section, heading in SECTIONS
        if (names := tally.names(section, known.get(section, ())))
    ]
    facts = {
        **tally.as_json(),
        "options": options_of(task).strip(),
        "partitions": partitions,
        "seconds": round(seconds, 3),
    }
    return Report(not tally.failed, lines, tables, facts)


def _verdict(tally: Tally) -> list[str]:
    if not tally.failed:
        return [f"{counted(tally.seeds, 'seed')}, no violation"]
    seeds = sorted(one.seed for one in tally.failed)
    more = " …" if len(seeds) > LISTED_MAX else ""
    listed = " ".join(map(str, seeds[:LISTED_MAX]))
    return [f"{len(seeds)} of {counted(tally.seeds, 'seed')} FAILED: {listed}{more}"]
