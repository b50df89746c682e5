"""The delay of an add at a peer, with the probes of `acceptance.replication_delay`."""

from __future__ import annotations

import multiprocessing
import time
from statistics import median
from typing import Final

from anabranch.bench.acceptance.harness import percentile
from anabranch.bench.acceptance.replication_delay import PROBE_PAUSE_S, paced_load, probe
from anabranch.bench.table.peers import EU, FLAGS
from anabranch.bench.table.servers import US
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.regions import ProcessCluster

PROBES: Final = 100
"""Of one round."""
LOAD_A_SECOND: Final = 2_000
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


def _probed(writer_port: int, reader_port: int, probes: int, rounds: int) -> Values:
    parts = [probe(writer_port, reader_port, probes) for _ in range(rounds)]
    every = [delay for part in parts for delay in part]
    return Values([median(part) for part in parts], note=f"99 %: {percentile(every, 0.99):.1f} ms")
