"""What two live regions show of themselves: times, lags, /ready, and the lines of their logs."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from anabranch.cluster.regions import RegionProcess
from anabranch.region.engine.figures.table import ALL
from tests.support.cluster import LiveCluster
from tests.support.processes import eventually

pytestmark = pytest.mark.live
NewCluster = Callable[..., LiveCluster]

# Metrics that have samples only under conditions that this test does not make.
ELSEWHERE = {"anabranch_stream_entries", "anabranch_group_lag_entries"} | {
    "anabranch_group_pending_entries"
}


def get(region: RegionProcess, path: str) -> tuple[int, str]:
    """Status and body of a GET request."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{region.http_port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(region: RegionProcess) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples of a region: (name, labels) → value."""
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(get(region, "/metrics")[1])
        for one in family.samples
    }


def ready(region: RegionProcess, query: str = "") -> tuple[int, dict[str, Any]]:
    status, body = get(region, f"/ready{query}")
    return status, json.loads(body)


def events(region: RegionProcess) -> list[str]:
    """The names of the events in a region's log."""
    return re.findall(r": event=(\w+) region=", region.log.read_text())


def test_what_two_regions_show(new_cluster: NewCluster) -> None:
    cluster = new_cluster(["us", "eu"])
    cluster.start_all()
    us, eu = cluster["us"], cluster["eu"]
    writer = us.client()
    pipeline = writer.pipeline(transaction=False)
    for n in range(500):
        pipeline.xadd("s", {"n": str(n)})
    pipeline.execute()
    writer.ping()
    with pytest.raises(Exception, match="unknown command"):
        writer.execute_command("NOSUCH")

    def delays() -> float:
        # A statement with new effects arrives with the heartbeats.
        writer.xadd("s", {"more": "1"})
        return metrics(eu).get(("anabranch_sync_delay_seconds_count", (("origin", "us"),)), 0)

    eventually(lambda: delays() >= 1, 60, "a measured delay from us to eu")
    shown = metrics(us)
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in shown}
    missing = {row.name for row in ALL if row.metric} - names - ELSEWHERE
    # us hears of no effects of eu, because nobody writes there, and has no certificate.
    assert missing == {
        "anabranch_sync_delay_seconds",
        "anabranch_effects_merged_by_kind_total",
        "anabranch_sync_certificate_days",
    }
    assert shown["anabranch_command_seconds_count", (("command", "xadd"),)] >= 500
    assert shown["anabranch_command_seconds_sum", (("command", "xadd"),)] > 0
    assert shown["anabranch_disk_transaction_seconds_count", (("kind", "commit"),)] >= 1
    assert shown["anabranch_disk_free_bytes", ()] > 0 and shown["anabranch_disk_bytes", ()] > 0
    assert shown["anabranch_sync_sent_bytes_total", ()] > 0
    usec = us.client().info("commandstats")["cmdstat_xadd"]
    assert usec["usec"] > 0 and usec["usec_per_call"] > 0

    eventually(lambda: ready(us)[0] == 200 and ready(eu)[0] == 200, 60, "both being ready")
    assert ready(us)[1]["peers"]["eu"]["link"] == "up"
    eu.client().execute_command("CRDT.LINK", "us", "DOWN")
    status, facts = ready(eu)
    assert status == 503 and "the link from us is down" in facts["reasons"]
    writer.xadd("s", {"a": "1"})

    def behind() -> float:
        return metrics(eu)["anabranch_behind_seconds", (("peer", "us"),)]

    def lag() -> float:
        return metrics(us)["anabranch_peer_lag_seconds", (("peer", "eu"),)]

    eventually(lambda: behind() > 0.5 and lag() > 0.5, 60, "lags of half a second")
    eu.client().execute_command("CRDT.LINK", "us", "UP")
    eventually(lambda: ready(eu, "?lag_ms=1000")[0] == 200, 60, "eu being ready again")
    eventually(lambda: behind() == 0 and lag() == 0, 60, "no lag")
    assert get(eu, "/ready?lag=5")[0] == 400
    told = events(eu)
    links = [one for one in told if one.startswith("link_") and one != "link_accepted"]
    assert links == ["link_up", "link_cut", "link_healed", "link_up"]
    assert "serving" in told
