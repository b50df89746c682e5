"""The delay of an add at a peer.

It begins before XADD is sent, and ends when a blocked XREAD at the peer has its reply. All
processes run on one machine and read one clock. Writer, reader and load are separate processes, so
that they do not wait for each other's interpreter.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from statistics import median
from typing import Final

from anabranch.bench.harness import percentile
from anabranch.bench.table.peers import EU, FLAGS
from anabranch.bench.table.servers import US
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster

PROBES: Final = 100
"""Of one round."""
LOAD_A_SECOND: Final = 2_000
KEY: Final = "delay"
PROBE_PAUSE_S: Final = 0.025
LOAD_BATCHES_A_SECOND: Final = 200
# How long a load that is not strict may be behind. A busy machine can hold it up for seconds.
_BEHIND_PATIENCE_S: Final = 30.0
_PROBE_S: Final = PROBE_PAUSE_S + 0.01


def measure(run: Run) -> Measured:
    """Yields the rows. A value is the median of one round."""
    probes = run.scaled(PROBES, 5)
    with ProcessCluster(settings=FLAGS) as cluster:
        cluster.start_all()
        ports = cluster[US].resp_port, cluster[EU].resp_port
        if run.wants("delay.idle"):
            yield "delay.idle", _probed(*ports, probes, run.rounds)
        if run.wants("delay.loaded"):
            load_s = 1.5 + run.rounds * (probes * _PROBE_S + 0.5)
            load = multiprocessing.get_context("fork").Process(
                target=paced_load, args=(ports[0], LOAD_A_SECOND, load_s), daemon=True
            )
            load.start()
            time.sleep(1.0)
            found = _probed(*ports, probes, run.rounds)
            load.join()
            if load.exitcode != 0:
                raise ClusterError(f"the region does not take {LOAD_A_SECOND:,} adds a second")
            yield "delay.loaded", found
        for name, region in cluster.regions.items():
            if region.info()["crdt_sync_log_reads"] != "0":
                raise ClusterError(f"{name} read SQLite for peers that keep up")


def _probed(writer_port: int, reader_port: int, probes: int, rounds: int) -> Values:
    parts = [probe(writer_port, reader_port, probes) for _ in range(rounds)]
    every = [delay for part in parts for delay in part]
    return Values([median(part) for part in parts], note=f"99 %: {percentile(every, 0.99):.1f} ms")


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
