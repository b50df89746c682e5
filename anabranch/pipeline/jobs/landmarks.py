"""Landmarks of a cluster: entries by which a job recognises the cluster that it worked on before.

A cluster has a name only, and another one may have the same. Counters of the two mean different
entries. So a job keeps the IDs of some entries, by stream, region and counter. If the entry with
that counter has another ID now, the cluster is another one, or a region has used its counters
again after it was restored from a backup. An entry that is gone proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from anabranch.answers import members_of
from anabranch.pipeline.errors import OptionError
from anabranch.pipeline.jobs import folders
from anabranch.pipeline.offsets import Offset
from anabranch.pipeline.regions import LogFacts, Regions, own_end
from anabranch.pipeline.resp import printable

FORMAT: Final = 1
# Landmarks are kept of so many streams.
_STREAMS_MAX: Final = 100
# Stream → region → counter as text → ID.
Marks = dict[str, dict[str, dict[str, str]]]


def check_cluster(
    path: Path, what: str, regions: Regions, streams: dict[str, list[LogFacts]], reached: Offset
) -> None:
    """Checks that a cluster is the one of the former runs, and notes landmarks for the next run.

    Args:
        path: The file of the landmarks, which is made if there is none.
        what: The directory of the job, for errors, such as "the checkpoint /totals".
        regions: The regions to ask.
        streams: The logs of the streams that the job reads.
        reached: The offset that the former runs reached.

    Raises:
        OptionError: The cluster is another one, or a region has fewer effects than were read.
        PipelineError: The file cannot be read, or no region answers.
    """
    kept = _kept(path)
    info = regions.info()
    for known in (reached, kept):
        _check_names(what, info, known)
    _check_end(what, info, reached)
    for stream, logs in kept.items():
        for region, marks in logs.items():
            for counter, entry_id in marks.items():
                there = regions.id_at(stream, region, int(counter))
                if there is not None and there != entry_id:
                    raise _other(
                        what,
                        f"entry {counter} of {region} in '{printable(stream)}' was {entry_id}, and "
                        f"is {there}",
                    )
    fresh = {**kept, **_found(regions, streams)}
    if fresh != kept:
        folders.write(path, {"format": FORMAT, "entries": fresh})


def _other(what: str, proof: str) -> OptionError:
    return OptionError(
        f"{what} is of another cluster of the same name: {proof}. Give this cluster a directory of "
        "its own. If a region was restored from a backup and uses its counters again, begin in a "
        "new directory, too"
    )


def _check_names(what: str, info: dict[str, str], known: Mapping[str, Iterable[str]]) -> None:
    """Raises OptionError if the logs by stream are of regions that the cluster does not have."""
    names = members_of(info).values()
    for region in sorted({region for logs in known.values() for region in logs} - {*names}):
        raise _other(
            what, f"it has read the log of {region}, and the regions are {', '.join(names)}"
        )


def _check_end(what: str, info: dict[str, str], reached: Offset) -> None:
    """Raises OptionError if the region that answers has fewer effects of its own than were read.

    What it lacks of other regions may still come. Its own effects do not, unless it is in recovery
    and gets them from the others.
    """
    own = own_end(info)
    if own is None:
        return
    name, end = own
    for stream, logs in reached.items():
        if logs.get(name, 0) > end:
            raise _other(
                what,
                f"it has read the log of {name} in '{printable(stream)}' up to {logs[name]}, and "
                f"{name} has effects up to {end}",
            )


def _kept(path: Path) -> Marks:
    """The landmarks of the former runs; none before the first one."""
    if not path.exists():
        return {}
    marks: Marks = folders.read_format(path, FORMAT, "entries")["entries"]
    return marks


def _found(regions: Regions, streams: dict[str, list[LogFacts]]) -> Marks:
    """The first and the last entry of each log, of those that are on disk."""
    found: Marks = {}
    for stream, logs in sorted(streams.items())[:_STREAMS_MAX]:
        marks = {
            facts.region: {
                str(counter): entry_id
                for counter in {facts.first, facts.last}
                if 0 < counter <= facts.applied
                and (entry_id := regions.id_at(stream, facts.region, counter)) is not None
            }
            for facts in logs
        }
        if any(marks.values()):
            found[stream] = {region: one for region, one in marks.items() if one}
    return found
