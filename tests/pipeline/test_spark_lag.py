"""The job `lag` in a real Spark, over live regions: against readers that keep a cursor."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from anabranch.pipeline.jobs.lag.job import LagOptions, run
from anabranch.pipeline.jobs.progress import Bar
from anabranch.pipeline.jobs.report import Report
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]


class Silent(Bar):
    """A bar that shows nothing."""

    def __init__(self) -> None:
        pass

    def phase(self, text: str) -> None:
        """Takes a phase."""


def looked_back(spark: Any, cluster: LiveCluster, **more: Any) -> Report:
    regions = ",".join(f"{one.name}={one.address}" for one in cluster.regions.values())
    return run(spark, LagOptions({"endpoints": regions}, **more), Silent())


def add(cluster: LiveCluster, region: str, count: int) -> list[str]:
    with cluster.client(region) as client:
        return [str(client.xadd("orders", {"n": str(n)})) for n in range(count)]


class Cursor(threading.Thread):
    """A reader with XREAD in one region, which keeps one ID."""

    def __init__(self, cluster: LiveCluster, region: str, after: str) -> None:
        super().__init__()
        self._cluster, self._region, self._last = cluster, region, after
        self.ended = threading.Event()
        self.ids: set[str] = set()

    def run(self) -> None:
        with self._cluster.client(self._region) as client:
            is_over = False
            while not is_over:
                # A read that begins after the end, and has nothing, is the last one.
                is_ending = self.ended.is_set()
                found = client.xread({"orders": self._last}, block=100) or []
                for _, entries in found:
                    self.ids.update(str(one) for one, _ in entries)
                    self._last = str(entries[-1][0])
                is_over = is_ending and not found


def heal_late(
    cluster: LiveCluster, readers: dict[str, Cursor], added: dict[str, list[str]]
) -> None:
    """Heals the cut link after two seconds, and ends the readers once they have read the rest."""
    for region, reader in readers.items():
        # Otherwise a late reader would find the entries of both regions in the order of their IDs.
        eventually(lambda: {*added[region]} <= reader.ids, 60, f"{region} being read")  # noqa: B023
    time.sleep(2.0)
    cluster.heal("us", "eu")
    cluster.await_links()
    cluster.sync()
    for reader in readers.values():
        reader.ended.set()
        reader.join()


def check_skipped(rows: list[Any], readers: dict[str, Cursor], every: set[str]) -> None:
    """The late arrivals in each region are the entries that its reader did not see."""
    for region, reader in readers.items():
        skipped = {row.id for row in rows if row.region == region and row.late}
        assert skipped == every - reader.ids, region


def test_a_calm_pair(spark: Any, two_regions: LiveCluster) -> None:
    """One region adds after the other has what it added: nothing is skipped."""
    for region in ("us", "eu", "us", "eu"):
        add(two_regions, region, 5)
        two_regions.sync()
    report = looked_back(spark, two_regions)
    assert report.passed and report.facts["arrived"] == 20 and report.facts["skipped"] == 0


def test_the_last_hours(spark: Any, two_regions: LiveCluster, tmp_path: Path) -> None:
    """The logs tell afterwards what readers with XREAD skipped."""
    before = add(two_regions, "us", 1)[0]
    two_regions.sync()
    readers = {name: Cursor(two_regions, name, before) for name in ("us", "eu")}
    for reader in readers.values():
        reader.start()
    two_regions.cut("us", "eu")
    added = {"us": add(two_regions, "us", 5), "eu": add(two_regions, "eu", 7)}
    added["us"] += add(two_regions, "us", 1)
    heal_late(two_regions, readers, added)
    with two_regions.client("us") as client:
        client.xtrim("orders", maxlen=3, approximate=False)
    two_regions.cut("us", "eu")
    waiting = add(two_regions, "us", 2)
    out = tmp_path / "lag"
    report = looked_back(spark, two_regions, out=str(out))
    rows = spark.read.parquet(str(out / "arrivals")).collect()
    check_skipped(rows, readers, {*added["us"], *added["eu"]})
    assert {row.id for row in rows if row.region == "eu" and row.arrived_ms is None} == {*waiting}
    assert {row.id for row in rows if row.region == "us"} == {*added["eu"]}
    arrived = [row for row in rows if row.arrived_ms is not None and row.id != before]
    assert len(arrived) == 13 and all(1900 <= row.lag_ms < 60_000 for row in arrived)
    assert all(row.below_ms is not None and row.below_ms >= 0 for row in rows if row.late)
    assert report.passed and report.facts["untold"] == 0
    assert report.facts["skipped"] == len([row for row in rows if row.late]) > 0
    hours = spark.read.parquet(str(out / "hours")).collect()
    assert sum(row.skipped for row in hours) == report.facts["skipped"]
    json.dumps(report.facts)
    for name in ("lags", "timeline", "skipped"):
        assert (out / f"{name}.svg").stat().st_size > 1000
        assert (out / f"{name}.png").stat().st_size > 1000
