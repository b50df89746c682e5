"""The Spark source while links are cut and healed, and the query is killed and started again.

Clients add numbered entries to one stream in three regions at once. A streaming query reads the
stream into Parquet. At random times the program kills its driver or its Python workers, and starts
the driver again. At the end each entry must have been read once.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

from anabranch.bench.acceptance.spark_cluster import Driver, endpoints, kill
from anabranch.bench.harness import Figures, LinkCuts, require_agreement, start_all, wait_for
from anabranch.cluster.regions import ProcessCluster, RegionProcess

KEY: Final = "numbers"
PIPELINE: Final = 200
# In the order in which they are struck, again and again.
KINDS: Final = ("driver", "python worker")
CUT_S: Final = (2.0, 8.0)


class Load:
    """Clients that add each number of a range once, spread evenly over `seconds`."""

    def __init__(self, cluster: ProcessCluster, entries: int, seconds: float) -> None:
        self.written = 0
        self._error: Exception | None = None
        self._lock = threading.Lock()
        share = -(-entries // len(cluster.regions))
        self._threads = [
            threading.Thread(
                target=self._add,
                args=(region, range(n * share, min((n + 1) * share, entries)), seconds),
                daemon=True,
            )
            for n, region in enumerate(cluster.regions.values())
        ]

    def start(self) -> None:
        """Starts the clients."""
        for thread in self._threads:
            thread.start()

    def is_done(self) -> bool:
        """Whether all numbers are added. Raises the error of a client that failed."""
        if self._error is not None:
            raise self._error
        return not any(thread.is_alive() for thread in self._threads)

    def _add(self, region: RegionProcess, numbers: range, seconds: float) -> None:
        try:
            begun_s = time.monotonic()
            with region.connect(120.0) as client:
                for first in range(0, len(numbers), PIPELINE):
                    some = numbers[first : first + PIPELINE]
                    client.ask_all([("XADD", KEY, "*", "n", number) for number in some])
                    with self._lock:
                        self.written += len(some)
                    due_s = begun_s + seconds * (first + len(some)) / len(numbers)
                    time.sleep(max(0.0, due_s - time.monotonic()))
        except Exception as error:
            self._error = error


def strike(driver: Driver, kind: str, chance: random.Random) -> bool:
    """Kills the driver and starts it again, or kills a Python worker; whether one was running."""
    if kind == KINDS[0]:
        driver.kill()
        driver.start()
        return True
    workers = driver.python_workers()
    if not workers:
        return False
    kill(chance.choice(workers))
    return True


def run(entries: int, seconds: float, kills: int, seed: int, patience_s: float) -> Figures:
    """Adds and reads `entries` entries, with `kills` kills; requires each once."""
    figures = Figures(f"{entries:,} entries through the Spark source, {kills} kills (seed {seed})")
    chance = random.Random(seed)
    begun_s = time.monotonic()
    killed: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="anabranch-spark-") as folder,
        ProcessCluster() as regions,
    ):
        directory = Path(folder)
        start_all(figures, regions)
        next(iter(regions.regions.values())).ask("XADD", KEY, "*", "n", "first")
        regions.level(120.0)
        given = {
            "options": json.dumps({"endpoints": endpoints(regions), "streams": KEY}),
            "checkpoint": str(directory / "checkpoint"),
            "rows": str(directory / "rows"),
            "end": str(directory / "end"),
            "result": str(directory / "result.json"),
        }
        driver = Driver("stream", given, directory / "driver.log")
        load = Load(regions, entries, seconds)
        with driver.running():
            with LinkCuts(regions, seed, CUT_S) as chaos:
                load.start()
                _disturb(driver, load, killed, entries, kills, chance)
            figures.show("entries added", load.written, f"in {time.monotonic() - begun_s:.1f} s")
            figures.show("links cut", chaos.cuts)
            figures.show("kills", ", ".join(f"{n} × {kind}" for kind, n in killed.items()))
            require_agreement(figures, regions)
            Path(given["end"]).touch()
            wait_for(lambda: _has_ended(driver), "the end of the query", patience_s)
        figures.show("time", time.monotonic() - begun_s, "s with starts of Spark")
        found = json.loads(Path(given["result"]).read_text())
        for name, count in found.items():
            figures.require(f"{name} read", count == entries + 1, count)
    return figures


def _disturb(
    driver: Driver,
    load: Load,
    killed: Counter[str],
    entries: int,
    kills: int,
    chance: random.Random,
) -> None:
    """Strikes `kills` times while entries are added."""
    moments = sorted(chance.sample(range(1, entries), kills))
    while not load.is_done() or killed.total() < kills:
        done = killed.total()
        if driver.result() is not None:
            # Too many failures of its tasks end a query. Its user starts it again.
            driver.start()
        if done < kills and load.written >= moments[done]:
            kind = KINDS[done % len(KINDS)]
            killed[kind] += strike(driver, kind, chance)
        time.sleep(0.05)


def _has_ended(driver: Driver) -> bool:
    """Whether the query has read everything; starts it again if it failed."""
    result = driver.result()
    if result not in (None, 0):
        driver.start()
    return result == 0


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.spark_stream", description=__doc__
    )
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=240.0, help="how long entries are added")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=1200.0, help="seconds for the last rows")
    given = parser.parse_args(arguments)
    return run(given.entries, given.seconds, given.kills, given.seed, given.patience).finish()
