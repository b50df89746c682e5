"""The report of `anabranch pipeline archive`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from anabranch.pipeline.jobs.archive.files import ArchiveFiles, Batch
from anabranch.pipeline.jobs.archive.row_sets import LogComparison
from anabranch.pipeline.jobs.report import Report, Table, entries_text
from anabranch.pipeline.offsets import Offset
from anabranch.plural import counted

_ROWS_MAX: Final = 50


@dataclass(frozen=True)
class Archived:
    """A run. `added` are the batches of this run, `logs` the comparison with the streams."""

    files: ArchiveFiles
    added: list[Batch]
    logs: list[LogComparison]
    reached: Offset
    gone: list[str]
    is_proof: bool


def report(run: Archived) -> Report:
    """What a run did, and whether the archive and the streams agree."""
    faults = [*run.files.faults(), *_wrong(run.logs)]
    files = sum(len(batch.files) for batch in run.added)
    size = sum(sum(batch.files.values()) for batch in run.added)
    lines = [_verdict(run, faults)]
    lines += faults
    if files:
        lines.append(f"added by this run: {counted(files, 'file')} with {counted(size, 'byte')}")
    else:
        lines.append("added by this run: nothing")
    alone = sum(log.alone for log in run.logs)
    if alone:
        lines.append(f"deleted or trimmed in their streams since: {entries_text(alone)}")
    lines += [f"The stream '{name}' is gone; its archived entries stay." for name in run.gone]
    unfinished = run.files.unfinished()
    if unfinished:
        files_left = counted(len(unfinished), "file")
        lines.append(f"left by a run that was killed, for the next run to replace: {files_left}")
    return Report(not faults, lines, [_table(run)] if run.logs else [], _facts(run, faults, size))


def _verdict(run: Archived, faults: list[str]) -> str:
    if faults:
        return f"The archive {run.files.folder} is wrong:"
    entries = sum(log.entries for log in run.logs)
    if not run.is_proof:
        return f"The archive {run.files.folder} was not compared with the streams."
    return (
        f"The archive {run.files.folder} holds {entries_text(entries)}, and every entry of the "
        "streams up to its offsets, each once."
    )


def _wrong(logs: list[LogComparison]) -> list[str]:
    """Sentences on region logs that the archive does not hold as they are."""
    found = []
    for log in logs:
        where = f"of {log.region} in the stream '{log.stream}'"
        if log.missing:
            found.append(f"not in the archive: {entries_text(log.missing)} {where}")
        if log.twice:
            found.append(f"more than once in the archive: {entries_text(log.twice)} {where}")
        if log.differ:
            found.append(
                "with another ID or other fields in the archive: "
                f"{entries_text(log.differ)} {where}"
            )
    return found


def _table(run: Archived) -> Table:
    heads = ["stream", "region", "entries", "bytes", "up to counter", "gone since"]
    rows = [
        [
            log.stream,
            log.region,
            str(log.entries),
            str(log.size),
            str(run.reached.get(log.stream, {}).get(log.region, 0)),
            str(log.alone),
        ]
        for log in run.logs
    ]
    title = "Entries in the archive, with the bytes of their fields"
    if len(rows) > _ROWS_MAX:
        rows.sort(key=lambda row: -int(row[2]))
        title += f" (the {_ROWS_MAX} largest of {len(rows)} region logs; --json has all)"
    return Table(title, heads, rows[:_ROWS_MAX], frozenset({2, 3, 4, 5}))


def _facts(run: Archived, faults: list[str], size: int) -> dict[str, Any]:
    return {
        "passed": not faults,
        "faults": faults,
        "added_files": sum(len(batch.files) for batch in run.added),
        "added_file_bytes": size,
        "offsets": run.reached,
        "is_proof": run.is_proof,
        "gone_streams": run.gone,
        "logs": [log.facts(gone_since=log.alone, missing=log.missing) for log in run.logs],
    }
