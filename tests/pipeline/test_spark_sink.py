"""The sink in a real Spark, over real regions: each row stands once, whatever fails."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anabranch.bench.acceptance import spark_cluster, spark_sink
from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.progress import Done, progress_key
from anabranch.pipeline.resp import Connection
from tests.pipeline.serving import EngineServer
from tests.support.cluster import LiveCluster
from tests.support.engines import single

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]

Spark = Any


def given(cluster: LiveCluster, **more: str) -> dict[str, str]:
    endpoints = ",".join(f"{one.name}={one.address}" for one in cluster.regions.values())
    options = {"endpoints": endpoints, "stream": "orders", "setWindow": "true", **more}
    return {name: value for name, value in options.items() if value}


def write(frame: Any, cluster: LiveCluster, mode: str = "append", **more: str) -> None:
    frame.write.format("anabranch").mode(mode).options(**given(cluster, **more)).save()


def numbers(cluster: LiveCluster, region: str, key: str = "orders") -> Counter[int]:
    with cluster.client(region) as client:
        entries: Any = client.xrange(key)
        return Counter(int(fields["n"]) for _, fields in entries)


class Query:
    """A streaming query that writes the numbers from 0, a fixed count in each micro-batch."""

    def __init__(self, spark: Spark, cluster: LiveCluster, folder: Path, **more: str) -> None:
        self.spark = spark
        self.cluster = cluster
        self.checkpoint = folder / "checkpoint"
        self.more = more

    def start(self, rows: int, **trigger: Any) -> Any:
        frame = (
            self.spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 100)
            .option("numPartitions", 2)
            .option("startTimestamp", 0)
            .load()
            .where(f"value < {rows}")
            .selectExpr("value AS n")
        )
        writer = frame.writeStream.format("anabranch").options(**given(self.cluster, **self.more))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def run_once(self, rows: int) -> str:
        """Runs one batch to its end, and the one before it if that is to be repeated."""
        query = self.start(rows, availableNow=True)
        assert query.awaitTermination(120), "the query did not end"
        return str(query.id)

    def run(self, batches: int, rows: int) -> str:
        """Runs until at least so many batches are done in all; returns the id of the query."""
        query = self.start(rows)
        try:
            while not query.awaitTermination(0.1):
                if self.commits() and max(self.commits()) >= batches - 1:
                    return str(query.id)
            raise AssertionError("the query ended by itself")
        finally:
            query.stop()

    def commits(self) -> list[int]:
        folder = self.checkpoint / "commits"
        return [int(one.name) for one in folder.glob("*") if one.name.isdigit()]

    def forget_last_commit(self) -> int:
        """Makes Spark repeat the newest batch that is done; returns its number."""
        newest = spark_sink.forget_last_commit(self.checkpoint)
        assert newest is not None
        return newest


# -- batch


def test_a_table_becomes_entries_and_comes_back(spark: Spark, two_regions: LiveCluster) -> None:
    frame = spark.sql(
        "SELECT id AS n, concat('u', id) AS user, CAST(id AS DECIMAL(9,2)) / 4 AS price, "
        "timestamp '2024-02-29 12:00:00+00:00' AS at, IF(id % 2 = 0, 'even', NULL) AS kind, "
        "map('note', CAST('x' AS BINARY)) AS fields FROM range(1000)"
    )
    write(frame, two_regions)
    two_regions.sync()
    with two_regions.client("eu") as client:
        entries: Any = client.xrange("orders")
    found = {int(fields["n"]): fields for _, fields in entries}
    assert len(entries) == len(found) == 1000
    assert found[3].pop("at") == "2024-02-29T12:00:00.000000Z"
    assert {**found[3], "price": float(found[3]["price"])} == {
        "note": "x",
        "n": "3",
        "user": "u3",
        "price": 0.75,
    }
    assert found[2]["kind"] == "even"
    rows = (
        spark.read.format("anabranch")
        .schema("n INT, price DECIMAL(15,8), at TIMESTAMP")
        .options(endpoints=given(two_regions)["endpoints"], streams="orders")
        .load()
    )
    joined = rows.join(frame.select("n", "price", "at"), ["n", "price", "at"])
    assert joined.count() == 1000


def test_a_job_with_ids_is_run_again(spark: Spark, two_regions: LiveCluster) -> None:
    """Its rows are in other partitions then, and they are recognised all the same."""
    frame = spark.range(500).selectExpr("id AS n")
    more = {"idColumn": "n", "producer": "nightly"}
    write(frame.repartition(1), two_regions, **more)
    write(frame.repartition(2), two_regions, **more)
    assert numbers(two_regions, "us") == Counter(range(500))


def test_streams_of_a_column(spark: Spark, two_regions: LiveCluster) -> None:
    frame = spark.range(300).selectExpr("id AS n", "concat('part:', id % 3) AS stream")
    write(frame, two_regions, stream="")
    for part in range(3):
        assert numbers(two_regions, "us", f"part:{part}") == Counter(range(part, 300, 3))


def test_a_region_is_killed_while_a_job_writes(spark: Spark, two_regions: LiveCluster) -> None:
    """The tasks go on at the other region. When the first is back, no row stands twice."""
    write(spark.range(1).selectExpr("-1 AS n"), two_regions)
    two_regions.sync()
    pid = two_regions["us"].pid()

    def kill(rows: Any) -> Any:
        """Kills the region after the first batches of rows."""
        for number, some in enumerate(rows):
            if number == 3:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # The other task was first.
            yield some

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        frame = spark.range(10_000).selectExpr("id AS n").mapInArrow(kill, "n BIGINT")
        write(frame, two_regions, batchSize="100")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    two_regions["us"].process.wait(10)  # type: ignore[union-attr]
    two_regions.start("us")
    two_regions.await_links()
    two_regions.sync()
    expected = Counter(range(-1, 10_000))
    assert numbers(two_regions, "eu") == expected
    assert numbers(two_regions, "us") == expected


# -- streaming


def test_a_batch_is_repeated_after_it_was_done(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    """Its pairs are forgotten by then (here by a change of the configuration)."""
    query = Query(spark, two_regions, tmp_path)
    for _ in range(2):
        identity = query.run_once(rows=1000)
    added = numbers(two_regions, "us")
    assert added == Counter(range(200))
    assert query.forget_last_commit() == 1
    with two_regions.client("us") as client:
        assert client.exists(progress_key(identity)), "the progress is kept by the query's id"
        client.execute_command("XCFGSET", "orders", "IDMP-DURATION", 7200)
    query.run_once(rows=1000)
    assert max(query.commits()) >= 1, "batch 1 was repeated"
    assert numbers(two_regions, "us") == Counter(range(100 * (max(query.commits()) + 1)))


def test_a_done_batch_is_repeated_with_other_rows(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    """Adding nothing would lose rows, so the query fails."""
    query = Query(spark, two_regions, tmp_path)
    query.run(batches=2, rows=1_000_000)
    last = query.forget_last_commit()
    again = query.start(rows=last * 100 + 50)
    with pytest.raises(Exception, match="done with 100 rows, and is repeated with 50 rows"):
        again.awaitTermination(120)


def test_a_batch_is_repeated_that_nobody_knows_any_more() -> None:
    """A much older checkpoint was put back: its batch added nothing, without a word."""
    from anabranch.pipeline.sink import _finish

    with EngineServer(single()) as server:
        connection = Connection(("127.0.0.1", server.port), "", "", 5.0)
        for batch in range(100):
            _finish(connection, "q", batch, Done(10, batch))
        _finish(connection, "q", 99, Done(10, 99))
        with pytest.raises(PipelineError, match="batch 5 was done long ago, and is repeated"):
            _finish(connection, "q", 5, Done(10, 5))
        connection.close()


def test_python_workers_are_killed(spark: Spark, two_regions: LiveCluster, tmp_path: Path) -> None:
    """The query ends in the middle of a batch. Started again, it repeats the batch."""
    query = Query(spark, two_regions, tmp_path, batchSize="2")
    query.run(batches=1, rows=1000)
    with two_regions.client("us") as client:

        def sent() -> int:
            facts: Any = client.xinfo_stream("orders")
            return int(facts["iids-added"]) + int(facts["iids-duplicates"])

        broken = query.start(1000)
        while broken.isActive:
            before = sent()
            while broken.isActive and sent() < before + 10:
                pass
            for one in spark_cluster.children(os.getpid()):
                if "pyspark.daemon" in spark_cluster.command_of(one):
                    spark_cluster.kill(one)
    assert broken.exception() is not None, "the query did not fail"
    # The first query after the kills may meet workers of the driver that were killed, too.
    for _ in range(3):
        try:
            query.run(batches=12, rows=1000)
        except Exception as error:
            assert "terminated with exception" in str(error)
            continue
    assert max(query.commits()) >= 11
    assert numbers(two_regions, "us") == Counter(range(1000))


@pytest.mark.parametrize(
    ("more", "mode", "message"),
    [
        ({"setWindow": ""}, "append", "type XCFGSET orders IDMP-DURATION 3600 IDMP-MAXSIZE 10000"),
        ({"streams": "orders"}, "append", "there is no option 'streams'; did you mean stream?"),
        ({}, "overwrite", "a stream is only added to: use mode"),
        ({"stream": ""}, "append", "there is no column stream"),
        ({"endpoints": "127.0.0.1:1", "timeoutSeconds": "1"}, "append", "connection refused"),
        ({"wait": "2", "waitTimeoutSeconds": "5"}, "append", "1 of 2 other regions"),
    ],
)
def test_mistakes_of_users(
    spark: Spark, two_regions: LiveCluster, more: dict[str, str], mode: str, message: str
) -> None:
    with two_regions.client("us") as client:
        client.xadd("orders", {"n": "0"})
    with pytest.raises(Exception) as error:
        write(spark.range(3).selectExpr("id AS n"), two_regions, mode, **more)
    assert message in str(error.value)


def test_executors_drivers_and_a_region_are_killed() -> None:
    """The acceptance program, small: one of each kind."""
    assert spark_sink.run(2000, 250, seed=1, kills=4, patience_s=800.0).finish() == 0
