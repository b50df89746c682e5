"""`anabranch pipeline totals` in a real Spark, over real regions."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from anabranch import build
from anabranch.bench.acceptance import spark_sink
from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.jobs.progress import Bar
from anabranch.pipeline.jobs.report import Report
from anabranch.pipeline.jobs.totals.folder import Checkpoint
from anabranch.pipeline.jobs.totals.job import TotalsOptions
from anabranch.pipeline.jobs.totals.job import run as count
from tests.support.cluster import LiveCluster
from tests.support.signals import handled_by

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]

Spark = Any


def add(cluster: LiveCluster, region: str, numbers: range) -> None:
    with cluster.client(region) as client:
        pipeline = client.pipeline(transaction=False)
        for n in numbers:
            amount = "much" if n % 50 == 7 else f"{n}.10"
            pipeline.xadd("orders", {"user": f"u{n % 9}", "amount": amount})
        pipeline.execute()


def expected(cluster: LiveCluster, region: str) -> dict[str, tuple[int, Decimal, int]]:
    """Key → entries, sum, values that are no numbers: a plain computation over XRANGE."""
    entries: Counter[str] = Counter()
    sums: dict[str, Decimal] = {}
    others: Counter[str] = Counter()
    with cluster.client(region) as client:
        reply: Any = client.xrange("orders")
    for _, fields in reply:
        key = fields["user"]
        entries[key] += 1
        sums.setdefault(key, Decimal(0))
        if fields["amount"] == "much":
            others[key] += 1
        else:
            sums[key] += Decimal(fields["amount"])
    return {key: (entries[key], sums[key], others[key]) for key in entries}


def found(report: Report) -> dict[str, tuple[int, Decimal, int]]:
    return {
        row["key"]: (row["entries"], Decimal(row["total"]), row["not_numbers"])
        for row in report.facts["largest"]
    }


def run(spark: Spark, cluster: LiveCluster, folder: Path, **more: Any) -> Report:
    endpoints = ",".join(f"{one.name}={one.address}" for one in cluster.regions.values())
    given = {"streams": "orders", "sums": ["amount"], "by": [], **more}
    options = TotalsOptions({"endpoints": endpoints}, key="user", checkpoint=folder, **given)
    with Bar(spark) as bar:
        return count(spark, options, bar)


def kill_after(
    cluster: LiveCluster,
    folder: Path,
    commits: int,
    log: Path,
    number: signal.Signals = signal.SIGKILL,
) -> int:
    """Starts the command, and sends its processes a signal after so many micro-batches.

    Returns the code with which it ends.
    """
    places = [word for one in cluster.regions.values() for word in ("--at", one.address)]
    # So many micro-batches that some are left whenever this process gets to send the signal.
    words = ["--streams", "orders", "--key", "user", "--sum", "amount", "--batch", "15"]
    line = [*build.command(), "pipeline", "totals", *words, "--checkpoint", str(folder)]
    with log.open("ab") as file:
        driver = subprocess.Popen(
            [*line, *places, "--master", "local[2]"],
            stdout=file,
            stderr=file,
            env=build.environment(),
            start_new_session=True,
        )
        checkpoint = Checkpoint(folder)
        while driver.poll() is None and (checkpoint.newest() or 0) < commits:
            time.sleep(0.01)
        assert driver.poll() is None, f"the driver ended by itself:\n{log.read_text()}"
        os.killpg(driver.pid, number)
        return driver.wait()


def test_the_driver_is_killed_and_batches_are_repeated(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    """Late merges and repeated micro-batches are counted once."""
    folder, out = tmp_path / "checkpoint", tmp_path / "out"
    add(two_regions, "us", range(600))
    two_regions.sync()
    for commits in (1, 3):
        kill_after(two_regions, folder, commits, tmp_path / "log")
    two_regions.cut("us", "eu")
    add(two_regions, "eu", range(600, 700))
    add(two_regions, "us", range(700, 800))
    assert found(run(spark, two_regions, folder)) == expected(two_regions, "us")
    two_regions.heal("us", "eu")
    two_regions.await_links()
    two_regions.sync()
    report = run(spark, two_regions, folder, out=out)
    assert found(report) == expected(two_regions, "us")
    assert report.facts["entries"] == 800
    assert spark_sink.forget_last_commit(folder / "query") is not None
    again = run(spark, two_regions, folder, out=out)
    assert again.facts == report.facts
    rows = spark.read.parquet(str(out / "totals")).collect()
    assert {row.key: (row.entries, row.total, row.others) for row in rows} == expected(
        two_regions, "us"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_process_group(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path, number: signal.Signals
) -> None:
    """It ended Java before the job, which printed a trace for each request to Java."""
    folder, log = tmp_path / "checkpoint", tmp_path / "log"
    add(two_regions, "us", range(600))
    with handled_by(signal.SIG_DFL, number):
        code = kill_after(two_regions, folder, 1, log, number)
    assert code == 130
    lines = [line for line in log.read_text().splitlines() if not line.startswith("counting ")]
    assert lines == [
        "anabranch: the job totals was interrupted; run it again, and it goes on where it ended"
    ]
    assert found(run(spark, two_regions, folder)) == expected(two_regions, "us")


def test_a_named_stream_is_deleted(spark: Spark, two_regions: LiveCluster, tmp_path: Path) -> None:
    """The totals could never go on: other names are refused for a checkpoint."""
    add(two_regions, "us", range(20))
    with two_regions.client("us") as client:
        client.xadd("rides", {"user": "u0", "amount": "1"})
    run(spark, two_regions, tmp_path / "totals", streams="orders,rides")
    with two_regions.client("us") as client:
        client.delete("rides")
    add(two_regions, "us", range(20, 40))
    with pytest.raises(PipelineError, match="the stream 'rides' is gone"):
        run(spark, two_regions, tmp_path / "totals", streams="orders,rides")
    lossy = run(spark, two_regions, tmp_path / "totals", streams="orders,rides", allows_loss=True)
    assert lossy.passed and lossy.facts["entries"] == 41


def test_several_fields_by_region_while_entries_come(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    """A query that runs for some seconds, with a key that is not UTF-8 and one that is missing."""
    with two_regions.client("us") as client:
        client.xadd("orders", {"user": b"\xff", "amount": "1", "tip": "0.1"})
        client.xadd("orders", {"amount": "2", "amount ": "5"})
    with two_regions.client("eu") as client:
        client.execute_command("XADD", "orders", "*", "user", "ann", "tip", "7", "tip", "0.2")
    two_regions.sync()
    folder, out = tmp_path / "checkpoint", tmp_path / "out"
    more = {"sums": ["amount", "tip"], "by": ["stream", "region"], "out": out}
    run(spark, two_regions, folder, seconds=1.0, **more)
    report = run(spark, two_regions, folder, **more)
    assert report.facts["fields"] == [
        {"field": "amount", "total": "3", "numbers": 2, "missing": 1, "not_numbers": 0},
        {"field": "tip", "total": "0.3", "numbers": 2, "missing": 1, "not_numbers": 0},
    ]
    rows = spark.read.parquet(str(out / "totals")).where("field = 'tip'").collect()
    assert {
        (row.key, row.raw_key and bytes(row.raw_key), row.region, row.exact) for row in rows
    } == {("\ufffd", b"\xff", "us", "0.1"), (None, None, "us", "0"), ("ann", None, "eu", "0.2")}
