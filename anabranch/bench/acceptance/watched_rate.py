"""XADDs per second of a region that is watched, beside a region that nobody watches.

Watched: a page of the console follows the stream that is written, and one of its entries is
explained once a second. One run of redis-benchmark is measured in slices of two seconds, watched
and not; it pauses between them. Slices side by side form a pair, in turning order. Other work on
the machine lasts longer than a slice, so it affects both, and many pairs even out the rest. A ratio
is the watched rate divided by the other rate of the pair. How long threads of the region waited for
a processor varies less than rates do: it shows what other processes take from the region. Each run
begins with new processes and an empty stream: two regions of one build can differ by some per cent
for as long as they run. So the standard error is that of the means of the runs.

No setting turns the index of the log by key off. To have its cost in the ratios, install a build
without it elsewhere (`no_key_index.patch` takes it out), and name its Python with `--without`. The
regions that nobody watches then run that build.
"""

from __future__ import annotations

import argparse
import http.client
import math
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from statistics import geometric_mean, mean, median, stdev
from typing import NamedTuple
from urllib.parse import urlencode

from anabranch.bench.acceptance.console import CONSOLE_PORT, TOKEN, console
from anabranch.bench.harness import (
    Figures,
    await_saved,
    benchmark_command,
    processor_wait_s,
    show_build,
)
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, RegionProcess

PROGRAMS = {"redis-benchmark": "redis-tools"}
KEY = "s"
VALUE = "0123456789abcdef"
RATIO_LEAST = 0.97
# (clients, commands in flight per client)
SHAPES = ((50, 1), (50, 16))
EXPLAIN_PAUSE_S = 1.0
PAIRS_PER_RUN = 4
# After a load goes on, and a page has opened, this passes before a slice begins.
_SETTLE_S = 0.5
_SLICE_S = 2.0
# More requests than a run can send.
_NO_END = 1_000_000_000
_NAMES = ("us", "eu", "ap")
_PATIENCE_S = 60.0


class BuildCluster(ProcessCluster):
    """Regions of the build to which `python` belongs; empty: of the build of this process."""

    def __init__(self, regions: int, python: str = "") -> None:
        super().__init__(_NAMES[:regions])
        self._python = python

    def program(self, name: str) -> tuple[list[str], dict[str, str]]:
        command, environment = super().program(name)
        if not self._python:
            return command, environment
        environment.pop("PYTHONPATH", None)
        return [self._python, *command[1:]], environment


class Watching:
    """A page that follows the stream, and a reader who asks why its newest entry is there.

    `events` counts the states of the stream that the page got, `explained` the answers.
    """

    def __init__(self, region: RegionProcess, explain_s: float) -> None:
        self.events = 0
        self.explained = 0
        self._region = region
        self._explain_s = explain_s
        self._stop = threading.Event()
        self._token = self._cookie = ""
        page = self._connect()
        answer = self._answer(page, "/", token=TOKEN)
        self._cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        found = re.search('name="token" content="([^"]+)"', answer.read().decode())
        page.close()
        assert found is not None, "the page holds no token"
        self._token = found[1]
        self._live = self._connect()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._follow, self._explain)
        ]

    def __enter__(self) -> Watching:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._live.sock is not None:
            self._live.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(_PATIENCE_S)

    @staticmethod
    def _connect() -> http.client.HTTPConnection:
        return http.client.HTTPConnection(HOST, CONSOLE_PORT, timeout=_PATIENCE_S)

    def _get(self, connection: http.client.HTTPConnection, path: str, **parameters: str) -> bytes:
        answer = self._answer(connection, path, **parameters)
        return answer.read()

    def _answer(
        self, connection: http.client.HTTPConnection, path: str, **parameters: str
    ) -> http.client.HTTPResponse:
        headers = {"x-anabranch-token": self._token, "cookie": self._cookie}
        connection.request("GET", f"{path}?{urlencode(parameters)}", headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise ClusterError(f"the console answers {path} with {answer.status}")
        return answer

    def _follow(self) -> None:
        answer = self._answer(self._live, "/api/live", key=KEY)
        while line := answer.readline():
            self.events += line.startswith(b"event: stream")

    def _explain(self) -> None:
        connection = self._connect()
        while not self._stop.wait(self._explain_s):
            newest = self._region.ask("XREVRANGE", KEY, "+", "-", "COUNT", 1)
            if newest:
                entry_id, name = newest[0][0].decode(), self._region.name
                self._get(connection, "/api/explain", region=name, key=KEY, id=entry_id)
                self.explained += 1
        connection.close()


class Load:
    """redis-benchmark that adds to the stream of a region. It pauses until a rate is measured."""

    def __init__(self, region: RegionProcess, clients: int, pipeline: int) -> None:
        self.region = region
        line = benchmark_command(region.resp_port, _NO_END, clients, pipeline)
        self._process = subprocess.Popen(
            [*line, "-q", "XADD", KEY, "*", "f", VALUE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self._process.send_signal(signal.SIGSTOP)

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def rate(self) -> Slice:
        """Goes on for the time of a slice; returns what the region did in it."""
        process_id = self.region.pid()
        with self.region.connect() as client:

            def length() -> int:
                count: int = client.ask("XLEN", KEY)
                return count

            self._process.send_signal(signal.SIGCONT)
            time.sleep(_SETTLE_S)
            waited_s = processor_wait_s(process_id)
            before, began_s = length(), time.perf_counter()
            time.sleep(_SLICE_S)
            added, took_s = length() - before, time.perf_counter() - began_s
            waited_s = processor_wait_s(process_id) - waited_s
            self._process.send_signal(signal.SIGSTOP)
        if added <= 0:
            raise ClusterError(f"redis-benchmark adds nothing to {self.region.name}")
        return Slice(added / took_s, waited_s / took_s * 1000)


class Slice(NamedTuple):
    """XADDs per second, and ms a second in which threads of the region waited for a processor."""

    rate: float
    waited_ms: float


class Pairs:
    """Slices side by side, and what the watched ones showed."""

    def __init__(self) -> None:
        self.watched: list[Slice] = []
        self.plain: list[Slice] = []
        self.events = 0
        self.explained = 0

    def measure(self, watched: Load, plain: Load, watched_first: bool, explain_s: float) -> None:
        """Measures one pair."""
        for is_watched in (watched_first, not watched_first):
            if not is_watched:
                self.plain.append(plain.rate())
                continue
            with Watching(watched.region, explain_s) as watching:
                self.watched.append(watched.rate())
            self.events += watching.events
            self.explained += watching.explained

    def show(self, figures: Figures, name: str, least: float | None) -> None:
        """Shows rates and ratios. `least`: None requires no ratio."""
        ratios = [one.rate / two.rate for one, two in zip(self.watched, self.plain, strict=True)]
        middle = geometric_mean(ratios)
        of_runs = [
            geometric_mean(ratios[start : start + PAIRS_PER_RUN])
            for start in range(0, len(ratios), PAIRS_PER_RUN)
        ]
        error = stdev(of_runs) / math.sqrt(len(of_runs)) if len(of_runs) > 1 else math.nan
        for what, slices in (("watched", self.watched), ("not watched", self.plain)):
            rates, waits = zip(*slices, strict=True)
            figures.show(f"{name}: {what}", _spread(rates, ",.0f"), "XADD/s")
            figures.show(f"{name}: {what}, waits for a processor", f"{mean(waits):.0f} ms/s")
        figures.show(f"{name}: ratios of {len(ratios)} pairs", _spread(ratios, ".3f"))
        figures.show(
            f"{name}: mean of the ratios",
            f"{middle:.3f}, standard error {error:.3f}, of {len(of_runs)} runs",
        )
        shown = f"{self.events:,}, {self.explained:,}"
        figures.show(f"{name}: states shown, entries explained", shown)
        figures.require(f"{name}: the page followed the stream", self.events > 0, self.events)
        if least is not None:
            figures.require(f"{name}: mean of the ratios at least {least}", middle >= least, middle)


def compare(
    figures: Figures,
    runs: int,
    regions: int,
    other: str,
    least: float | None,
    explain_s: float = EXPLAIN_PAUSE_S,
) -> None:
    """Measures pairs of each shape. `least`: None requires no ratio."""
    shapes = {f"-c {clients} -P {pipeline}": (clients, pipeline) for clients, pipeline in SHAPES}
    pairs = {name: Pairs() for name in shapes}
    for number in range(runs):
        with BuildCluster(regions) as watched, BuildCluster(regions, other) as plain:
            _start(watched)
            if number == 0:
                show_build(figures, watched["us"])
                if other:
                    figures.show("not watched", f"regions of {other}")
            if other:
                _start(plain)
            with console(watched):
                for name, (clients, pipeline) in shapes.items():
                    _empty(watched["us"])
                    with Load(watched["us"], clients, pipeline) as load:
                        if other:
                            _empty(plain["us"])
                            with Load(plain["us"], clients, pipeline) as other_load:
                                _measure_run(pairs[name], load, other_load, explain_s)
                        else:
                            _measure_run(pairs[name], load, load, explain_s)
    for name, measured in pairs.items():
        measured.show(figures, name, least)


def _measure_run(pairs: Pairs, watched: Load, plain: Load, explain_s: float) -> None:
    for number in range(PAIRS_PER_RUN):
        pairs.measure(watched, plain, number % 2 == 0, explain_s)


def _start(cluster: ProcessCluster) -> None:
    """Starts all regions. A region without peers has nobody to be level with."""
    if len(cluster.regions) == 1:
        cluster.start(_NAMES[0])
    else:
        cluster.start_all()


def _spread(values: Sequence[float], form: str) -> str:
    """The lowest value, the median and the highest one, in this form."""
    low, middle, high = min(values), median(values), max(values)
    return f"{low:{form}} / {middle:{form}} / {high:{form}} (min / median / max)"


def _empty(region: RegionProcess) -> None:
    """Removes the stream, and waits for the checkpoint, which would disturb the next run."""
    region.ask("DEL", KEY)
    await_saved(region)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.watched_rate", description=__doc__
    )
    parser.add_argument(
        "--runs", type=int, default=8, help=f"runs of each shape, with {PAIRS_PER_RUN} pairs each"
    )
    parser.add_argument("--regions", type=int, default=1, choices=(1, 2, 3))
    parser.add_argument(
        "--explain-s", type=float, default=EXPLAIN_PAUSE_S, help="seconds between explanations"
    )
    parser.add_argument("--without", default="", metavar="PYTHON", help="of the other build")
    given = parser.parse_args(arguments)
    figures = Figures("XADDs per second, watched and not")
    compare(figures, given.runs, given.regions, given.without, RATIO_LEAST, given.explain_s)
    return figures.finish()
