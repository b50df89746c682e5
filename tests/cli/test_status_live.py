"""`anabranch status` on live regions: a line, a silent region, a terminal of 80 columns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from anabranch import build
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually
from tests.support.terminal import run_in_terminal

pytestmark = pytest.mark.live
NewCluster = Callable[..., LiveCluster]


def status(cluster: LiveCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `anabranch status` for all regions of the cluster."""
    line = [*build.command(), "status", *arguments]
    for region in cluster.regions.values():
        line += ["--at", region.address]
    return subprocess.run(
        line, capture_output=True, text=True, env=child_env(), timeout=100, check=False
    )


def in_terminal(cluster: LiveCluster, columns: int) -> str:
    """The output of `anabranch status` in a terminal."""
    line = [*build.command(), "status"]
    for region in cluster.regions.values():
        line += ["--at", region.address]
    _, output = run_in_terminal(line, {**child_env(), "COLUMNS": str(columns)})
    return output.replace("\r\n", "\n")


def test_a_line_is_healthy(new_cluster: NewCluster) -> None:
    """us – eu – ap: us and ap do not dial each other."""
    cluster = new_cluster()
    cluster.detours = {("us", "ap"): 0, ("ap", "us"): 0}
    for name in cluster.regions:
        cluster.start(name)
    cluster.client("us").xadd("s", {"a": "1"})
    eventually(lambda: cluster.client("ap").xlen("s") == 1, 30, "the entry arriving in ap")
    eventually(lambda: status(cluster).returncode == 0, 30, "a healthy status")
    shown = status(cluster)
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["us", "ap", "not", "dialled", "0"] in [row[:5] for row in rows]
    assert ["us", "eu", "up", "0"] in [row[:4] for row in rows]
    assert "all regions hold the same" in shown.stdout and shown.stderr == ""


def test_regions_with_long_names_in_a_terminal_and_in_a_pipe(new_cluster: NewCluster) -> None:
    names = ["europe-west-frankfurt-1", "us-east-virginia-2"]
    cluster = new_cluster(names)
    cluster.start_all()
    for name in names:
        cluster.client(name).xadd("s", {"a": "1"})
    eventually(lambda: cluster.digest(names[0]) == cluster.digest(names[1]), 30, "equal digests")
    piped = status(cluster)
    assert piped.returncode == 0, piped
    for columns in (80, 40):
        shown = in_terminal(cluster, columns)
        for value in (*names, *(f"{name}:1" for name in names), cluster.digest(names[0])[:12]):
            assert value in shown.split(), shown
        assert columns < 80 or max(map(len, shown.splitlines())) <= 80
    assert f"{names[0]}  {names[0]}:1  {names[1]}:1" in piped.stdout


def test_members_whose_addresses_were_not_given_are_named(new_cluster: NewCluster) -> None:
    """`status --at ONE` said that all was well, and not that it had asked one region of two."""
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    us = cluster.regions["us"]
    line = [*build.command(), "status", "--at", us.address]

    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*line, *arguments], capture_output=True, text=True, env=child_env(), check=False
        )

    eventually(lambda: asked().returncode == 0, 30, "links that are up")
    assert "not asked: eu; give their addresses with --at, too" in asked().stdout
    told = json.loads(asked("--json").stdout)
    assert told["not_asked"] == ["eu"] and told["problems"] == []
    file = cluster.directory / "old.toml"
    file.write_text(f'[[regions]]\nname = "us"\nid = {us.region_id}\nresp = "{us.address}"\n')
    line[-2:] = ["--cluster", str(file)]
    old = asked()
    assert old.returncode == 1 and "eu is a member, and the cluster file does not" in old.stderr
    assert len(json.loads(asked("--json").stdout)["problems"]) == 1


def test_silent_regions_are_named(new_cluster: NewCluster) -> None:
    """They accept connections, and never answer. They are asked at the same time."""
    cluster = new_cluster(["us", "eu", "ap"])
    cluster.start_all()
    file = cluster.directory / "cluster.toml"
    file.write_text(
        "".join(
            f'[[regions]]\nname = "{region.name}"\nid = {region.region_id}\n'
            f'resp = "{region.address}"\n'
            for region in cluster.regions.values()
        )
    )
    for name in ("eu", "ap"):
        os.kill(cluster.regions[name].pid(), signal.SIGSTOP)
    try:
        line = [*build.command(), "status", "--cluster", str(file)]
        done = subprocess.run(
            line, capture_output=True, text=True, env=child_env(), timeout=100, check=False
        )
    finally:
        for name in ("eu", "ap"):
            os.kill(cluster.regions[name].pid(), signal.SIGCONT)
    assert done.returncode == 1
    for name in ("eu", "ap"):
        assert f"  {name} at {cluster.regions[name].address} did not answer within 5 s" in (
            done.stderr.splitlines()
        )
    assert "2 problems:" in done.stderr
