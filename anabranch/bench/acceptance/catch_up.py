"""A region that was down catches up with a million entries, while clients write to it.

It catches up once from the effect log and once by snapshot, because its peers keep only a short
log. Clients add 500 entries per second to it from its first PING on; the requirement limits how
long each client waits.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection

from anabranch.answers import vector_of
from anabranch.bench.acceptance.harness import (
    Figures,
    finished,
    percentile,
    redis_benchmark,
    require_agreement,
    start_all,
)
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, RegionProcess

# Programs that must be installed, and their Debian packages.
PROGRAMS = {"redis-benchmark": "redis-tools"}
KEY = "s"
SHORT_LOG = "4mb"
WAIT_MAX_MS = 1000.0
WAIT_99_MS = 50.0
CONNECTIONS = 10
CONNECT_PATIENCE_S = 60.0
CATCH_UP_PATIENCE_S = 1800.0


def catch_up(
    entries: int, by_snapshot: bool, per_s: int, max_ms: float | None, most_ms: float | None
) -> Figures:
    """Region ap misses `entries` adds, then starts under `per_s` adds a second; None: no limit."""
    figures = Figures(
        f"catching up {entries:,} entries by {'snapshot' if by_snapshot else 'log'},"
        f" {per_s} adds a second meanwhile"
    )
    flags = {"crdt-log-max-bytes": SHORT_LOG} if by_snapshot else {}
    with ProcessCluster(settings=flags) as cluster:
        start_all(figures, cluster)
        cluster.stop("ap")
        loads = [
            redis_benchmark(
                cluster[name], entries // 2, 50, 32, "XADD", KEY, "*", "f", "0123456789abcdef"
            )
            for name in ("us", "eu")
        ]
        for running in loads:
            figures.show("added", finished(running, 3600.0))
        goal = cluster.level(600.0)
        read_before = _bytes_sent(cluster)
        ours, theirs = multiprocessing.Pipe()
        writer = multiprocessing.get_context("fork").Process(
            target=write, args=(cluster["ap"].resp_port, per_s, theirs), daemon=True
        )
        writer.start()
        ours.recv()  # The writer is ready. It connects once the region listens.
        begun = time.monotonic()
        cluster.start("ap")
        caught_s = _await_vector(cluster["ap"], goal, begun)
        # On a busy machine the region may have caught up before the writer runs again.
        if not ours.poll(CONNECT_PATIENCE_S):
            raise ClusterError("the writer adds nothing")
        ours.recv()
        time.sleep(1.0)
        ours.send("stop")
        waits_ms: list[float] = ours.recv()
        writer.join()
        figures.show("caught up after", caught_s, "s from its start")
        figures.show("bytes that peers sent", _bytes_sent(cluster, read_before))
        figures.show(
            "snapshots",
            {field: value for field, value in cluster["ap"].info().items() if "snapshot" in field},
        )
        least = 0.8 * per_s * caught_s if max_ms is not None else 1
        figures.require(
            "clients wrote all the time", len(waits_ms) >= least, f"{len(waits_ms):,} adds"
        )
        figures.show("median wait", percentile(waits_ms, 0.5), "ms")
        figures.at_most("longest wait", max(waits_ms, default=0.0), max_ms, "ms")
        figures.at_most("99 % of waits", percentile(waits_ms, 0.99), most_ms, "ms")
        require_agreement(figures, cluster)
    return figures


def write(port: int, per_s: int, results: Connection) -> None:
    """Adds entries at a steady rate over several connections, in a process; sends all waits in ms.

    It also tells when it is ready, and when it adds.

    A wait counts from the time at which the add was due, so that a late answer is not hidden by
    adds that were never sent.
    """
    results.send("ready")
    clients = _connected(port)
    sent: dict[int, float] = {}
    waits_ms: list[float] = []
    begun = time.monotonic()
    number = 0
    while not results.poll():
        due = begun + number / per_s
        for n, client in enumerate(clients):
            if n in sent and client.readable(0.0):
                assert isinstance(client.read(), bytes)
                waits_ms.append(1000 * (time.monotonic() - sent.pop(n)))
        free = next((n for n in range(CONNECTIONS) if n not in sent), None)
        if time.monotonic() >= due and free is not None:
            sent[free] = due
            clients[free].send("XADD", KEY, "*", "f", f"ap-{number}")
            if number == 0:
                results.send("adding")
            number += 1
        else:
            time.sleep(0.0005)
    for n, at in sent.items():
        assert isinstance(clients[n].read(), bytes)
        waits_ms.append(1000 * (time.monotonic() - at))
    results.recv()
    results.send(waits_ms)


def _connected(port: int) -> list[RespClient]:
    """Connections to a region that may not listen yet."""
    give_up = time.monotonic() + CONNECT_PATIENCE_S
    while True:
        try:
            return [RespClient(HOST, port) for _ in range(CONNECTIONS)]
        except (OSError, ConnectionFailed):
            if time.monotonic() > give_up:
                raise
            time.sleep(0.005)


def _await_vector(region: RegionProcess, goal: dict[int, int], begun: float) -> float:
    """Seconds from `begun` until the region holds the vector `goal`."""
    with region.connect(CATCH_UP_PATIENCE_S) as client:
        while time.monotonic() - begun < CATCH_UP_PATIENCE_S:
            vector = vector_of(client.ask("CRDT.VECTOR"))
            if all(vector.get(one, 0) >= counter for one, counter in goal.items()):
                return time.monotonic() - begun
            time.sleep(0.05)
    raise TimeoutError(f"not caught up after {CATCH_UP_PATIENCE_S} s: {vector} of {goal}")


def _bytes_sent(cluster: ProcessCluster, before: int = 0) -> int:
    """Bytes that us and eu report as sent to peers, minus `before`."""
    total = 0
    for name in ("us", "eu"):
        total += sum(
            int(value)
            for field, value in cluster[name].info().items()
            if field == "crdt_sync_bytes_sent"
        )
    return total - before


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.catch_up", description=__doc__
    )
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=500, help="adds a second while catching up")
    parser.add_argument("--by", choices=("log", "snapshot"), action="append", help="only this way")
    given = parser.parse_args(arguments)
    ways = given.by or ["log", "snapshot"]
    return max(
        catch_up(given.entries, way == "snapshot", given.rate, WAIT_MAX_MS, WAIT_99_MS).finish()
        for way in ways
    )


if __name__ == "__main__":
    sys.exit(main())
