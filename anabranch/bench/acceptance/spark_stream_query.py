"""The query of `spark_stream`: reads a stream into Parquet, in a process of its own.

It ends with 0 when the file `end` exists and everything that the stream then held is read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PAUSE_S = 0.5


def run_query(given: dict[str, str]) -> int:
    """Runs the query; `given` has `options`, `checkpoint`, `rows`, `end` and `result`.

    `rows` is the directory of the Parquet files. `result` is the file for what they hold at the
    end, as JSON.
    """
    # Imported here: `anabranch bench` imports every module, also without PySpark.
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("spark_stream")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.streaming.minBatchesToRetain", "10")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
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
    sys.exit(run_query(json.loads(sys.argv[1])))
