"""The query of `spark_sink`: a streaming query that writes numbers, in a process of its own.

The numbers come in micro-batches of a fixed size. The process ends with 0 when all are written.
"""

from __future__ import annotations

import json
import sys

PAUSE_S = 0.2


def run_query(given: dict[str, str]) -> int:
    """Runs the query; `given` has `master`, `checkpoint`, `rows`, `batch_rows` and `options`."""
    # Imported here: `anabranch bench` imports every module, also without PySpark.
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(given["master"])
        .appName("spark_sink")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.cores.max", "2")
        # Executors and Python workers are killed all the time.
        .config("spark.task.maxFailures", "100")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    rows, batch_rows = int(given["rows"]), int(given["batch_rows"])
    numbers = (
        session.readStream.format("rate-micro-batch")
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


if __name__ == "__main__":
    sys.exit(run_query(json.loads(sys.argv[1])))
