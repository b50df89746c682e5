"""How far the stable time lies behind the clock with healthy links, and what an idle region
writes for it.

Three regions run on one machine and read one clock. Each is asked for its stable time in turn:
while nothing is written, and under adds in one region. Before that, nobody asks and nothing is
written, and the commits of all regions are counted; then they are counted while one client asks.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
import urllib.request

from anabranch.bench.harness import Figures, percentile, start_all, wait_for
from anabranch.bench.table.delay import paced_load
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, RegionProcess

# Two heartbeats.
LIMIT_MS = 400.0
PAUSE_S = 0.037
_COMMITS = 'anabranch_disk_transaction_seconds_count{kind="commit"} '


def measure(probes: int, load_per_s: int, idle_s: float, limit_ms: float | None) -> Figures:
    """Runs all measurements on a new cluster. A limit of None: no requirement."""
    figures = Figures(f"stable time: idle, and under {load_per_s:,} adds a second")
    with ProcessCluster() as cluster:
        start_all(figures, cluster)
        regions = list(cluster.regions.values())
        unasked = commits_per_s(regions, idle_s)
        figures.show("commits a second of an idle region, nobody asks", unasked)
        wait_for(lambda: all(behind_ms(one) is not None for one in regions), "a stable time")
        probe(regions, 10)
        idle = probe(regions, probes)
        asked = commits_per_s(regions, idle_s, asked=regions[0])
        figures.show("commits a second of an idle region, one client asks", asked)
        _show(figures, "idle", idle, limit_ms)
        load = multiprocessing.get_context("fork").Process(
            target=paced_load,
            args=(regions[0].resp_port, load_per_s, 1.0 + probes * PAUSE_S, limit_ms is not None),
            daemon=True,
        )
        load.start()
        time.sleep(1.0)
        _show(figures, "loaded", probe(regions, probes), limit_ms)
        load.join()
        figures.require("the load ran", load.exitcode == 0, load.exitcode)
    return figures


def _show(figures: Figures, name: str, found: list[float], limit_ms: float | None) -> None:
    figures.show(f"{name} answers", len(found))
    figures.show(f"{name} 99 %", percentile(found, 0.99), "ms")
    figures.at_most(f"{name} median", statistics.median(found), limit_ms, "ms")


def behind_ms(region: RegionProcess) -> float | None:
    """How far the stable time of a region lies behind now; None if there is none."""
    stable_ms = region.ask("CRDT.STABLE")
    return None if stable_ms is None else time.time() * 1000 - stable_ms


def probe(regions: list[RegionProcess], probes: int) -> list[float]:
    """The distances of `probes` answers, of one region after the other."""
    found: list[float] = []
    for number in range(probes):
        time.sleep(PAUSE_S)
        distance = behind_ms(regions[number % len(regions)])
        if distance is not None:
            found.append(distance)
    return found


def commits_per_s(
    regions: list[RegionProcess], seconds: float, asked: RegionProcess | None = None
) -> float:
    """Commits a second of a region, on average, while `asked` is asked for its stable time."""
    before, begun = sum(map(_commits, regions)), time.monotonic()
    while time.monotonic() - begun < seconds:
        if asked is not None:
            behind_ms(asked)
        time.sleep(0.5)
    taken_s = time.monotonic() - begun
    return (sum(map(_commits, regions)) - before) / taken_s / len(regions)


def _commits(region: RegionProcess) -> int:
    with urllib.request.urlopen(f"http://{HOST}:{region.http_port}/metrics", timeout=30) as page:
        lines = page.read().decode().splitlines()
    return int(float(next(line for line in lines if line.startswith(_COMMITS)).split()[-1]))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.stable_delay", description=__doc__
    )
    parser.add_argument("--probes", type=int, default=600)
    parser.add_argument("--load", type=int, default=500, help="adds a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long commits are counted")
    given = parser.parse_args(arguments)
    return measure(given.probes, given.load, given.seconds, LIMIT_MS).finish()
