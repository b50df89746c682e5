"""The data source in a real Spark, over real regions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from anabranch.bench.acceptance import spark_stream
from tests.support.cluster import LiveCluster

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(300)]

Spark = Any


def endpoints(cluster: LiveCluster) -> str:
    return ",".join(f"{one.name}={one.address}" for one in cluster.regions.values())


def batch(spark: Spark, cluster: LiveCluster, schema: str = "", **options: str) -> Any:
    given = {"endpoints": endpoints(cluster), "streams": "orders", **options}
    reader = spark.read.format("anabranch").options(**given)
    return (reader.schema(schema) if schema else reader).load()


def add(cluster: LiveCluster, region: str, count: int, key: str = "orders") -> list[str]:
    """Adds entries in one region; returns their IDs."""
    with cluster.client(region) as client:
        pipeline = client.pipeline(transaction=False)
        for n in range(count):
            pipeline.xadd(key, {"user": f"u{n}", "amount": f"{n}.5"})
        return [str(entry_id) for entry_id in pipeline.execute()]


class Query:
    """A streaming query whose micro-batches are collected by their number.

    A batch that Spark runs again after a restart replaces the former run.
    """

    def __init__(
        self, spark: Spark, cluster: LiveCluster, checkpoint: Path, **options: str
    ) -> None:
        self.spark = spark
        self.given = {"endpoints": endpoints(cluster), "streams": "orders", **options}
        self.checkpoint = str(checkpoint)
        self.batches: dict[int, list[str]] = {}

    def start(self, **trigger: Any) -> Any:
        def collect(rows: Any, number: int) -> None:
            self.batches[number] = [row.id for row in rows.select("id").collect()]

        frame = self.spark.readStream.format("anabranch").options(**self.given).load()
        writer = frame.writeStream.foreachBatch(collect)
        trigger = trigger or {"processingTime": "100 milliseconds"}
        return writer.option("checkpointLocation", self.checkpoint).trigger(**trigger).start()

    def run(self) -> None:
        """Reads what there is, and ends."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(120), "the query did not end"

    @property
    def ids(self) -> list[str]:
        return sorted(one for ids in self.batches.values() for one in ids)


# -- batch


def test_a_batch_reads_every_entry_of_every_region(spark: Spark, two_regions: LiveCluster) -> None:
    """No registration is needed: PySpark finds `pyspark_anabranch` by its name."""
    ids = {"us": add(two_regions, "us", 3000), "eu": add(two_regions, "eu", 500)}
    two_regions.sync()
    rows = batch(spark, two_regions, minPartitions="4").collect()
    for region, expected in ids.items():
        found = sorted((row.counter, row.id) for row in rows if row.region == region)
        assert [one for _, one in found] == expected
    assert len(rows) == 3500 and {row.stream for row in rows} == {"orders"}
    first = next(row for row in rows if row.id == ids["eu"][0])
    assert [(one.name, bytes(one.value)) for one in first.fields] == [
        ("user", b"u0"),
        ("amount", b"0.5"),
    ]
    ms = int(first.id.partition("-")[0])
    assert first.ts.astimezone(UTC) == datetime.fromtimestamp(ms / 1000, UTC)


def test_formats_of_fields(spark: Spark, two_regions: LiveCluster) -> None:
    with two_regions.client("us") as client:
        client.execute_command("XADD", "orders", "*", "a", "1", b"\xff", 'x"y', "a", "2")
    found = {
        form: batch(spark, two_regions, fieldsFormat=form).collect()[0].fields
        for form in ("array", "map", "json", "raw")
    }
    assert [one.name for one in found["array"]] == ["a", "\ufffd", "a"]
    raw = [(bytes(one.name), bytes(one.value)) for one in found["raw"]]
    assert raw == [(b"a", b"1"), (b"\xff", b'x"y'), (b"a", b"2")]
    assert {name: bytes(value) for name, value in found["map"].items()} == {
        "\ufffd": b'x"y',
        "a": b"2",
    }
    assert json.loads(found["json"]) == {"\ufffd": 'x"y', "a": "2"}


SCHEMA = """id STRING, user STRING, amount DOUBLE, count INT, price DECIMAL(9,2), paid BOOLEAN,
    day DATE, at TIMESTAMP, raw BINARY"""
GOOD = {
    "user": "ann",
    "amount": "1.25e2",
    "count": "-7",
    "price": "10.50",
    "paid": "true",
    "day": "2024-02-29",
    "at": "2024-02-29T12:00:00Z",
    "raw": b"\xff\x00",
}


def test_typed_columns(spark: Spark, two_regions: LiveCluster) -> None:
    """A value that does not fit is null, and so is a field that is not there (PERMISSIVE)."""
    bad = {
        "user": b"\xff",
        "amount": "much",
        "count": "3000000000",
        "price": "1.234",
        "paid": "perhaps",
        "day": "2023-02-29",
        "at": "noon",
    }
    with two_regions.client("us") as client:
        for fields in (GOOD, {"other": "x"}, bad, {**GOOD, "at": "2024-02-29 12:00:00"}):
            client.xadd("orders", fields)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows = batch(spark, two_regions, SCHEMA).orderBy("id").collect()
    shown = [row.asDict() for row in rows]
    for row in shown:
        assert row.pop("id").endswith("1")
        row["at"] = row["at"] and row["at"].astimezone(UTC).isoformat()
        row["day"], row["price"] = str(row["day"]), str(row["price"])
    expected = {
        "user": "ann",
        "amount": 125.0,
        "count": -7,
        "price": "10.50",
        "paid": True,
        "day": "2024-02-29",
        "at": "2024-02-29T12:00:00+00:00",
        "raw": bytearray(b"\xff\x00"),
    }
    nothing = {name: "None" if name in ("day", "price") else None for name in expected}
    assert shown == [expected, nothing, nothing, expected]


def test_fail_fast(spark: Spark, two_regions: LiveCluster) -> None:
    with two_regions.client("us") as client:
        client.xadd("orders", {"count": "7"})
        client.xadd("orders", {"count": "seven"})
    with pytest.raises(
        Exception, match="the field 'count' in stream 'orders' is not of type int32"
    ):
        batch(spark, two_regions, "count INT", mode="FAILFAST").collect()


def test_filters_are_pushed_down(spark: Spark, two_regions: LiveCluster) -> None:
    """With the option and without it, a query has the same rows; with it, it reads fewer."""
    ids = add(two_regions, "us", 1000)
    add(two_regions, "eu", 10)
    two_regions.sync()
    for condition, count in (
        ("region = 'eu'", 10),
        ("counter > 900 AND region = 'us'", 100),
        (f"id = '{ids[500]}'", 1),
        ("stream = 'rides'", 0),
        ("ts < timestamp '2001-01-01'", 0),
        ("ts > timestamp '2001-01-01'", 1010),
    ):
        for pushed in ("once", "false"):
            frame = batch(spark, two_regions, pushFilters=pushed).where(condition)
            assert frame.count() == count, (condition, pushed)
    few = batch(spark, two_regions, pushFilters="once").where("counter > 999 AND region = 'us'")
    assert few.rdd.getNumPartitions() == 1


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"colour": "red"}, "", "there is no option 'colour'. The options are"),
        ({"streams": "rides"}, "", "there is no stream 'rides'"),
        ({"startingOffsets": "{"}, "", "startingOffsets must be earliest, latest or JSON"),
        (
            {
                "startingOffsets": '{"orders":{"us":9,"eu":0}}',
                "endingOffsets": '{"orders":{"us":1}}',
            },
            "",
            "lie above endingOffsets",
        ),
        ({"endpoints": "127.0.0.1:1", "timeoutSeconds": "1"}, "", "connection refused"),
        ({}, "id STRING, tags ARRAY<STRING>", "the column tags has the type array<string>"),
        ({}, "counter STRING", "the column counter has the type string in the schema"),
        ({"fieldsFormat": "json"}, "fields MAP<STRING,BINARY>", "with fieldsFormat json"),
    ],
)
def test_mistakes_of_users(
    spark: Spark, two_regions: LiveCluster, options: dict[str, str], schema: str, message: str
) -> None:
    add(two_regions, "us", 3)
    with pytest.raises(Exception) as error:
        batch(spark, two_regions, schema, **options).collect()
    assert message in str(error.value)


def test_a_region_is_killed_while_it_is_read(spark: Spark, two_regions: LiveCluster) -> None:
    """The tasks go on at the other region; every entry is read once.

    Two tasks run at a time, so the later ones find the region dead. With two tasks in all, both had
    sometimes read everything when the first rows came.
    """
    ids = [one for _ in range(20) for one in add(two_regions, "us", 10_000)]
    two_regions.sync()
    frame = batch(spark, two_regions, fetchSize="4096", minPartitions="8")
    pid = two_regions["us"].pid()

    def kill(rows: Any) -> Any:
        """Kills the region when the first rows have come, long before the last."""
        import os
        import signal

        for some in rows:
            os.kill(pid, signal.SIGKILL)
            yield some.select(["id"])

    found = frame.mapInArrow(kill, "id STRING").collect()
    assert sorted(row.id for row in found) == sorted(ids)
    with two_regions.client("eu") as client:
        calls: Any = client.info("commandstats")
    assert calls["cmdstat_crdt.nodes"]["calls"] > 0, "no task went on at eu"


# -- streaming


def test_late_merges_arrive_after_a_restart(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    """Entries that eu added while it was cut off have lower IDs than those already read."""
    query = Query(spark, two_regions, tmp_path / "checkpoint")
    ids = add(two_regions, "us", 100)
    query.run()
    assert query.ids == sorted(ids)
    two_regions.cut("us", "eu")
    late = add(two_regions, "eu", 50)
    more = add(two_regions, "us", 100)
    query.run()
    assert query.ids == sorted(ids + more)
    two_regions.heal("us", "eu")
    two_regions.await_links()
    two_regions.sync()
    query.run()
    assert query.ids == sorted(ids + more + late)
    assert min(late) < max(more), "the entries are late indeed"


def test_a_running_query_gets_what_is_added(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    """It survives the death of the region that it reads, and a stream that comes later."""
    query = Query(spark, two_regions, tmp_path / "checkpoint", streams="orders*")
    ids = add(two_regions, "us", 10)
    two_regions.sync()
    running = query.start()
    try:
        running.processAllAvailable()
        assert query.ids == sorted(ids)
        two_regions.kill("us")
        ids += add(two_regions, "eu", 10) + add(two_regions, "eu", 5, key="orders:new")
        running.processAllAvailable()
        assert query.ids == sorted(ids)
    finally:
        running.stop()


def test_rate_limit(spark: Spark, two_regions: LiveCluster, tmp_path: Path) -> None:
    """Each micro-batch keeps the limit, also with Trigger.AvailableNow."""
    ids = add(two_regions, "us", 250) + add(two_regions, "eu", 100)
    two_regions.sync()
    query = Query(spark, two_regions, tmp_path / "checkpoint", maxEntriesPerTrigger="60")
    query.run()
    assert query.ids == sorted(ids)
    assert sorted(map(len, query.batches.values())) == [50, 60, 60, 60, 60, 60]


def test_starting_at_latest(spark: Spark, two_regions: LiveCluster, tmp_path: Path) -> None:
    add(two_regions, "us", 10)
    query = Query(spark, two_regions, tmp_path / "checkpoint", startingOffsets="latest")
    query.run()
    assert query.ids == []
    ids = add(two_regions, "us", 10)
    query.run()
    assert query.ids == sorted(ids)


def test_available_now_ends_while_entries_are_added(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    """The query reads up to where the stream was when it began."""
    ids = add(two_regions, "us", 30)
    query = Query(spark, two_regions, tmp_path / "checkpoint", maxEntriesPerTrigger="10")
    seen: list[int] = []

    frame = spark.readStream.format("anabranch").options(**query.given).load()

    def collect(rows: Any, number: int) -> None:
        seen.append(rows.count())
        add(two_regions, "us", 5)

    writer = frame.writeStream.foreachBatch(collect).trigger(availableNow=True)
    running = writer.option("checkpointLocation", query.checkpoint).start()
    assert running.awaitTermination(120)
    assert sum(seen) == len(ids)


def test_a_deleted_stream(spark: Spark, two_regions: LiveCluster, tmp_path: Path) -> None:
    ids = add(two_regions, "us", 10)
    query = Query(spark, two_regions, tmp_path / "checkpoint", streams="orders*")
    query.run()
    with two_regions.client("us") as client:
        client.delete("orders")
    with pytest.raises(Exception, match="the stream 'orders' is gone"):
        query.run()
    query.given["failOnDataLoss"] = "false"
    query.run()
    assert query.ids == sorted(ids)


def test_a_checkpoint_of_another_source(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    add(two_regions, "us", 10)
    query = Query(spark, two_regions, tmp_path / "checkpoint")
    query.run()
    newest = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    lines = newest.read_text().splitlines()
    lines[-1] = '{"orders": {"us": "soon"}}'
    newest.write_text("\n".join(lines))
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match="the checkpoint belongs to another query"):
        query.run()


def test_trimmed_entries(spark: Spark, two_regions: LiveCluster, tmp_path: Path) -> None:
    """A trim in another region is noticed, and a restart of the region keeps the mark."""
    query = Query(spark, two_regions, tmp_path / "checkpoint")
    ids = add(two_regions, "us", 20)
    query.run()
    more = add(two_regions, "us", 20)
    two_regions.sync()
    with two_regions.client("eu") as client:
        client.xtrim("orders", maxlen=5, approximate=False)
    two_regions.sync()
    two_regions.stop("us")
    two_regions.start("us")
    with pytest.raises(
        Exception, match="were trimmed, or removed with the stream, before they were read"
    ):
        query.run()
    query.given["failOnDataLoss"] = "false"
    query.run()
    assert query.ids == sorted(ids + more[-5:])
    assert batch(spark, two_regions).count() == 5


@pytest.mark.timeout(900)
def test_drivers_and_workers_are_killed_while_links_are_cut() -> None:
    """The acceptance program, small: one of each kind."""
    assert spark_stream.run(6000, 12.0, kills=2, seed=1, patience_s=600.0).finish() == 0
