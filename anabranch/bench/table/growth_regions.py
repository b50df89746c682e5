"""CPU of a writer per add as the number of regions grows, on one machine."""

from __future__ import annotations

from statistics import median
from typing import Final

from anabranch.bench.table.client import Traffic, drive
from anabranch.bench.table.peers import FLAGS, PATIENCE_S
from anabranch.bench.table.servers import RegionServer, names_of
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.bench.table.workloads import CLIENTS, VALUE
from anabranch.cluster.regions import ProcessCluster
from anabranch.region.resp.request import command

BASE: Final = 2
COUNTS: Final = (4, 8)
COMMANDS: Final = 80_000
"""Of one round."""


def measure(run: Run) -> Measured:
    """Yields the rows."""
    wanted = [count for count in COUNTS if run.wants(f"growth.regions.{count}")]
    costs = {count: _costs(run, count) for count in (BASE, *wanted)}
    base = median(costs[BASE])
    for count in wanted:
        note = f"{base:.2f} µs → {median(costs[count]):.2f} µs"
        yield (f"growth.regions.{count}", Values([cost / base for cost in costs[count]], note=note))


def _costs(run: Run, regions: int) -> list[float]:
    """CPU of the writer per add in µs, for each round, until all regions are level again."""
    batches = run.scaled(COMMANDS, 1_600) // 16
    traffic = Traffic([command("XADD", "s", "*", "f", VALUE) * 16], 16, CLIENTS, 16)
    costs = []
    with ProcessCluster(names_of(regions), settings=FLAGS) as cluster:
        cluster.start_all()
        writer = RegionServer(cluster=cluster)
        for _ in range(min(run.rounds, 3)):
            writer.await_quiet()
            before = writer.cpu_s()
            drive(writer.port, traffic, batches)
            cluster.level(PATIENCE_S)
            costs.append(1e6 * (writer.cpu_s() - before) / (batches * 16))
    return costs
