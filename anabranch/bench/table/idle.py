"""The CPU that servers use while no client asks for anything."""

from __future__ import annotations

import time
from statistics import mean
from typing import Final

from anabranch.bench.table.servers import RedisServer, RegionServer, Server
from anabranch.bench.table.values import Measured, Run, Values
from anabranch.cluster.client import RespClient
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster

ROUND_S: Final = 10
# Of each server: many systems let a process open 1,024 files.
READERS: Final = 400
_SETTLES_S: Final = 2.0
PATIENCE_S: Final = 60.0


def measure(run: Run) -> Measured:
    """Yields the rows. A value is the share of one core in one round, in percent."""
    if run.wants("idle.alone") or run.wants("idle.readers"):
        with RegionServer() as ours, RedisServer() as theirs:
            if run.wants("idle.alone"):
                yield "idle.alone", _beside(run, ours, theirs)
            if run.wants("idle.readers"):
                readers = [_blocked(server) for server in (ours, theirs) for _ in range(READERS)]
                yield "idle.readers", _beside(run, ours, theirs)
                for reader in readers:
                    reader.close()
    if run.wants("idle.peers"):
        with ProcessCluster() as cluster:
            cluster.start_all()
            (shares,) = _shares(run, RegionServer(cluster=cluster))
            yield "idle.peers", Values(shares)


def _blocked(server: Server) -> RespClient:
    """A client that waits for an entry for an hour."""
    reader = RespClient(HOST, server.port, PATIENCE_S)
    reader.send("XREAD", "BLOCK", 3_600_000, "STREAMS", "s", "$")
    return reader


def _beside(run: Run, ours: Server, theirs: Server) -> Values:
    """The shares of `ours`. The note has the mean share of `theirs`."""
    shares, others = _shares(run, ours, theirs)
    return Values(shares, note=f"{theirs.name}: {mean(others):.2f}")


def _shares(run: Run, *servers: Server) -> list[list[float]]:
    """The shares of each server, one for each round, in percent of a core."""
    for server in servers:
        server.await_quiet()
    time.sleep(_SETTLES_S)
    shares: list[list[float]] = [[] for _ in servers]
    for _ in range(run.rounds):
        begun = time.monotonic()
        before = [server.cpu_s() for server in servers]
        time.sleep(run.scaled(ROUND_S))
        took_s = time.monotonic() - begun
        for found, server, used_s in zip(shares, servers, before, strict=True):
            found.append(100 * (server.cpu_s() - used_s) / took_s)
    return shares
