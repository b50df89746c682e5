"""CRDT.GROUPS: groups in counters of region logs, as this region has them."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.region.engine.replies import ErrorReply
from tests.study.test_explanation import Cluster
from tests.support.engines import execute


def groups(cluster: Cluster, name: str, *words: str) -> dict[str, Any]:
    reply = cluster.call(name, "CRDT.GROUPS", "k", *words)
    assert isinstance(reply, dict)
    return reply


@pytest.fixture
def cluster() -> Cluster:
    """us has four entries; ann read three of them and acknowledged the first and the third."""
    made = Cluster()
    ids = [made.call("us", "XADD", "k", "*", "n", str(n)) for n in range(4)]
    made.call("us", "XGROUP", "CREATE", "k", "g", "0")
    made.call("us", "XREADGROUP", "GROUP", "g", "ann", "COUNT", "3", "STREAMS", "k", ">")
    made.call("us", "XACK", "k", "g", ids[0], ids[2])
    return made


def test_a_group_as_its_region_has_it(cluster: Cluster) -> None:
    (group,) = groups(cluster, "us")["groups"]
    assert group["name"] == "g" and group["creates"] == [[[1, 5], "0-0"]]
    assert group["floor"] is None and group["floor-counters"] == [1, 0]
    assert group["given"] == [[1, 0, 3]] and group["acked"] == []
    assert [one[:2] + one[3:4] for one in group["pending"]] == [[1, 2, "ann"]]
    assert group["pending-count"] == 1 and group["consumers"] == [["ann", 1]]
    assert group["lag"] == 1 and group["dropped"] == []


def test_a_floor_and_what_a_consumer_dropped(cluster: Cluster) -> None:
    second = cluster.call("us", "XRANGE", "k", "-", "+")[1][0]
    cluster.call("us", "XGROUP", "DELCONSUMER", "k", "g", "ann")
    cluster.call("us", "XGROUP", "SETID", "k", "g", second)
    (group,) = groups(cluster, "us")["groups"]
    assert group["dropped"] == [[1, 2]] and group["consumers"] == []
    assert group["floor"] == second and group["floor-counters"] == [1, 2]


def test_local_state_stays_in_its_region(cluster: Cluster) -> None:
    cluster.sync("us", "eu")
    (group,) = groups(cluster, "eu")["groups"]
    assert group["creates"] == [[[1, 5], "0-0"]]
    assert group["given"] == [] and group["pending"] == [] and group["lag"] == 4


def test_pending_entries_are_bounded_by_ids_and_count(cluster: Cluster) -> None:
    cluster.call("us", "XREADGROUP", "GROUP", "g", "bob", "STREAMS", "k", ">")
    ids = [entry[0] for entry in cluster.call("us", "XRANGE", "k", "-", "+")]
    assert len(groups(cluster, "us")["groups"][0]["pending"]) == 2
    (group,) = groups(cluster, "us", ids[2], "+")["groups"]
    assert [one[2] for one in group["pending"]] == [ids[3]] and group["pending-count"] == 2
    (group,) = groups(cluster, "us", "-", "+", "COUNT", "1")["groups"]
    assert [one[2] for one in group["pending"]] == [ids[1]]


def test_a_start_at_dollar_is_a_vector(cluster: Cluster) -> None:
    cluster.call("us", "XGROUP", "CREATE", "k", "late", "$")
    late = groups(cluster, "us")["groups"][1]
    assert late["creates"][0][1] == [1, 5] and late["floor-counters"] == [1, 4]


def test_tombstones_of_a_group_of_all_groups_and_of_a_flush(cluster: Cluster) -> None:
    cluster.call("us", "XGROUP", "DESTROY", "k", "g")
    assert groups(cluster, "us") == {"key": "k", "groups": [], "group-tombstones": [["g", [1, 6]]]}
    cluster.call("us", "DEL", "k")
    cluster.call("us", "FLUSHALL")
    names = [name for name, _ in groups(cluster, "us")["group-tombstones"]]
    assert "* (FLUSHALL)" in names


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-"], "ERR syntax error"),
        (["-", "+", "COUNT"], "ERR syntax error"),
        (["COUNT", "-1"], "ERR COUNT must be between 0 and 100000"),
        (["x", "+"], "ERR Invalid stream ID specified as stream command argument"),
    ],
)
def test_mistakes(cluster: Cluster, words: list[str], error: str) -> None:
    region = cluster.regions["us"]
    argv = [word.encode() for word in ("CRDT.GROUPS", "k", *words)]
    reply = execute(region.engine, region.session, argv, cluster.clock.wall_ms)
    assert isinstance(reply, ErrorReply) and reply.message == error
