"""Regions that run out of memory end, are started again, and equal their peers (S13.10)."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import redis

from anabranch.cli.errors import EndedByError
from anabranch.cluster.regions import RegionProcess
from tests.support.cluster import LiveCluster

pytestmark = pytest.mark.live
NewCluster = Callable[..., LiveCluster]

# How often a region runs out of memory; the acceptance takes 200.
RUNS = int(os.environ.get("FAIL_STOP_RUNS", "3"))
ADDS_MAX = 2000
# Bytes that a region may map in addition. The writes take more than the first one.
LIMITS = (1 << 20, 4 << 20, 16 << 20)


def limit_memory(region: RegionProcess, more_bytes: int) -> None:
    """Lets a running region map at most `more_bytes` more, as `ulimit -v` does."""
    pages = int(Path(f"/proc/{region.pid()}/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + more_bytes
    resource.prlimit(region.pid(), resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def unlimit_memory(region: RegionProcess) -> None:
    unlimited = resource.RLIM_INFINITY
    resource.prlimit(region.pid(), resource.RLIMIT_AS, (unlimited, unlimited))


def has_ended(region: RegionProcess) -> bool:
    """Whether a region ends that has closed a connection."""
    try:
        region.started().wait(20)
    except subprocess.TimeoutExpired:
        return False
    return True


def write_until_it_ends(cluster: LiveCluster, name: str, draw: Random) -> int:
    """Writes until the region is gone, or long enough; returns how many writes were answered."""
    client = cluster.client(name, retry=None)
    answered = 0
    try:
        for number in range(ADDS_MAX):
            value = "x" * draw.choice([10, 1000, 30_000])
            client.xadd(f"s{number % 7}", {"f": value})
            answered += 1
            if number % 50 == 0:
                client.xrange(f"s{number % 7}")
    except redis.RedisError:
        pass
    return answered


def test_a_region_without_memory_ends_or_goes_on_equal_to_its_peers(
    new_cluster: NewCluster,
) -> None:
    """It used to go on with memory that differed from its log, and its links were forked.

    What the log says after each end is what its peer has: every answered entry, no gap, no fork.
    """
    cluster = new_cluster(["us", "eu"], {"appendfsync": "always"})
    cluster.start_all()
    draw = Random(47)
    ends: list[int] = []
    for run in range(RUNS):
        region = cluster["us"]
        before = sum(cluster.client("us").xlen(f"s{n}") for n in range(7))
        limit_memory(region, draw.choice(LIMITS) if run else LIMITS[0])
        answered = write_until_it_ends(cluster, "us", draw)
        if answered == ADDS_MAX or not has_ended(region):
            unlimit_memory(region)
            ends.append(0)
        else:
            ends.append(region.started().wait(1))
            (region.data / "region.ends").unlink(missing_ok=True)
            cluster.start("us")
        cluster.await_links()
        cluster.sync()
        assert cluster.digest("us") == cluster.digest("eu")
        assert sum(cluster.client("eu").xlen(f"s{n}") for n in range(7)) >= before + answered
        for name in ("us", "eu"):
            figures = cluster[name].info()
            assert figures["crdt_gaps"] == figures["crdt_forks"] == "0"
        cluster.client("us").flushall()
    print(f"{RUNS} runs: {[(code, ends.count(code)) for code in sorted(set(ends))]}")
    assert ends[0] == EndedByError.exit_code, cluster["us"].log_tail()
