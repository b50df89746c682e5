"""Arrivals, the watch, and the plots, without a session of Spark."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from anabranch.pipeline.errors import OptionError, PipelineError
from anabranch.pipeline.jobs.beginning import begin, stream_names
from anabranch.pipeline.jobs.door import Door
from anabranch.pipeline.jobs.lag import from_logs, from_watch, job
from anabranch.pipeline.jobs.lag.arrivals import SCHEMA, Samples, arrivals, id_key
from anabranch.pipeline.jobs.lag.plots import draw
from anabranch.pipeline.jobs.lag.report import Hours, Lag, Watch, report
from anabranch.pipeline.jobs.lag.watching import Redeliveries, last_ids, redeliveries
from anabranch.pipeline.options import SourceOptions
from tests.pipeline.test_audit import given, served
from tests.pipeline.watching import act_in_the_watch
from tests.support.engine_cluster import cluster, sync

# pandas and matplotlib are in the extra `spark`.
needs_extra = pytest.mark.spark

NAMES = {1: "us", 2: "eu"}


def samples(*noted: tuple[int, int, int], cursor: tuple[int, int] = (0, 0)) -> Samples:
    """Samples of (time in ms, counter of us, counter of eu)."""
    found = Samples(cursors={b"s": cursor})
    for time_ms, us, eu in noted:
        found.note(time_ms, {1: us, 2: eu})
    return found


def judged(entries: list[tuple[int, int, int]], **watched: Samples) -> list[tuple[Any, ...]]:
    """(origin, counter, region, arrived_ms, lag_ms, late, below_ms) of entries (origin, counter,
    ms of the ID).
    """
    import pandas as pd

    frame = pd.DataFrame(
        [(0, origin, counter, id_key(ms, origin)) for origin, counter, ms in entries],
        columns=["number", "origin", "counter", "key"],
    )
    found = arrivals(frame, b"s", watched, NAMES)
    assert list(found.columns) == [one.split()[0] for one in SCHEMA.split(", ")]
    found = found.astype(object).where(found.notna(), None)
    columns = ["origin", "counter", "region", "arrived_ms", "lag_ms", "late", "below_ms"]
    return sorted(tuple(row) for row in found[columns].itertuples(index=False))


@needs_extra
def test_late_arrivals() -> None:
    """The entry of eu with ID 50 reaches us after the entry of us with ID 60: a cursor skips it."""
    us = samples((1000, 0, 0), (1100, 1, 0), (1200, 1, 2))
    eu = samples((1000, 0, 0), (1050, 0, 1), (1150, 1, 2))
    assert judged([(1, 1, 60), (2, 1, 50), (2, 2, 70)], us=us, eu=eu) == [
        ("eu", 1, "us", 1200, 150, True, 10),
        ("eu", 2, "us", 1200, 50, False, None),
        ("us", 1, "eu", 1150, 50, False, None),
    ]


@needs_extra
def test_entries_of_one_look_are_read_in_the_order_of_their_ids() -> None:
    both = samples((1000, 0, 0), (1100, 1, 1))
    found = judged([(1, 1, 60), (2, 1, 50)], us=both, eu=both)
    assert [row[5] for row in found] == [False, False]


@needs_extra
def test_the_cursor_at_the_start() -> None:
    """Late is also what lies below the last ID of the region before the watch."""
    us = samples((1000, 5, 0), (1100, 5, 1), cursor=(90, 0))
    assert judged([(2, 1, 80)], us=us) == [("eu", 1, "us", 1100, None, True, 10)]


@needs_extra
def test_what_had_arrived_before_and_what_had_not_arrived_at_the_end() -> None:
    """The former has no row, but moves the cursor; the latter has neither time nor verdict."""
    us = samples((1000, 0, 1), (1100, 0, 2))
    assert judged([(2, 1, 80), (2, 2, 70), (2, 3, 90)], us=us) == [
        ("eu", 2, "us", 1100, None, True, 10),
        ("eu", 3, "us", None, None, None, None),
    ]


@needs_extra
def test_ids_are_compared_as_numbers() -> None:
    """Also above 2**63, and where texts would sort otherwise."""
    us = samples((1000, 0, 0), (1100, 1, 0), (1200, 1, 1))
    high = (1 << 64) - 1
    for one, other, is_late in ((9, 10, False), (10, 9, True), (high, high - 1, True)):
        ((*_, late, _),) = judged([(1, 1, one), (2, 1, other)], us=us)
        assert late is is_late


def test_a_vector_that_goes_back_is_left_out() -> None:
    """A region that was restored has fewer effects; the samples stay ascending."""
    found = samples((1000, 5, 0), (1100, 3, 0), (1500, 6, 0))
    assert found.times_ms == [1000, 1500] and found.steps(1) == [5, 6] and found.gap_ms() == 500


# -- against engines


def test_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    us, eu = cluster(2)
    us.ok("XADD", "s", "*", "n", "1")
    sync(us, eu)
    with served(us, eu) as servers:
        options = given(servers)
        source = SourceOptions(options, False)
        begun = begin(source)

        def add() -> None:
            door = Door("us", ("127.0.0.1", servers[0].port), source)
            for n in range(2):
                door.call("XADD", "s", "*", "n", n)
            door.close()

        act_in_the_watch(monkeypatch, add)
        watched, failures = from_watch.watch(begun, stream_names(begun.doors, ["*"]), 1, 20)
        streams = stream_names(begun.doors, ["*"])
        parts = from_watch.parts_of(begun.doors, streams, watched)
        rows = [row for part in parts for row in from_watch.entries(part, options)]
        for door in begun.doors.values():
            door.close()
    assert failures == {"us": 0, "eu": 0}
    assert watched["us"].vectors[0] == {1: 1} and watched["us"].vectors[-1] == {1: 3}
    assert watched["eu"].vectors[-1] == {1: 1}
    assert [(number, origin, counter) for number, origin, counter, _ in rows] == [
        (0, 1, 2),
        (0, 1, 3),
    ]
    assert list(watched["us"].cursors) == [b"s"]


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
        logs = from_logs.look(begun, since_ms)
        rows = sorted(row for part in logs.parts for row in from_logs.entries(part, options))
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


def test_hours_in_words() -> None:
    lag = found_lag()
    lag.basis = Hours(2.5, 3)
    assert report(lag).lines[0].startswith("read the logs of us and eu for the last 2.5 h: ")
    assert report(lag).lines[-1] == (
        "3 arrivals came in a snapshot, or before the log of that region begins: "
        "these are not counted"
    )


def test_redeliveries_and_last_ids() -> None:
    (us,) = cluster(1)
    for n in range(5):
        us.ok("XADD", "s", "*", "n", n)
    us.ok("XGROUP", "CREATE", "s", "g", "0")
    us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    ids = us.ids("s")
    for _ in range(2):
        us.ok("XCLAIM", "s", "g", "d", "0", *ids[:2])
    with served(us) as servers:
        door = Door("us", ("127.0.0.1", servers[0].port), SourceOptions(given(servers), False))
        assert redeliveries(door, [b"s", b"gone"]) == [Redeliveries("s", "g", "us", 5, 5, 2, 4, 3)]
        ms, seq = ids[-1].split("-")
        assert last_ids(door, [b"s", b"gone"]) == {b"s": (int(ms), int(seq))}
        door.close()


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
    watch = Watch(5, 200, {"us": 210, "eu": 200}, {"us": 1, "eu": 0})
    return Lag(["us", "eu"], {}, watch, [again], [row])


def test_the_report() -> None:
    found = report(found_lag())
    assert found.passed and found.lines == [
        "watched us and eu for 5 s: 3 arrivals, 2 of which an XREAD cursor would have skipped",
        "1 arrival had not taken place at the end",
        "times are exact to 210 ms in us and 200 ms in eu (the longest time between two looks)",
        "us did not answer 1 time",
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
