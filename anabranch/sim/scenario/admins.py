"""The runner's own connections to real regions, beside those of the clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.sim.scenario.cluster import ClusterError
from anabranch.sim.scenario.processes import vector_of
from anabranch.sim.scenario.shape import Reply
from anabranch.sim.scenario.wire import Wire, WireError

SYNC_PATIENCE_MS = 2000
ANSWER_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Endpoint:
    """The address of a region for clients, and its password if it asks for one."""

    name: str
    host: str
    port: int
    password: str | None = None


class Admins:
    """One connection to each region, made when it is needed.

    `await_reachable` returns once a region can be asked. A connection that breaks leaves the
    cluster `broken`, and raises ClusterError.
    """

    def __init__(
        self, endpoints: Mapping[int, Endpoint], await_reachable: Callable[[int], None]
    ) -> None:
        self.endpoints = dict(endpoints)
        self._await_reachable = await_reachable
        self._wires: dict[int, Wire] = {}
        self.broken = False

    def call(self, region: int, *argv: str) -> Reply:
        """The reply to a command."""
        self._await_reachable(region)
        try:
            return self._wire(region).call(*argv)
        except WireError as error:
            raise self.broke(error) from error

    def ok(self, region: int, *argv: str) -> None:
        """Gives a command. Raises ClusterError unless the reply is OK."""
        reply = self.call(region, *argv)
        if reply != b"OK":
            raise ClusterError(
                f"region {self.endpoints[region].name}: {' '.join(argv)} answered {reply!r}"
            )

    def setting(self, region: int, name: str) -> str:
        """The value of a setting, as CONFIG GET shows it."""
        reply = self.call(region, "CONFIG", "GET", name)
        if not isinstance(reply, list) or len(reply) != 2 or not isinstance(reply[1], bytes):
            raise ClusterError(f"CONFIG GET {name} answered {reply!r}")
        return reply[1].decode()

    def sync(self, regions: Sequence[int]) -> bool:
        """See `ScenarioCluster`."""
        for region in regions:
            self._await_reachable(region)
        try:
            for region in regions:
                self._wire(region).send(("CRDT.SYNC", SYNC_PATIENCE_MS))
            return [self._wire(region).read() for region in regions] == [1] * len(regions)
        except WireError as error:
            raise self.broke(error) from error

    def vectors(self, regions: Sequence[int]) -> dict[int, dict[int, int]]:
        """See `ScenarioCluster`."""
        for region in regions:
            self._await_reachable(region)
        try:
            return {region: vector_of(self._wire(region)) for region in regions}
        except WireError as error:
            raise self.broke(error) from error

    def links(self, regions: Sequence[int]) -> dict[int, dict[int, str]]:
        """See `ScenarioCluster`."""
        answers = {region: peers_of(self.call(region, "CRDT.PEERS")) for region in regions}
        return {
            region: {peer: link for _, peer, link in peers} for region, peers in answers.items()
        }

    def connect(self, region: int) -> Wire:
        """A new connection to a region."""
        endpoint = self.endpoints[region]
        return Wire(endpoint.host, endpoint.port, ANSWER_PATIENCE_S, endpoint.password)

    def drop(self, region: int) -> None:
        """Closes the connection to a region, if there is one."""
        wire = self._wires.pop(region, None)
        if wire is not None:
            wire.close()

    def close(self) -> None:
        """Closes all connections."""
        for region in list(self._wires):
            self.drop(region)

    def broke(self, error: WireError) -> ClusterError:
        """Notes that a connection broke; returns the error to raise."""
        self.broken = True
        return ClusterError(str(error))

    def _wire(self, region: int) -> Wire:
        if region not in self._wires:
            self._wires[region] = self.connect(region)
        return self._wires[region]


def peers_of(reply: Reply) -> list[tuple[str, int, str]]:
    """A reply to `CRDT.PEERS` as (name, region_id, link state) triples."""
    found = []
    for peer in reply if isinstance(reply, list) else []:
        flat = peer if isinstance(peer, list) else []
        pairs = {
            flat[n]: flat[n + 1] for n in range(0, len(flat) - 1, 2) if isinstance(flat[n], bytes)
        }
        name, region_id, link = pairs.get(b"name"), pairs.get(b"region_id"), pairs.get(b"link")
        if (
            not isinstance(name, bytes)
            or not isinstance(region_id, (int, bytes))
            or not isinstance(link, bytes)
        ):
            raise ClusterError(f"CRDT.PEERS answered {reply!r}")
        found.append((name.decode(), int(region_id), link.decode()))
    if not found:
        raise ClusterError(f"CRDT.PEERS answered {reply!r}")
    return found
