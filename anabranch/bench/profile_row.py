"""Where a region spends CPU in a row of the table: the hottest functions, by perf.

It runs the workload of one row that compares rates, or of a row of growth, and samples the region.
`growth.keys.1` is the smallest size of `growth.keys.10` and of `growth.keys.100`. Each round begins
when the region is quiet, and only rounds are sampled. The names of compiled functions begin with
CPyDef; those of libpython and of the kernel are as they are there. Before the functions come the
threads that worked most: mostly the first one executes commands, and the second one is that of
SQLite. How often a thread waited tells of hand-overs between them. For rows under `always` it says
how long this disk takes to write a page of SQLite's log, and to sync it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple, Optional

from anabranch.bench.harness import cpu_times
from anabranch.bench.performance import say
from anabranch.bench.table.client import benchmark, drive
from anabranch.bench.table.growth import DIMENSIONS, TIMES
from anabranch.bench.table.growth import workload as growth_workload
from anabranch.bench.table.rates import ALWAYS
from anabranch.bench.table.servers import RegionServer, names_of
from anabranch.bench.table.workloads import Workload, workloads
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.regions import ProcessCluster

# Programs that must be installed, and their Debian packages.
PROGRAMS = {"perf": "linux-perf", "redis-benchmark": "redis-tools"}
SAMPLES_A_SECOND: Final = 999
_THREADS_SHOWN: Final = 3
_PAGE_BYTES: Final = 4096
_SYNCS: Final = 200
_PATIENCE_S: Final = 10
# How the names of the rows begin that compare CPU at growing sizes.
_GROWTH: Final = "growth."


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


def busiest(used: dict[int, Thread], commands: int, took_s: float) -> list[str]:
    """Lines about the threads that used most CPU, those of all first."""
    most = sorted(used.values(), key=lambda one: one.user_s + one.kernel_s, reverse=True)
    return [
        f"thread {place}: {one.user_s / commands * 1e6:.2f} us in user mode and"
        f" {one.kernel_s / commands * 1e6:.2f} us in the kernel per command;"
        f" it waited {one.waits / took_s:,.0f} times a second"
        for place, one in enumerate(most[:_THREADS_SHOWN], 1)
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
    with ProcessCluster(names_of(1 + peers), settings={"appendfsync": fsync}) as cluster:
        cluster.start_all()
        yield RegionServer(cluster=cluster)


class _Sampler:
    """perf, which samples a process while it is told to. `folder`: for its files."""

    def __init__(self, process_id: int, folder: Path) -> None:
        self.file: Final = folder / "perf.data"
        control, answers = folder / "control", folder / "answers"
        os.mkfifo(control)
        os.mkfifo(answers)
        line = ["perf", "record", "-q", "-F", str(SAMPLES_A_SECOND), "-o", str(self.file)]
        line += ["-D", "-1", "--control", f"fifo:{control},{answers}", "-p", str(process_id)]
        self._perf: Final = subprocess.Popen(line)
        self._control: Final = os.open(control, os.O_RDWR)
        self._answers: Final = os.open(answers, os.O_RDWR)

    @contextlib.contextmanager
    def sampling(self) -> Iterator[None]:
        """perf samples meanwhile."""
        self._tell(b"enable\n")
        yield
        self._tell(b"disable\n")

    def _tell(self, line: bytes) -> None:
        os.write(self._control, line)
        if not select.select([self._answers], [], [], _PATIENCE_S)[0]:
            raise ClusterError("perf does not answer")
        os.read(self._answers, 64)

    def end(self) -> None:
        """Ends perf, which then has written its file."""
        self._perf.terminate()
        self._perf.wait()
        os.close(self._control)
        os.close(self._answers)


class _Sums:
    """What all rounds took: commands, seconds, CPU seconds, and those of each thread."""

    def __init__(self) -> None:
        self.commands = 0
        self.seconds = 0.0
        self.cpu_s = 0.0
        self.used: dict[int, Thread] = {}

    def add_threads(self, before: dict[int, Thread], after: dict[int, Thread]) -> None:
        """Adds what the threads used between two looks."""
        none = Thread(0.0, 0.0, 0)
        for number, one in after.items():
            was, so_far = before.get(number, none), self.used.get(number, none)
            self.used[number] = Thread(
                so_far.user_s + one.user_s - was.user_s,
                so_far.kernel_s + one.kernel_s - was.kernel_s,
                so_far.waits + one.waits - was.waits,
            )


def _run(
    region: RegionServer, workload: Workload, grows: bool, rounds: int, sampler: _Sampler
) -> _Sums:
    """Runs the workload so often, and samples the region meanwhile."""
    traffic = workload.traffic()
    sums = _Sums()
    for number in range(rounds):
        # As in the table: data that have grown stay for all rounds.
        if number == 0 or not grows:
            workload.prepare(region)
        region.await_quiet()
        before, before_s = threads(region.process_id), region.cpu_s()
        with sampler.sampling():
            if workload.argv:
                took = benchmark(region.port, traffic.clients, workload.batches, workload.argv)
            else:
                took = drive(region.port, traffic, workload.batches)
        sums.cpu_s += region.cpu_s() - before_s
        sums.add_threads(before, threads(region.process_id))
        sums.seconds += took.seconds
        sums.commands += workload.batches * traffic.commands
    return sums


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
    parser.add_argument(
        "row", help="a row of rates or of growth; `anabranch bench --list` shows all"
    )
    parser.add_argument("--peers", type=int, default=0, help="regions beside the sampled one")
    parser.add_argument("--lines", type=int, default=40, help="of the report")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies entries and commands")
    parser.add_argument("--rounds", type=int, default=1, help="runs of the workload")
    given = parser.parse_args(arguments)
    workload = _workload(given.row, given.scale)
    if workload is None:
        parser.error(f"no row {given.row!r} compares rates or growth")
    fsync = "always" if given.row.startswith(ALWAYS) else "everysec"
    with _running(fsync, given.peers) as region, tempfile.TemporaryDirectory() as folder:
        sampler = _Sampler(region.process_id, Path(folder))
        try:
            grows = given.row.startswith(_GROWTH)
            sums = _run(region, workload, grows, given.rounds, sampler)
        finally:
            sampler.end()
        say(f"{sums.commands:,} commands in {sums.seconds:.2f} s ({sums.cpu_s:.2f} s of CPU)")
        for line in busiest(sums.used, sums.commands, sums.seconds):
            say(line)
        if fsync == "always":
            say(f"a page is written and synced in {sync_us(Path(folder)):.0f} us")
        for by in ("dso", "symbol"):
            say(report(sampler.file, by, given.lines))
    return 0


def _workload(row: str, scale: float) -> Optional[Workload]:
    """The workload of a row, if it is one that can be profiled."""
    grown = {f"{_GROWTH}{name}.{times}": (name, times) for name in DIMENSIONS for times in TIMES}
    if row in grown:
        return growth_workload(*grown[row], scale)
    return workloads(scale).get(row)
