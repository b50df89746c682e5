"""The Spark consumer without Spark: a batch that comes twice adds nothing the second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.rocket_rides import tables
from examples.rocket_rides.database import Database
from examples.rocket_rides.records import Position, Ride
from examples.rocket_rides.ride_log import Endpoint
from examples.rocket_rides.spark_consumer import (
    BatchName,
    LogRecord,
    SparkTotals,
    moved,
    source_options,
)
from tests.examples.conftest import Open
from tests.examples.test_consumer import Crash, crash, state

SPARK = tables.Registration("spark", tables.SPARK_WAY)
A, B, C = (Ride("us", n, n * 1000) for n in (1, 2, 3))


def record(region: str, counter: int, ride: Ride) -> LogRecord:
    return LogRecord(region, Position(counter, f"{counter}-1"), ride)


@pytest.fixture
def database(opened: Open) -> Database:
    one = opened("us")
    one.run(lambda each: each.write("INSERT INTO consumers VALUES (?, ?, 0, 0, 0)", SPARK))
    return one


def positions(database: Database) -> tuple[dict[str, int], dict[str, int]]:
    """The counters up to which the consumer has read, and those at which its last batch begins."""
    read = database.run(lambda each: tables.checkpoint(each, "spark"))
    begins = database.run(lambda each: tables.read_up_to(each, SPARK))
    assert all(one.entry_id == f"{one.counter}-1" for one in [*read.values(), *begins.values()])
    return (
        {log: one.counter for log, one in read.items()},
        {log: one.counter for log, one in begins.items()},
    )


def test_a_batch_that_comes_twice_is_added_once(database: Database) -> None:
    totals = SparkTotals(database, "spark")
    assert totals.add(BatchName("q", 0), [record("us", 1, A), record("eu", 4, B)]) == 2
    assert totals.add(BatchName("q", 0), [record("us", 1, A), record("eu", 4, B)]) is None
    assert totals.add(BatchName("q", 1), [record("us", 2, C)]) == 1
    assert totals.add(BatchName("q", 1), [record("us", 2, C)]) is None
    assert state(database, "spark") == (3, 6000, 0)
    assert positions(database) == ({"us": 2, "eu": 4}, {"us": 1, "eu": 4})


def test_a_crash_before_the_commit_changes_nothing(database: Database) -> None:
    totals = SparkTotals(database, "spark")
    totals.add(BatchName("q", 0), [record("us", 1, A)])
    with pytest.raises(Crash):
        totals.add(BatchName("q", 1), [record("us", 2, B)], crash)
    assert state(database, "spark") == (1, 1000, 0)
    assert positions(database) == ({"us": 1}, {})
    assert totals.add(BatchName("q", 1), [record("us", 2, B)]) == 1


def test_a_query_with_a_new_checkpoint_directory_counts_no_ride_twice(database: Database) -> None:
    """Its batches begin at 0 again, and have all records again."""
    totals = SparkTotals(database, "spark")
    totals.add(BatchName("old", 5), [record("us", 1, A), record("us", 2, B)])
    records = [record("us", n, ride) for n, ride in ((1, A), (2, B), (3, C))]
    assert totals.add(BatchName("new", 0), records) == 1
    assert state(database, "spark") == (3, 6000, 2)


def test_the_trimmer_leaves_the_last_batch(database: Database) -> None:
    """Spark reads it again if it dies before it has noted that the batch is done."""
    totals = SparkTotals(database, "spark")
    totals.add(BatchName("q", 0), [record("us", 9, A)])
    assert positions(database) == ({"us": 9}, {})
    totals.add(BatchName("q", 1), [record("us", 12, B)])
    assert positions(database) == ({"us": 12}, {"us": 9})
    totals.add(BatchName("q", 2), [])
    assert positions(database) == ({"us": 12}, {"us": 12})


def test_records_in_any_order_move_each_log_to_its_last() -> None:
    begin = {"us": Position(5, "5-1")}
    records = [record("eu", 2, A), record("us", 8, A), record("eu", 7, B), record("us", 6, C)]
    assert moved(begin, records) == {"us": Position(8, "8-1"), "eu": Position(7, "7-1")}


def test_the_source_gets_regions_and_a_password_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = [Endpoint("us", "127.0.0.1", 7001), Endpoint("eu", "::1", 7002)]
    monkeypatch.delenv("REDISCLI_AUTH", raising=False)
    options = source_options(regions, tmp_path)
    assert options["endpoints"] == "us=127.0.0.1:7001,eu=[::1]:7002"
    assert "passwordFile" not in options
    monkeypatch.setenv("REDISCLI_AUTH", "secret")
    path = Path(source_options(regions, tmp_path)["passwordFile"])
    assert path.read_text() == "secret\n" and path.stat().st_mode & 0o777 == 0o600
