"""The report of an audit: the verdict first, then regions, causes, and the differences."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from anabranch.crdt.vector import Vector
from anabranch.pipeline.jobs.audit.differences import DIGEST, MEANINGS, UNEXPLAINED, Difference
from anabranch.pipeline.jobs.audit.task import Note
from anabranch.pipeline.jobs.report import Report, Table, entries_text, listed
from anabranch.plural import counted

# Differences that are printed.
SHOWN_MAX: Final = 50


@dataclass
class Result:
    """What an audit has found.

    `counts` holds the number of differences by stream and cause. `digests` holds how the digests of
    a stream compare, `digest` those of the regions: equal, differs or moving, empty if not asked.
    """

    names: dict[int, str]
    down: dict[str, str]
    target: Vector
    vectors: dict[str, Vector]
    behind: dict[str, dict[str, int]]
    streams: int
    entries: int = 0
    groups: int = 0
    seconds: float = 0.0
    differences: list[Difference] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    digest: str = ""

    def take_note(self, note: Note) -> None:
        """Takes what a task tells beside differences."""
        name, value = note.text
        if note.kind == "entries":
            self.entries += note.count
        elif note.kind == "groups":
            self.groups += note.count
        elif note.kind == "hidden":
            self.hidden[name] = value
        elif note.kind == "digest":
            self.digests[name] = value
        else:
            self.down[name] = f"it stopped answering during the audit: {value}"

    def explain_digests(self) -> None:
        """Adds a difference for each stream whose digests differ without another one."""
        regions = ",".join(sorted(self.vectors))
        explained = {stream for stream, _ in self.counts}
        for stream, state in self.digests.items():
            if state == "differs" and stream not in explained:
                detail = "the digests differ at equal vectors, and no difference was found"
                self.differences.append(
                    Difference(stream, DIGEST, "", "", 0, "", UNEXPLAINED, "", regions, detail)
                )
                self.counts[stream, UNEXPLAINED] = 1

    @property
    def found(self) -> int:
        """The number of all differences."""
        return sum(self.counts.values())

    @property
    def digest_is_unexplained(self) -> bool:
        """Whether the digests of the regions differ, and no stream does."""
        return self.digest == "differs" and not self.found

    @property
    def passed(self) -> bool:
        """Whether all regions answered, were level, and hold the same."""
        return not (self.found or self.down or self.behind or self.digest_is_unexplained)


def report(result: Result) -> Report:
    """The report of an audit."""
    return Report(result.passed, _lines(result), _tables(result), _facts(result))


def _lines(result: Result) -> list[str]:
    regions = listed(list(result.vectors))
    lines = [_verdict(result, regions)]
    lines += [f"{name} was not compared: {why}" for name, why in result.down.items()]
    for name, lacking in result.behind.items():
        told = listed([f"{count} of {origin}" for origin, count in lacking.items()])
        lines.append(f"{name} has not received effects that others had at the start: {told}")
    lines.append(
        f"compared: {entries_text(result.entries)} and "
        f"{counted(result.groups, 'group')} of {counted(result.streams, 'stream')}, up to "
        f"{_shown_vector(result.target, result.names)}"
    )
    lines += [
        f"'{stream}' is hidden by its deadline in {listed(regions.split(','))}: its entries were "
        "compared only between the others"
        for stream, regions in result.hidden.items()
    ]
    moving = sum(state == "moving" for state in result.digests.values())
    if moving:
        lines.append(
            f"the digests of {counted(moving, 'stream')} could not be compared, because the "
            "regions did not hold the same effects at one time"
        )
    if result.digest_is_unexplained:
        lines.append(
            "the digests of the regions differ at equal vectors, and no stream was found to "
            "differ: look for streams that a deadline hides"
        )
    return lines


def _verdict(result: Result, regions: str) -> str:
    if result.found:
        streams = len({stream for stream, _ in result.counts})
        return (
            f"{regions} differ: {counted(result.found, 'difference')} in "
            f"{counted(streams, 'stream')}"
        )
    if result.digest_is_unexplained:
        return f"{regions} differ, and the audit does not know where"
    if result.behind:
        return f"{regions} hold the same, except effects that were not received"
    return f"{regions} hold the same"


def _shown_vector(vector: Vector, names: dict[int, str]) -> str:
    return (
        listed([f"{counter} of {names.get(one, one)}" for one, counter in sorted(vector.items())])
        or "nothing"
    )


def _tables(result: Result) -> list[Table]:
    if not result.found:
        return []
    causes: dict[str, int] = {}
    for (_, cause), count in result.counts.items():
        causes[cause] = causes.get(cause, 0) + count
    rows = [[cause, str(count), MEANINGS[cause]] for cause, count in sorted(causes.items())]
    shown = [
        [
            one.stream,
            f"{one.part} {one.name}".strip(),
            f"({one.region}, {one.counter})" if one.region else "",
            one.entry_id,
            one.cause,
            one.detail,
        ]
        for one in result.differences[:SHOWN_MAX]
    ]
    title = "Differences"
    if result.found > len(shown):
        title = f"Differences: {len(shown)} of {result.found}; --parquet writes all"
    return [
        Table("Causes", ["cause", "differences", "meaning"], rows, frozenset({1})),
        Table(title, ["stream", "part", "dot", "id", "cause", "why"], shown),
    ]


def _facts(result: Result) -> dict[str, Any]:
    def by_name(vector: Vector) -> dict[str, int]:
        return {result.names.get(one, str(one)): counter for one, counter in vector.items()}

    return {
        "passed": result.passed,
        "regions": {name: by_name(vector) for name, vector in result.vectors.items()},
        "not_compared": result.down,
        "behind": result.behind,
        "target": by_name(result.target),
        "streams": result.streams,
        "entries": result.entries,
        "groups": result.groups,
        "differences": result.found,
        "by_stream": [
            {"stream": stream, "cause": cause, "differences": count}
            for (stream, cause), count in sorted(result.counts.items())
        ],
        "first_differences": [asdict(one) for one in result.differences],
        "hidden": result.hidden,
        "digests": {
            state: sum(one == state for one in result.digests.values())
            for state in ("equal", "differs", "moving")
        },
        "digest_of_regions": result.digest,
        "duration_s": round(result.seconds, 3),
    }
