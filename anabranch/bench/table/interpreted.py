"""CPU of the interpreted build per command, beside that before the work on speed.

It is divided by the CPU of redis-server in the same run, so that figures of two days can be
compared. The values are reciprocal: above 1 if the build uses less CPU than before.
"""

from __future__ import annotations

from typing import Final

from anabranch.bench.table.rates import compared
from anabranch.bench.table.servers import US, InterpretedCluster, RegionServer
from anabranch.bench.table.values import Measured, Run

PREFIX: Final = "interpreted."
BEFORE: Final = {
    "xadd.c1": 0.333,
    "xadd.p16": 0.108,
    "xrange.100": 0.0694,
    "xreadgroup.1.p16": 0.0400,
}
"""CPU of redis-server 7.0.15 per command, divided by ours, in November 2026, before any module was
written for speed."""


def _region(appendfsync: str) -> RegionServer:
    return RegionServer(cluster=InterpretedCluster([US], settings={"appendfsync": appendfsync}))


def measure(run: Run) -> Measured:
    """Yields the rows."""
    slower = Run(run.rows, min(run.rounds, 3), run.scale / 4, run.say)
    rows = run.wanted("interpreted")
    parts = compared(slower, rows, _region, "everysec", lambda name: name.removeprefix(PREFIX))
    for name, values in parts:
        before = BEFORE[name.removeprefix(PREFIX)]
        ratio = values.cpu_ratio or 0.0
        values.note = f"{ratio:.4f} × redis-server by CPU, before {before:.4f}"
        values.values = [ratio / before]
        yield name, values
