"""A region that was said to be lost comes back, live: its clients, `export`, its restart."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from typer.testing import CliRunner

from anabranch import build
from anabranch.cli.main import application
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually

pytestmark = pytest.mark.live
KEY = b"k\xff\r\n"


def test_what_only_the_lost_region_holds_can_be_added_elsewhere(
    new_cluster: Callable[..., LiveCluster], tmp_path: Path
) -> None:
    cluster = new_cluster(["us", "eu", "ap"], {"appendfsync": "always"})
    for name in ("us", "eu", "ap"):
        cluster.start(name)
    raw = {name: cluster.client(name, decode_responses=False) for name in ("us", "eu", "ap")}
    raw["ap"].xadd(KEY, {b"n": b"shared"})
    eventually(lambda: raw["us"].xlen(KEY) == raw["eu"].xlen(KEY) == 1, 20, "ap's entry")
    for name, peers in (("us", ["ap"]), ("eu", ["ap"]), ("ap", ["us", "eu"])):
        for peer in peers:
            raw[name].execute_command("CRDT.LINK", peer, "DOWN")
    raw["ap"].xadd(KEY, {b"n": b"only\x00ap"})
    for name in ("us", "eu"):
        raw[name].execute_command("CRDT.MEMBER", "LOST", "ap")
    for peer in ("us", "eu"):
        raw["ap"].execute_command("CRDT.LINK", peer, "UP")
    eventually(lambda: raw["ap"].info("crdt")["crdt_state"] == "lost", 20, "ap learning of it")
    with pytest.raises(redis.exceptions.ReadOnlyError, match="was said to be lost"):
        raw["ap"].xadd(KEY, {b"n": b"late"})
    addresses = [word for one in cluster.regions.values() for word in ("--at", one.address)]
    result = CliRunner().invoke(
        application(), ["export", "ap", str(tmp_path / "ap.resp"), *addresses]
    )
    assert result.exit_code == 0 and "1 entry that ap added" in result.output, result.output
    piped = subprocess.run(
        [*build.command(), "export", "ap", "-", *addresses],
        cwd=tmp_path,
        capture_output=True,
        env=child_env(),
        timeout=100,
        check=True,
    )
    assert piped.stdout == (tmp_path / "ap.resp").read_bytes() and not Path(tmp_path, "-").exists()
    assert piped.stderr.startswith(b"1 entry that ap added")
    with socket.create_connection(("127.0.0.1", cluster.regions["us"].resp_port), 10) as wire:
        wire.sendall((tmp_path / "ap.resp").read_bytes())
        assert wire.recv(1000).startswith(b"$")
    eventually(
        lambda: (
            [fields for _, fields in raw["eu"].xrange(KEY) or []]
            == [{b"n": b"shared"}, {b"n": b"only\x00ap"}]
        ),
        20,
        "the entry of ap in eu",
    )
    cluster.stop("ap")
    cluster.start("ap")
    with pytest.raises(redis.exceptions.ReadOnlyError, match="was said to be lost"):
        cluster.client("ap").xadd("x", {"a": "1"})


def test_a_recovery_waits_until_every_other_region_is_told(
    new_cluster: Callable[..., LiveCluster],
) -> None:
    """S13.8: ap may have given effects of us to eu. eu answers once it takes nothing from ap."""
    cluster = new_cluster(["us", "eu", "ap"])
    for name in ("us", "eu", "ap"):
        cluster.start(name)
    us = cluster.client("us")
    us.xadd("s", {"n": "1"})
    eventually(lambda: cluster.client("eu").xlen("s") == 1, 20, "the entry in eu")
    cluster.stop("ap")
    cluster.stop("us")
    cluster.start("us", "--restored")
    us = cluster.client("us")
    waits_for = "is in recovery, waiting for"

    def refusal() -> str:
        with pytest.raises(redis.exceptions.ReadOnlyError) as error:
            us.xadd("s", {"n": "2"})
        return str(error.value)

    eventually(lambda: refusal().endswith(f"{waits_for} ap"), 20, "eu's answer")
    us.execute_command("CRDT.MEMBER", "LOST", "ap")
    assert refusal().endswith(f"{waits_for} eu")
    cluster.client("eu").execute_command("CRDT.MEMBER", "LOST", "ap")
    eventually(lambda: us.info("crdt")["crdt_state"] == "serving", 20, "the end of the recovery")
    us.xadd("s", {"n": "2"})
    eventually(lambda: cluster.client("eu").xlen("s") == 2, 20, "both entries in eu")
