"""Rates of a region and of redis-server, in alternating runs.

A ratio divides the region's rate by that of redis-server in the same round. Each run begins in the
same state, when neither server works in the background, so that one does not disturb the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Optional

from anabranch.bench.table.client import Traffic, benchmark, drive
from anabranch.bench.table.rows import TableRow
from anabranch.bench.table.servers import RedisServer, RegionServer, Server
from anabranch.bench.table.values import Cost, Measured, Run, Values
from anabranch.bench.table.workloads import VALUE, Workload, workloads

ALWAYS: Final = "always."
"""How the names of the rows begin that are measured under `appendfsync always`."""


class Once(NamedTuple):
    """One run of a workload on one server."""

    rate: float
    commands: int
    seconds: float
    server_cpu_s: float
    client_cpu_s: float


def run_once(server: Server, workload: Workload, traffic: Traffic) -> Once:
    """Prepares the server, waits until it is quiet, and sends the load."""
    workload.prepare(server)
    server.await_quiet()
    before = server.cpu_s()
    if workload.argv:
        took = benchmark(server.port, traffic.clients, workload.batches, workload.argv)
    else:
        took = drive(server.port, traffic, workload.batches)
    used = server.cpu_s() - before
    commands = workload.batches * traffic.commands
    return Once(commands / took.seconds, commands, took.seconds, used, took.client_cpu_s)


def compare(ours: Server, theirs: Server, workload: Workload, rounds: int) -> Values:
    """Runs a workload on two servers in turns; the one that begins alternates."""
    found = Values([], Cost(), Cost())
    traffic = workload.traffic()
    for number in range(rounds):
        rates: dict[str, float] = {}
        for server in (ours, theirs) if number % 2 == 0 else (theirs, ours):
            once = run_once(server, workload, traffic)
            rates[server.name] = once.rate
            cost = found.ours if server is ours else found.theirs
            assert cost is not None
            cost.add(once.commands, once.seconds, once.server_cpu_s, once.client_cpu_s)
        found.values.append(rates[ours.name] / rates[theirs.name])
    return found


def measure(run: Run) -> Measured:
    """Yields the rows, first those under `everysec`."""
    rows = run.wanted("rates")
    everysec = [row for row in rows if not row.name.startswith(ALWAYS)]
    always = [row for row in rows if row.name.startswith(ALWAYS)]
    for appendfsync, part in (("everysec", everysec), ("always", always)):
        if part:
            yield from compared(run, part, RegionServer, appendfsync)


def compared(
    run: Run,
    rows: list[TableRow],
    region: Callable[[str], Server],
    appendfsync: str,
    named: Optional[Callable[[str], str]] = None,
) -> Measured:
    """Compares a region with redis-server; `named` makes the name of a workload of a row's name."""
    loads = workloads(run.scale)
    with region(appendfsync) as ours, RedisServer(appendfsync) as theirs:
        _warm_up(ours)
        _warm_up(theirs)
        for row in rows:
            workload = loads[named(row.name) if named else row.name]
            yield row.name, compare(ours, theirs, workload, run.rounds)


def _warm_up(server: Server) -> None:
    """The first commands of a process cost more than later ones."""
    argv = ("XADD", "warm", "*", "f", VALUE.decode())
    benchmark(server.port, 50, 5_000, argv)
    server.call("DEL", "warm")
