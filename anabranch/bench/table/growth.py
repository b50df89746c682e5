"""CPU of a region per command as data grow: at 10 and 100 times as much as the smallest.

Each size has a region of its own. Rounds repeat the same commands there. A value divides the CPU at
a size by that at the smallest one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import median
from typing import Final, NamedTuple

from anabranch.bench.table.client import Traffic, drive
from anabranch.bench.table.memory import STREAM, add_entries, add_keys
from anabranch.bench.table.servers import RegionServer, Server
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.bench.table.workloads import VALUE, Workload
from anabranch.region.resp.request import command

TIMES: Final = (1, 10, 100)
COMMANDS: Final = 60_000
"""Of one round."""
_CLIENTS: Final = 10
_BATCHES: Final = 97


class Dimension(NamedTuple):
    """What grows."""

    base: int
    """How much of it there is at the smallest size."""
    prepare: Callable[[Server, int], None]
    """Makes so much of it."""
    traffic: Callable[[int], Traffic]
    """The commands that are measured at such a size."""


def _read_and_add(_: int) -> Traffic:
    """Half adds, half reads of the ends of the stream."""
    ones = [
        command("XADD", STREAM, "*", "f", VALUE),
        command("XRANGE", STREAM, "-", "+", "COUNT", 1),
        command("XADD", STREAM, "*", "f", VALUE),
        command("XREVRANGE", STREAM, "+", "-", "COUNT", 1),
    ]
    # "$": one in the reply of XADD, three in those of reads.
    return Traffic([b"".join(ones) * 4], 16, _CLIENTS, 32)


def _add_to_keys(keys: int) -> Traffic:
    chance = random.Random(keys)
    batches = [
        b"".join(
            command("XADD", f"key:{chance.randrange(keys):06}", "*", "f", VALUE) for _ in range(16)
        )
        for _ in range(_BATCHES * 10)
    ]
    return Traffic(batches, 16, _CLIENTS, 16)


def _make_groups(server: Server, groups: int) -> None:
    add_entries(server, 10_000)
    ones = [command("XGROUP", "CREATE", STREAM, f"g{n}", "0") for n in range(groups)]
    drive(server.port, Traffic(ones, 1, 1, 1, b"+"), groups)


def _read_groups(groups: int) -> Traffic:
    """Half adds, half group reads of one entry, of at most ten groups."""
    add = command("XADD", STREAM, "*", "f", VALUE)
    batches = [
        (add + command("XREADGROUP", "GROUP", f"g{n}", "c", "COUNT", 1, "STREAMS", STREAM, ">")) * 8
        for n in range(min(10, groups))
    ]
    # "$": one in the reply of XADD, and name, ID, field and value in that of a read.
    return Traffic(batches, 16, _CLIENTS, 40)


def _make_pending(server: Server, pending: int) -> None:
    add_entries(server, pending)
    server.call("XGROUP", "CREATE", STREAM, "g0", "0")
    read = command("XREADGROUP", "GROUP", "g0", "c", "COUNT", 100, "STREAMS", STREAM, ">")
    drive(server.port, Traffic([read], 1, 1, 301), pending // 100)


def _read_pending(_: int) -> Traffic:
    """Adds, group reads of one entry, and rows of XPENDING."""
    add = command("XADD", STREAM, "*", "f", VALUE)
    read = command("XREADGROUP", "GROUP", "g0", "c", "COUNT", 1, "STREAMS", STREAM, ">")
    row = command("XPENDING", STREAM, "g0", "-", "+", 1)
    return Traffic([(add + read + row) * 5], 15, _CLIENTS, 35)


DIMENSIONS: Final = {
    "entries": Dimension(10_000, add_entries, _read_and_add),
    "keys": Dimension(1_000, add_keys, _add_to_keys),
    "groups": Dimension(10, _make_groups, _read_groups),
    "pending": Dimension(1_000, _make_pending, _read_pending),
}


def measure(run: Run) -> Measured:
    """Yields the rows."""
    for name in DIMENSIONS:
        wanted = [times for times in TIMES if run.wants(f"growth.{name}.{times}")]
        if wanted:
            costs = {times: _costs(run, name, times) for times in (1, *wanted)}
            base = median(costs[1])
            for times in wanted:
                note = f"{base:.2f} µs → {median(costs[times]):.2f} µs"
                yield (
                    f"growth.{name}.{times}",
                    Values([cost / base for cost in costs[times]], note=note),
                )


def workload(name: str, times: int, scale: float) -> Workload:
    """What one round does in a dimension that has grown so many times."""
    dimension = DIMENSIONS[name]
    size = max(1, int(dimension.base * min(scale, 1.0))) * times
    traffic = dimension.traffic(size)
    batches = max(3_200, int(COMMANDS * scale)) // traffic.commands

    def prepare(server: Server) -> None:
        dimension.prepare(server, size)

    return Workload(lambda: traffic, batches, prepare)


def _costs(run: Run, name: str, times: int) -> list[float]:
    """CPU per command in µs, for each round."""
    load = workload(name, times, run.scale)
    traffic = load.traffic()
    costs = []
    with RegionServer() as region:
        load.prepare(region)
        for _ in range(min(run.rounds, 3)):
            region.await_quiet()
            before = region.cpu_s()
            drive(region.port, traffic, load.batches)
            costs.append(1e6 * (region.cpu_s() - before) / (load.batches * traffic.commands))
    return costs
