"""Running totals by key: counts entries and sums fields, exactly, as a streaming query of Spark.

`python -m examples.totals --regions 127.0.0.1:7001 --streams orders --key user --sum amount
--checkpoint CHECKPOINT --out OUT` counts what is new and ends. docs/totals.md tells more.

Spark keeps the totals as state (`transformWithState`, in RocksDB), and commits state and offsets of
a micro-batch together. The source reads by the counters of region logs. So each entry is counted
once: wherever a run is killed, whatever Spark repeats, and also an entry that a region merges late.
Totals are read out of the committed state, never out of the rows of a micro-batch that runs.

It imports nothing of anabranch. Spark finds the format `anabranch` among the installed modules.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from pathlib import Path
from typing import Any, Final, Optional

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

# Columns by which totals may be divided further.
BY: Final = ("stream", "region", "day")
# The options that decide what a checkpoint holds.
QUESTION: Final = ("streams", "key", "sum", "by")
# A text with other characters or more digits is no number. Sums of 10^300 numbers fit the context.
NUMBER: Final = re.compile(rb"[+-]?(?:\d{1,100}(?:\.\d{0,100})?|\.\d{1,100})")
EXACT: Final = Context(prec=500, traps=[Inexact, InvalidOperation, Overflow])
STATE: Final = "total STRING, numbers BIGINT, missing BIGINT, others BIGINT"
_DAY: Final = "date_from_unix_date(CAST(unix_millis(ts) DIV 86400000 AS INT))"
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # A Python worker starts slowly on a busy machine; Spark gives up after 15 s.
    "spark.python.authenticate.socketTimeout": "120s",
}


def added(total: str, value: bytes) -> Optional[str]:
    """The exact sum of a total and a value; None if the value is no number."""
    if not NUMBER.fullmatch(value):
        return None
    found = f"{EXACT.add(Decimal(total), Decimal(value.decode('ascii'))):f}"
    found = found.rstrip("0").rstrip(".") if "." in found else found
    return "0" if found == "-0" else found


class Totals(StatefulProcessor):
    """Adds the values of one field in the entries of one key to their state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once in each task."""
        self._state = handle.getValueState("totals", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timers: Any) -> Iterator[Row]:
        """Called for each key and field of a micro-batch that has new rows."""
        kept = self._state.get() if self._state.exists() else ("0", 0, 0, 0)
        total, numbers, missing, others = kept
        for row in rows:
            if row["value"] is None:
                missing += 1
            elif (sum_ := added(total, bytes(row["value"]))) is None:
                others += 1
            else:
                total, numbers = sum_, numbers + 1
        self._state.update((total, numbers, missing, others))
        yield Row(entries=numbers + missing + others)

    def close(self) -> None:
        """Nothing to do."""


def claim(folder: Path, question: dict[str, Any]) -> None:
    """Notes what a checkpoint counts; ends the program if it was begun with another question."""
    path = folder / "question.json"
    if path.exists() and (kept := json.loads(path.read_text())) != question:
        sys.exit(f"{folder} holds totals of {kept}: give the same options, or a new directory")
    if folder.exists() and not path.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty and holds no totals: give a new directory")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(question))


def by_key(entries: DataFrame, given: argparse.Namespace) -> DataFrame:
    """A row for each entry and summed field: the key, the columns that divide it, the value.

    `entries` were read with `fieldsFormat` `map`, which has the last of several equal names.
    """

    def value(name: str) -> Column:
        return f.try_element_at("fields", f.lit(name))

    pairs = [f.struct(f.lit(one).alias("field"), value(one).alias("value")) for one in given.sum]
    columns = {"stream": f.col("stream"), "region": f.col("region"), "day": f.expr(_DAY)}
    chosen = [columns[name].alias(name) for name in given.by]
    rows = entries.select(value(given.key).alias("key"), *chosen, f.explode(f.array(*pairs)))
    return rows.select("key", *given.by, "col.field", "col.value")


def count(spark: SparkSession, given: argparse.Namespace, query_folder: Path) -> None:
    """Counts what there is, or what comes for `given.seconds`."""
    options = {
        "endpoints": given.regions,
        "streams": given.streams,
        "fieldsFormat": "map",
        "maxEntriesPerTrigger": str(given.batch),
        "failOnDataLoss": str(not given.allow_loss).lower(),
    }
    if given.password_file is not None:
        options["passwordFile"] = str(given.password_file.absolute())
    writer: Any = (
        by_key(spark.readStream.format("anabranch").options(**options).load(), given)
        .groupBy("key", *given.by, "field")
        .transformWithState(Totals(), "entries BIGINT", "update", "none")
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(query_folder))
    )
    if given.seconds is None:
        writer.trigger(availableNow=True).start().awaitTermination()
        return
    query = writer.trigger(processingTime="1 second").start()
    query.awaitTermination(given.seconds)
    query.stop()


def totals(spark: SparkSession, query_folder: Path, by: list[str]) -> DataFrame:
    """The totals in the newest committed state: a row for each key and summed field."""
    state = spark.read.format("statestore").option("stateVarName", "totals")
    entries = f.expr("value.numbers + value.missing + value.others")
    return state.load(str(query_folder)).select(
        f.make_valid_utf8(f.col("key.key").cast("string")).alias("key"),
        f.col("key.key").alias("raw_key"),
        *(f"key.{name}" for name in by),
        "key.field",
        entries.alias("entries"),
        *(f"value.{name}" for name in ("total", "numbers", "missing", "others")),
    )


def newest_commit(query_folder: Path) -> Optional[int]:
    """The number of the newest committed micro-batch; None if there is none."""
    names = (one.name for one in (query_folder / "commits").glob("*"))
    return max((int(name) for name in names if name.isdigit()), default=None)


def main(arguments: Optional[list[str]] = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.totals", description=__doc__)
    add = parser.add_argument
    add("--regions", required=True, metavar="HOST:PORT,…", help="addresses of regions")
    add("--password-file", type=Path, help="file with the password of the regions")
    add("--streams", required=True, help="names or globs, separated by commas")
    add("--key", required=True, metavar="FIELD", help="field of the keys")
    add("--sum", required=True, metavar="FIELD,…", type=lambda text: text.split(","))
    add("--by", default=[], metavar="COLUMN,…", type=lambda text: text.split(","))
    add("--checkpoint", required=True, type=Path, help="directory; a repeated run goes on there")
    add("--out", type=Path, help="directory for the totals of all keys, as Parquet")
    add("--seconds", type=int, help="count for so long what comes")
    add("--batch", type=int, default=1_000_000, help="most entries of one micro-batch")
    add("--allow-loss", action="store_true", help="go on if entries were lost before")
    add("--master", default="local[*]", help="Spark's master")
    given = parser.parse_args(arguments)
    if not set(given.by) <= set(BY):
        parser.error(f"--by takes {', '.join(BY)}")
    claim(
        given.checkpoint, {name: getattr(given, name) for name in ("streams", "key", "sum", "by")}
    )
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"})
    spark = SparkSession.builder.master(given.master).config(map=_SETTINGS).getOrCreate()
    # The first run decides into how many parts the state is divided. Each costs time.
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    query_folder = (given.checkpoint / "query").absolute()
    count(spark, given, query_folder)
    number = newest_commit(query_folder)
    if number is not None:
        found = totals(spark, query_folder, given.by)
        if given.out is not None:
            found.write.mode("overwrite").parquet(str(given.out / f"batch-{number:06d}"))
        found.drop("raw_key").orderBy(f.col("total").cast("double").desc()).show(20, False)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
