"""Where a region spends CPU in a row of the table: the hottest functions, by perf.

It runs the workload of one row that compares rates, and samples the region. The names of compiled
functions begin with CPyDef; those of libpython and of the kernel are as they are there. Before the
functions come the threads that worked most: mostly the first one executes commands, and the second
one is that of SQLite. How often a thread waited tells of hand-overs between them. For rows under
`always` it says how long this disk takes to write a page of SQLite's log, and to sync it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple, Optional

from anabranch.bench.acceptance.harness import cpu_times
from anabranch.bench.performance import say
from anabranch.bench.table.client import Traffic, benchmark, drive
from anabranch.bench.table.rates import ALWAYS
from anabranch.bench.table.servers import RegionServer, names_of
from anabranch.bench.table.workloads import Workload, workloads
from anabranch.sim.scenario.cluster import ClusterError
from anabranch.sim.scenario.processes import ProcessCluster

# Programs that must be installed, and their Debian packages.
PROGRAMS = {"perf": "linux-perf", "redis-benchmark": "redis-tools"}
SAMPLES_A_SECOND: Final = 999
_THREADS_SHOWN: Final = 3
_PAGE_BYTES: Final = 4096
_SYNCS: Final = 200


class Thread(NamedTuple):
    """CPU seconds of a thread, in user mode and in the kernel, and how often it waited."""

    user_s: float
    kernel_s: float
    waits: int


def threads(process_id: int) -> dict[int, Thread]:
    """The threads of a process by their ids."""
    found: dict[int, Thread] = {}
    for folder in Path(f"/proc/{process_id}/task").iterdir():
        (waits,) = (
            int(line.split()[1])
            for line in (folder / "status").read_text().splitlines()
            if line.startswith("voluntary_ctxt_switches")
        )
        user_s, kernel_s = cpu_times(folder)[:2]
        found[int(folder.name)] = Thread(user_s, kernel_s, waits)
    return found


def busiest(
    before: dict[int, Thread], after: dict[int, Thread], commands: int, took_s: float
) -> list[str]:
    """Lines about the threads that used most CPU between two looks, those of all first."""
    used = [
        (one.user_s - was.user_s, one.kernel_s - was.kernel_s, one.waits - was.waits)
        for number, one in after.items()
        for was in [before.get(number, Thread(0.0, 0.0, 0))]
    ]
    used.sort(key=lambda one: one[0] + one[1], reverse=True)
    return [
        f"thread {place}: {user_s / commands * 1e6:.2f} us in user mode and"
        f" {kernel_s / commands * 1e6:.2f} us in the kernel per command;"
        f" it waited {waits / took_s:,.0f} times a second"
        for place, (user_s, kernel_s, waits) in enumerate(used[:_THREADS_SHOWN], 1)
    ]


def sync_us(folder: Path) -> float:
    """Microseconds in which this disk writes a page at the end of a file, and syncs it."""
    taken: list[float] = []
    with (folder / "synced").open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            begun = time.perf_counter()
            file.write(bytes(_PAGE_BYTES))
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - begun) * 1e6)
    return median(taken)


@contextlib.contextmanager
def _running(fsync: str, peers: int) -> Iterator[RegionServer]:
    """A region that runs, and its peers."""
    with ProcessCluster(names_of(1 + peers), flags={"appendfsync": fsync}) as cluster:
        cluster.start_all()
        yield RegionServer(cluster=cluster)


def _sampled(region: RegionServer, workload: Workload, traffic: Traffic, file: Path) -> float:
    """Runs the workload once, and samples the region meanwhile; returns the seconds it took."""
    line = ["perf", "record", "-q", "-F", str(SAMPLES_A_SECOND), "-o", str(file)]
    sampler = subprocess.Popen([*line, "-p", str(region.process_id)])
    time.sleep(0.3)
    try:
        if workload.argv:
            took = benchmark(region.port, traffic.clients, workload.batches, workload.argv)
        else:
            took = drive(region.port, traffic, workload.batches)
    finally:
        sampler.terminate()
        sampler.wait()
    return took.seconds


def report(file: Path, by: str, lines: int) -> str:
    """The shares of CPU by "symbol" (with the library) or by "dso", the largest first."""
    sort = "dso,symbol" if by == "symbol" else by
    line = ["perf", "report", "-i", str(file), "--stdio", "--no-children", "-q"]
    done = subprocess.run(
        [*line, "--sort", sort, "--percent-limit", "0.3"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"perf report failed: {done.stderr[-300:]}")
    found = [text.rstrip() for text in done.stdout.splitlines() if text.strip()]
    return "\n".join(found[:lines])


def main(arguments: Optional[list[str]] = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="anabranch bench profile_row", description=__doc__)
    parser.add_argument("row", help="a row that compares rates; `anabranch bench --list` shows all")
    parser.add_argument("--peers", type=int, default=0, help="regions beside the sampled one")
    parser.add_argument("--lines", type=int, default=40, help="of the report")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies entries and commands")
    given = parser.parse_args(arguments)
    workload = workloads(given.scale).get(given.row)
    if workload is None:
        parser.error(f"no row {given.row!r} compares rates")
    fsync = "always" if given.row.startswith(ALWAYS) else "everysec"
    traffic = workload.traffic()
    with _running(fsync, given.peers) as region, tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "perf.data")
        commands = workload.batches * traffic.commands
        workload.prepare(region)
        region.await_quiet()
        before, before_s = threads(region.process_id), region.cpu_s()
        took_s = _sampled(region, workload, traffic, file)
        say(f"{commands:,} commands in {took_s:.2f} s ({region.cpu_s() - before_s:.2f} s of CPU)")
        for line in busiest(before, threads(region.process_id), commands, took_s):
            say(line)
        if fsync == "always":
            say(f"a page is written and synced in {sync_us(Path(folder)):.0f} us")
        for by in ("dso", "symbol"):
            say(report(file, by, given.lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
