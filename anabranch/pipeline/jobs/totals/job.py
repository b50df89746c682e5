"""`anabranch pipeline totals`: running counts and sums by key, with checkpoints.

A query of Structured Streaming keeps the totals of each key as state (`transformWithState`, in
RocksDB). Spark commits state and offsets of a micro-batch together, so an entry is counted once,
wherever a run is killed. The job reads the totals out of the committed state.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Optional

from anabranch.pipeline.errors import OptionError
from anabranch.pipeline.jobs.columns import day, is_text, text
from anabranch.pipeline.jobs.landmarks import check_cluster
from anabranch.pipeline.jobs.progress import Bar
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.jobs.session import explained, shuffle_by_cores
from anabranch.pipeline.jobs.totals.folder import Checkpoint, Counted, check_out, put_out
from anabranch.pipeline.jobs.totals.numbers import EXACT, plain
from anabranch.pipeline.jobs.totals.report import LARGEST, FieldFacts, Found, report
from anabranch.pipeline.options import SourceOptions
from anabranch.pipeline.planning import Planner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

# Columns by which totals may be divided further.
BY: Final = ("stream", "region", "day")
BATCH_ENTRIES: Final = 1_000_000
_STORE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_TRIGGER: Final = "1 second"
_LOOK_S: Final = 0.5
# While a query runs, totals are put out so often at most.
_OUT_EVERY_S: Final = 30.0


@dataclass(frozen=True)
class TotalsOptions:
    """What a run does.

    Attributes:
        regions: The options of the source that say where regions are.
        streams: The option `streams` of the source.
        key: The field whose values are the keys.
        sums: The fields that are summed.
        by: Columns of `BY` that divide the keys further.
        checkpoint: The directory of the checkpoint.
        out: The directory for the totals of all keys.
        seconds: How long the query runs; None: until it has counted what there is now.
        batch_entries: Most entries of one micro-batch.
        allows_loss: Whether to go on if entries were trimmed before they were counted.
    """

    regions: dict[str, str]
    streams: str
    key: str
    sums: list[str]
    checkpoint: Path
    by: list[str]
    out: Optional[Path] = None
    seconds: Optional[float] = None
    batch_entries: int = BATCH_ENTRIES
    allows_loss: bool = False


def check(options: TotalsOptions) -> None:
    """Raises OptionError for options that make no sense."""
    if not options.key:
        raise OptionError("--key: the name of the field is empty")
    if not options.sums or not all(options.sums):
        raise OptionError("--sum: name one field or several, separated by commas")
    for name in options.sums:
        if options.sums.count(name) > 1:
            raise OptionError(f"--sum names the field '{name}' twice")
    for name in options.by:
        if name not in BY or options.by.count(name) > 1:
            raise OptionError(f"--by: '{name}' is none of {', '.join(BY)}, or stands there twice")
    if options.out is not None:
        check_out(options.out)


def run(session: SparkSession, options: TotalsOptions, bar: Bar) -> Report:
    """Counts what is new, and reports the totals. Raises PipelineError if it cannot go on."""
    check(options)
    checkpoint = Checkpoint(options.checkpoint)
    source = SourceOptions({**options.regions, "streams": options.streams}, is_streaming=False)
    planner = Planner(source)
    regions = planner.regions
    try:
        streams = planner.streams(checkpoint.reached())
        counted = Counted(
            regions.cluster(), options.streams, options.key, list(options.sums), list(options.by)
        )
        with checkpoint.locked():
            identity = checkpoint.claim(counted)
            what = f"--checkpoint: {checkpoint.folder}"
            check_cluster(checkpoint.landmarks, what, regions, streams, checkpoint.reached())
            return _counted(session, options, checkpoint, counted, identity, bar)
    finally:
        regions.close()


# -- counting


def _counted(
    session: SparkSession,
    options: TotalsOptions,
    checkpoint: Checkpoint,
    counted: Counted,
    identity: str,
    bar: Bar,
) -> Report:
    """Counts what is new in a claimed checkpoint, and reports the totals."""
    session.conf.set("spark.sql.streaming.stateStore.providerClass", _STORE)
    # A part of the state costs time in each micro-batch. The first run decides their number.
    shuffle_by_cores(session)
    bar.phase(f"counting entries of {options.streams}")
    _count(session, options, checkpoint, identity)
    bar.phase("reading the totals")
    batch = checkpoint.newest()
    if batch is None:
        return report(Found(counted, None, 0, 0, [], [], options.out))
    table = totals(session, checkpoint, options, batch)
    if options.out is not None:
        put_out(options.out, _version(identity, batch), table.write.parquet)
        table = session.read.parquet(str((options.out / "totals").resolve()))
    return report(_found(table, counted, batch, options.out))


def rows(entries: DataFrame, options: TotalsOptions) -> DataFrame:
    """The key of each entry, the columns that divide it, and the values of the summed fields.

    `entries` were read with `fieldsFormat` `map`, which has the last of several equal names.
    """
    from pyspark.sql import functions as f

    columns: dict[str, Column] = {"stream": f.col("stream"), "region": f.col("region")}
    columns["day"] = day()

    def value(name: str) -> Column:
        return f.try_element_at("fields", f.lit(name))

    return entries.select(
        value(options.key).alias("key"),
        *(columns[name].alias(name) for name in options.by),
        f.array(*(value(name) for name in options.sums)).alias("values"),
    )


def _count(
    session: SparkSession, options: TotalsOptions, checkpoint: Checkpoint, identity: str
) -> None:
    """Runs the query until it has ended, or its time is over."""
    # Imported here, because it needs protobuf.
    from anabranch.pipeline.jobs.totals.state import OUTPUT, Totals

    given = {
        **options.regions,
        "streams": options.streams,
        "fieldsFormat": "map",
        "maxEntriesPerTrigger": str(options.batch_entries),
        "failOnDataLoss": str(not options.allows_loss).lower(),
    }
    entries = session.readStream.format("anabranch").options(**given).load()
    writer: Any = (
        rows(entries, options)
        .groupBy("key", *options.by)
        .transformWithState(Totals(len(options.sums)), OUTPUT, "update", "none")
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint.query.absolute()))
    )
    try:
        if options.seconds is None:
            writer.trigger(availableNow=True).start().awaitTermination()
            return
        query = writer.trigger(processingTime=_TRIGGER).start()
        try:
            _watch(session, options, checkpoint, query, identity)
        finally:
            query.stop()
    except Exception as error:
        raise explained(error) from None


def _watch(
    session: SparkSession, options: TotalsOptions, checkpoint: Checkpoint, query: Any, identity: str
) -> None:
    """Waits until the time is over, and puts the totals out now and then."""
    end_s = time.monotonic() + (options.seconds or 0)
    out_s = time.monotonic()
    while (left_s := end_s - time.monotonic()) > 0:
        # PySpark waits for whole milliseconds, and refuses to wait for none.
        if query.awaitTermination(min(_LOOK_S, max(left_s, 0.001))):
            return
        batch = checkpoint.newest()
        is_due = time.monotonic() - out_s > _OUT_EVERY_S
        if options.out is not None and batch is not None and is_due:
            table = totals(session, checkpoint, options, batch)
            put_out(options.out, _version(identity, batch), table.write.parquet)
            out_s = time.monotonic()


def _version(identity: str, batch: int) -> str:
    """The name of the totals after a micro-batch, which no other checkpoint gives."""
    return f"{identity[:12]}-{batch:06d}"


# -- the totals


def totals(
    session: SparkSession, checkpoint: Checkpoint, options: TotalsOptions, batch: int
) -> DataFrame:
    """The totals after a committed micro-batch: a row for each key and summed field."""
    from pyspark.sql import functions as f

    from anabranch.pipeline.jobs.totals.state import NAME

    state = (
        session.read.format("statestore")
        .option("stateVarName", NAME)
        .option("batchId", batch)
        .load(str(checkpoint.query.absolute()))
    )
    parts = [
        f.struct(
            f.lit(field).alias("field"),
            f.col(f"value.total_{n}").alias("exact"),
            *(f.col(f"value.{name}_{n}").alias(name) for name in ("numbers", "missing", "others")),
        )
        for n, field in enumerate(options.sums)
    ]
    key = f.col("key.key")
    exploded = state.select(
        text(key).alias("text"),
        f.when(~is_text(key), key).alias("raw_key"),
        *(f.col(f"key.{name}").alias(name) for name in options.by),
        f.col("value.entries").alias("entries"),
        f.explode(f.array(*parts)).alias("one"),
    )
    return exploded.select(
        f.col("text").alias("key"),
        "raw_key",
        *options.by,
        f.col("one.field").alias("field"),
        "entries",
        _decimal(f.col("one.exact")).alias("total"),
        f.col("one.exact").alias("exact"),
        f.col("one.numbers").alias("numbers"),
        f.col("one.missing").alias("missing"),
        f.col("one.others").alias("others"),
    )


def _decimal(exact: Column) -> Column:
    """The number as DECIMAL(38,18); null if digits would be lost."""
    from pyspark.sql import functions as f

    digits = f.regexp_replace(exact, "^-", "")
    whole = f.split_part(digits, f.lit("."), f.lit(1))
    decimals = f.split_part(digits, f.lit("."), f.lit(2))
    fits = (f.length(whole) <= 20) & (f.length(decimals) <= 18)
    return f.when(fits, exact.cast("decimal(38,18)"))


def _found(table: DataFrame, counted: Counted, batch: int, out: Optional[Path]) -> Found:
    """The facts of the report."""
    from pyspark.sql import functions as f

    summed = _grand_totals(table)
    rows = {
        row["field"]: row
        for row in table.groupBy("field")
        .agg(
            f.count("*").alias("keys"),
            *(f.sum(name).alias(name) for name in ("entries", "numbers", "missing", "others")),
        )
        .collect()
    }
    fields = [
        FieldFacts(name, plain(summed[name]), row["numbers"], row["missing"], row["others"])
        for name in counted.sums
        if (row := rows.get(name)) is not None
    ]
    first = rows.get(counted.sums[0])
    keys, entries = (first["keys"], first["entries"]) if first is not None else (0, 0)
    largest = (
        table.where(f.col("field") == counted.sums[0])
        .orderBy(f.col("total").desc_nulls_first(), "key", *counted.by)
        .limit(LARGEST)
        .collect()
    )
    return Found(counted, batch, keys, entries, fields, [row.asDict() for row in largest], out)


def _grand_totals(table: DataFrame) -> dict[str, Decimal]:
    """The exact total of each field over all keys."""
    found: dict[str, Decimal] = {}
    shares = table.select("field", "exact").mapInArrow(_partial, "field STRING, exact STRING")
    for row in shares.collect():
        found[row["field"]] = EXACT.add(found.get(row["field"], Decimal(0)), Decimal(row["exact"]))
    return found


def _partial(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The total of each field over the rows of one task."""
    import pyarrow as pa

    sums: dict[str, Decimal] = {}
    for batch in batches:
        for field, exact in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            sums[field] = EXACT.add(sums.get(field, Decimal(0)), Decimal(exact))
    texts = [plain(one) for one in sums.values()]
    kind = pa.schema([("field", pa.string()), ("exact", pa.string())])
    yield pa.RecordBatch.from_pydict({"field": list(sums), "exact": texts}, schema=kind)
