"""The events of docs/operations-watch.md in the logs of live regions, but those of `ELSEWHERE`."""

from __future__ import annotations

import os
import platform
import re
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
import redis

from anabranch import build
from anabranch.cluster.ports import free_ports
from anabranch.cluster.processes import end, limit_files, spawn
from anabranch.cluster.regions import RegionProcess
from anabranch.region.live.database import FILE_NAME
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
# Less than any region's database has after its start.
FULL_DISK_BYTES = 16 << 10
# Events of other tests: test_repair.py, tests/driver with test_events.py and test_links.py, and
# tests/trust.
ELSEWHERE = {"claim_ignored", "divergence", "log_gap", "log_unreadable", "salvaged", "salvage_loss"}
_EVENT = re.compile(r": event=(\w+) region=(\w+) (.*)")


def events(region: RegionProcess) -> list[tuple[str, str]]:
    """The events in a region's log: name, and the fields after the region."""
    found = []
    for line in region.log.read_text(encoding="utf-8").splitlines():
        event = _EVENT.search(line)
        if event is not None:
            assert event[2] == region.name and ' text="' in line, line
            found.append((event[1], event[3]))
    return found


def told(region: RegionProcess, name: str, fields: str = "", times: int = 1) -> None:
    """Waits until the log of a region has `times` events whose fields contain `fields`."""
    eventually(
        lambda: sum(event == name and fields in rest for event, rest in events(region)) >= times,
        PATIENCE_S,
        f"{name} {fields} {times} times in the log of {region.name}",
    )


def add(region: RegionProcess, size: int = 1, count: int = 1) -> None:
    with region.client() as client:
        pipeline = client.pipeline(transaction=False)
        for _ in range(count):
            pipeline.xadd("s", {"f": "x" * size})
        pipeline.execute()


def test_links(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(["us", "eu"], {"crdt-ready-lag-ms": "500"})
    cluster.start_all()
    us, eu = cluster["us"], cluster["eu"]
    told(us, "starting")
    told(us, "serving")
    told(eu, "link_up", "peer=us")
    told(us, "link_accepted", "peer=eu")
    cluster.link("eu", "us", "LIMIT", 1000)
    told(eu, "link_throttled", "peer=us delay_ms=0 limit_bytes_s=1000")
    for _ in range(5):
        # Entries that compress well would pass the limit.
        add(us, count=1)
        with us.client() as client:
            client.xadd("s", {"f": os.urandom(20_000)})
    told(eu, "link_slow", "peer=us")
    cluster.link("eu", "us", "LIMIT", 0)
    told(eu, "link_level", "peer=us")
    cluster.link("eu", "us", "DOWN")
    told(eu, "link_cut", "peer=us")
    cluster.link("eu", "us", "UP")
    told(eu, "link_healed", "peer=us")
    told(eu, "link_up", "peer=us", times=2)
    cluster.stop("us")
    told(eu, "link_ended", "peer=us")
    cluster.start("us")
    # A link that is healed and not up yet is not lost when the peer ends.
    told(eu, "link_up", "peer=us", times=3)
    os.kill(us.pid(), signal.SIGKILL)
    told(eu, "link_lost", "peer=us reason=")
    with eu.client() as client:
        client.execute_command("CRDT.MEMBER", "LOST", "us")
    assert us.process is not None
    us.process.wait(30)
    cluster.start("us")
    told(eu, "link_refused", "peer=us direction=sending reason=lost")
    # Of two regions only one can say it, so the operator confirms it.
    told(us, "called_lost", "by=eu")
    with us.client() as client:
        client.execute_command("CRDT.MEMBER", "LOST", "us")
    told(us, "lost", "by=eu")


def status(*addresses: str) -> str:
    """The problems that `anabranch status` tells."""
    line = [*build.command(), "status", *(word for one in addresses for word in ("--at", one))]
    ended = subprocess.run(line, env=child_env(), capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    return ended.stderr


def test_two_processes_of_one_region(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    eu = cluster["eu"]
    told(eu, "link_up", "peer=us")
    resp, sync, http = (f"127.0.0.1:{port}" for port in free_ports(3))
    other = ["--resp", resp, "--sync", sync, "--http", http]
    log = cluster.directory / "second.log"
    line = cluster.command("us", *other, "--data", str(cluster.directory / "second"))
    second = spawn(line, log, child_env())
    try:
        both = f"{resp} on {platform.node()} (process {second.pid})"
        told(eu, "two_processes", f'refused="{both}"')
        eventually(lambda: "reason=duplicate" in log.read_text(), PATIENCE_S, "the second one")
        told(cluster["us"], "two_processes", 'text="eu says: two processes run as region us')
        shown = status(cluster["us"].address, eu.address)
        assert both in shown and cluster["us"].address in shown
        named = (
            f"two processes run as region us: the one at {cluster['us'].address}, and the one at"
        )
        assert f"{named} {resp}; stop one of them" in status(cluster["us"].address, resp)
    finally:
        end(second, PATIENCE_S)


def test_a_clock_that_is_apart(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster()
    cluster.start_all()
    cluster.stop("ap")
    cluster.start("ap", "--crdt-clock-offset-ms=3600000")
    ap = cluster["ap"]
    told(ap, "apart", 'offset="')


def test_snapshots_and_recovery(new_cluster: Callable[..., LiveCluster]) -> None:
    settings = {"crdt-log-max-effects": "20", "crdt-log-tail-max-bytes": "1"}
    settings |= {"crdt-snapshot-patience-ms": "100", "crdt-checkpoint-interval-ms": "50"}
    cluster = new_cluster(["us", "eu"], settings)
    cluster.start_all()
    us, eu = cluster["us"], cluster["eu"]
    cluster.stop("eu")

    def is_cut_off() -> bool:
        add(us, count=20)
        with us.client() as client:
            shown = client.info("crdt")
        return bool(shown["crdt_log_effects"] + 100 < shown["crdt_effects_issued"])

    eventually(is_cut_off, PATIENCE_S, "the log of us reaching less far back", 0.1)
    cluster.start("eu", "--restored")
    told(eu, "recovery", 'cause="')
    told(us, "snapshot_asked", "peer=eu")
    told(eu, "snapshot_begun", "peer=us")
    told(eu, "snapshot_joined", "peer=us bytes=")
    told(eu, "serving", "recovered=us:")


def test_disk(new_cluster: Callable[..., LiveCluster]) -> None:
    settings = {"crdt-log-tail-max-bytes": "1", "crdt-checkpoint-interval-ms": "1500"}
    cluster = new_cluster(["us", "eu"], settings)
    cluster.start_all()
    us = cluster["us"]

    def committed() -> None:
        add(us)
        with us.client() as client:
            assert client.execute_command("CRDT.DIGEST"), "once it is on disk"

    def failed(event: str) -> bool:
        return any(name == event for name, _ in events(us))

    def checkpoint_fails() -> bool:
        limit_files(us.pid(), None)
        # The first commit may begin a checkpoint at once. The second one leaves work for another.
        committed()
        committed()
        limit_files(us.pid(), FULL_DISK_BYTES)
        eventually(lambda: failed("checkpoint_failed"), 5, "a checkpoint failing")
        return True

    def commit_fails() -> bool:
        with suppress(redis.exceptions.ResponseError):
            add(us)
        return failed("commit_failed")

    eventually(checkpoint_fails, PATIENCE_S, "a checkpoint failing")
    eventually(commit_fails, PATIENCE_S, "a commit failing")
    limit_files(us.pid(), None)
    told(us, "commit_works")
    cluster.link("eu", "us", "DOWN")
    for _ in range(3):
        committed()
    with closing(sqlite3.connect(us.data / FILE_NAME, timeout=60)) as database, database:
        database.execute("UPDATE log SET clock_ms = clock_ms + 1")
    cluster.link("eu", "us", "UP")
    told(us, "damage")


def test_every_event_of_the_docs_is_tried() -> None:
    page = (ROOT / "docs" / "operations-watch.md").read_text(encoding="utf-8")
    table = page.partition("| event | means |")[2].partition("\n\n")[0]
    named = {
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    }
    here = Path(__file__).read_text(encoding="utf-8")
    tried = set(re.findall(r'(?:told\(\w+, |failed\()"(\w+)"', here))
    assert named - tried == ELSEWHERE and tried <= named
