"""How a job that compares regions begins: which regions answer, and which streams they hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.answers import members_of
from anabranch.crdt.vector import Vector
from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs.region_client import ConnectionLost, RegionClient
from anabranch.pipeline.options import Endpoint, SourceOptions, is_glob
from anabranch.pipeline.resp import encoded


@dataclass
class Beginning:
    """The regions at the start of a job.

    `names` holds the names of all members by region_id, `down` tells why regions do not answer.

    The audit also notes the `target` up to which regions are compared, the vector that each region
    has on disk, and `behind`: how many effects of each member a region lacks of the target, by
    their names.
    """

    clients: dict[str, RegionClient]
    names: dict[int, str]
    down: dict[str, str]
    target: Vector = field(default_factory=dict)
    vectors: dict[str, Vector] = field(default_factory=dict)
    behind: dict[str, dict[str, int]] = field(default_factory=dict)

    def close(self) -> None:
        """Closes all connections."""
        for client in self.clients.values():
            client.close()


def begin(options: SourceOptions) -> Beginning:
    """Asks all endpoints of which region they are.

    Raises:
        PipelineError: Fewer than two regions answer, or they are of different clusters.
    """
    clients: dict[str, RegionClient] = {}
    down: dict[str, str] = {}
    clusters: dict[str, str] = {}
    names: dict[int, str] = {}
    for endpoint in options.endpoints:
        client = RegionClient(endpoint.name, (endpoint.host, endpoint.port), options)
        try:
            facts = client.info()
        except ConnectionLost as error:
            down[_label(endpoint)] = str(error)
            continue
        client.close()
        name = facts["crdt_region_name"]
        if name in clients:
            raise OptionError(f"two addresses are of the region {name}: give one for each region")
        clients[name] = RegionClient(name, client.address, options)
        clusters[name] = f"{facts['crdt_cluster']} with {facts['crdt_members']}"
        names |= members_of(facts)
    if len(set(clusters.values())) > 1:
        told = "; ".join(f"{name} is of {cluster}" for name, cluster in clusters.items())
        raise PipelineError(f"the regions are not of one cluster: {told}")
    if len(clients) < 2:
        told = "".join(f"; {name}: {why}" for name, why in down.items())
        raise PipelineError(
            f"the job compares two regions or more, and {len(clients)} answers{told}"
        )
    return Beginning(clients, names, down)


def _label(endpoint: Endpoint) -> str:
    return endpoint.name or f"{endpoint.host}:{endpoint.port}"


def stream_names(clients: dict[str, RegionClient], wanted: list[str]) -> list[bytes]:
    """The streams that the option names, in any region.

    Raises PipelineError for a name of which no region holds anything; a glob may match nothing.
    """
    found: set[bytes] = set()
    for name in wanted:
        if not is_glob(name):
            stream = encoded(name)
            if not any(client.state(stream).holds_anything() for client in clients.values()):
                raise PipelineError(
                    f"there is no stream '{name}' in any region (--streams): give the name of a "
                    "stream, or a glob, which may match none"
                )
            found.add(stream)
            continue
        for client in clients.values():
            found.update(client.keys(encoded(name)))
    return sorted(found)
