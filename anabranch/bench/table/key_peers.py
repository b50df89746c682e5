"""100,000 keys with a peer: the delay after they were written, and the rate of merging them."""

from __future__ import annotations

import time
from typing import Final

from anabranch.bench.harness import percentile
from anabranch.bench.table.delay import PROBE_PAUSE_S, probe
from anabranch.bench.table.memory import KEYS, add_keys
from anabranch.bench.table.peers import EU, FLAGS, PATIENCE_S, caught_up
from anabranch.bench.table.servers import US, RegionServer
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.cluster.regions import ProcessCluster

AFTERWARDS_S: Final = 30.0
ADDS_A_KEY: Final = 4


def measure(run: Run) -> Measured:
    """Yields the rows."""
    keys = run.scaled(KEYS, 1_000)
    with ProcessCluster([US, EU], settings=FLAGS) as cluster:
        cluster.start_all()
        if run.wants("keys.delay.median") or run.wants("keys.delay.99"):
            delays = _delays(cluster, keys, max(1.0, AFTERWARDS_S * min(run.scale, 1.0)))
            note = f"{len(delays):,} probes"
            if run.wants("keys.delay.median"):
                yield "keys.delay.median", Values([percentile(delays, 0.5)], note=note)
            if run.wants("keys.delay.99"):
                note = f"longest {max(delays):,.0f} ms"
                yield "keys.delay.99", Values([percentile(delays, 0.99)], note=note)
        if run.wants("keys.merge"):
            yield "keys.merge", _merged(cluster, keys)


def _delays(cluster: ProcessCluster, keys: int, seconds: float) -> list[float]:
    """Delays in ms of adds in the time after all keys were written."""
    add_keys(RegionServer(cluster=cluster), keys)
    give_up = time.monotonic() + seconds
    delays: list[float] = []
    while time.monotonic() < give_up:
        delays += probe(
            cluster[US].resp_port, cluster[EU].resp_port, max(5, int(1.0 / PROBE_PAUSE_S))
        )
    return delays


def _merged(cluster: ProcessCluster, keys: int) -> Values:
    """The rate at which a region that was down merges adds to all keys."""
    writer = RegionServer(cluster=cluster)
    cluster.level(PATIENCE_S)
    cluster.stop(EU)
    for _ in range(ADDS_A_KEY):
        add_keys(writer, keys)
    adds, rate = caught_up(cluster)
    return Values([rate], note=f"{adds:,} adds to {keys:,} keys")
