"""The streaming queries of `spark_sink` and `spark_stream`, each in a process of its own.

The arguments are the name of the query, and what it is given, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAUSE_S = 0.5


def _session(name: str, master: str, settings: dict[str, str]) -> Any:
    # Imported here: `anabranch bench` imports every module, also without PySpark.
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(name)
    session = builder.config(map={"spark.ui.enabled": "false", **settings}).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def sink(given: dict[str, str]) -> int:
    """Writes numbers in micro-batches of a fixed size; ends with 0 when all are written.

    `given` has `master`, `checkpoint`, `rows`, `batch_rows` and `options`.
    """
    settings = {
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        # Executors and Python workers are killed all the time.
        "spark.task.maxFailures": "100",
        "spark.deploy.maxExecutorRetries": "-1",
    }
    rows, batch_rows = int(given["rows"]), int(given["batch_rows"])
    numbers = (
        _session("spark_sink", given["master"], settings)
        .readStream.format("rate-micro-batch")
        .option("rowsPerBatch", batch_rows)
        .option("numPartitions", 4)
        .option("startTimestamp", 0)
        .load()
        .where(f"value < {rows}")
        .selectExpr("value AS n", "value % 7 = 0 AS seventh")
    )
    query = (
        numbers.writeStream.format("anabranch")
        .options(**json.loads(given["options"]))
        .option("checkpointLocation", given["checkpoint"])
        .trigger(processingTime="0 seconds")
        .start()
    )
    last = (rows - 1) // batch_rows
    while not query.awaitTermination(PAUSE_S):
        progress = query.lastProgress
        # The next batch begins when this one is committed.
        if progress is not None and progress["batchId"] > last:
            query.stop()
            return 0
    return 1


def stream(given: dict[str, str]) -> int:
    """Reads a stream into Parquet; ends with 0 when all is read and the file `end` exists.

    `given` has `options`, `checkpoint`, `rows`, `end` and `result`. `rows` is the directory of the
    Parquet files. `result` is the file for what they hold at the end, as JSON.
    """
    settings = {"spark.driver.memory": "1g", "spark.sql.streaming.minBatchesToRetain": "10"}
    session = _session("spark_stream", "local[2]", settings)
    entries = session.readStream.format("anabranch").options(**json.loads(given["options"])).load()
    query = (
        entries.selectExpr("region", "counter", "id", "CAST(fields[0].value AS STRING) AS value")
        .writeStream.format("parquet")
        .option("path", given["rows"])
        .option("checkpointLocation", given["checkpoint"])
        .start()
    )
    while not Path(given["end"]).exists():
        if query.awaitTermination(PAUSE_S):
            return 1
    query.processAllAvailable()
    query.stop()
    session.read.parquet(given["rows"]).createOrReplaceTempView("rows")
    found = session.sql(
        "SELECT count(*) AS rows, count(DISTINCT value) AS values, "
        "count(DISTINCT region, counter) AS entries FROM rows"
    ).first()
    Path(given["result"]).write_text(json.dumps(found.asDict()))
    return 0


if __name__ == "__main__":
    sys.exit({"sink": sink, "stream": stream}[sys.argv[1]](json.loads(sys.argv[2])))
