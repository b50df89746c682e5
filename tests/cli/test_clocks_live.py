"""Live regions with a clock that is wrong (S10.2, T20): IDs, deadlines, words of the operator."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from anabranch import build
from tests.support.cluster import LiveCluster, child_env
from tests.support.processes import eventually

pytestmark = pytest.mark.live

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


def run(cluster: LiveCluster, *words: str, code: int = 0) -> str:
    """Runs a command for all regions; its output."""
    line = [*build.command(), *words]
    for region in cluster.regions.values():
        line += ["--at", region.address]
    ended = subprocess.run(
        line, capture_output=True, text=True, env=child_env(), timeout=100, check=False
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout


def info(cluster: LiveCluster, name: str) -> dict[str, Any]:
    with cluster.client(name) as client:
        found: dict[str, Any] = client.info("everything")
        return found


def state_is(cluster: LiveCluster, name: str, state: str) -> None:
    eventually(lambda: info(cluster, name)["crdt_state"] == state, 60, f"{name} being {state}")


def ahead_ms(cluster: LiveCluster, name: str, key: str) -> int:
    """How far the ID of a new entry is ahead of this machine's clock."""
    with cluster.client(name) as client:
        entry_id = str(client.xadd(key, {"f": "v"}))
    return int(entry_id.partition("-")[0]) - time.time_ns() // 1_000_000


@pytest.mark.parametrize("leap_ms", [HOUR_MS, DAY_MS])
@pytest.mark.parametrize("is_first", [False, True], ids=["starts last", "starts first"])
def test_a_clock_that_is_ahead_at_a_start(
    new_cluster: Callable[..., LiveCluster], leap_ms: int, is_first: bool
) -> None:
    """Once, IDs of 2046 were given in all regions, and a deadline in an hour passed at once."""
    cluster = new_cluster()
    cluster.start_all()
    wrong = f"--crdt-clock-offset-ms={leap_ms}"
    if is_first:
        for name in ("us", "eu", "ap"):
            cluster.stop(name)
        cluster.start("ap", wrong)
        cluster.start("us")
        cluster.start("eu")
    else:
        cluster.stop("ap")
        cluster.start("ap", wrong)
        cluster.stop("us")
        cluster.start("us")
    state_is(cluster, "ap", "apart")
    state_is(cluster, "us", "serving")
    assert abs(ahead_ms(cluster, "us", "orders")) < 60_000
    with cluster.client("us") as client:
        client.xadd("session", {"f": "v"})
        client.expire("session", 600)
    with cluster.client("ap") as client, pytest.raises(redis.ReadOnlyError, match="its clock is"):
        client.xadd("orders", {"f": "v"})
    cluster.stop("ap")
    cluster.start("ap")
    state_is(cluster, "ap", "serving")
    run(cluster, "clock", "reset", "--yes")
    cluster.await_links()
    cluster.sync()
    for name in ("us", "eu", "ap"):
        assert abs(ahead_ms(cluster, name, f"of-{name}")) < 60_000, name
        with cluster.client(name) as client:
            assert 500 < client.ttl("session") <= 600, name


def test_status_tells_of_a_clock_that_is_apart(new_cluster: Callable[..., LiveCluster]) -> None:
    cluster = new_cluster()
    cluster.start_all()
    cluster.stop("ap")
    cluster.start("ap", f"--crdt-clock-offset-ms=-{HOUR_MS}")
    state_is(cluster, "ap", "apart")
    told = json.loads(run(cluster, "status", "--json", code=1))
    problem = [one for one in told["problems"] if one.startswith("ap takes no writes")]
    assert len(problem) == 1 and "behind us, eu" in problem[0]
    run(cluster, "clock", "trust", "ap")
    state_is(cluster, "ap", "serving")
    with cluster.client("ap") as client:
        client.xadd("orders", {"f": "v"})
