"""Arrivals, redeliveries, and the plots, without a session of Spark."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs.beginning import begin
from anabranch.pipeline.jobs.lag import arrivals, job
from anabranch.pipeline.jobs.lag.plots import draw
from anabranch.pipeline.jobs.lag.redeliveries import Redeliveries, redeliveries
from anabranch.pipeline.jobs.lag.report import Lag, report
from anabranch.pipeline.jobs.region_client import RegionClient
from anabranch.pipeline.options import SourceOptions
from tests.pipeline.test_audit import given, served
from tests.support.engine_cluster import cluster, sync

# pandas and matplotlib are in the extra `spark`.
needs_extra = pytest.mark.spark


# -- against engines


def test_the_logs() -> None:
    """The logs of both regions tell in which order and when each had the entries of the hours."""
    us, eu = cluster(2)
    us.ok("XADD", "s", "*", "n", "0")
    sync(us, eu)
    for place in (us, eu):
        place.now_ms += 7_200_000
    since_ms = us.now_ms - 3_600_000
    us.ok("XADD", "s", "*", "n", "1")
    us.ok("XADD", "other", "*", "n", "1")
    us.now_ms += 1000
    eu.now_ms += 1000
    eu.ok("XADD", "s", "*", "n", "2")
    eu.ok("XDEL", "s", "1-1")
    sync(us, eu)
    with served(us, eu) as servers:
        options = given(servers, "s")
        begun = begin(SourceOptions(options, False))
        logs = arrivals.look(begun, since_ms)
        rows = sorted(row for part in logs.parts for row in arrivals.entries(part, options))
        begun.close()
    assert logs.vectors == {"us": {1: 3, 2: 1}, "eu": {1: 3, 2: 1}}
    assert [row[:4] for row in rows] == [
        ("eu", "s", 1, 2),
        ("eu", "s", 2, 1),
        ("us", "s", 1, 2),
        ("us", "s", 2, 1),
    ]
    # In eu its own entry came first, in us that of us.
    positions = [row[5] for row in rows]
    assert positions[1] < positions[0] and positions[2] < positions[3]
    assert all(since_ms < row[6] <= us.now_ms + 1000 for row in rows)


def test_redeliveries() -> None:
    (us,) = cluster(1)
    for n in range(5):
        us.ok("XADD", "s", "*", "n", n)
    us.ok("XGROUP", "CREATE", "s", "g", "0")
    us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    ids = us.ids("s")
    for _ in range(2):
        us.ok("XCLAIM", "s", "g", "d", "0", *ids[:2])
    with served(us) as servers:
        client = RegionClient(
            "us", ("127.0.0.1", servers[0].port), SourceOptions(given(servers), False)
        )
        assert redeliveries(client, [b"s", b"gone"]) == [
            Redeliveries("s", "g", "us", 5, 5, 2, 4, 3)
        ]
        client.close()


# -- report and plots


def found_lag() -> Lag:
    row = {
        "stream": "s",
        "origin": "eu",
        "region": "us",
        "hour": None,
        "entries": 4,
        "arrived": 3,
        "skipped": 2,
        "lag_p50_ms": 10,
        "lag_p95_ms": None,
        "lag_p99_ms": 20,
        "lag_max_ms": 30,
        "below_max_ms": 7,
    }
    again = Redeliveries("s", "g", "us", 5, 5, 2, 4, 3)
    return Lag(["us", "eu"], {}, 2.5, 3, [again], [row])


def test_the_report() -> None:
    found = report(found_lag())
    assert found.passed and found.lines == [
        (
            "read the logs of us and eu for the last 2.5 h: 3 arrivals, 2 of which an XREAD cursor "
            "would have skipped"
        ),
        "1 arrival had not taken place at the end",
        "lags compare the clocks of two regions, and are as exact as these agree",
        (
            "3 arrivals came in a snapshot, or before the log of that region begins: "
            "these are not counted"
        ),
    ]
    assert found.tables[0].rows == [["s", "eu → us", "none", "4", "3", "2", "7", "10", "20", "30"]]
    assert found.tables[1].rows == [["s", "g", "us", "5", "2", "4", "3"]]


@needs_extra
@pytest.mark.parametrize("is_empty", [False, True])
def test_plots(tmp_path: Path, is_empty: bool) -> None:
    lag = found_lag()
    if is_empty:
        lag.hours = []
        paths = draw(tmp_path, {}, [], 1, lag)
    else:
        paths = draw(tmp_path, {("eu", "us"): [0, 10, 30]}, [("eu", "us", 0, 30)], 60, lag)
    assert sorted(path.name for path in paths) == [
        f"{name}.{kind}" for name in ("lags", "skipped", "timeline") for kind in ("png", "svg")
    ]
    for path in paths:
        head = path.read_bytes()[:200]
        assert head.startswith(b"\x89PNG") if path.suffix == ".png" else b"<?xml" in head


def test_a_directory_that_exists(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="exists; give a directory that does not"):
        job.check(job.LagOptions({}, out=str(tmp_path)))


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PipelineError, match="need matplotlib, which is not installed: pip install"):
        job.check(job.LagOptions({}, out=str(tmp_path / "new")))
