"""`anabranch pipeline archive` and `restore` in a real Spark, over real regions."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch import build
from anabranch.bench.acceptance import spark_sink
from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs.archive.files import ArchiveFiles
from anabranch.pipeline.jobs.archive.job import ArchiveOptions
from anabranch.pipeline.jobs.archive.job import run as archive
from anabranch.pipeline.jobs.archive.restore import ORIGIN, RestoreOptions
from anabranch.pipeline.jobs.archive.restore import run as restore
from anabranch.pipeline.jobs.archive.row_sets import LogComparison, compared, hashed
from anabranch.pipeline.jobs.progress import Bar
from anabranch.pipeline.jobs.report import Report
from tests.support.cluster import LiveCluster
from tests.support.signals import handled_by

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]

Spark = Any


def regions(cluster: LiveCluster) -> dict[str, str]:
    return {"endpoints": ",".join(f"{one.name}={one.address}" for one in cluster.regions.values())}


def add(cluster: LiveCluster, region: str, count: int, key: str = "orders") -> None:
    with cluster.client(region) as client:
        pipeline = client.pipeline(transaction=False)
        for n in range(count):
            pipeline.xadd(key, {"user": f"u{n}", "amount": f"{n}.5"})
        pipeline.execute()


def run(spark: Spark, cluster: LiveCluster, folder: Path, **more: Any) -> Report:
    options = ArchiveOptions(folder, regions(cluster), **more)
    with Bar(spark) as bar:
        return archive(spark, options, bar)


def run_restore(spark: Spark, cluster: LiveCluster, folder: Path, **more: Any) -> Report:
    options = RestoreOptions(folder, regions(cluster), **more)
    with Bar(spark) as bar:
        return restore(spark, options, bar)


def entries(cluster: LiveCluster, region: str, key: str) -> list[list[bytes]]:
    """The names and values of each entry in a region, in the order of the stream."""
    with cluster.client(region, decode_responses=False) as client:
        client.response_callbacks.clear()
        reply: Any = client.execute_command("XRANGE", key, "-", "+")
    return [fields for _, fields in reply]


def counts(report: Report) -> dict[tuple[str, str], int]:
    return {(log["stream"], log["region"]): log["entries"] for log in report.facts["logs"]}


def test_late_merges_are_archived_once(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    add(two_regions, "us", 100)
    add(two_regions, "eu", 10, "rides")
    two_regions.sync()
    first = run(spark, two_regions, folder)
    assert first.passed and counts(first) == {("orders", "us"): 100, ("rides", "eu"): 10}
    two_regions.cut("us", "eu")
    add(two_regions, "eu", 50)
    add(two_regions, "us", 100)
    second = run(spark, two_regions, folder)
    assert counts(second)[("orders", "us")] == 200 and ("orders", "eu") not in counts(second)
    two_regions.heal("us", "eu")
    two_regions.await_links()
    two_regions.sync()
    third = run(spark, two_regions, folder)
    assert third.passed and counts(third)[("orders", "eu")] == 50
    again = run(spark, two_regions, folder)
    assert again.passed and again.facts["added_files"] == 0
    assert counts(again) == counts(third)


def test_trims_and_deletions_between_runs(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    """What was trimmed before it was archived is an error, what was archived before stays."""
    folder = tmp_path / "archive"
    add(two_regions, "us", 20)
    add(two_regions, "us", 5, "rides")
    assert run(spark, two_regions, folder).passed
    add(two_regions, "us", 20)
    with two_regions.client("us") as client:
        client.xtrim("orders", maxlen=5, approximate=False)
    with pytest.raises(
        PipelineError, match="were trimmed, or removed .* with --allow-loss the command"
    ):
        run(spark, two_regions, folder)
    with two_regions.client("us") as client:
        client.delete("rides")
    with pytest.raises(PipelineError, match="the stream 'rides' is gone"):
        run(spark, two_regions, folder)
    lossy = run(spark, two_regions, folder, allows_loss=True)
    assert lossy.passed and counts(lossy) == {("orders", "us"): 25, ("rides", "us"): 5}
    assert {log["stream"]: log["gone_since"] for log in lossy.facts["logs"]} == {
        "orders": 20,
        "rides": 5,
    }
    again = run(spark, two_regions, folder)
    assert again.passed and again.facts["gone_streams"] == ["rides"]


def test_a_named_stream_is_deleted(spark: Spark, two_regions: LiveCluster, tmp_path: Path) -> None:
    """It was said that there never was such a stream, also with `allows_loss`."""
    folder = tmp_path / "archive"
    add(two_regions, "us", 20)
    add(two_regions, "us", 5, "rides")
    assert run(spark, two_regions, folder, streams="orders,rides").passed
    with two_regions.client("us") as client:
        client.delete("rides")
    with pytest.raises(PipelineError, match="the stream 'rides' is gone"):
        run(spark, two_regions, folder, streams="orders,rides")
    lossy = run(spark, two_regions, folder, streams="orders,rides", allows_loss=True)
    assert lossy.passed and counts(lossy) == {("orders", "us"): 20, ("rides", "us"): 5}
    assert run(spark, two_regions, folder, streams="orders,rides", adds=False).passed
    with pytest.raises(PipelineError, match="there is no stream 'ride'"):
        run(spark, two_regions, folder, streams="orders,ride")


def test_archives_of_two_clusters_with_one_name(
    spark: Spark, new_cluster: Callable[..., LiveCluster], two_regions: LiveCluster, tmp_path: Path
) -> None:
    """An entry of the second counted as restored if its counter was one of the first."""
    other = new_cluster(["us", "eu"])
    other.start_all()
    add(two_regions, "us", 5)
    add(other, "us", 7)
    assert run(spark, two_regions, tmp_path / "one").passed
    assert run(spark, other, tmp_path / "two").passed
    assert run_restore(spark, two_regions, tmp_path / "one", prefix="old:").passed
    with pytest.raises(PipelineError, match="'old:orders' holds 5 entries that are not restored"):
        run_restore(spark, two_regions, tmp_path / "two", prefix="old:")
    both = run_restore(spark, two_regions, tmp_path / "two", prefix="old:", into_existing=True)
    assert both.passed and len(entries(two_regions, "us", "old:orders")) == 12


def command(cluster: LiveCluster, *words: str) -> list[str]:
    places = [word for one in cluster.regions.values() for word in ("--at", one.address)]
    return [*build.command(), "pipeline", *words, *places, "--master", "local[2]"]


def dots(folder: Path) -> list[tuple[str, str, int]]:
    """The identities in an archive, as other readers of Parquet see them."""
    from pyarrow import dataset

    table = dataset.dataset(folder / "entries", partitioning="hive").to_table()
    return sorted(
        zip(*(table[name].to_pylist() for name in ("stream", "region", "counter")), strict=True)
    )


def interrupted(
    cluster: LiveCluster, folder: Path, number: signal.Signals, log: Path
) -> tuple[int, str]:
    """Starts an archive, and sends its processes a signal after two micro-batches.

    Returns the code with which it ends, and what it has printed.
    """
    line = command(cluster, "archive", str(folder), "--batch", "100")
    with log.open("wb") as file:
        driver = subprocess.Popen(
            line, stdout=file, stderr=file, env=build.environment(), start_new_session=True
        )
        files = ArchiveFiles(folder)
        while driver.poll() is None and len(files.batches()) < 2:
            time.sleep(0.01)
        os.killpg(driver.pid, number)
        return driver.wait(), log.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_process_group(
    two_regions: LiveCluster, tmp_path: Path, number: signal.Signals
) -> None:
    """It ended Java before the job, which printed a trace for each request to Java."""
    add(two_regions, "us", 1200)
    with handled_by(signal.SIG_DFL, number):
        code, log = interrupted(two_regions, tmp_path / "archive", number, tmp_path / "log")
    assert code == 130, log
    assert log.splitlines()[-1] == (
        "anabranch: the job archive was interrupted; run it again, and it goes on where it ended"
    )
    assert "Traceback" not in log and "ERROR" not in log


def test_the_driver_is_killed(spark: Spark, two_regions: LiveCluster, tmp_path: Path) -> None:
    """Readers see no entry twice at any time, and the next run completes the archive."""
    folder = tmp_path / "archive"
    add(two_regions, "us", 900)
    add(two_regions, "eu", 300)
    two_regions.sync()
    code, log = interrupted(two_regions, folder, signal.SIGKILL, tmp_path / "log")
    assert code == -signal.SIGKILL, log
    files = ArchiveFiles(folder)
    found = dots(folder)
    assert len(set(found)) == len(found) < 1200
    two_regions.kill("us")
    rest = run(spark, two_regions, folder)
    assert rest.passed and counts(rest) == {("orders", "eu"): 300, ("orders", "us"): 900}
    assert spark_sink.forget_last_commit(files.checkpoint) is not None
    again = run(spark, two_regions, folder)
    assert again.passed and again.facts["added_files"] == 0
    found = dots(folder)
    assert len(set(found)) == len(found) == 1200


ODD = [
    ["plain", b"1"],
    ["", b"", b"\xff\x00", b"\xfe\r\n"],
    ["same", b"1", "same", b"", "same", b"1"],
    ["\ufffd", b"text"],
    [ORIGIN, b"the user's own"],
]


def test_entries_come_back(
    spark: Spark, two_regions: LiveCluster, new_cluster: Callable[..., LiveCluster], tmp_path: Path
) -> None:
    """Into another cluster, twice, with names and values of any bytes, in their order."""
    folder = tmp_path / "archive"
    for number, fields in enumerate(ODD * 20):
        with two_regions.client(("us", "eu")[number % 2]) as client:
            client.execute_command("XADD", "odd, [x]", "*", *fields)
    add(two_regions, "us", 300)
    two_regions.sync()
    original = {key: entries(two_regions, "us", key) for key in ("odd, [x]", "orders")}
    assert run(spark, two_regions, folder).passed
    with pytest.raises(
        PipelineError, match="'odd, \\[x\\]' holds 100 entries that are not restored"
    ):
        run_restore(spark, two_regions, folder)
    other = new_cluster(["north", "south"])
    other.start_all()
    first = run_restore(spark, other, folder, prefix="old:", streams="o*")
    assert first.passed, first
    again = run_restore(spark, other, folder, prefix="old:")
    assert again.passed and again.facts["restored_before"] == 400
    other.sync()
    for key, expected in original.items():
        found = entries(other, "south", f"old:{key}")
        assert [fields[:-2] for fields in found] == expected
        assert all(fields[-2] == ORIGIN.encode() for fields in found)


def test_a_killed_restore_goes_on(
    spark: Spark, two_regions: LiveCluster, new_cluster: Callable[..., LiveCluster], tmp_path: Path
) -> None:
    """A restore is killed while it adds. The next one adds the rest, each entry once."""
    folder, total = tmp_path / "archive", 60_000
    for _ in range(total // 2000):
        add(two_regions, "us", 2000)
    assert run(spark, two_regions, folder).passed
    other = new_cluster(["north", "south"])
    other.start_all()
    line = command(other, "restore", str(folder), "--window", "600")
    with (tmp_path / "log").open("wb") as log, other.client("north") as client:
        driver = subprocess.Popen(
            line, stdout=log, stderr=log, env=build.environment(), start_new_session=True
        )
        while driver.poll() is None and client.xlen("orders") < 1000:
            time.sleep(0.005)
        os.killpg(driver.pid, signal.SIGKILL)
        assert driver.wait() == -signal.SIGKILL, (tmp_path / "log").read_text()
    # The task of a killed driver may send what it has in flight.
    time.sleep(2.0)
    found = entries(other, "north", "orders")
    assert 1000 <= len(found) < total
    again = run_restore(spark, other, folder, window_s=600)
    assert again.passed and again.facts["restored_before"] == len(found)
    other.sync()
    origins = [fields[-1] for fields in entries(other, "south", "orders")]
    assert len(origins) == len(set(origins)) == total


def test_differences_are_found(spark: Spark) -> None:
    """One entry of each kind: equal, missing, alone, twice, with another ID, with other fields."""
    from pyspark.sql import functions

    columns = (
        "stream STRING, region STRING, counter BIGINT, id STRING, "
        "fields ARRAY<STRUCT<name: BINARY, value: BINARY>>"
    )

    def frame(entries: list[tuple[int, str, list[tuple[bytes, bytes]]]]) -> Any:
        rows = [("orders", "us", *entry) for entry in entries]
        return hashed(spark.createDataFrame(rows, columns), functions.col("fields"))

    plain = [(b"ab", b"c")]
    archived = [(1, "1-1", plain), (3, "3-1", plain), (4, "4-1", plain), (4, "4-1", plain)]
    stream = [(1, "1-1", plain), (2, "2-1", plain), (4, "4-1", plain)]
    archived += [(5, "5-1", plain), (6, "6-1", plain)]
    stream += [(5, "5-2", plain), (6, "6-1", [(b"a", b"bc")])]
    assert compared(frame(archived), frame(stream)) == [
        LogComparison("orders", "us", entries=5, size=15, twice=1, missing=1, alone=1, differ=2)
    ]
