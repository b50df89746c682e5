"""The audit in a real Spark, over engines with planted differences and over live regions."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch import build
from anabranch.pipeline.jobs.audit.job import AuditOptions, run
from anabranch.pipeline.jobs.progress import Bar
from anabranch.pipeline.jobs.report import Report
from tests.pipeline.test_audit import pair, plant, served
from tests.support.cluster import LiveCluster

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]


class Silent(Bar):
    """A bar that shows nothing."""

    def __init__(self) -> None:
        pass

    def phase(self, text: str) -> None:
        """Says nothing."""


def audited(spark: Any, cluster: LiveCluster, **more: Any) -> Report:
    regions = ",".join(f"{one.name}={one.address}" for one in cluster.regions.values())
    return run(spark, AuditOptions({"endpoints": regions}, **more), Silent())


def test_planted_differences(spark: Any, tmp_path: Path) -> None:
    """The report, its facts and the Parquet files tell exactly the five that were planted."""
    us, eu = pair()
    plant(us, eu)
    folder = tmp_path / "differences"
    with served(us, eu) as servers:
        endpoints = ",".join(f"127.0.0.1:{one.port}" for one in servers)
        options = AuditOptions({"endpoints": endpoints}, timeout_s=5, parquet=str(folder))
        report = run(spark, options, Silent())
    assert not report.passed
    assert report.lines[0] == "us and eu differ: 5 differences in 1 stream"
    assert [row[:2] for row in report.tables[0].rows] == [
        ["damaged", "1"],
        ["lost", "3"],
        ["stands", "1"],
    ]
    assert len(report.tables[1].rows) == report.facts["differences"] == 5
    json.dumps(report.facts)
    rows = spark.read.parquet(str(folder)).collect()
    assert sorted((row.part, row.cause) for row in rows) == [
        ("acked span", "lost"),
        ("entry", "damaged"),
        ("entry", "lost"),
        ("entry", "stands"),
        ("group", "lost"),
    ]


def fill(cluster: LiveCluster, region: str, key: str, count: int) -> None:
    with cluster.client(region) as client:
        pipeline = client.pipeline(transaction=False)
        for n in range(count):
            pipeline.xadd(key, {"user": f"u{n}", "amount": f"{n}.5"})
        pipeline.execute()


def write(cluster: LiveCluster, region: str, ended: threading.Event) -> None:
    """A client that adds, removes, trims, reads in a group and acknowledges."""
    with cluster.client(region) as client:
        for n in range(1_000_000):
            if ended.is_set():
                return
            added = client.xadd("orders", {"n": str(n)})
            if n % 20 == 0:
                client.xtrim("orders", maxlen=client.xlen("orders") - 3, approximate=False)
            if n % 3 == 0:
                client.xdel("orders", added)
            if n % 50 == 0:
                client.xgroup_create("orders", f"{region}-{n}", "0")
            if n % 50 == 40:
                client.xgroup_destroy("orders", f"{region}-{n - 40}")
            for _, entries in client.xreadgroup("workers", region, {"orders": ">"}, count=5):
                client.xack("orders", "workers", *(one for one, _ in entries))


def test_regions_under_traffic_and_cut_off(spark: Any, two_regions: LiveCluster) -> None:
    """Traffic is no difference. What a cut link holds back is named, and goes when it heals."""
    for region in ("us", "eu"):
        fill(two_regions, region, "orders", 5000)
        fill(two_regions, region, f"rides:{region}", 500)
    with two_regions.client("us") as client:
        client.xgroup_create("orders", "workers", "0")
    two_regions.sync()
    ended = threading.Event()
    threads = [
        threading.Thread(target=write, args=(two_regions, region, ended)) for region in ("us", "eu")
    ]
    for thread in threads:
        thread.start()
    try:
        report = audited(spark, two_regions)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert report.passed, report.lines
    assert report.facts["entries"] > 1000 and report.facts["streams"] == 3
    assert report.facts["digests"]["differs"] == 0
    two_regions.cut("us", "eu")
    with two_regions.client("us") as client:
        client.xadd("rides:us", {"late": "1"})
    behind = audited(spark, two_regions, streams="rides:*", timeout_s=5)
    assert not behind.passed
    assert {row["cause"] for row in behind.facts["by_stream"]} == {"not-received"}
    assert behind.facts["behind"]["eu"]["us"] > 0
    two_regions.heal("us", "eu")
    healed = audited(spark, two_regions)
    assert healed.passed, healed.lines
    assert healed.facts["digest_of_regions"] == "equal"


def test_the_command(new_cluster: Callable[..., LiveCluster], tmp_path: Path) -> None:
    """With a password and a region that is down, the others are compared, and the code is 1."""
    cluster = new_cluster(["us", "eu", "ap"], {"crdt-start-patience-ms": "500"})
    for name in ("us", "eu"):
        cluster.start(name)
    with cluster.client("us") as client:
        client.xadd("orders", {"n": "1"})
    for name in ("us", "eu"):
        with cluster.client(name) as client:
            client.config_set("requirepass", "secret")
    told = tmp_path / "report.json"
    line = [*build.command(), "pipeline", "audit", "--master", "local[1]", "--json", str(told)]
    for region in cluster.regions.values():
        line += ["--at", region.address]
    env = build.environment()
    done = subprocess.run(
        [*line, "--password", "secret"], capture_output=True, text=True, env=env, timeout=300
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["us and eu hold the same", "ap was not compared: connection refused"]
    assert json.loads(told.read_text())["entries"] == 1
    wrong = subprocess.run(
        [*line, "--password", "other"], capture_output=True, text=True, env=env, timeout=300
    )
    assert wrong.returncode == 1 and "Traceback" not in wrong.stderr
    assert "password" in wrong.stderr
