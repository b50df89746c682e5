"""The regions of a run, and the partition between them."""

from __future__ import annotations

import random
import socket
import sys
import time
from pathlib import Path

import redis

from examples.rocket_rides.fleet import Fleet
from examples.rocket_rides.records import STREAM
from examples.rocket_rides.ride_log import LogError, client, endpoints

REGIONS = "us,eu"
START_PATIENCE_S = 60.0
SYNC_PATIENCE_MS = 1000
POLL_S = 0.05
# Below the ports that the system gives to outgoing connections, and above those that the project's
# own tests take. The test of a whole run goes on beside others.
_PORTS = (28_000, 32_000)


def start_regions(fleet: Fleet, directory: Path) -> Path:
    """Starts two regions with `anabranch up`; returns the path of their ``cluster.toml``.

    They answer a client once its data is on disk (``appendfsync always``). With a later answer a
    consumer could process a record, and a crash of the region could take it back.

    Raises:
        LogError: The regions did not start in time.
        ProcessFailed: anabranch is not installed, or a region does not start.
    """
    count = len(REGIONS.split(","))
    first = free_row(3 * count)
    # -P: the working directory, a checkout, must not be taken for the installation.
    command = [sys.executable, "-P", "-m", "anabranch", "up", "--no-console"]
    command += ["--regions", REGIONS]
    command += ["--data", str(directory), "--appendfsync", "always"]
    command += ["--resp-port", str(first), "--sync-port", str(first + count)]
    command += ["--http-port", str(first + 2 * count)]
    member = fleet.start("regions", command)
    deadline = time.monotonic() + START_PATIENCE_S
    while "Ctrl-C stops all." not in member.log.read_text(encoding="utf-8"):
        fleet.check()
        if time.monotonic() > deadline:
            raise LogError(f"the regions did not start:\n{member.log_tail()}")
        time.sleep(POLL_S)
    return directory / "cluster.toml"


def free_row(count: int) -> int:
    """The first of `count` consecutive ports on which nothing listens now."""
    while True:
        first = random.randrange(_PORTS[0], _PORTS[1] - count)
        if all(_is_free(first + n) for n in range(count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Regions:
    """The regions of a running cluster, for the one who watches and partitions them."""

    def __init__(self, cluster: Path) -> None:
        self.endpoints = endpoints(cluster)
        if len(self.endpoints) < 2:
            raise LogError(f"{cluster} names one region; a partition needs two")
        self._clients = {one.name: client(one) for one in self.endpoints}

    @property
    def names(self) -> list[str]:
        """The names of the regions."""
        return [one.name for one in self.endpoints]

    def cut(self) -> None:
        """Cuts the first region off from all others, in both directions."""
        self._link("DOWN")

    def heal(self) -> None:
        """Ends the partition.

        Raises:
            redis.RedisError: A region did not answer; the links of all others are open.
        """
        self._link("UP")

    def _link(self, state: str) -> None:
        first, *others = self.names
        failed: list[redis.RedisError] = []
        for other in others:
            for region, peer in ((first, other), (other, first)):
                try:
                    self._clients[region].execute_command("CRDT.LINK", peer, state)
                except redis.RedisError as error:
                    failed.append(error)
        if failed:
            raise failed[0]

    def are_level(self) -> bool:
        """Whether every region holds what the others hold, on disk."""
        if any(
            one.execute_command("CRDT.SYNC", SYNC_PATIENCE_MS) != 1
            for one in self._clients.values()
        ):
            return False
        states = [
            (one.execute_command("CRDT.VECTOR"), one.execute_command("CRDT.DIGEST", STREAM))
            for one in self._clients.values()
        ]
        return all(state == states[0] for state in states)

    def last_id(self, region: str) -> str:
        """The ID of the newest record that a region holds; "" if it holds none."""
        rows = self._clients[region].xrevrange(STREAM, count=1)
        return str(rows[0][0]) if rows else ""

    def has_after(self, region: str, log: str, entry: str) -> bool:
        """Whether a region holds a record of the region log `log` above an ID ("": any)."""
        start = f"({entry}" if entry else "-"
        reply = self._clients[region].execute_command(
            "CRDT.LOG", STREAM, log, start, "+", "COUNT", 1
        )
        return bool(reply)

    def length(self, region: str) -> int:
        """The number of records that a region holds."""
        return int(self._clients[region].xlen(STREAM))

    def conflicts(self) -> int:
        """The adds of one record in two regions of which one was removed, in all regions."""
        return sum(_idmp_conflicts(one) for one in self._clients.values())


def _idmp_conflicts(one: redis.Redis) -> int:
    return int(one.info("crdt").get("crdt_idmp_conflicts", 0))
