"""`anabranch pipeline restore`: adds the entries of an archive to streams, each once.

A region gives a restored entry an ID of its own, because an idempotent add cannot name one, and
because the IDs of several regions interleave. So each restored entry has one more field at its end,
`anabranch:origin`, with the ID, the region, the counter and the cluster that it had. By this field
a repeated restore recognises what is there already, however late. Repetitions of a task within one
run are recognised by the sink's pairs (S9).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs.archive import table as archive_table
from anabranch.pipeline.jobs.archive.files import ArchiveFiles, Identity
from anabranch.pipeline.jobs.archive.names import check_text, raw_reading
from anabranch.pipeline.jobs.archive.restore_report import Restored, report
from anabranch.pipeline.jobs.archive.row_sets import KEYS, LogComparison, compared, hashed
from anabranch.pipeline.jobs.progress import Bar
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.options import SourceOptions, is_glob
from anabranch.pipeline.regions import Regions
from anabranch.plural import counted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ORIGIN: Final = "anabranch:origin"
# What tells an archived entry from all others. Counters alone do not: a cluster that was made anew,
# or a region that was restored from a backup, uses them again, with other IDs.
_ORIGIN_KEYS: Final = [*KEYS, "id"]
WINDOW_S: Final = 3600
_TASKS_MAX: Final = 200
# After a fail-over, the region that is read needs some time for what another has added.
_LOOKS: Final = 5
_PAUSE_S: Final = 2.0


@dataclass(frozen=True)
class RestoreOptions:
    """What a run does.

    Attributes:
        folder: The directory of the archive.
        regions: The options of source and sink that say where regions are.
        streams: The archived streams to restore: names or globs, separated by commas.
        prefix: What the name of each target stream begins with, before the archived name.
        into_existing: Whether a target may hold other entries.
        window_s: How long the targets recognise rows, in seconds; the adding may take so long.
        allows_loss: Whether to restore what is left of an archive that is damaged.
    """

    folder: Path
    regions: dict[str, str]
    streams: str = "*"
    prefix: str = ""
    into_existing: bool = False
    window_s: int = WINDOW_S
    allows_loss: bool = False


def run(session: SparkSession, options: RestoreOptions, bar: Bar) -> Report:
    """Adds what is not there, and compares. Raises PipelineError if it cannot be restored."""
    files = ArchiveFiles(options.folder)
    identity = files.identity()
    with files.locked():
        _check_files(files, options)
        targets = targets_of(sorted(files.reached()), options)
        archive_table.prepare(session)
        job = _Restore(session, options, identity, targets)
        bar.phase(f"looking into {counted(len(targets), 'target stream')}")
        archived = job.archived(archive_table.read(session, files))
        before = job.check_targets(archived)
        bar.phase(f"adding entries to {counted(len(targets), 'stream')}")
        job.add(archived)
        bar.phase("comparing the streams with the archive")
        logs = job.prove(archived)
        return report(Restored(options.folder, targets, logs, before, files.faults()))


def _check_files(files: ArchiveFiles, options: RestoreOptions) -> None:
    """Raises PipelineError if files of the archive are lost, changed or foreign."""
    faults = files.faults()
    if faults and not options.allows_loss:
        others = f" Other faults: {len(faults) - 1}." if faults[1:] else ""
        raise PipelineError(
            f"the archive {files.folder} is damaged, so nothing was restored. {faults[0]}{others} "
            "Put the files back as they were, or restore what can be read with --allow-loss"
        )


def targets_of(archived: list[str], options: RestoreOptions) -> dict[str, str]:
    """The target of each stream to restore, by its archived name.

    Raises:
        OptionError: A name is not in the archive, or a target has no possible name.
    """
    asked = SourceOptions({**options.regions, "streams": options.streams}, is_streaming=False)
    for name in asked.streams:
        if not is_glob(name) and name not in archived:
            raise OptionError(
                f"--streams: the archive {options.folder} holds no stream '{name}'; it holds "
                f"{', '.join(archived[:20]) or 'none'}{' …' if len(archived) > 20 else ''}"
            )
    targets = {name: options.prefix + name for name in archived if asked.names_stream(name)}
    check_text(list(targets.values()))
    return targets


def _origin_of(cluster: str) -> Column:
    """The value of the field `anabranch:origin` for a row: `ID REGION COUNTER CLUSTER`."""
    from pyspark.sql import functions as f

    return f.concat_ws(" ", "id", "region", "counter", f.lit(cluster))


class _Restore:
    """One run: the steps of `run`, in their order."""

    def __init__(
        self,
        session: SparkSession,
        options: RestoreOptions,
        identity: Identity,
        targets: dict[str, str],
    ) -> None:
        self._session: Final = session
        self._options: Final = options
        self._cluster: Final = identity.cluster
        self._targets: Final = targets
        self._names: Final = session.createDataFrame(
            list(targets.items()), "stream STRING, target STRING"
        )

    def archived(self, table: DataFrame) -> DataFrame:
        """The entries to restore: the columns of the archive, raw fields, and the target."""
        from pyspark.sql import functions as f

        raw = table.select(*KEYS, "id", archive_table.raw_fields().alias("fields"))
        return raw.join(f.broadcast(self._names), "stream")

    # -- the targets

    def _restored(self) -> DataFrame:
        """The entries of the targets that are there.

        Columns: target and is_ours; for entries that were restored also the original stream, id,
        region, counter and fields.
        """
        from pyspark.sql import functions as f

        entries = self._entries()
        last = f.try_element_at("fields", f.lit(-1))
        words = f.split(last["value"].cast("string"), " ", 4)
        is_ours = (last["name"] == f.lit(ORIGIN.encode())) & (
            f.get(words, f.lit(3)) == self._cluster
        )
        named = entries.select(f.col("stream").alias("target"), "fields").select(
            "target",
            is_ours.alias("is_ours"),
            f.get(words, f.lit(0)).alias("id"),
            f.get(words, f.lit(1)).alias("region"),
            f.get(words, f.lit(2)).try_cast("bigint").alias("counter"),
            f.slice("fields", 1, f.size("fields") - 1).alias("fields"),
        )
        return named.join(f.broadcast(self._names), "target")

    def _entries(self) -> DataFrame:
        """What the targets hold now."""
        source = SourceOptions({**self._options.regions, "streams": "*"}, is_streaming=False)
        asking = Regions(source)
        try:
            there = [one for one in self._targets.values() if asking.logs(one) is not None]
        finally:
            asking.close()
        if not there:
            return self._session.createDataFrame(
                [], "stream STRING, fields ARRAY<STRUCT<name: BINARY, value: BINARY>>"
            )
        given = {**raw_reading(self._options.regions, there), "failOnDataLoss": "false"}
        frame = self._session.read.format("anabranch").options(**given).load()
        return frame.select("stream", "fields")

    def check_targets(self, archived: DataFrame) -> int:
        """The number of entries that were restored before.

        Raises PipelineError if a target holds other entries, unless that was asked for.
        """
        from pyspark.sql import functions as f

        here = self._restored().select("target", "is_ours", *_ORIGIN_KEYS)
        known = archived.select(*_ORIGIN_KEYS, f.lit(True).alias("is_known"))
        rows = (
            here.join(known, _ORIGIN_KEYS, "left")
            .withColumn("is_known", f.coalesce("is_ours", f.lit(False)) & f.col("is_known"))
            .groupBy("target")
            .agg(f.count("*").alias("all"), f.count_if(f.col("is_known")).alias("known"))
            .orderBy("target")
            .collect()
        )
        for row in rows:
            if row["all"] > row["known"] and not self._options.into_existing:
                raise PipelineError(
                    f"the stream '{row['target']}' holds {row['all'] - row['known']} entries that "
                    "are not restored ones of this archive: give --to-prefix for streams of other "
                    "names, or --into-existing to add to it all the same"
                )
        return sum(row["known"] for row in rows)

    # -- adding

    def add(self, archived: DataFrame) -> None:
        """Adds the entries that are not there, those of each stream in the order of their IDs."""
        from pyspark.sql import functions as f

        if not self._targets:
            return
        here = self._restored().where("is_ours").select(*_ORIGIN_KEYS)
        origin = _origin_of(self._cluster)
        more = f.array(
            f.struct(f.lit(ORIGIN.encode()).alias("name"), origin.cast("binary").alias("value"))
        )
        # Numbers of an ID have 64 bits without a sign.
        order = [
            f.split_part("id", f.lit("-"), f.lit(part)).cast("decimal(20,0)") for part in (1, 2)
        ]
        rows = (
            archived.join(here, _ORIGIN_KEYS, "left_anti")
            # One task adds a stream, so that its IDs ascend as they did.
            .repartition(min(len(self._targets), _TASKS_MAX), "stream")
            .sortWithinPartitions("stream", *order, "region", "counter")
            .select(
                f.col("target").alias("stream"),
                origin.alias("id"),
                f.concat("fields", more).alias("fields"),
            )
        )
        given = {
            **self._options.regions,
            "idColumn": "id",
            "producer": "anabranch:restore",
            "setWindow": "true",
            "windowSeconds": str(self._options.window_s),
        }
        try:
            rows.write.format("anabranch").mode("append").options(**given).save()
        except Exception as error:
            raise _explained(error, self._options.window_s) from None

    # -- the proof

    def prove(self, archived: DataFrame) -> list[LogComparison]:
        """The archive and the restored entries, by original stream and region."""
        from pyspark.sql import functions as f

        expected = hashed(archived, f.col("fields"))
        known = archived.select(*_ORIGIN_KEYS)
        for look in range(_LOOKS):
            found = self._restored().where("is_ours").join(known, _ORIGIN_KEYS, "left_semi")
            logs = compared(expected, hashed(found, f.col("fields")))
            if not any(log.alone or log.twice for log in logs):
                break
            if look < _LOOKS - 1:
                time.sleep(_PAUSE_S)
        return logs


def _explained(error: Exception, window_s: int) -> Exception:
    """The error with what a user of this command can do."""
    from anabranch.pipeline.jobs.session import readable

    if "lapsedWindow" not in readable(error):
        return error
    return PipelineError(
        f"adding took longer than the {window_s} s for which the streams recognise rows "
        "(--window): run the command again, which goes on where this run ended"
    )
