"""The start of a region with a large database, and the cost of its checks for damage.

A start checks the structure of the whole file (`PRAGMA integrity_check`), reads every row of the
checkpoint, and compares each with its checksum. The program fills a region, stops it, and measures
its start until it answers PING. Then it repeats the checks alone on the same files, which are in
the cache of the system by then.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from anabranch.bench.acceptance.harness import Figures, show_build
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.regions import ProcessCluster, RegionProcess
from anabranch.region.live.data_files import read_only_uri
from anabranch.region.live.database import FILE_NAME
from anabranch.region.storage import sums

US = "us"
BATCH = 500
ENTRY_BYTES = 2000
PATIENCE_S = 600.0
# The flags of a region that commits rarely, so that the filling is quick.
FLAGS = {"appendfsync": "no", "crdt-start-patience-ms": "0"}


def fill(region: RegionProcess, megabytes: int, streams: int) -> int:
    """Adds entries of `ENTRY_BYTES` bytes to all streams in turn; returns how many."""
    count = megabytes * 1_000_000 // ENTRY_BYTES
    value = b"x" * ENTRY_BYTES
    with region.connect(PATIENCE_S) as client:
        for first in range(0, count, BATCH):
            batch = range(first, min(first + BATCH, count))
            # A stream gets its entries in runs, as from a producer that sends batches.
            keys = [f"stream:{number // 10 % streams}" for number in batch]
            client.ask_all([("XADD", key, "*", "f", value) for key in keys])
    return count


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def start(cluster: ProcessCluster) -> None:
    """Starts the region, and waits until it answers PING; ClusterError if it ends."""
    region = cluster.start(US, wait=False)
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            with region.connect(PATIENCE_S) as client:
                client.call("PING")
            return
        except (OSError, ConnectionFailed):
            if not region.running or time.monotonic() > give_up:
                raise ClusterError(f"us does not answer:\n{region.log_tail()}") from None
            time.sleep(0.02)


def stop(region: RegionProcess) -> None:
    """Stops the region; subprocess.TimeoutExpired if that takes too long."""
    region.started().terminate()
    region.started().wait(PATIENCE_S)


class Checks:
    """The checks of a start, one by one, on the database of a stopped region."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rows: list[tuple[int, int, int, int, bytes]] = []

    def _query(self, sql: str) -> Iterator[Any]:
        with closing(sqlite3.connect(read_only_uri(self._file), uri=True)) as database:
            yield from database.execute(sql)

    def structure(self) -> None:
        """The trees of the file."""
        if list(self._query("PRAGMA integrity_check(3)")) != [("ok",)]:
            raise ClusterError(f"{self._file} is damaged")

    def read(self) -> None:
        """Reads all nodes, nearly all of the checkpoint."""
        self._rows = list(self._query("SELECT number, region, node, cut, body FROM node"))

    def checksums(self) -> None:
        """The checksums of the nodes that were read."""
        for row in self._rows:
            sums.of_node(*row)


def measure(megabytes: int, streams: int) -> Figures:
    """Runs the program."""
    figures = Figures(f"the start of {megabytes:,} MB in {streams:,} streams")
    with ProcessCluster([US], settings=FLAGS) as cluster:
        region = cluster.start(US)
        show_build(figures, region)
        filled_s = time.monotonic()
        figures.show("entries", fill(region, megabytes, streams))
        figures.show("filled in", time.monotonic() - filled_s, "s")
        digest = region.digest()
        stop(region)
        file = region.data / FILE_NAME
        figures.show("database", file.stat().st_size)
        for number in (1, 2):
            start_s = seconds(lambda: start(cluster))
            figures.show(f"start {number}, until PING is answered", start_s, "s")
            figures.require("the same state", region.digest() == digest)
            stop(region)
        checks = Checks(file)
        structure_s = seconds(checks.structure)
        figures.show("structure (integrity_check)", structure_s, "s")
        figures.show("of a start", 100 * structure_s / start_s, "%")
        figures.show("reading the nodes", seconds(checks.read), "s")
        checksums_s = seconds(checks.checksums)
        figures.show("their checksums", checksums_s, "s")
        figures.show("of a start", 100 * checksums_s / start_s, "%")
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.large_start", description=__doc__
    )
    parser.add_argument("--megabytes", type=int, default=250, help="of values")
    parser.add_argument("--streams", type=int, default=10_000)
    given = parser.parse_args(arguments)
    return measure(given.megabytes, given.streams).finish()


if __name__ == "__main__":
    sys.exit(main())
