"""XADDs per second of a region that is watched, beside a region that nobody watches.

Watched: a page of the console follows the stream that is written, and one of its entries is
explained once a second. Both are measured in alternating runs of redis-benchmark, so that other
work on the machine affects both; each run begins with an empty stream. A ratio is the watched rate
divided by the other rate of the same turn.

No setting turns the index of the log by key off. To have its cost in the ratios, install a build
without it elsewhere (`no_key_index.patch` takes it out), and name its Python with `--without`. The
regions that nobody watches then run that build.
"""

from __future__ import annotations

import argparse
import http.client
import re
import socket
import sys
import threading
from statistics import median
from urllib.parse import urlencode

from anabranch.bench.acceptance.console import CONSOLE_PORT, console
from anabranch.bench.acceptance.harness import Figures, await_saved, redis_benchmark, show_build
from anabranch.sim.scenario.cluster import ClusterError
from anabranch.sim.scenario.processes import HOST, ProcessCluster, RegionProcess

PROGRAMS = {"redis-benchmark": "redis-tools"}
KEY = "s"
VALUE = "0123456789abcdef"
RATIO_LEAST = 0.97
# (clients, commands in flight per client, requests of one run)
SHAPES = ((50, 1, 150_000), (50, 16, 1_000_000))
EXPLAIN_PAUSE_S = 1.0
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
        self._token = ""
        page = self._connect()
        found = re.search('name="token" content="([^"]+)"', self._get(page, "/").decode())
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

    def _get(self, door: http.client.HTTPConnection, path: str, **parameters: str) -> bytes:
        answer = self._answer(door, path, **parameters)
        return answer.read()

    def _answer(
        self, door: http.client.HTTPConnection, path: str, **parameters: str
    ) -> http.client.HTTPResponse:
        headers = {"x-anabranch-token": self._token}
        door.request("GET", f"{path}?{urlencode(parameters)}", headers=headers)
        answer = door.getresponse()
        if answer.status != 200:
            raise ClusterError(f"the console answers {path} with {answer.status}")
        return answer

    def _follow(self) -> None:
        answer = self._answer(self._live, "/api/live", key=KEY)
        while line := answer.readline():
            self.events += line.startswith(b"event: stream")

    def _explain(self) -> None:
        door = self._connect()
        while not self._stop.wait(self._explain_s):
            with self._region.wire() as wire:
                newest = wire.call("XREVRANGE", KEY, "+", "-", "COUNT", 1)
            if newest == []:
                continue
            assert isinstance(newest, list) and isinstance(newest[0], list)
            entry_id = newest[0][0]
            assert isinstance(entry_id, bytes)
            name = self._region.name
            self._get(door, "/api/explain", region=name, key=KEY, id=entry_id.decode())
            self.explained += 1
        door.close()


def compare(
    figures: Figures,
    rounds: int,
    scale: float,
    regions: int,
    other: str,
    least: float | None,
    explain_s: float = EXPLAIN_PAUSE_S,
) -> None:
    """Measures rates in alternating runs of each shape. `least`: None requires no ratio."""
    with BuildCluster(regions) as watched, BuildCluster(regions, other) as plain:
        _start(watched)
        show_build(figures, watched["us"])
        if other:
            _start(plain)
            figures.show("not watched", f"regions of {other}")
        with console(watched):
            for clients, pipeline, requests in SHAPES:
                _compare_shape(
                    figures,
                    watched["us"],
                    (plain if other else watched)["us"],
                    (clients, pipeline, max(100, int(requests * scale))),
                    rounds,
                    least,
                    explain_s,
                )


def _start(cluster: ProcessCluster) -> None:
    """Starts all regions. A region without peers has nobody to be level with."""
    if len(cluster.regions) == 1:
        cluster.start(_NAMES[0])
    else:
        cluster.start_all()


def _compare_shape(
    figures: Figures,
    watched: RegionProcess,
    plain: RegionProcess,
    shape: tuple[int, int, int],
    rounds: int,
    least: float | None,
    explain_s: float,
) -> None:
    rates: dict[bool, list[float]] = {True: [], False: []}
    events = explained = 0
    for turn in range(rounds):
        for is_watched in (True, False) if turn % 2 == 0 else (False, True):
            region = watched if is_watched else plain
            _empty(watched)
            _empty(plain)
            if is_watched:
                with Watching(region, explain_s) as watching:
                    rates[True].append(_rate(region, *shape))
                events += watching.events
                explained += watching.explained
            else:
                rates[False].append(_rate(region, *shape))
    ratios = [one / two for one, two in zip(rates[True], rates[False], strict=True)]
    name = f"-c {shape[0]} -P {shape[1]}"
    figures.show(f"{name}: watched", _spread(rates[True], ",.0f"), "XADD/s")
    figures.show(f"{name}: not watched", _spread(rates[False], ",.0f"), "XADD/s")
    figures.show(f"{name}: ratios", _spread(ratios, ".3f"))
    figures.show(f"{name}: states shown, entries explained", f"{events:,}, {explained:,}")
    figures.require(f"{name}: the page followed the stream", events > 0, events)
    if least is not None:
        found = sum(rates[True]) / sum(rates[False])
        figures.require(f"{name}: ratio of the means at least {least}", found >= least, found)


def _rate(region: RegionProcess, clients: int, pipeline: int, requests: int) -> float:
    """XADDs per second, as redis-benchmark measures them."""
    process = redis_benchmark(region, requests, clients, pipeline, "XADD", KEY, "*", "f", VALUE)
    output = process.communicate()[0].decode(errors="replace")
    found = re.findall(r"([0-9.]+) requests per second", output)
    if process.returncode != 0 or not found or "rror from server" in output:
        raise ClusterError(f"redis-benchmark failed: {output[-500:]}")
    return float(found[-1])


def _spread(values: list[float], form: str) -> str:
    """The lowest value, the median and the highest one, in this form."""
    low, middle, high = min(values), median(values), max(values)
    return f"{low:{form}} / {middle:{form}} / {high:{form}} (min / median / max)"


def _empty(region: RegionProcess) -> None:
    """Removes the stream, and waits for the checkpoint, which would disturb the next run."""
    with region.wire() as wire:
        wire.call("DEL", KEY)
    await_saved(region)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.watched_rate", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=10, help="turns of each shape")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the requests of a run")
    parser.add_argument("--regions", type=int, default=1, choices=(1, 2, 3))
    parser.add_argument(
        "--explain-s", type=float, default=EXPLAIN_PAUSE_S, help="seconds between explanations"
    )
    parser.add_argument("--without", default="", metavar="PYTHON", help="of the other build")
    given = parser.parse_args(arguments)
    figures = Figures("XADDs per second, watched and not")
    compare(
        figures,
        given.rounds,
        given.scale,
        given.regions,
        given.without,
        RATIO_LEAST,
        given.explain_s,
    )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
