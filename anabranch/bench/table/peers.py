"""Rates with peers on the same machine: a writer with two peers, catching up, merging live."""

from __future__ import annotations

import time
from typing import Final

from anabranch.answers import vector_of
from anabranch.bench.harness import wait_for
from anabranch.bench.table.client import Traffic, drive
from anabranch.bench.table.memory import add_entries
from anabranch.bench.table.servers import US, RegionServer, cpu_s
from anabranch.bench.table.values import Cost, Measured, Run, Values
from anabranch.bench.table.workloads import CLIENTS, VALUE
from anabranch.cluster.errors import ConnectionFailed
from anabranch.cluster.regions import ProcessCluster, RegionProcess
from anabranch.region.resp.request import command

EU: Final = "eu"
FLAGS: Final = {"appendfsync": "everysec"}
WRITER_BATCHES: Final = 12_500
CATCH_UP_ENTRIES: Final = 1_000_000
LIVE_ENTRIES: Final = 400_000
PATIENCE_S: Final = 600.0


def total(region: RegionProcess) -> int:
    """The effects that a region has on disk, of all regions."""
    return sum(region.vector().values())


def await_total(region: RegionProcess, goal: int) -> None:
    """Waits until a region has so many effects on disk."""
    with region.connect(PATIENCE_S) as client:
        wait_for(
            lambda: sum(vector_of(client.ask("CRDT.VECTOR")).values()) >= goal,
            f"the effects that {region.name} lacks",
            PATIENCE_S,
        )


def await_started(region: RegionProcess) -> int:
    """Waits until a region answers, without a pause; returns the effects it has then."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return total(region)
        except ConnectionFailed:
            if time.monotonic() > give_up or not region.running:
                raise
            time.sleep(0.002)


def caught_up(cluster: ProcessCluster) -> tuple[int, float]:
    """Starts eu; returns how many effects of us it lacked, and how many a second it merged."""
    goal = total(cluster[US])
    RegionServer(cluster=cluster).await_quiet()
    goal = max(goal, total(cluster[US]))
    cluster.start(EU, wait=False)
    had = await_started(cluster[EU])
    begun = time.monotonic()
    await_total(cluster[EU], goal)
    return goal - had, (goal - had) / (time.monotonic() - begun)


def measure(run: Run) -> Measured:
    """Yields the rows."""
    if run.wants("peers.writer"):
        yield "peers.writer", _writer(run)
    if run.wants("peers.catching_up"):
        yield "peers.catching_up", _catching_up(run)
    if run.wants("peers.live"):
        yield "peers.live", _live(run)


def _writer(run: Run) -> Values:
    """The rate of a writer with two peers, divided by that of a region alone."""
    traffic = Traffic([command("XADD", "s", "*", "f", VALUE) * 16], 16, CLIENTS, 16)
    batches = run.scaled(WRITER_BATCHES, 100)
    found = Values([], Cost())
    with ProcessCluster(settings=FLAGS) as cluster, RegionServer() as alone:
        cluster.start_all()
        writer = RegionServer(cluster=cluster)
        for number in range(run.rounds):
            rates = {}
            for server in (alone, writer) if number % 2 == 0 else (writer, alone):
                server.call("DEL", "s")
                cluster.level(PATIENCE_S)
                server.await_quiet()
                before = server.cpu_s()
                took = drive(server.port, traffic, batches)
                rates[server] = 16 * batches / took.seconds
                if server is writer:
                    assert found.ours is not None
                    used = server.cpu_s() - before
                    found.ours.add(16 * batches, took.seconds, used, took.client_cpu_s)
                    cluster.level(PATIENCE_S)
            found.values.append(rates[writer] / rates[alone])
    return found


def _catching_up(run: Run) -> Values:
    """The rate at which a region that was down merges the log of its peer."""
    entries = run.scaled(CATCH_UP_ENTRIES, 5_000)
    found = Values([], note=f"{entries:,} entries")
    with ProcessCluster([US, EU], settings=FLAGS) as cluster:
        cluster.start_all()
        for _ in range(min(run.rounds, 3)):
            cluster.stop(EU)
            add_entries(RegionServer(cluster=cluster), entries)
            found.values.append(caught_up(cluster)[1])
    return found


def _live(run: Run) -> Values:
    """Entries that a peer has on disk, by the time from the first add of the writer."""
    entries = run.scaled(LIVE_ENTRIES, 5_000) // 100 * 100
    found = Values([])
    used_s = 0.0
    with ProcessCluster([US, EU], settings=FLAGS) as cluster:
        cluster.start_all()
        writer = RegionServer(cluster=cluster)
        for _ in range(run.rounds):
            writer.call("DEL", "s")
            cluster.level(PATIENCE_S)
            writer.await_quiet()
            goal = total(cluster[US]) + entries
            before = cpu_s(cluster[EU].pid())
            begun = time.monotonic()
            add_entries(writer, entries)
            await_total(cluster[EU], goal)
            found.values.append(entries / (time.monotonic() - begun))
            used_s += cpu_s(cluster[EU].pid()) - before
    used_us = 1e6 * used_s / (entries * len(found.values))
    found.note = f"the peer takes {used_us:.2f} µs of CPU per entry"
    return found
