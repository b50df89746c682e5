"""The table of figures: INFO, /metrics and the docs say the same under the names of the table."""

from __future__ import annotations

import re

import pytest

from anabranch.crdt.effects import AddRun, Delete
from anabranch.region.engine.commands.info import info_text
from anabranch.region.engine.figures.figure import COUNTER, HISTOGRAM, Figure, View
from anabranch.region.engine.figures.health import readiness
from anabranch.region.engine.figures.link_rows import CERTIFICATE_DAYS
from anabranch.region.engine.figures.stream_rows import label_of
from anabranch.region.engine.figures.table import ALL, figures
from anabranch.region.engine.histogram import Histogram
from anabranch.region.engine.replies import ErrorReply
from anabranch.region.engine.settings import BY_NAME
from tests.engine.test_figures import metrics
from tests.support.engine_cluster import Place, cluster, sync

# Fields of # CRDT that are numbers and name something instead of counting it, and one of regions
# with a certificate only.
NAMES = {"crdt_region_id", "crdt_life", CERTIFICATE_DAYS}


def written() -> Place:
    """A region in which every figure has a sample."""
    us, eu = cluster(2)
    for place in (us, eu):
        place.ok("XADD", "s", "*", "f", "1")
        place.ok("XGROUP", "CREATE", "s", place.engine.name, "0")
    sync(us, eu)
    us("NOSUCH")
    us.ok("PING")
    us.engine.state.statistics.count_time(b"ping", 1, 100)
    us.engine.disk.transaction_took("commit", 500)
    us.engine.state.replication.count_sync_delay(2, 5)
    us.engine.peers.links.is_in_state(2, "up", "")
    us.ok("CONFIG", "SET", "crdt-metrics-streams-max", "5")
    us.engine.set_process_facts({CERTIFICATE_DAYS: "30"})
    return us


def test_names_are_unique() -> None:
    for names in ([row.name for row in ALL], [row.info for row in ALL]):
        named = [name for name in names if name]
        assert len(set(named)) == len(named)
    assert all(row.name or row.info for row in ALL)


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.name or row.info)
def test_a_row_is_complete(row: Figure) -> None:
    assert re.fullmatch(r"[A-Z0-9].*[^.]\.", row.text), row.text
    assert re.fullmatch(r"[a-z]*", row.unit)
    # Prometheus's conventions: base units at the end of the name.
    if row.unit in ("bytes", "seconds") and row.metric:
        assert row.unit in row.metric.split("_"), row.metric
    if row.kind == HISTOGRAM:
        assert row.metric.endswith("_seconds")
    samples = row.samples(View(written().engine.state))
    assert samples, "no sample"
    for _, labels, _ in samples:
        assert set(labels) - {"le"} == set(row.labels)


def test_every_number_of_crdt_is_in_the_table() -> None:
    text = info_text(written().engine.state, ["crdt"]).decode()
    fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    numbers = {name for name, value in fields.items() if value.isdigit()} - NAMES
    rows = [row for row in ALL if row.info.startswith("crdt_")]
    assert numbers == {row.info for row in rows if not row.labels}
    assert {row.info for row in rows} <= fields.keys()


def test_info_and_metrics_show_the_same() -> None:
    state = written().engine.state
    text = info_text(state, ["everything"]).decode()
    fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    shown = {name: samples for name, _, _, samples in figures(state)}
    both = [row for row in ALL if row.info and row.metric]
    assert len(both) > 40
    for row in both:
        if row.labels:
            text = ",".join(f"{'/'.join(by.values())}={int(n)}" for _, by, n in shown[row.name])
        else:
            ((_, _, value),) = shown[row.name]
            text = str(int(value))
        assert fields[row.info] == text, row.info


def test_counters_end_in_total() -> None:
    for row in ALL:
        assert row.name.endswith("_total") == (row.kind == COUNTER and bool(row.metric))


def test_streams_have_metrics_of_their_own_behind_a_limit() -> None:
    (us,) = cluster(1)
    for n, key in enumerate(("a", "b", "c"), 1):
        for _ in range(n):
            us.ok("XADD", key, "*", "f", "1")
        for group in ("g", "h"):
            us.ok("XGROUP", "CREATE", key, group, "0")
    us.ok("XREADGROUP", "GROUP", "g", "x", "COUNT", "2", "STREAMS", "c", ">")

    assert metrics(us, "stream_entries") == {}
    us.ok("CONFIG", "SET", "crdt-metrics-streams-max", "2")
    assert metrics(us, "stream_entries") == {("c",): 3, ("b",): 2}
    assert metrics(us, "group_lag_entries") == {("c", "g"): 1, ("c", "h"): 3}
    assert metrics(us, "group_pending_entries") == {("c", "g"): 2, ("c", "h"): 0}
    us.ok("CONFIG", "SET", "crdt-metrics-streams-max", "100")
    assert len(metrics(us, "group_lag_entries")) == 6
    us.ok("DEL", "c")
    assert set(metrics(us, "stream_entries")) == {("a",), ("b",)}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        (b"orders", "orders"),
        ("für".encode(), "für"),
        (b"\xff\n", "\\xff\\n"),
        (b"a\x1b[2J", "a\\x1b[2J"),
        # As text, the same as a line break. Two series once had one label value.
        (b"\\n", "\\\\n"),
    ],
)
def test_labels(name: bytes, label: str) -> None:
    assert label_of(name) == label


def test_long_names_are_cut_and_stay_different() -> None:
    one, other = label_of(b"k" * 1000), label_of(b"k" * 1001)
    assert one != other and max(len(one), len(other)) <= 120


def test_a_region_is_ready_when_it_serves_and_has_what_others_have() -> None:
    us, eu, _ap = cluster(3)
    us.ok("XADD", "s", "*", "f", "1")
    sync(us, eu)
    state = us.engine.state

    def reasons(lag_ms_max: int | None = None) -> list[str]:
        is_ready, details = readiness(state, lag_ms_max)
        assert is_ready == details["ready"] == (not details["reasons"])
        return list(details["reasons"])

    assert reasons() == [], "a link that the region does not dial is not asked for"
    us.engine.peers.links.is_in_state(2, "up", "")
    us.engine.peers.links.is_in_state(3, "connecting", "")
    us.engine.tick(us.now_ms)
    assert reasons() == ["the link from ap is connecting"]
    us.now_ms += 20_000
    us.engine.tick(us.now_ms)
    assert reasons(60_000) == ["the link from ap is connecting"]
    link, late = reasons()
    assert link == "the link from ap is connecting"
    assert re.fullmatch(r"20\d{3} ms behind ap, more than 10000", late)
    us.ok("CRDT.MEMBER", "LOST", "ap")
    assert reasons() == [] and "ap" not in readiness(state, None)[1]["peers"]
    us.ok("CRDT.LINK", "eu", "DELAY", "300")
    assert reasons(299) == ["300 ms behind eu, more than 299"] and reasons(300) == []
    us.ok("CRDT.LINK", "eu", "DOWN")
    assert "the link from eu is down" in reasons()
    us.ok("CRDT.LINK", "eu", "UP")
    us.engine.state.lifecycle.enter_recovery()
    assert "the state is recovery, not serving" in reasons()


def test_times_of_commands_are_in_commandstats() -> None:
    (us,) = cluster(1)
    us.ok("XADD", "s", "*", "f", "1")
    us.ok("XADD", "s", "*", "f", "1")
    us.engine.state.statistics.count_time(b"xadd", 2, 15)
    text = info_text(us.engine.state, ["commandstats"]).decode()
    assert "cmdstat_xadd:calls=2,usec=15,usec_per_call=7.50,rejected_calls=0" in text
    times = us.engine.state.statistics.times
    assert list(times) == [b"xadd"] and isinstance(times[b"xadd"], Histogram)
    us.ok("CONFIG", "RESETSTAT")
    assert us.engine.state.statistics.times == {}


def test_refusals_are_counted_by_their_limit() -> None:
    (us,) = cluster(1)
    us.ok("CONFIG", "SET", "crdt-uncommitted-max-bytes", "1048576")
    us.ok("XADD", "s", "*", "f", "x" * 2_000_000)
    assert isinstance(us("XADD", "s", "*", "f", "y"), ErrorReply)
    us.engine.set_process_facts({"rejected_connections": "3"})

    refused = metrics(us, "limit_refusals_total")
    assert {limit for (limit,) in refused} <= BY_NAME.keys()
    assert refused["crdt-uncommitted-max-bytes",] == 1 and refused["maxclients",] == 3
    assert refused["crdt-unit-max-bytes",] == 0
    us.commit()
    us.ok("CONFIG", "SET", "crdt-unit-max-bytes", "1048576")
    us.ok("MULTI")
    assert isinstance(us("XADD", "s", "*", "f", "x" * 2_000_000), ErrorReply)
    assert metrics(us, "limit_refusals_total")["crdt-unit-max-bytes",] == 1


def test_merged_effects_are_counted_by_kind() -> None:
    us, eu = cluster(2)
    for _ in range(3):
        us.ok("XADD", "s", "*", "f", "1")
    us.ok("DEL", "s")
    us.commit()
    sync(us, eu)
    assert eu.engine.state.replication.merged_by_kind == {AddRun: 3, Delete: 1}
    assert sum(eu.engine.state.replication.merged_by_kind.values()) == (
        eu.engine.state.replication.effects_merged
    )
