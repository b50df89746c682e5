"""An old backup while the peers hold newer effects: no dot is issued twice (S13.6, S13.7).

eu is stopped while us starts, so that patience ends before any peer can say what it holds.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from anabranch import build
from anabranch.region.live.data_files import MARK_NAME
from anabranch.region.live.database import FILE_NAME
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

pytestmark = pytest.mark.live

SETTINGS = {"appendfsync": "always", "crdt-start-patience-ms": "200"}


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*build.command(), *map(str, words)],
        env=build.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def command(*words: object) -> None:
    done = run(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def entries(cluster: LiveCluster, name: str) -> dict[int, Any]:
    """Counter → ID and fields of the entries of us in the key k, as a region holds them."""
    with cluster.client(name, protocol=3) as client:
        rows: Any = client.execute_command("CRDT.LOG", "k", "us")
        return {int(row["counter"]): (row["id"], row["fields"]) for row in rows}


def info(cluster: LiveCluster, name: str) -> dict[str, Any]:
    with cluster.client(name) as client:
        found: dict[str, Any] = client.info("everything")
        return found


def add(cluster: LiveCluster, count: int, text: str) -> None:
    with cluster.client("us") as client:
        for number in range(count):
            client.xadd("k", {"f": f"{text} {number}"})


@pytest.fixture
def behind(new_cluster: Callable[..., LiveCluster], tmp_path: Path) -> LiveCluster:
    """A backup of us holds 10 of its effects, and eu holds 30. us is down, eu does not answer."""
    cluster = new_cluster(["us", "eu"], SETTINGS)
    cluster.start_all()
    add(cluster, 10, "before")
    cluster.sync()
    command("backup", "us", tmp_path / "backup", "--data", cluster["us"].data)
    add(cluster, 20, "lost")
    cluster.sync()
    cluster.kill("us")
    shutil.rmtree(cluster["us"].data)
    eu = cluster["eu"].process
    assert eu is not None
    eu.send_signal(signal.SIGSTOP)
    return cluster


def resume(cluster: LiveCluster) -> None:
    eu = cluster["eu"].process
    assert eu is not None
    eu.send_signal(signal.SIGCONT)


def patience_is_over(cluster: LiveCluster) -> None:
    eventually(lambda: info(cluster, "us")["crdt_state"] != "starting", 20, "the start being over")


def recovers(cluster: LiveCluster) -> None:
    """us gets its 30 effects back from eu, goes on with effect 31, and both regions are equal."""
    before = entries(cluster, "eu")
    eventually(lambda: info(cluster, "us")["crdt_state"] == "serving", 30, "us serving")
    add(cluster, 1, "after")
    cluster.await_links()
    cluster.sync()
    now = entries(cluster, "eu")
    assert entries(cluster, "us") == now and cluster.digest("us") == cluster.digest("eu")
    assert len(before) == 30 and {dot: now[dot] for dot in before} == before
    assert now[31][1] == ["f", "after 0"]
    assert info(cluster, "eu")["crdt_forks"] == info(cluster, "us")["crdt_forks"] == 0


def test_a_restored_region_issues_no_dot_twice(behind: LiveCluster, tmp_path: Path) -> None:
    """After `anabranch restore`, us takes no write before it has its effects 11 to 30 back."""
    try:
        command("restore", tmp_path / "backup", "--data", behind["us"].data)
        behind.start("us")
        patience_is_over(behind)
        with pytest.raises(redis.ReadOnlyError, match="in recovery, waiting for eu"):
            add(behind, 1, "too early")
        assert behind.vector("us")[1] == 10
    finally:
        resume(behind)
    recovers(behind)


def test_a_fork_is_refused(behind: LiveCluster, tmp_path: Path) -> None:
    """An operator hides the restore: neither region takes the other's contents of a dot.

    The backup is put in place by hand, the mark is missing, and --moved denies the restore. So us
    issues its effects 11 and following once more. The links must stay closed, with an alarm.
    """
    try:
        behind["us"].data.mkdir()
        shutil.copyfile(tmp_path / "backup", behind["us"].data / FILE_NAME)
        assert not (behind["us"].data / MARK_NAME).exists()
        behind.start("us", "--moved")
        patience_is_over(behind)
        add(behind, 25, "again")
    finally:
        resume(behind)
    before = {name: entries(behind, name) for name in ("us", "eu")}
    eventually(lambda: behind.links("us")["eu"] == "forked", 30, "the link being forked")
    eventually(lambda: behind.links("eu")["us"] == "forked", 30, "the link being forked")
    assert {name: entries(behind, name) for name in ("us", "eu")} == before
    assert before["us"][11] != before["eu"][11]
    assert info(behind, "us")["crdt_forks"] > 0 and info(behind, "eu")["crdt_forks"] > 0
    _tell_of_forks(behind)
    _mend(behind, tmp_path, before["us"])


def _tell_of_forks(cluster: LiveCluster) -> None:
    """`explain`, `whatif` and `diff` say that counters do not compare, and where to read on.

    They compared counters, and told falsehoods: `diff`, that eu had removed entries of us which it
    had never held, and nothing of those that had another one under their dot.
    """
    words = [word for one in cluster.regions.values() for word in ("--at", one.address)]
    for line in (["explain", "us", "k"], ["whatif", "region-lost", "us"], ["diff", "us", "eu"]):
        done = run(*line, *words)
        assert done.returncode == (line[0] == "diff"), done.stderr
        first = done.stdout.split("\n")[0]
        assert first.startswith("eu and us are forked: ") and done.stdout.count("forked:") == 1
        assert "counters do not compare" in first and "docs/operations-repair.md#a-fork" in first
        assert "has applied a removal" not in done.stdout and "lacks effects" not in done.stdout
        found = json.loads(run(*line, *words, "--json").stdout)
        told = {(fork["region"], fork["peer"]) for fork in found["forks"]}
        assert told == {("us", "eu"), ("eu", "us")} and found["problems"][0] == first
    (key,) = found["keys"]
    assert len(key["entries"]) + key["more_entries"] == 25 + 20
    assert {one["why"] for one in key["entries"]} == {"the two histories are forked"}


def _mend(cluster: LiveCluster, tmp_path: Path, lost: dict[int, Any]) -> None:
    """The page on repairs, step by step: from the fork to equal regions with every entry.

    The export once compared counters: it left out 20 entries of us, which were lost.
    """
    held = set(map(repr, entries(cluster, "eu").values()))
    only_us = [fields for entry_id, fields in lost.values() if repr((entry_id, fields)) not in held]
    assert len(only_us) == 25
    words = [word for one in cluster.regions.values() for word in ("--at", one.address)]
    command("export", "us", tmp_path / "us.resp", *words)
    cluster.stop("us")
    shutil.rmtree(cluster["us"].data)
    cluster.start("us")
    eventually(lambda: info(cluster, "us")["crdt_state"] == "serving", 30, "us serving")
    command("link", "heal", *words)
    cluster.await_links()
    with socket.create_connection(("127.0.0.1", cluster["us"].resp_port), 30) as one:
        one.sendall((tmp_path / "us.resp").read_bytes())
        replies = b""
        while replies.count(b"\r\n") < 2 * len(only_us):
            replies += one.recv(1 << 16)
    assert b"-" not in replies[:1]
    cluster.sync()
    now = [fields for _, fields in entries(cluster, "eu").values()]
    assert all(fields in now for fields in only_us) and len(now) == 30 + 25
    assert entries(cluster, "us") == entries(cluster, "eu")
    assert cluster.digest("us") == cluster.digest("eu")


def test_a_lost_volume_beside_a_silent_peer_forks_from_nobody(behind: LiveCluster) -> None:
    """Once, us served as a new region after two seconds, and the acknowledged entries of us in eu
    were in conflict with new ones for ever.
    """
    try:
        behind.start("us")
        patience_is_over(behind)
        assert "--first-start" in info(behind, "us")["crdt_recovery_cause"]
        with pytest.raises(redis.ReadOnlyError, match="in recovery, waiting for eu"):
            add(behind, 1, "too early")
    finally:
        resume(behind)
    recovers(behind)
