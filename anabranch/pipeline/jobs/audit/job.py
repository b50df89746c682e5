"""`anabranch pipeline audit`: compares all regions, and lists every difference with its cause.

What an audit proves
--------------------
At its start each region tells the vector that it has on disk. The target is their component-wise
maximum. The audit waits until each region has the target on disk, then compares all state whose
dots the target covers: entries (dot, ID, fields), header, groups with starts and acked spans,
deadlines, and configurations of idempotency. `entry_sets` and `comparison` describe how a
difference is told from an effect or a removal on its way, so clients may go on writing. Where
regions differ, they have applied the same effects and hold different state; or the report says
which of them has not received what. An audit that finds no difference proves that all regions that
answered hold the same under the target, apart from what was removed meanwhile.

As a cross-check, digests are compared last. Where they differ at equal vectors, and no difference
was found, the audit says so.

It does not compare what is not replicated: consumers, pending entries, floors and delivery counts
(S6.5), statistics (S3.4), and the pairs of idempotent adds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, Optional

from anabranch.crdt.vector import Vector, includes, joined
from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs import folders
from anabranch.pipeline.jobs.audit.differences import SCHEMA, Difference
from anabranch.pipeline.jobs.audit.report import Result, report
from anabranch.pipeline.jobs.audit.task import Auditor, Job, Note, Outcome
from anabranch.pipeline.jobs.audit.task import audit as audit_pieces
from anabranch.pipeline.jobs.beginning import Beginning, begin, stream_names
from anabranch.pipeline.jobs.region_client import ConnectionLost, Piece, RegionClient
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.resp import printable
from anabranch.plural import counted

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from anabranch.pipeline.jobs.progress import Bar

# Bytes of a region log in one piece, and about so many for one task.
PIECE_BYTES: Final = 4 << 20
TASK_BYTES: Final = 16 << 20
# A stream costs so much beside its entries.
_STATE_BYTES: Final = 16 << 10
# Differences that the report holds; all are in the files of --parquet.
_KEPT_MAX: Final = 1000


@dataclass
class AuditOptions:
    """The options of an audit.

    Attributes:
        regions: The options `endpoints` and `passwordFile` of the source.
        streams: Names of streams or globs, separated by commas.
        timeout_s: How long to wait for regions to apply what others have, in seconds.
        parquet: A directory for all differences; None for none.
    """

    regions: dict[str, str]
    streams: str = "*"
    timeout_s: int = 60
    parquet: Optional[str] = None

    def source(self) -> dict[str, str]:
        """The options of the source, which tasks read."""
        return {**self.regions, "streams": self.streams, "timeoutSeconds": str(self.timeout_s)}


def run(session: SparkSession, options: AuditOptions, bar: Bar) -> Report:
    """Audits the regions.

    Raises:
        OptionError: An option is wrong.
        PipelineError: Fewer than two regions answer, or they are of different clusters.
    """
    began_s = time.monotonic()
    if options.parquet is not None:
        folders.check_new("--parquet", options.parquet)
    found = SourceOptions(options.source(), False)
    bar.phase("asking the regions how far they are")
    begun = begin(found)
    try:
        bar.phase("waiting until each region has what the others have")
        catch_up(begun, options.timeout_s)
        bar.phase("looking for streams")
        streams, pieces = planned(begun, found.streams)
        tasks = tasks_of(pieces, _cores(session))
        job = Job(
            options.source(),
            [(name, client.address) for name, client in begun.clients.items()],
            begun.target,
            begun.names,
            float(options.timeout_s),
            not begun.behind,
        )
        bar.phase(f"comparing {counted(len(streams), 'stream')} of {len(begun.clients)} regions")
        result = Result(
            begun.names, begun.down, begun.target, begun.vectors, begun.behind, len(streams)
        )
        if tasks:
            outcomes = session.sparkContext.parallelize(tasks, len(tasks)).flatMap(
                partial(audit_pieces, job=job)
            )
            _collect(session, outcomes, result, options)
        if options.streams == "*":
            bar.phase("comparing the digests of the regions")
            result.digest = _whole_digest(job)
    finally:
        begun.close()
    result.seconds = time.monotonic() - began_s
    return report(result)


def _cores(session: SparkSession) -> int:
    return int(session.sparkContext.defaultParallelism)


def _whole_digest(job: Job) -> str:
    auditor = Auditor(job)
    try:
        return auditor.digest(None)
    except ConnectionLost:
        return "moving"
    finally:
        auditor.close()


def _collect(
    session: SparkSession, outcomes: RDD[Outcome], result: Result, options: AuditOptions
) -> None:
    """Runs the tasks, and gathers what they tell."""
    from pyspark import StorageLevel

    outcomes = outcomes.persist(StorageLevel.MEMORY_AND_DISK)
    for note in outcomes.filter(lambda one: isinstance(one, Note)).collect():
        assert isinstance(note, Note)
        result.take_note(note)
    rows = outcomes.filter(lambda one: isinstance(one, Difference))
    for key, count in rows.map(lambda one: (one.stream, one.cause)).countByValue().items():
        result.counts[key] = count
    result.differences += rows.take(_KEPT_MAX)
    result.explain_digests()
    if options.parquet is not None:
        printable = rows.map(lambda one: tuple(_printable(value) for value in asdict(one).values()))
        session.createDataFrame(printable, SCHEMA).write.parquet(options.parquet)
    outcomes.unpersist()


def _printable(value: Any) -> Any:
    """A value for Spark, whose texts are UTF-8."""
    if isinstance(value, str):
        return printable(value)
    return value


# -- the beginning


def catch_up(begun: Beginning, timeout_s: float) -> None:
    """Sets the target, and waits until all regions have it on disk."""
    asked = dict(begun.clients)
    for name, client in asked.items():
        try:
            begun.vectors[name] = client.vector()
        except ConnectionLost as error:
            _leave_out(begun, name, str(error))
    begun.target = reduce(joined, begun.vectors.values(), {})
    until_s = time.monotonic() + timeout_s
    for name, client in list(begun.clients.items()):
        try:
            client.wait(begun.target, max(until_s - time.monotonic(), 0.0))
            begun.vectors[name] = client.vector()
        except ConnectionLost as error:
            _leave_out(begun, name, str(error))
            continue
        if not includes(begun.vectors[name], begun.target):
            begun.behind[name] = {
                begun.names.get(one, str(one)): counter - begun.vectors[name].get(one, 0)
                for one, counter in begun.target.items()
                if counter > begun.vectors[name].get(one, 0)
            }


def _leave_out(begun: Beginning, name: str, why: str) -> None:
    begun.down[name] = why
    begun.clients.pop(name)
    begun.vectors.pop(name, None)
    if len(begun.clients) < 2:
        raise PipelineError(f"an audit compares two regions or more; {name} stopped answering")


# -- the plan


def planned(begun: Beginning, wanted: list[str]) -> tuple[list[bytes], list[Piece]]:
    """The streams, and the pieces of all tasks. A region that stops answering is left out."""
    while True:
        try:
            streams = stream_names(begun.clients, wanted)
            return streams, list(plan(begun.clients, streams, begun.target))
        except ConnectionLost as error:
            _leave_out(begun, error.name, str(error))


def plan(clients: dict[str, RegionClient], streams: list[bytes], target: Vector) -> Iterator[Piece]:
    """The pieces that cover the state and all entries of streams under the target."""
    for stream in streams:
        yield Piece(stream, 0, 0, 0, _STATE_BYTES)
        # region_id of a log → the largest size, and the region that has it.
        largest: dict[int, tuple[int, str]] = {}
        for name, client in clients.items():
            for log in client.logs(stream):
                if log.entries:
                    largest[log.region_id] = max(
                        largest.get(log.region_id, (0, "")), (log.size, name)
                    )
        for region_id, (size, name) in sorted(largest.items()):
            end = target.get(region_id, 0)
            if not end:
                continue
            cuts = [(end, size)]
            if size > 2 * PIECE_BYTES:
                parts = clients[name].cuts(stream, region_id, end, PIECE_BYTES)
                cuts = [(one.counter, one.size) for one in parts]
            after = 0
            for counter, part in cuts:
                yield Piece(stream, region_id, after, counter, part)
                after = counter


def tasks_of(pieces: list[Piece], cores: int) -> list[list[Piece]]:
    """Pieces by task: each task has about the same bytes."""
    total = sum(piece.size for piece in pieces)
    size = min(TASK_BYTES, max(total // (2 * cores), 1 << 20))
    tasks: list[list[Piece]] = []
    collected = size
    for piece in pieces:
        if collected >= size:
            tasks.append([])
            collected = 0
        tasks[-1].append(piece)
        collected += piece.size
    return tasks
