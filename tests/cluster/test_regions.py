"""The command lines of regions."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import build
from anabranch.cluster.errors import ClusterError
from anabranch.cluster.regions import ProcessCluster, peers_of


def test_the_command_line_of_a_region(tmp_path: Path) -> None:
    cluster = ProcessCluster(["us", "eu", "ap"], {"appendfsync": "no"}, tmp_path, "local")
    us, eu = cluster["us"], cluster["eu"]
    cluster.detours = {("us", "eu"): 7777, ("us", "ap"): 0}
    line = cluster.command("us", "--restored")
    words = ["serve", "--cluster", "local", "--name", "us", "--members", "us=1,eu=2,ap=3"]
    words += ["--resp", us.address, "--sync", f"127.0.0.1:{us.sync_port}"]
    words += ["--http", f"127.0.0.1:{us.http_port}", "--peer", "eu@127.0.0.1:7777"]
    # No region of the cluster has data yet.
    words += ["--data", str(tmp_path / "us"), "--first-start", "--appendfsync", "no", "--restored"]
    assert line == [*build.command(), *words]
    assert f"us@127.0.0.1:{us.sync_port}" in cluster.command("eu")
    assert len({us.resp_port, us.sync_port, us.http_port, eu.resp_port}) == 4


def test_a_temporary_directory_is_removed(tmp_path: Path) -> None:
    with ProcessCluster(["us"]) as cluster:
        assert cluster.directory.exists() and cluster.running() == []
    assert not cluster.directory.exists()
    with ProcessCluster(["us"], directory=tmp_path):
        pass
    assert tmp_path.exists()


def test_the_rows_of_peers() -> None:
    row = [b"name", b"eu", b"region_id", 2, b"link", b"up", b"lag", 0]
    assert peers_of([row]) == [("eu", 2, "up")]
    with pytest.raises(ClusterError, match="CRDT.PEERS"):
        peers_of([])
