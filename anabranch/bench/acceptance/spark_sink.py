"""The Spark sink while executors, drivers and a region are killed, and micro-batches are repeated.

A streaming query writes numbers into three regions, from a standalone Spark of one master and two
workers, all processes of this machine. At random times the program kills an executor, a Python
worker, the region that is written to, or the driver. Before a driver starts again, the newest file
of the checkpoint's `commits` is deleted, and the offsets of the batch that was under way, so that
Spark repeats a micro-batch that was done. At the end each number must stand once in every region.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from anabranch.bench.acceptance.spark_cluster import START_S, Driver, SparkCluster, endpoints, kill
from anabranch.bench.harness import Figures, entries_of, require_agreement, start_all, wait_for
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.regions import ProcessCluster

KEY: Final = "numbers"
# In the order in which they are struck, again and again.
KINDS: Final = ("python worker", "executor", "driver", "region")


def forget_last_commit(checkpoint: Path) -> int | None:
    """Puts a checkpoint back to before its newest commit; returns the number of that batch.

    The offsets of a later batch go, too: with them, Spark would repeat that batch instead. The
    source of these queries gives the later batch the same rows again.
    """
    commits = [int(one.name) for one in (checkpoint / "commits").glob("*") if one.name.isdigit()]
    if not commits:
        return None
    newest = max(commits)
    late = [int(one.name) for one in (checkpoint / "offsets").glob("*") if one.name.isdigit()]
    gone = [checkpoint / "commits" / str(newest)]
    gone += [checkpoint / "offsets" / str(number) for number in late if number > newest]
    for one in gone:
        one.unlink()
        one.with_name(f".{one.name}.crc").unlink(missing_ok=True)
    return newest


class Disorder:
    """Kills what the query needs, at random times, and brings it back."""

    def __init__(self, cluster: ProcessCluster, spark: SparkCluster, driver: Driver, seed: int):
        self.kills: Counter[str] = Counter()
        self.repeated = 0
        self._cluster = cluster
        self._spark = spark
        self._driver = driver
        self._chance = random.Random(seed)

    def strike(self, kind: str) -> bool:
        """Kills one of a kind; whether one was running."""
        if kind == "driver":
            self._driver.kill()
            self.repeated += forget_last_commit(self._driver.checkpoint) is not None
            self._driver.start()
        elif kind == "region":
            self._cluster.kill("us")
            time.sleep(self._chance.uniform(0.0, 3.0))
            self._cluster.start("us")
        else:
            found = self._spark.executors() if kind == "executor" else self._spark.python_workers()
            if not found:
                return False
            kill(self._chance.choice(found))
        self.kills[kind] += 1
        return True

    def moments(self, kills: int, rows: int) -> list[int]:
        """The numbers of rows at which it strikes, ascending."""
        return sorted(self._chance.sample(range(1, rows), kills))


def written(cluster: ProcessCluster) -> int:
    """The entries of the stream in a region that is never killed."""
    length: int = cluster["ap"].ask("XLEN", KEY)
    return length


def run(rows: int, batch_rows: int, seed: int, kills: int, patience_s: float) -> Figures:
    """Writes `rows` numbers, with `kills` kills on the way; requires each number once."""
    figures = Figures(f"{rows:,} rows through the Spark sink, {kills} kills (seed {seed})")
    begun_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="anabranch-spark-") as folder,
        ProcessCluster() as regions,
    ):
        directory = Path(folder)
        start_all(figures, regions)
        options = {"endpoints": endpoints(regions), "stream": KEY, "setWindow": "true"}
        with SparkCluster(directory) as spark:
            given = {
                "master": spark.master,
                "checkpoint": str(directory / "checkpoint"),
                "rows": str(rows),
                "batch_rows": str(batch_rows),
                "options": json.dumps(options),
            }
            driver = Driver("sink", given, directory / "driver.log")
            disorder = Disorder(regions, spark, driver, seed)
            with driver.running():
                _disturb(regions, driver, disorder, rows, kills, begun_s + patience_s)
        took_s = time.monotonic() - begun_s
        spared = [kind for kind in KINDS[:kills] if not disorder.kills[kind]]
        figures.require("each kind was killed", not spared, ", ".join(spared) or "all")
        figures.show("kills", ", ".join(f"{disorder.kills[kind]} × {kind}" for kind in KINDS))
        figures.show("micro-batches repeated after they were done", disorder.repeated)
        figures.show("time", took_s, "s with starts of Spark")
        _judge(figures, regions, rows)
    return figures


def _disturb(
    regions: ProcessCluster,
    driver: Driver,
    disorder: Disorder,
    rows: int,
    kills: int,
    deadline_s: float,
) -> None:
    """Strikes `kills` times while rows are written, and waits until the query has ended."""
    wait_for(lambda: written(regions) > 0 or driver.result() is not None, "the first row", START_S)
    moments = disorder.moments(kills, rows)
    struck = 0
    while driver.result() != 0:
        if time.monotonic() > deadline_s:
            raise ClusterError(f"the query has not ended; {written(regions)} rows are written")
        if driver.result() is not None:
            # Too many failures in a row end a query. Its user starts it again.
            disorder.strike("driver")
        if struck < kills and written(regions) >= moments[struck]:
            struck += disorder.strike(KINDS[struck % len(KINDS)])
        time.sleep(0.05)


def _judge(figures: Figures, regions: ProcessCluster, rows: int) -> None:
    """Requires equal regions with each number once."""
    require_agreement(figures, regions)
    for name, region in regions.regions.items():
        found = Counter(int(fields[1]) for _, fields in entries_of(region, KEY))
        twice = sum(1 for count in found.values() if count > 1)
        missing = len(set(range(rows)) - set(found))
        figures.show(f"{name}: conflicts", int(region.info()["crdt_idmp_conflicts"]))
        figures.require(f"{name}: entries", found.total() == rows, found.total())
        figures.require(f"{name}: none twice", twice == 0, twice)
        figures.require(f"{name}: none missing", missing == 0, missing)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.spark_sink", description=__doc__
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch-rows", type=int, default=5_000, help="rows of a micro-batch")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=3000.0, help="seconds for the query")
    given = parser.parse_args(arguments)
    return run(given.rows, given.batch_rows, given.seed, given.kills, given.patience).finish()
