"""One region beside redis-server: XADDs per second, bytes per entry, restart after SIGKILL.

Both run on loopback with an append-only log synced every second, and are loaded by redis-benchmark
in turns, so that other work on the machine affects both. A ratio is anabranch's rate divided by
the rate of Redis in the same turn.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from operator import eq
from pathlib import Path
from statistics import median

from anabranch.bench.acceptance.harness import (
    Figures,
    benchmark_command,
    info_of,
    resident_bytes,
    show_build,
    wait_for,
)
from anabranch.sim.scenario.cluster import ClusterError
from anabranch.sim.scenario.processes import HOST, ProcessCluster, RegionProcess, free_ports
from anabranch.sim.scenario.wire import Wire, WireError

# Programs that must be installed, and their Debian packages.
PROGRAMS = {"redis-server": "redis-server", "redis-benchmark": "redis-tools"}
KEY = "s"
VALUE = "0123456789abcdef"
# (clients, commands in flight per client, requests of one run)
SHAPES = ((1, 1, 40_000), (50, 1, 150_000), (50, 16, 800_000))
RESTARTS = 3
PATIENCE_S = 120.0


class RedisServer:
    """A redis-server with the durability of ``appendfsync everysec``, ended by its process id."""

    def __init__(self) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise ClusterError("redis-server is not installed: install the package of that name")
        self.directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self.resp_port = free_ports(1)[0]
        line = [
            program,
            "--bind",
            HOST,
            "--port",
            str(self.resp_port),
            "--dir",
            str(self.directory),
            "--save",
            "",
        ]
        line += ["--appendonly", "yes", "--appendfsync", "everysec"]
        self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def __enter__(self) -> RedisServer:
        wait_for(self._answers, "redis-server answering PING")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self) -> bool:
        return _answer(self.resp_port, "PING") == b"PONG"


def await_saved(region: RegionProcess) -> None:
    """Waits until the checkpoint is complete (``rdb_changes_since_last_save`` is 0)."""
    wait_for(
        lambda: info_of(region).get("rdb_changes_since_last_save", "0").strip() == "0",
        "a complete checkpoint",
    )


def _answer(port: int, *argv: str) -> object:
    """The reply to one command on a new connection; None if there is no server, or not yet."""
    try:
        wire = Wire(HOST, port, 10.0)
    except WireError:
        return None
    try:
        return wire.call(*argv)
    except WireError:
        return None
    finally:
        wire.close()


def _await_answer(region: RegionProcess, right: Callable[[object], bool], *argv: str) -> None:
    """Waits until `right` holds for the reply to a command.

    ClusterError, with the end of the region's log, if that takes too long.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not right(answer := _answer(region.resp_port, *argv)):
        if time.monotonic() > deadline or not region.running:
            raise ClusterError(f"{' '.join(argv)} answers {answer!r}:\n{region.log_tail()}")
        time.sleep(0.002)


def rate(port: int, clients: int, pipeline: int, requests: int) -> float:
    """XADDs per second, as redis-benchmark measures them."""
    line = benchmark_command(port, requests, clients, pipeline)
    done = subprocess.run(
        [*line, "--csv", "XADD", KEY, "*", "f", VALUE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1:] or [""]
    fields = last[0].split('","')
    if done.returncode != 0 or "rror from server" in done.stdout + done.stderr or len(fields) < 2:
        raise ClusterError(f"redis-benchmark failed: {(done.stdout + done.stderr)[-500:]}")
    return float(fields[1].strip('"'))


def compare_rates(figures: Figures, region: RegionProcess, rounds: int, scale: float) -> None:
    """Measures rates in alternating runs of each shape, each run on an empty key."""
    with RedisServer() as redis_server:
        for clients, pipeline, requests in SHAPES:
            ours: list[float] = []
            theirs: list[float] = []
            for turn in range(rounds):
                order = [(region.resp_port, ours), (redis_server.resp_port, theirs)]
                for port, rates in order if turn % 2 == 0 else order[::-1]:
                    _answer(port, "DEL", KEY)
                    await_saved(region)
                    rates.append(rate(port, clients, pipeline, max(100, int(requests * scale))))
            ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
            shape = f"-c {clients} -P {pipeline}"
            figures.show(f"{shape}: anabranch", spread(ours, ",.0f"), "XADD/s")
            figures.show(f"{shape}: redis-server", spread(theirs, ",.0f"), "XADD/s")
            figures.show(f"{shape}: ratio", spread(ratios, ".2f"))
    _answer(region.resp_port, "DEL", KEY)


def spread(values: list[float], form: str) -> str:
    """The lowest value, the median and the highest one, in this form."""
    return (
        f"{min(values):{form}} / {median(values):{form}} / {max(values):{form}}"
        " (min / median / max)"
    )


def _fill(port: int, entries: int) -> None:
    rate(port, 50, 16, entries)
    # Clients with commands in flight may send a few more than requested.
    length = _answer(port, "XLEN", KEY)
    if not isinstance(length, int) or length < entries:
        raise ClusterError(f"{entries} entries were added, and XLEN says {length!r}")


def _process_id(region: RegionProcess) -> int:
    assert region.process is not None
    return region.process.pid


def compare_memory(figures: Figures, entries: int) -> None:
    """Measures bytes per entry: the memory of a region with `entries` minus that of an empty one.

    Once after the checkpoint, and once after a restart.
    """
    with ProcessCluster(["us"]) as cluster:
        region = cluster.start("us")
        await_saved(region)
        empty = resident_bytes(_process_id(region))
        cluster.terminate("us")
        cluster.start("us")
        await_saved(region)
        empty_restarted = resident_bytes(_process_id(region))
        _fill(region.resp_port, entries)
        await_saved(region)
        length = _answer(region.resp_port, "XLEN", KEY)
        full = resident_bytes(_process_id(region))
        cluster.terminate("us")
        cluster.start("us")
        _await_answer(region, partial(eq, length), "XLEN", KEY)
        await_saved(region)
        full_restarted = resident_bytes(_process_id(region))
        assert isinstance(length, int)
        figures.show("entries", length)
        figures.show(
            "empty region",
            empty / (1 << 20),
            f"MiB, restarted {empty_restarted / (1 << 20):.2f} MiB",
        )
        figures.show(
            "anabranch after the checkpoint", (full - empty_restarted) / length, "bytes an entry"
        )
        figures.show(
            "anabranch after a restart",
            (full_restarted - empty_restarted) / length,
            "bytes an entry",
        )
        _compare_restarts(figures, cluster, length)
    with RedisServer() as redis_server:
        before = resident_bytes(redis_server.process.pid)
        _fill(redis_server.resp_port, entries)
        figures.show(
            "redis-server",
            (resident_bytes(redis_server.process.pid) - before) / entries,
            "bytes an entry",
        )


def _compare_restarts(figures: Figures, full: ProcessCluster, length: int) -> None:
    """Measures the time from the start after a SIGKILL to the first right XLEN and the first XADD.

    An empty region is measured for comparison.
    """
    with ProcessCluster(["us"]) as empty:
        empty.start("us")
        await_saved(empty["us"])
        for name, cluster, expected in (("empty", empty, 0), (f"{length:,} entries", full, length)):
            times = []
            for _ in range(RESTARTS):
                cluster.kill("us")
                begun = time.monotonic()
                cluster.start("us", wait=False)
                _await_answer(cluster["us"], partial(eq, expected), "XLEN", KEY)
                counted_s = time.monotonic() - begun
                _await_answer(
                    cluster["us"],
                    lambda entry_id: isinstance(entry_id, bytes),
                    "XADD",
                    "other",
                    "*",
                    "f",
                    VALUE,
                )
                times.append((counted_s, time.monotonic() - begun))
            figures.show(
                f"restart after SIGKILL, {name}: first XLEN",
                spread([one for one, _ in times], ".2f"),
                "s",
            )
            figures.show(
                f"restart after SIGKILL, {name}: first XADD",
                spread([two for _, two in times], ".2f"),
                "s",
            )


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="anabranch bench redis_comparison", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each shape, of each server")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="multiplies the requests of each run"
    )
    parser.add_argument("--entries", type=int, default=1_000_000, help="for memory and restarts")
    parser.add_argument("--only", choices=("rates", "memory"))
    parser.add_argument("--pure", action="store_true", help="the interpreted build")
    given = parser.parse_args(arguments)
    if given.pure:
        os.environ["ANABRANCH_PURE"] = "1"
    figures = Figures("one region beside redis-server, appendfsync everysec")
    if given.only != "memory":
        with ProcessCluster(["us"]) as cluster:
            region = cluster.start("us")
            show_build(figures, region)
            compare_rates(figures, region, given.rounds, given.scale)
    if given.only != "rates":
        compare_memory(figures, given.entries)
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
