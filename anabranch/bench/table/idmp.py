"""Rates of idempotent adds beside plain adds to the same region."""

from __future__ import annotations

from typing import Final

from anabranch.bench.table.client import Traffic, drive
from anabranch.bench.table.servers import RegionServer, Server
from anabranch.bench.table.values import Cost, Measured, Run, Values
from anabranch.bench.table.workloads import CLIENTS
from anabranch.region.resp.request import command

COMMANDS: Final = 200_000
PIPELINE: Final = 16
KEY: Final = "i"


def _add(kind: str, value: str) -> bytes:
    """An add of a kind. All have values of one length; IDMPAUTO compares contents."""
    words = {
        "plain": [],
        "idmp": ["IDMP", "producer", value[5:]],
        "idmpauto": ["IDMPAUTO", "producer"],
    }
    return command("XADD", KEY, *words[kind], "*", "f", value)


def traffic(kind: str, commands: int, begin: int = 0) -> Traffic:
    """Adds of one kind, all different."""
    ones = [_add(kind, f"{begin + number:016}") for number in range(commands)]
    batches = [b"".join(ones[at : at + PIPELINE]) for at in range(0, commands, PIPELINE)]
    return Traffic(batches, PIPELINE, CLIENTS, PIPELINE)


def measure(run: Run) -> Measured:
    """Yields the rows. Each round runs all kinds in turn."""
    commands = run.scaled(COMMANDS, 3200) // PIPELINE * PIPELINE
    kinds = ["plain", *(row.name for row in run.wanted("idmp"))]
    loads = {kind: traffic(kind, commands) for kind in kinds}
    found = {kind: Values([], Cost()) for kind in kinds}
    with RegionServer() as region:
        for number in range(run.rounds):
            rates = {}
            for kind in kinds if number % 2 == 0 else kinds[::-1]:
                rates[kind] = _once(region, loads[kind], found[kind])
            for kind in kinds:
                found[kind].values.append(rates[kind] / rates["plain"])
    plain = found.pop("plain").ours
    assert plain is not None
    for kind, values in found.items():
        values.note = f"a plain add takes {plain.cpu_us:.2f} µs of CPU"
        yield kind, values


def _once(region: Server, load: Traffic, values: Values) -> float:
    region.call("DEL", KEY)
    region.await_quiet()
    before = region.cpu_s()
    took = drive(region.port, load, len(load.batches))
    used = region.cpu_s() - before
    assert values.ours is not None
    commands = len(load.batches) * PIPELINE
    values.ours.add(commands, took.seconds, used, took.client_cpu_s)
    return commands / took.seconds
