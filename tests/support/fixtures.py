"""Fixtures available to every test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from anabranch.cluster.ports import free_ports
from anabranch.cluster.processes import end
from anabranch.cluster.toxiproxy_server import ToxiproxyMissing, ToxiproxyServer, program
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually


@pytest.fixture
def free_port() -> int:
    """One free loopback port."""
    return free_ports(1)[0]


@pytest.fixture(scope="session")
def redis_server_binary() -> str:
    """Path of redis-server. If it is not installed, the test fails with a message; never skips."""
    path = shutil.which("redis-server")
    if path is None:
        pytest.fail(
            "this test compares with redis-server, which is not installed: "
            "install the package redis-server"
        )
    return path


@pytest.fixture(scope="session")
def _oracle_port(
    redis_server_binary: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    port = free_ports(1)[0]
    directory = tmp_path_factory.mktemp("redis")
    line = [
        redis_server_binary,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(directory),
        "--daemonize",
        "no",
    ]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(port=port) as client:
            eventually(client.ping, what="redis-server answering PING")
        yield port
    finally:
        end(process)


@pytest.fixture
def oracle(_oracle_port: int) -> Iterator[redis.Redis]:
    """A client of a real redis-server, which is emptied before each test. Replies are bytes."""
    with redis.Redis(port=_oracle_port) as client:
        client.flushall()
        yield client


@pytest.fixture
def toxiproxy(tmp_path: Path) -> Iterator[ToxiproxyServer]:
    """A running toxiproxy server. If there is none, the test fails with a message; never skips."""
    try:
        program()
    except ToxiproxyMissing as missing:
        pytest.fail(str(missing))
    with ToxiproxyServer(free_ports(1)[0], tmp_path / "toxiproxy.log") as server:
        yield server


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Callable[..., LiveCluster]]:
    """Makes clusters, which the test starts itself.

    Example: ``new_cluster(["us", "eu"], {"appendfsync": "always"})``.
    """
    made: list[LiveCluster] = []

    def make(
        names: list[str] | None = None,
        settings: dict[str, str] | None = None,
        cluster: str = "test",
    ) -> LiveCluster:
        directory = tmp_path / f"cluster{len(made)}"
        made.append(LiveCluster(names or ["us", "eu", "ap"], settings, directory, cluster))
        return made[-1]

    try:
        yield make
    finally:
        for one in made:
            one.close()


@pytest.fixture
def cluster(new_cluster: Callable[..., LiveCluster]) -> LiveCluster:
    """A running cluster of the regions us, eu and ap, with all links up."""
    one = new_cluster()
    one.start_all()
    return one
