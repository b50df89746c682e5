"""The example of running totals, in a real Spark, over real regions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from anabranch import build
from anabranch.bench.acceptance import spark_sink
from tests.support.cluster import LiveCluster

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]

Spark = Any
ROOT = Path(__file__).resolve().parents[2]
ORDERS = ("--streams", "orders", "--key", "user", "--sum", "amount")
# What a sum has: total, numbers, missing, others.
Sum = tuple[Decimal, int, int, int]


@pytest.fixture(name="added")
def _added() -> Callable[[str, bytes], str | None]:
    from examples.totals import added

    return added


@pytest.mark.parametrize(
    ("value", "total"),
    [(b"7", "7"), (b"-1.50", "-1.5"), (b"+.5", "0.5"), (b"3.", "3"), (b"0.1", "0.1"), (b"-0", "0")],
)
def test_numbers(added: Callable[[str, bytes], str | None], value: bytes, total: str) -> None:
    assert added("0", value) == total


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"much", b"1,5", b"1_000", b"NaN", b"inf", b"0x10", b"1 2", b"1e2", b"."),
        *(b"1" * 101, b"\xff", "\u0661".encode()),
    ],
)
def test_texts_that_are_no_numbers(added: Callable[[str, bytes], str | None], value: bytes) -> None:
    assert added("0", value) is None


def test_sums_are_exact(added: Callable[[str, bytes], str | None]) -> None:
    """Floats would lose the small numbers, and 0.1 would not be a tenth."""
    total: str | None = "0"
    small = b"0." + b"0" * 99 + b"1"
    for value in (b"1" + b"0" * 99, b"0.1", b"0.2", b"-1" + b"0" * 99, small):
        assert total is not None
        total = added(total, value)
    assert total == "0.3" + "0" * 98 + "1"


def add(cluster: LiveCluster, region: str, numbers: range) -> None:
    with cluster.client(region) as client:
        pipeline = client.pipeline(transaction=False)
        for n in numbers:
            amount = "much" if n % 50 == 7 else f"{n}.10"
            pipeline.xadd("orders", {"user": f"u{n % 9}", "amount": amount})
        pipeline.execute()


def expected(cluster: LiveCluster, region: str) -> dict[str, Sum]:
    """A plain computation over XRANGE, by key."""
    numbers: Counter[str] = Counter()
    sums: dict[str, Decimal] = {}
    others: Counter[str] = Counter()
    with cluster.client(region) as client:
        reply: Any = client.xrange("orders")
    for _, fields in reply:
        key = fields["user"]
        sums.setdefault(key, Decimal(0))
        if fields["amount"] == "much":
            others[key] += 1
        else:
            numbers[key] += 1
            sums[key] += Decimal(fields["amount"])
    return {key: (sums[key], numbers[key], 0, others[key]) for key in sums}


def command(cluster: LiveCluster, folder: Path, *words: str) -> list[str]:
    regions = ",".join(one.address for one in cluster.regions.values())
    places = ("--regions", regions, "--checkpoint", str(folder), "--master", "local[2]")
    return [sys.executable, "-m", "examples.totals", *places, *words]


def run(cluster: LiveCluster, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(cluster, folder, *words),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=_environment(),
        check=False,
    )


def _environment() -> dict[str, str]:
    """`-m examples.totals` finds the example in the current folder."""
    given = build.environment()
    return {name: value for name, value in given.items() if name != "PYTHONSAFEPATH"}


def newest(spark: Spark, out: Path) -> list[Any]:
    """The rows of the newest totals."""
    rows: list[Any] = spark.read.parquet(str(max(out.iterdir()))).collect()
    return rows


def found(spark: Spark, out: Path) -> dict[str, Sum]:
    return {
        row.key: (Decimal(row.total), row.numbers, row.missing, row.others)
        for row in newest(spark, out)
    }


def kill_after(cluster: LiveCluster, folder: Path, commits: int, log: Path) -> None:
    """Starts the program, and kills its processes after so many micro-batches."""
    from examples.totals import newest_commit

    with log.open("ab") as file:
        driver = subprocess.Popen(
            # So many micro-batches that some are left whenever this process gets to kill it.
            command(cluster, folder, *ORDERS, "--batch", "15"),
            stdout=file,
            stderr=file,
            cwd=ROOT,
            env=_environment(),
            start_new_session=True,
        )
        while driver.poll() is None and (newest_commit(folder / "query") or 0) < commits:
            time.sleep(0.01)
        assert driver.poll() is None, f"the driver ended by itself:\n{log.read_text()}"
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def test_the_driver_is_killed_and_batches_are_repeated(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    """Late merges and repeated micro-batches are counted once."""
    folder, out = tmp_path / "checkpoint", tmp_path / "out"
    words = (*ORDERS, "--out", str(out))
    add(two_regions, "us", range(600))
    two_regions.sync()
    for commits in (1, 3):
        kill_after(two_regions, folder, commits, tmp_path / "log")
    two_regions.cut("us", "eu")
    add(two_regions, "eu", range(600, 700))
    add(two_regions, "us", range(700, 800))
    done = run(two_regions, folder, *words)
    assert done.returncode == 0, done
    assert found(spark, out) == expected(two_regions, "us")
    two_regions.heal("us", "eu")
    two_regions.await_links()
    two_regions.sync()
    assert run(two_regions, folder, *words).returncode == 0
    every = expected(two_regions, "us")
    assert found(spark, out) == every and sum(sum(one[1:]) for one in every.values()) == 800
    assert spark_sink.forget_last_commit(folder / "query") is not None
    again = run(two_regions, folder, *words)
    assert again.returncode == 0 and "amount" in again.stdout
    assert found(spark, out) == every
    other = run(two_regions, folder, "--streams", "orders", "--key", "user", "--sum", "tip")
    assert other.returncode == 1 and "give the same options" in other.stderr


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
    out = tmp_path / "out"
    words = ("--streams", "orders", "--key", "user", "--sum", "amount,tip", "--by", "region,day")
    folder = tmp_path / "checkpoint"
    assert run(two_regions, folder, *words, "--seconds", "1").returncode == 0
    assert run(two_regions, folder, *words, "--out", str(out)).returncode == 0
    rows = [row for row in newest(spark, out) if row.field == "tip"]
    assert {
        (row.key, row.raw_key and bytes(row.raw_key), row.region, row.total) for row in rows
    } == {("\ufffd", b"\xff", "us", "0.1"), (None, None, "us", "0"), ("ann", b"ann", "eu", "0.2")}
