"""Rates of the interpreted build, beside those that were measured before the work on speed.

A rate is divided by that of redis-server in the same run, so that figures of two days can be
compared.
"""

from __future__ import annotations

from typing import Final

from anabranch.bench.table.rates import compared
from anabranch.bench.table.servers import US, InterpretedCluster, RegionServer
from anabranch.bench.table.values import Measured, Run

PREFIX: Final = "interpreted."
BEFORE: Final = {"xadd.c1": 1.0, "xadd.p16": 1.0, "xrange.100": 1.0, "xreadgroup.1.p16": 1.0}
"""Ratios to redis-server 7.0.15 in November 2026, before any module was written for speed."""


def _region(appendfsync: str) -> RegionServer:
    return RegionServer(cluster=InterpretedCluster([US], flags={"appendfsync": appendfsync}))


def measure(run: Run) -> Measured:
    """Yields the rows."""
    slower = Run(run.rows, min(run.rounds, 3), run.scale / 4, run.say)
    rows = run.wanted("interpreted")
    parts = compared(slower, rows, _region, "everysec", lambda name: name.removeprefix(PREFIX))
    for name, values in parts:
        before = BEFORE[name.removeprefix(PREFIX)]
        ratios = sorted(values.values)
        values.note = f"{ratios[len(ratios) // 2]:.3f} × redis-server, before {before:.3f}"
        values.values = [value / before for value in values.values]
        yield name, values
