"""The time until an entry added in one region can be read in another: idle, and under load.

The time begins before XADD is sent, and ends when a blocked XREAD at the peer has its reply. All
processes run on one machine and read one clock. Writer, reader and load are separate processes, so
that they do not wait for each other's interpreter.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from multiprocessing.connection import Connection

from anabranch.bench.acceptance.harness import Figures, percentile, start_all
from anabranch.cluster.client import RespClient
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster

KEY = "delay"
IDLE_LIMIT_MS = 20.0
LOADED_LIMIT_MS = 30.0
PROBE_PAUSE_S = 0.025
LOAD_BATCHES_A_SECOND = 200
# How long a load that is not strict may be behind. A busy machine can hold it up for seconds.
_BEHIND_PATIENCE_S = 30.0


def measure(
    probes: int,
    load_per_s: int,
    load_s: float,
    idle_limit_ms: float | None,
    loaded_limit_ms: float | None,
) -> Figures:
    """Runs both measurements on a new cluster. A limit of None: no requirement."""
    figures = Figures(f"delay of an add at a peer: idle, and under {load_per_s:,} adds a second")
    with ProcessCluster() as cluster:
        start_all(figures, cluster)
        writer, reader = cluster["us"].resp_port, cluster["eu"].resp_port
        idle = probe(writer, reader, probes)
        figures.show("idle probes", len(idle))
        figures.show("idle 99 %", percentile(idle, 0.99), "ms")
        figures.at_most("idle median", statistics.median(idle), idle_limit_ms, "ms")
        load = multiprocessing.get_context("fork").Process(
            target=paced_load,
            args=(writer, load_per_s, load_s + 1.0, loaded_limit_ms is not None),
            daemon=True,
        )
        load.start()
        time.sleep(1.0)
        loaded = probe(writer, reader, int(load_s / (PROBE_PAUSE_S + 0.01)))
        load.join()
        figures.require("the load ran", load.exitcode == 0, load.exitcode)
        figures.show("loaded probes", len(loaded))
        figures.show("loaded 99 %", percentile(loaded, 0.99), "ms")
        for name, region in cluster.regions.items():
            reads = int(region.info()["crdt_sync_log_reads"])
            figures.require(f"{name} read nothing from SQLite for its peers", reads == 0, reads)
        figures.at_most("loaded median", statistics.median(loaded), loaded_limit_ms, "ms")
    return figures


def probe(writer_port: int, reader_port: int, probes: int) -> list[float]:
    """Delays in ms of `probes` adds, sent one at a time, each awaited at the peer."""
    ours, theirs = multiprocessing.Pipe()
    reader = multiprocessing.get_context("fork").Process(
        target=_read, args=(reader_port, probes, theirs), daemon=True
    )
    reader.start()
    ours.recv()
    sent: list[float] = []
    with RespClient(HOST, writer_port) as client:
        for number in range(probes):
            time.sleep(PROBE_PAUSE_S)
            sent.append(time.monotonic())
            client.call("XADD", KEY, "*", "n", number)
    seen: dict[int, float] = ours.recv()
    reader.join()
    return [1000 * (seen[number] - at) for number, at in enumerate(sent)]


def _read(port: int, probes: int, results: Connection) -> None:
    """Runs in a process: sends the times at which each probe's number was read."""
    seen: dict[int, float] = {}
    with RespClient(HOST, port, 120.0) as client:
        last = client.ask("XREVRANGE", KEY, "+", "-", "COUNT", 1)
        at = last[0][0] if last else "0"
        results.send("ready")
        while len(seen) < probes:
            reply = client.ask("XREAD", "BLOCK", 60000, "STREAMS", KEY, at)
            now = time.monotonic()
            assert reply is not None, "nothing came within a minute"
            for entry_id, fields in reply[0][1]:
                seen[int(fields[1])] = now
                at = entry_id
    results.send(seen)


def paced_load(port: int, per_s: int, duration_s: float, is_strict: bool = True) -> None:
    """Runs in a process: adds `per_s` entries per second in small batches.

    It fails if it is behind by a second. If it is not strict, it may be so for a while, and catches
    up, also after `duration_s`.
    """
    patience_s = 0.0 if is_strict else _BEHIND_PATIENCE_S
    batch = max(1, per_s // LOAD_BATCHES_A_SECOND)
    with RespClient(HOST, port) as client:
        begun = level = time.monotonic()
        number = 0
        ahead_s = 0.0
        while time.monotonic() - begun < duration_s or ahead_s <= -1.0:
            for _ in range(batch):
                client.send("XADD", "load", "*", "n", number, "v", "x" * 16)
                number += 1
            for _ in range(batch):
                assert isinstance(client.read(), bytes)
            now = time.monotonic()
            ahead_s = number / per_s - (now - begun)
            if ahead_s > -1.0:
                level = now
            assert now - level <= patience_s, f"the region does not take {per_s} adds a second"
            time.sleep(max(0.0, ahead_s))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.replication_delay", description=__doc__
    )
    parser.add_argument("--probes", type=int, default=400)
    parser.add_argument("--load", type=int, default=2000, help="adds a second")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long the load runs")
    given = parser.parse_args(arguments)
    return measure(given.probes, given.load, given.seconds, IDLE_LIMIT_MS, LOADED_LIMIT_MS).finish()


if __name__ == "__main__":
    sys.exit(main())
