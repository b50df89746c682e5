"""Request bytes, and the sizes of replies beside a real redis-server."""

from __future__ import annotations

import pytest

from anabranch.bench.table.client import drive
from anabranch.bench.table.rates import run_once
from anabranch.bench.table.servers import RedisServer
from anabranch.bench.table.workloads import entries_of, entry_id, workloads

SCALE = 0.001


def test_ids_ascend_and_have_one_width() -> None:
    ids = [entry_id(number) for number in range(1000)]
    pairs = [tuple(int(part) for part in one.split("-")) for one in ids]
    assert pairs == sorted(set(pairs)) and {len(one) for one in ids} == {15}


def test_entries_are_whole_pages() -> None:
    assert entries_of(1.0) == entries_of(9.0) == 200_000
    assert entries_of(0.0001) == 4_000


@pytest.mark.oracle
def test_each_workload_gets_the_replies_that_it_counts() -> None:
    """The client raises an error if a reply has other marks than a workload says."""
    with RedisServer() as server:
        for name, workload in workloads(SCALE).items():
            traffic = workload.traffic()
            if workload.argv:
                workload.prepare(server)
                drive(server.port, traffic, 20)
            else:
                short = workload._replace(batches=min(workload.batches, len(traffic.batches) * 20))
                assert run_once(server, short, traffic).rate > 0, name
