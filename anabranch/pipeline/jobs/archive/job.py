"""`anabranch pipeline archive`: adds the new entries of streams to a directory of Parquet files.

A query of Structured Streaming with `availableNow` reads what each region log has above the offset
of the last run, so an entry that a region merges late is new, whatever its ID. `ArchiveFiles` takes
each micro-batch once. Afterwards the archive is compared with the streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch.pipeline.errors import DataLossError, OptionError, PipelineError
from anabranch.pipeline.jobs.archive import table as archive_table
from anabranch.pipeline.jobs.archive.files import ArchiveFiles, Identity
from anabranch.pipeline.jobs.archive.names import check_text, raw_reading
from anabranch.pipeline.jobs.archive.report import Archived, report
from anabranch.pipeline.jobs.archive.row_sets import LogComparison, compared, hashed
from anabranch.pipeline.jobs.landmarks import check_cluster
from anabranch.pipeline.jobs.progress import Bar
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.jobs.session import explained
from anabranch.pipeline.offsets import Offset
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.planning import Planner
from anabranch.pipeline.regions import LogFacts
from anabranch.plural import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Streams = dict[str, list[LogFacts]]
BATCH_ENTRIES: Final = 5_000_000


@dataclass(frozen=True)
class ArchiveOptions:
    """What a run does.

    Attributes:
        folder: The directory of the archive.
        regions: The options of the source that say where regions are.
        streams: The option `streams` of the source.
        batch_entries: Most entries of one micro-batch.
        allows_loss: Whether to go on if entries were trimmed, or a stream deleted, before they
            were archived.
        adds: Whether to add new entries.
        proves: Whether to compare the archive with the streams afterwards.
    """

    folder: Path
    regions: dict[str, str]
    streams: str = "*"
    batch_entries: int = BATCH_ENTRIES
    allows_loss: bool = False
    adds: bool = True
    proves: bool = True


def run(session: SparkSession, options: ArchiveOptions, bar: Bar) -> Report:
    """Adds what is new, and compares. Raises PipelineError if the archive cannot go on."""
    files = ArchiveFiles(options.folder)
    planner = Planner(_source_options(options, options.streams))
    try:
        streams = planner.streams(files.reached())
        check_text(sorted(streams))
        if options.adds:
            files.check_place()
        else:
            files.identity()
        with files.locked():
            identity = _identity(files, planner.regions.cluster())
            what = f"the archive {files.folder}"
            check_cluster(files.landmarks, what, planner.regions, streams, files.reached())
            before = len(files.batches())
            gone = _gone(planner, files, identity, options) if options.adds else []
            if options.adds and streams:
                files.check_checkpoint()
                bar.phase(f"archiving {counted(len(streams), 'stream')}")
                _add(session, files, options, sorted(streams))
            logs: list[LogComparison] = []
            if options.proves:
                bar.phase("comparing the archive with the streams")
                logs = _proof(session, files, options, _known(planner, files))
            batches = files.batches()
            done = Archived(
                files=files,
                added=batches[before:],
                logs=logs,
                reached=files.reached(),
                gone=gone,
                is_proof=options.proves,
            )
            return report(done)
    finally:
        planner.regions.close()


def _source_options(options: ArchiveOptions, streams: str) -> SourceOptions:
    return SourceOptions({**options.regions, "streams": streams}, is_streaming=False)


def _identity(files: ArchiveFiles, cluster: str) -> Identity:
    """What the archive is of; a new one is made if there is none."""
    if not files.exists:
        files.create(cluster)
    identity = files.identity()
    if identity.cluster != cluster:
        raise OptionError(
            f"{files.folder} is an archive of the cluster '{identity.cluster}', and the regions "
            f"are of '{cluster}': give each cluster a directory of its own"
        )
    return identity


def _gone(
    planner: Planner, files: ArchiveFiles, identity: Identity, options: ArchiveOptions
) -> list[str]:
    """The archived streams that were deleted since. Raises DataLossError for new ones."""
    reached = files.reached()
    archived = [name for name in reached if planner.options.names_stream(name)]

    def is_gone(name: str) -> bool:
        # A region that has not applied what is archived may not have the stream yet.
        return planner.regions.logs(name) is None and (
            name in identity.gone or planner.regions.holds(reached[name])
        )

    gone = [name for name in archived if is_gone(name)]
    fresh = sorted(set(gone) - set(identity.gone))
    if fresh and not options.allows_loss:
        raise DataLossError(
            f"the stream '{fresh[0]}' is gone: it was deleted, or it expired. Its archived entries "
            "stay; entries that were added after the last run are lost, if there were any. Accept "
            "that with --allow-loss, once"
        )
    back = [name for name in identity.gone if name in archived and name not in gone]
    if fresh or back:
        identity.gone = sorted(({*identity.gone, *fresh}) - set(back))
        files.write_identity(identity)
    return gone


# -- adding


def _add(
    session: SparkSession, files: ArchiveFiles, options: ArchiveOptions, names: list[str]
) -> None:
    """Archives what the streams hold now above the reached offset."""
    archive_table.prepare(session)

    def store(frame: DataFrame, number: int) -> None:
        end = files.end_in_checkpoint(number)
        if files.holds(number, end):
            return
        staged = files.stage(number)
        archive_table.rows(frame).write.partitionBy(archive_table.DAY).parquet(str(staged))
        files.install(number, staged, end)

    given = {
        **raw_reading(options.regions, names),
        "maxEntriesPerTrigger": str(options.batch_entries),
        "failOnDataLoss": str(not options.allows_loss).lower(),
    }
    query = (
        session.readStream.format("anabranch")
        .options(**given)
        .load()
        .writeStream.foreachBatch(store)
        .option("checkpointLocation", str(files.checkpoint.absolute()))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except Exception as error:
        raise explained(error) from None


# -- the proof


def _known(planner: Planner, files: ArchiveFiles) -> Streams:
    """The archived streams that are there."""
    found = {name: planner.regions.logs(name) for name in files.reached()}
    return {name: logs for name, logs in found.items() if logs is not None}


def _proof(
    session: SparkSession, files: ArchiveFiles, options: ArchiveOptions, streams: Streams
) -> list[LogComparison]:
    """The comparison. Raises PipelineError if a damaged file cannot be read."""
    try:
        return _compare(session, files, options, streams)
    except Exception as error:
        faults = files.faults()
        if not faults:
            raise
        raise PipelineError(
            f"the archive {files.folder} is damaged and cannot be read. {' '.join(faults[:10])}"
        ) from error


def _compare(
    session: SparkSession, files: ArchiveFiles, options: ArchiveOptions, streams: Streams
) -> list[LogComparison]:
    """The archive and the streams up to the reached offset, by region log."""
    from pyspark.sql import functions as f

    archive_table.prepare(session)
    reached = files.reached()
    ends = session.createDataFrame(
        [(name, region, end) for name, logs in reached.items() for region, end in logs.items()],
        "stream STRING, region STRING, end BIGINT",
    )

    def within(frame: DataFrame) -> DataFrame:
        """The rows up to the reached offset. Later ones are of a run that was killed."""
        joined = frame.join(f.broadcast(ends), ["stream", "region"])
        return joined.where("counter <= end").drop("end")

    archived = hashed(within(archive_table.read(session, files)), archive_table.raw_fields())
    if not streams:
        return compared(archived, archived.limit(0))
    given = {
        **raw_reading(options.regions, sorted(streams)),
        "failOnDataLoss": "false",
        "endingOffsets": _ending(reached, streams),
    }
    entries = session.read.format("anabranch").options(**given).load()
    return compared(archived, hashed(within(entries), f.col("fields")))


def _ending(reached: Offset, streams: Streams) -> str:
    """`endingOffsets` for the streams: what was reached, or what was trimmed since, beyond it."""
    import json

    return json.dumps(
        {
            name: {
                facts.region: max(reached[name].get(facts.region, 0), facts.trimmed)
                for facts in logs
            }
            for name, logs in streams.items()
        }
    )
