"""Shared parts of benchmarks and acceptance programs: figures, checks of a cluster, cuts."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.ports import HOST
from anabranch.cluster.processes import wait_until
from anabranch.cluster.regions import ProcessCluster, RegionProcess

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
# CPU times in the part of a stat after the name: of the process or thread and of ended children.
_TIMES = slice(11, 15)

PAGE_ENTRIES = 1000
AGREEMENT_PATIENCE_S = 300.0
WAIT_PATIENCE_S = 120.0
_UNCUT_S_MAX = 2.0
ALARM_WORDS = ("divergence", "fork")
"""INFO fields whose names contain one of these words count events that must never happen."""

Entry = tuple[bytes, list[bytes]]
"""An entry as XRANGE returns it: ID, and the flat list of fields and values."""


class Figures:
    """Prints figures as they come, and collects the requirements that are not met."""

    def __init__(self, title: str) -> None:
        self.failures: list[str] = []
        self._begun = time.monotonic()
        self._print(f"== {title}")

    def show(self, name: str, value: object, unit: str = "") -> None:
        """Prints a figure without a requirement."""
        self._print(f"   {name}: {_figure(value)} {unit}".rstrip())

    def require(self, name: str, met: bool, detail: object = "") -> bool:
        """Prints whether a requirement is met, with the value found; returns `met`."""
        if not met:
            self.failures.append(f"{name}: {_figure(detail)}")
        self._print(
            f"   {'ok    ' if met else 'FAILED'} {name}"
            f"{f': {_figure(detail)}' if detail != '' else ''}"
        )
        return met

    def at_most(self, name: str, value: float, limit: float | None, unit: str) -> None:
        """A figure with an upper limit; None: no limit, as in tests, which measure no times."""
        if limit is None:
            self.show(name, value, unit)
        else:
            self.require(
                f"{name} at most {_figure(limit)} {unit}",
                value <= limit,
                f"{_figure(value)} {unit}",
            )

    def finish(self) -> int:
        """Prints the last line; returns the exit status."""
        took_s = time.monotonic() - self._begun
        self._print(
            f"== {'FAILED: ' + '; '.join(self.failures) if self.failures else 'all met'}"
            f" ({took_s:.1f} s)"
        )
        return 1 if self.failures else 0

    def _print(self, line: str) -> None:
        print(line, flush=True)


def _figure(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def percentile(values: Sequence[float], part: float) -> float:
    """The value that the share `part` (0..1) of `values` does not exceed; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def wait_for(condition: Callable[[], bool], what: str, patience_s: float = WAIT_PATIENCE_S) -> None:
    """Waits until `condition` holds; ClusterError after `patience_s`."""
    if not wait_until(condition, patience_s, 0.01):
        raise ClusterError(f"{what} did not come within {patience_s} s")


def await_saved(region: RegionProcess) -> None:
    """Waits until the checkpoint is complete (``rdb_changes_since_last_save`` is 0)."""
    wait_for(
        lambda: region.info().get("rdb_changes_since_last_save", "0").strip() == "0",
        "a complete checkpoint",
    )


def show_build(figures: Figures, region: RegionProcess) -> None:
    """Shows which build the regions run: compiled or interpreted."""
    figures.show("build", region.info().get("anabranch_build", "unknown"))


def start_all(figures: Figures, cluster: ProcessCluster) -> None:
    """Starts all regions, and shows their build."""
    cluster.start_all()
    show_build(figures, next(iter(cluster.regions.values())))


def processor_wait_s(process_id: int) -> float:
    """Seconds in which threads of a process could run, and waited for a processor."""
    waited = 0
    for folder in Path(f"/proc/{process_id}/task").iterdir():
        # A thread can end while they are listed.
        with contextlib.suppress(OSError):
            waited += int((folder / "schedstat").read_text().split()[1])
    return waited / 1e9


def cpu_times(folder: Path) -> list[float]:
    """CPU seconds of the process or thread to which a folder below /proc belongs, by 10 ms.

    They are those in user mode and in the kernel, and then those of its ended children.
    """
    fields = (folder / "stat").read_text().rpartition(") ")[2].split()
    return [int(field) / _TICKS_A_SECOND for field in fields[_TIMES]]


def resident_bytes(process_id: int) -> int:
    """``VmRSS`` of a process, in bytes."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise ClusterError(f"no VmRSS of process {process_id}")


def entries_of(region: RegionProcess, key: str) -> Iterator[Entry]:
    """Yields all entries of a stream, read in pages."""
    start = "-"
    with region.connect(120.0) as client:
        while page := client.ask("XRANGE", key, start, "+", "COUNT", PAGE_ENTRIES):
            yield from page
            start = "(" + page[-1][0].decode()


def require_agreement(figures: Figures, cluster: ProcessCluster) -> None:
    """Waits until all regions are level; requires equal digests and no alarm."""
    begun = time.monotonic()
    vector = cluster.level(AGREEMENT_PATIENCE_S)
    figures.show("level after", time.monotonic() - begun, "s")
    digests = {name: region.digest() for name, region in cluster.regions.items()}
    figures.require(
        "equal digests",
        len(set(digests.values())) == 1,
        next(iter(digests.values())) if len(set(digests.values())) == 1 else digests,
    )
    figures.show("effects", sum(vector.values()))
    require_no_alarm(figures, cluster)


def require_no_alarm(figures: Figures, cluster: ProcessCluster) -> None:
    """Requires that no region counts a divergence or a fork, and that no link is forked."""
    raised = {}
    seen = 0
    for name, region in cluster.regions.items():
        for field, value in region.info().items():
            if any(word in field for word in ALARM_WORDS):
                seen += 1
                if value.strip() not in ("0", "", "no"):
                    raised[f"{name} {field}"] = value
        if "forked" in repr(region.ask("CRDT.PEERS")):
            raised[f"{name} link"] = "forked"
    figures.require("divergence and chain alarms are in INFO", seen > 0, f"{seen} fields")
    figures.require("no divergence or chain alarm", not raised, raised or 0)


class LinkCuts:
    """Cuts and heals links at random while it is entered, in one direction or both.

    Each cut lasts a random time within `cut_s`. All links are healed on leaving.
    """

    def __init__(self, cluster: ProcessCluster, seed: int, cut_s: tuple[float, float]) -> None:
        self.cuts = 0
        self._cluster = cluster
        self._random = random.Random(seed)
        self._cut_s = cut_s
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(1, "link cuts")

    def __enter__(self) -> LinkCuts:
        self._work = self._threads.submit(self._cut_and_heal)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._threads.shutdown()
        for one in self._cluster.running():
            for peer in self._cluster.regions:
                if peer != one.name:
                    _link(self._cluster, one.name, peer, "UP")
        self._work.result()

    def _cut_and_heal(self) -> None:
        while not self._stop.wait(self._random.uniform(0.05, _UNCUT_S_MAX)):
            receiver, sender = self._random.sample(sorted(self._cluster.regions), 2)
            links = (
                [(receiver, sender)]
                if self._random.random() < 0.3
                else [(receiver, sender), (sender, receiver)]
            )
            if self._random.random() < 0.2:
                links = [
                    (a, b) for a in self._cluster.regions for b in self._cluster.regions if a != b
                ]
            self.cuts += sum(_link(self._cluster, a, b, "DOWN") for a, b in links)
            self._stop.wait(self._random.uniform(*self._cut_s))
            for a, b in links:
                _link(self._cluster, a, b, "UP")


def _link(cluster: ProcessCluster, receiver: str, sender: str, action: str) -> bool:
    """Tells a region to cut or open a link; False if it does not answer because it is dead."""
    try:
        cluster.link(receiver, sender, action)
    except ConnectionFailed:
        return False
    return True


def benchmark_command(port: int, requests: int, clients: int, pipeline: int) -> list[str]:
    """The beginning of a command line of redis-benchmark; ClusterError if it is not installed."""
    program = shutil.which("redis-benchmark")
    if program is None:
        raise ClusterError(
            "redis-benchmark is not installed: it comes with the package redis-tools"
        )
    line = [program, "-h", HOST, "-p", str(port), "-n", str(requests)]
    return [*line, "-c", str(clients), "-P", str(pipeline)]
