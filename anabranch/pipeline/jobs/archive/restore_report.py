"""The report of `anabranch pipeline restore`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anabranch.pipeline.jobs.archive.row_sets import LogComparison
from anabranch.pipeline.jobs.report import Report, Table, entries_text
from anabranch.plural import counted


@dataclass(frozen=True)
class Restored:
    """A run.

    Attributes:
        folder: The archive.
        targets: The stream into which each archived stream was restored.
        logs: The comparison of the archive with these streams.
        before: Entries that an earlier run had restored.
        faults: Sentences on files of the archive.
    """

    folder: Path
    targets: dict[str, str]
    logs: list[LogComparison]
    before: int
    faults: list[str]


def report(run: Restored) -> Report:
    """What a run did, and whether the streams hold what the archive holds."""
    faults = [*run.faults, *_wrong(run)]
    entries = sum(log.entries for log in run.logs)
    if faults:
        lines = [f"The streams do not hold what the archive {run.folder} was written with:"]
    else:
        what = f"{entries_text(entries)} of {counted(len(run.targets), 'archived stream')}"
        lines = [f"The archive is restored, each entry once: {what}."]
    lines += faults
    if run.before:
        lines.append(f"restored before: {entries_text(run.before)}")
    rows = [
        [log.stream, log.region, run.targets[log.stream], str(log.entries), str(log.size)]
        for log in run.logs
    ]
    heads = ["stream", "region", "restored into", "entries", "bytes"]
    table = Table(
        "Restored entries, with the bytes of their fields", heads, rows, frozenset({3, 4})
    )
    facts = {
        "passed": not faults,
        "faults": faults,
        "entries": entries,
        "restored_before": run.before,
        "targets": run.targets,
        "logs": [log.facts(missing=log.alone) for log in run.logs],
    }
    return Report(not faults, lines, [table] if rows else [], facts)


def _wrong(run: Restored) -> list[str]:
    """Sentences on archived entries that the targets do not hold as they are."""
    found = []
    for log in run.logs:
        where = f"in the stream '{run.targets[log.stream]}'"
        for count, what in (
            (log.alone, "not"),
            (log.twice, "more than once"),
            (log.differ, "with other fields or another original ID"),
        ):
            if count:
                found.append(f"{what} {where}: {entries_text(count)} of {log.region}")
    return found
