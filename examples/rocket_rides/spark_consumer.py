"""A consumer as a Spark job: Structured Streaming, with totals and batch number in one transaction.

Spark's checkpoint directory holds how far the query has read. It cannot change in one transaction
with the totals: Spark notes a batch as done after `foreachBatch` has returned. If the process dies
in between, Spark gives the same batch again. So the transaction that adds a batch also stores its
number, and a batch whose number is there adds nothing.

The job imports nothing of anabranch. Spark finds the format `anabranch` among the installed
modules.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from examples.rocket_rides import tables
from examples.rocket_rides.consumer import Batch, Totals
from examples.rocket_rides.database import Database, Transaction
from examples.rocket_rides.mishaps import Mishaps, crash
from examples.rocket_rides.records import STREAM, Checkpoint, Position, Ride, decoded
from examples.rocket_rides.ride_log import Endpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_RECORDS = 2000
TRIGGER = "500 milliseconds"
_COLUMNS = "id STRING, region STRING, counter BIGINT, data STRING"
_QUERY_ID = "sql.streaming.queryId"


class LogRecord(NamedTuple):
    """A record as Spark reads it: its place in the log of a region, and its ride."""

    region: str
    position: Position
    ride: Ride


class BatchName(NamedTuple):
    """A batch of a query. A query with a new checkpoint directory has another `query`."""

    query: str
    number: int


class SparkTotals:
    """The totals of one Spark consumer."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._totals = Totals(database, name)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def add(
        self,
        batch: BatchName,
        records: Sequence[LogRecord],
        before_commit: Callable[[], None] = lambda: None,
    ) -> Optional[int]:
        """Adds a batch to the totals, with its number and positions, in one transaction.

        Arguments:
            batch: Its query and number.
            records: Its records, in any order.
            before_commit: Called last in the transaction; if it raises, nothing is changed.

        Returns:
            The number of rides that were new; None if the batch had been added before.
        """

        def work(transaction: Transaction) -> Optional[int]:
            if _is_added(transaction, self._name, batch):
                return None
            begin = tables.checkpoint(transaction, self._name)
            ordered = sorted(records, key=lambda one: (one.region, one.position.counter))
            rides = [one.ride for one in ordered]
            new = self._totals.add_in(transaction, Batch(rides, begin, moved(begin, ordered)))
            _note(transaction, self._name, batch, begin)
            before_commit()
            return new

        return self._database.run(work)


def moved(begin: Checkpoint, records: Sequence[LogRecord]) -> Checkpoint:
    """The checkpoint after some records that lie above `begin`."""
    end = dict(begin)
    for one in records:
        if one.region not in end or one.position.counter > end[one.region].counter:
            end[one.region] = one.position
    return end


def _is_added(transaction: Transaction, name: str, batch: BatchName) -> bool:
    rows = transaction.rows("SELECT query, batch FROM spark_batches WHERE consumer = ?", (name,))
    return any(query == batch.query and number >= batch.number for query, number in rows)


def _note(transaction: Transaction, name: str, batch: BatchName, begin: Checkpoint) -> None:
    """Stores the number of a batch, and the positions at which it begins.

    Spark may read this batch again, but none before it. So the trimmer leaves what lies above.
    """
    transaction.write(
        "INSERT INTO spark_batches VALUES (?, ?, ?) ON CONFLICT (consumer)"
        " DO UPDATE SET query = excluded.query, batch = excluded.batch",
        (name, *batch),
    )
    transaction.write_many(
        "INSERT INTO spark_batch_begins VALUES (?, ?, ?, ?) ON CONFLICT (consumer, log)"
        " DO UPDATE SET counter = excluded.counter, entry_id = excluded.entry_id",
        [(name, log, *position) for log, position in begin.items()],
    )


# -- the query


def lacking() -> str:
    """What a Spark consumer needs and this environment lacks, as a sentence; empty if nothing."""
    for module in ("pyspark", "pyarrow", "pyspark_anabranch"):
        if importlib.util.find_spec(module) is None:
            return f"Spark needs {module}: pip install 'anabranch[spark]'"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "Spark needs Java 17 or later: install openjdk-17-jre-headless, or set JAVA_HOME"
    return ""


def source_options(regions: Sequence[Endpoint], directory: Path) -> dict[str, str]:
    """The options of the source; the password of REDISCLI_AUTH goes into a file of `directory`."""
    places = [(one, f"[{one.host}]" if ":" in one.host else one.host) for one in regions]
    options = {
        "endpoints": ",".join(f"{one.name}={host}:{one.port}" for one, host in places),
        "streams": STREAM,
        "maxEntriesPerTrigger": str(BATCH_RECORDS),
    }
    password = os.environ.get("REDISCLI_AUTH")
    if password is not None:
        path = directory / "password"
        path.touch(mode=0o600)
        path.write_bytes(os.fsencode(password) + b"\n")
        options["passwordFile"] = str(path)
    return options


def run(
    regions: Sequence[Endpoint],
    open_totals: Callable[[], closing[SparkTotals]],
    mishaps: Mishaps,
    directory: Path,
) -> None:
    """Consumes until the process ends; an error of the query ends it.

    The process crashes by chance after it has handled a batch, before it commits.

    Arguments:
        regions: The regions that are read; the first one while it answers.
        open_totals: Opens the totals. Spark calls for each batch from a thread of its own, and
            SQLite keeps a connection to its thread.
        mishaps: Chooses the crashes.
        directory: Holds the query's checkpoint and Spark's files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    spark = _session(directory)

    def handle(frame: DataFrame, number: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        records = [_record(row) for row in frame.collect()]
        is_struck = bool(records) and mishaps.strikes()
        batch = BatchName(query, number)
        with open_totals() as totals:
            new = totals.add(batch, records, crash if is_struck else lambda: None)
        what = "was added before" if new is None else f"has {new} new rides"
        print(f"batch {number} of {query} {what}", flush=True)

    stream = spark.readStream.format("anabranch").schema(_COLUMNS)
    query = (
        stream.options(**source_options(regions, directory))
        .load()
        .writeStream.foreachBatch(handle)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(processingTime=TRIGGER)
        .start()
    )
    query.awaitTermination()


def _session(directory: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    temporary = directory / "tmp"
    temporary.mkdir(exist_ok=True)
    tempfile.tempdir = str(temporary)
    # Spark's own processes use this Python, and no modules of their working directory.
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"})
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return (
        SparkSession.builder.master("local[1]")
        .appName("Rocket Rides")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "1g")
        # Spark waits 15 s for a new Python process, which is short on a busy machine.
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={temporary}")
        .config("spark.local.dir", str(temporary))
        .config("spark.sql.warehouse.dir", str(temporary / "warehouse"))
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )


def _record(row: Any) -> LogRecord:
    return LogRecord(row.region, Position(row.counter, row.id), decoded(row.data))
