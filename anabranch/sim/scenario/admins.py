"""The runner's own connections to real regions, beside those of the clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.answers import vector_of
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.regions import peers_of
from anabranch.region.resp.decoder import DecodedReply
from anabranch.region.resp.request import Word

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
        self._clients: dict[int, RespClient] = {}
        self.broken = False

    def call(self, region: int, *argv: Word) -> DecodedReply:
        """The reply to a command."""
        self._await_reachable(region)
        try:
            return self._client(region).call(*argv)
        except ConnectionFailed as error:
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
                self._client(region).send("CRDT.SYNC", SYNC_PATIENCE_MS)
            return [self._client(region).read() for region in regions] == [1] * len(regions)
        except ConnectionFailed as error:
            raise self.broke(error) from error

    def vectors(self, regions: Sequence[int]) -> dict[int, dict[int, int]]:
        """See `ScenarioCluster`."""
        for region in regions:
            self._await_reachable(region)
        try:
            return {
                region: vector_of(self._client(region).ask("CRDT.VECTOR")) for region in regions
            }
        except ConnectionFailed as error:
            raise self.broke(error) from error

    def links(self, regions: Sequence[int]) -> dict[int, dict[int, str]]:
        """See `ScenarioCluster`."""
        answers = {region: peers_of(self.call(region, "CRDT.PEERS")) for region in regions}
        return {
            region: {peer: link for _, peer, link in peers} for region, peers in answers.items()
        }

    def connect(self, region: int) -> RespClient:
        """A new connection to a region."""
        endpoint = self.endpoints[region]
        return RespClient(endpoint.host, endpoint.port, ANSWER_PATIENCE_S, endpoint.password)

    def drop(self, region: int) -> None:
        """Closes the connection to a region, if there is one."""
        client = self._clients.pop(region, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        """Closes all connections."""
        for region in list(self._clients):
            self.drop(region)

    def broke(self, error: ConnectionFailed) -> ClusterError:
        """Notes that a connection broke; returns the error to raise."""
        self.broken = True
        return ClusterError(str(error))

    def _client(self, region: int) -> RespClient:
        if region not in self._clients:
            self._clients[region] = self.connect(region)
        return self._clients[region]
