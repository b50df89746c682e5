"""The figures of three regions after a story in which they differ."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.crdt.block import Block
from anabranch.crdt.errors import ChainForked, SyncGap
from anabranch.region.engine.commands.info import info_text
from anabranch.region.engine.figures.table import figures
from anabranch.region.engine.replies import ErrorReply
from tests.support.engine_cluster import Place, carry, cluster, sync, tell


def metric(place: Place, name: str, **labels: str) -> float:
    """One sample, by its labels."""
    samples = next(
        samples for one, _, _, samples in figures(place.engine.state) if one == f"anabranch_{name}"
    )
    return next(value for _, found, value in samples if found == labels)


def metrics(place: Place, name: str) -> dict[tuple[str, ...], float]:
    """All samples of a metric: values of its labels → value."""
    samples = next(
        samples for one, _, _, samples in figures(place.engine.state) if one == f"anabranch_{name}"
    )
    return {tuple(labels.values()): value for _, labels, value in samples}


def info(place: Place) -> dict[str, str]:
    lines = [
        line
        for line in info_text(place.engine.state, ["everything"]).decode().split("\r\n")
        if line and not line.startswith("#")
    ]
    return dict(line.split(":", 1) for line in lines)


def test_links_and_lags() -> None:
    us, eu, ap = cluster(3)
    us.ok("XADD", "s", "*", "f", "1")
    sync(us, eu, ap)
    us.ok("XADD", "s", "*", "f", "2")
    us.ok("XADD", "s", "*", "f", "3")
    carry(us, eu)
    tell(eu, us)
    tell(us, ap)
    reply: Any = us("CRDT.PEERS")
    assert [one.flat[5] for one in reply] == [b"none", b"none"]
    us.engine.peers.links.is_in_state(2, "up", "")
    us.engine.peers.links.receiver_opened(3)
    assert [metric(us, "peer_lag_effects", peer=peer) for peer in ("eu", "ap")] == [0, 2]
    assert metrics(us, "link_up") == {("eu",): 1}, "us does not dial ap"
    assert [metric(us, "link_receives", peer=peer) for peer in ("eu", "ap")] == [0, 1]
    assert [metric(ap, "behind_effects", peer=peer) for peer in ("us", "eu")] == [2, 0]
    us.ok("CRDT.LINK", "eu", "DOWN")
    assert metric(us, "link_up", peer="eu") == 0
    us.engine.peers.acknowledged(3, {1: 2}, us.now_ms)
    assert metric(us, "peer_lag_effects", peer="ap") == 1
    fields = info(us)
    assert (fields["crdt_receivers"], fields["crdt_links_up"]) == ("1", "0")


def test_a_new_connection_does_not_make_a_peer_lag() -> None:
    """CRDT.PEERS once said that a peer lagged by all effects until its first acknowledgement."""
    us, eu = cluster(2)
    us.ok("XADD", "s", "*", "f", "1")
    sync(us, eu)
    tell(eu, us)
    us.engine.peers.links.receiver_opened(2)
    reply: Any = us("CRDT.PEERS")
    assert dict(zip(reply[0].flat[::2], reply[0].flat[1::2], strict=True))[b"lag"] == 0
    assert metric(us, "peer_lag_effects", peer="eu") == 0


def test_peers_are_listed() -> None:
    us, eu, _ap = cluster(3)
    us.ok("XADD", "s", "*", "f", "1")
    sync(us, eu)
    us.engine.peers.links.is_in_state(2, "up", "")
    us.engine.peers.links.is_in_state(3, "refused", "cluster: another one")
    us.engine.peers.links.receiver_opened(2)
    us.engine.peers.acknowledged(2, {1: 1}, us.now_ms)
    us.ok("CRDT.LINK", "3", "DELAY", "50")
    us.ok("CRDT.LINK", "3", "LIMIT", "2000")
    us.ok("CRDT.MEMBER", "LOST", "ap")
    reply = us("CRDT.PEERS")
    assert isinstance(reply, list)
    maps: Any = reply
    shown = [dict(zip(one.flat[::2], one.flat[1::2], strict=True)) for one in maps]
    assert [one[b"name"] for one in shown] == [b"eu", b"ap"]
    eu_shown, ap_shown = shown
    assert (
        eu_shown[b"link"],
        eu_shown[b"receives_from_here"],
        eu_shown[b"acknowledged"],
        eu_shown[b"lag"],
    ) == (b"up", 1, [1, 1], 0)
    assert (ap_shown[b"link"], ap_shown[b"detail"], ap_shown[b"delay_ms"], ap_shown[b"lost"]) == (
        b"refused",
        b"cluster: another one",
        50,
        1,
    )
    assert ap_shown[b"limit_bytes_s"] == 2000
    assert (ap_shown[b"acknowledged"], ap_shown[b"lag"], ap_shown[b"receives_from_here"]) == (
        [],
        1,
        0,
    )
    us.ok("CRDT.LINK", "ap", "DOWN")
    reply = us("CRDT.PEERS")
    assert reply[1].flat[5] == b"down"  # type: ignore[index,union-attr]
    assert [
        (one.peer, one.action, one.delay_ms, one.limit_bytes_s)
        for one in us.engine.peers.links.take_requests()
    ] == [(3, "DELAY", 50, 0), (3, "LIMIT", 50, 2000), (3, "DOWN", 50, 2000)]
    assert us.engine.peers.links.take_requests() == []


@pytest.mark.parametrize("refused", ["-1", "3600001", "x"])
def test_a_refused_delay_changes_nothing(refused: str) -> None:
    """CRDT.LINK … DELAY used to store the delay before it checked the range.

    CRDT.PEERS and INFO then showed the refused delay, although the former one was in force.
    """
    us, _ = cluster(2)
    us.ok("CRDT.LINK", "eu", "DELAY", "3600000")
    assert isinstance(us("CRDT.LINK", "eu", "DELAY", refused), ErrorReply)
    assert us.engine.state.peers.by_id[2].delay_ms == 3600000
    assert [one.delay_ms for one in us.engine.peers.links.take_requests()] == [3600000]


@pytest.mark.parametrize("refused", ["-1", str((1 << 40) + 1), "x"])
def test_a_refused_limit_changes_nothing(refused: str) -> None:
    us, _ = cluster(2)
    us.ok("CRDT.LINK", "eu", "LIMIT", "1000")
    assert isinstance(us("CRDT.LINK", "eu", "LIMIT", refused), ErrorReply)
    assert us.engine.state.peers.by_id[2].limit_bytes_s == 1000
    assert [one.limit_bytes_s for one in us.engine.peers.links.take_requests()] == [1000]


def test_a_failed_commit_is_shown() -> None:
    us, _ = cluster(2)
    us.ok("XADD", "s", "*", "f", "1")
    assert metric(us, "commit_failed") == 0 and info(us)["aof_last_write_status"] == "ok"
    assert us.engine.disk.take_commit(us.now_ms) is not None
    us.engine.disk.commit_failed("disk full")
    fields = info(us)
    assert metric(us, "commit_failed") == 1
    assert (fields["aof_last_write_status"], fields["crdt_state"], fields["crdt_commit_error"]) == (
        "err",
        "failed",
        "disk full",
    )


def test_what_the_keyspace_holds() -> None:
    us = cluster(1)[0]
    us.ok("XADD", "a", "*", "f", "1")
    us.ok("PEXPIRE", "a", "100000")
    us.ok("XADD", "b", "*", "f", "1")
    us.ok("PEXPIRE", "b", "100000")
    us.ok("PERSIST", "b")
    us.ok("XADD", "c", "IDMP", "p", "i", "*", "f", "1")
    us.ok("XGROUP", "CREATE", "c", "g", "0")
    us.ok("XREADGROUP", "GROUP", "g", "x", "STREAMS", "c", ">")
    us.ok("XGROUP", "CREATE", "c", "h", "0")
    us.ok("XGROUP", "DESTROY", "c", "h")
    us.ok("XADD", "d", "*", "f", "1")
    us.ok("XGROUP", "CREATE", "d", "g", "0")
    us.ok("DEL", "d")
    names = (
        "keys",
        "entries",
        "groups",
        "pending_entries",
        "idmp_pairs",
        "group_tombstones",
        "absent_keys",
    )
    assert [metric(us, name) for name in names] == [3, 3, 1, 1, 1, 2, 1]
    assert info(us)["db0"] == "keys=3,expires=1,avg_ttl=0"
    us.ok("FLUSHALL")
    assert [metric(us, name) for name in names] == [0, 0, 0, 0, 0, 3, 4]
    fields = info(us)
    assert fields["crdt_clears"] == "2" and "db0" not in fields


def test_states_and_vectors() -> None:
    us, eu = cluster(2)
    eu.ok("XADD", "s", "*", "f", "1")
    carry(eu, us)
    us.ok("XADD", "s", "*", "f", "1")
    assert [metric(us, "vector", origin=origin) for origin in ("us", "eu")] == [1, 1]
    assert metric(us, "disk_vector", origin="eu") == 1
    assert [metric(us, "state", state=state) for state in ("starting", "serving", "recovery")] == [
        0,
        1,
        0,
    ]
    assert metric(us, "uncommitted_bytes") > 0 and metric(us, "changes_since_checkpoint") == 2
    us.engine.state.lifecycle.enter_recovery()
    assert [metric(us, "state", state=state) for state in ("starting", "serving", "recovery")] == [
        0,
        0,
        1,
    ]
    assert info(us)["crdt_recovery_waiting_for"] == "eu"
    assert (
        metric(us, "effects_merged_total"),
        metric(us, "blocks_merged_total"),
        metric(us, "effects_issued_total"),
    ) == (1, 1, 1)
    us.now_ms += 5000
    us("PING")
    assert metric(us, "uptime_seconds") == 5.0
    us.engine.set_process_facts({"used_memory_rss": "4096", "rejected_connections": "odd"})
    assert (metric(us, "memory_bytes"), metric(us, "rejected_connections_total")) == (4096, 0)


def test_protocol_errors_are_counted() -> None:
    us, eu = cluster(2)
    for _ in range(3):
        eu.ok("XADD", "s", "*", "f", "1")
        eu.commit()
    blocks = eu.lacking({})
    with pytest.raises(SyncGap):
        us.engine.peers.merge(blocks[1:], 2, us.now_ms)
    forged = Block(2, 1, 1, blocks[0].body, bytes(16))
    with pytest.raises(ChainForked):
        us.engine.peers.merge([forged], 2, us.now_ms)
    for reason in ("gap", "forked", "cluster"):
        us.engine.peers.links.refused(reason)
    assert (metric(us, "crdt_gaps"), metric(us, "crdt_forks")) == (1, 1)
    us.engine.peers.merge(blocks, 2, us.now_ms)
    us.commit()
    us.engine.peers.compare_digest(dict(us.engine.vector), bytes(16))
    assert metric(us, "crdt_divergence") == 1
    us.engine.peers.compare_digest({2: 1}, bytes(16))
    us.engine.peers.compare_digest(dict(us.engine.vector), b"")
    us.engine.peers.compare_digest(dict(us.engine.vector), us.engine.keyspace.digest())
    assert metric(us, "crdt_divergence") == 1
