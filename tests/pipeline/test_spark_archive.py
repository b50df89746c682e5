"""`anabranch pipeline archive` and `restore` in a real Spark, over real regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.pipeline.jobs.archive import ArchiveOptions
from anabranch.pipeline.jobs.archive import run as archive
from anabranch.pipeline.jobs.progress import Bar
from anabranch.pipeline.jobs.report import Report
from tests.support.cluster import LiveCluster

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]

Spark = Any


def regions(cluster: LiveCluster) -> dict[str, str]:
    return {
        "endpoints": ",".join(f"{one.name}={one.address}" for one in cluster.regions.values())
    }


def add(cluster: LiveCluster, region: str, count: int, key: str = "orders") -> None:
    with cluster.client(region) as client:
        pipeline = client.pipeline(transaction=False)
        for n in range(count):
            pipeline.xadd(key, {"user": f"u{n}", "amount": f"{n}.5"})
        pipeline.execute()


def run(spark: Spark, cluster: LiveCluster, folder: Path, **more: Any) -> Report:
    options = ArchiveOptions(folder, regions(cluster), **more)
    with Bar(spark) as bar:
        return archive(spark, options, bar)


def counts(report: Report) -> dict[tuple[str, str], int]:
    return {(log["stream"], log["region"]): log["entries"] for log in report.facts["logs"]}


def test_late_merges_are_archived_once(
    spark: Spark, two_regions: LiveCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    add(two_regions, "us", 100)
    add(two_regions, "eu", 10, "rides")
    two_regions.sync()
    first = run(spark, two_regions, folder)
    assert first.passed and counts(first) == {("orders", "us"): 100, ("rides", "eu"): 10}
    two_regions.cut("us", "eu")
    add(two_regions, "eu", 50)
    add(two_regions, "us", 100)
    second = run(spark, two_regions, folder)
    assert counts(second)[("orders", "us")] == 200 and ("orders", "eu") not in counts(second)
    two_regions.heal("us", "eu")
    two_regions.await_links()
    two_regions.sync()
    third = run(spark, two_regions, folder)
    assert third.passed and counts(third)[("orders", "eu")] == 50
    again = run(spark, two_regions, folder)
    assert again.passed and again.facts["added_files"] == 0
    assert counts(again) == counts(third)
