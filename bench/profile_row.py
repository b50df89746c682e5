"""Where a region spends CPU in a row of the table: the hottest functions, by perf.

It runs the workload of one row that compares rates, again and again, and samples the region. The
names of compiled functions begin with CPyDef; those of libpython and of the kernel are as they are
there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, Optional

from anabranch.bench.performance import say
from anabranch.bench.table.client import Traffic, benchmark, drive
from anabranch.bench.table.rates import ALWAYS
from anabranch.bench.table.servers import RegionServer
from anabranch.bench.table.workloads import Workload, workloads
from anabranch.sim.scenario.cluster import ClusterError

# Programs that must be installed, and their Debian packages.
PROGRAMS = {"perf": "linux-perf", "redis-benchmark": "redis-tools"}
SAMPLES_A_SECOND: Final = 999


def _sampled(region: RegionServer, workload: Workload, traffic: Traffic, file: Path) -> float:
    """Runs the workload once, and samples the region meanwhile; returns the seconds it took."""
    workload.prepare(region)
    region.await_quiet()
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
    parser.add_argument("--lines", type=int, default=40, help="of the report")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies entries and commands")
    given = parser.parse_args(arguments)
    workload = workloads(given.scale).get(given.row)
    if workload is None:
        parser.error(f"no row {given.row!r} compares rates")
    fsync = "always" if given.row.startswith(ALWAYS) else "everysec"
    traffic = workload.traffic()
    with RegionServer(fsync) as region, tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "perf.data")
        before = region.cpu_s()
        took_s = _sampled(region, workload, traffic, file)
        commands = workload.batches * traffic.commands
        say(f"{commands:,} commands in {took_s:.2f} s ({region.cpu_s() - before:.2f} s of CPU)")
        for by in ("dso", "symbol"):
            say(report(file, by, given.lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
