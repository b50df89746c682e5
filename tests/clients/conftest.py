"""Fixtures of the tests with client libraries: two regions, and a real redis-server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.clients.programs import SCANNED, Servers
from tests.support.cluster import LiveCluster


def fill(client: redis.Redis) -> None:
    """Adds the keys that the programs scan."""
    with client.pipeline(transaction=False) as pipeline:
        for n in range(SCANNED):
            pipeline.xadd(f"scanned:{n}", {"n": n})
        pipeline.execute()


@pytest.fixture(scope="session")
def regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Two regions, for all tests: programs write in us and read in eu."""
    cluster = LiveCluster(["us", "eu"], directory=tmp_path_factory.mktemp("clients"))
    try:
        cluster.start_all()
        with cluster.client("us") as client:
            fill(client)
        cluster.sync()
        yield Servers(cluster["us"].resp_port, cluster["eu"].resp_port)
    finally:
        cluster.close()


@pytest.fixture(params=["redis-server", "regions"])
def servers(request: pytest.FixtureRequest) -> Servers:
    """First a redis-server, which shows that the program is right, then the two regions."""
    if request.param == "regions":
        found: Servers = request.getfixturevalue("regions")
        return found
    oracle: redis.Redis = request.getfixturevalue("oracle")
    fill(oracle)
    port = oracle.connection_pool.connection_kwargs["port"]
    return Servers(port, port)
