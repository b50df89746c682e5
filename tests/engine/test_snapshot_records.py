"""Records that are made ahead of a snapshot, whatever changes a key afterwards (S11.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.crdt.snapshot import SnapshotCut
from tests.support.engine_cluster import Place, cluster

KEYS = 6


def idempotent(us: Place, n: int) -> None:
    us.ok("XADD", "k1", "IDMP", "p", str(n), "*", "f", "v")


def with_keys(regions: int = 1) -> Place:
    """A region with entries, a group and pairs; all records of a snapshot are made.

    Alone, it collects. With another one, it announces acknowledgements.
    """
    us = cluster(regions, stream_idmp_duration="1")[0]
    for n in range(KEYS):
        us.ok("XADD", f"k{n}", "*", "f", "v")
    us.ok("XGROUP", "CREATE", "k0", "g", "0")
    for n in range(3):
        idempotent(us, n)
    us.commit()
    us.engine.peers.snapshots.limit_preparation(1)
    while not us.engine.peers.snapshots.prepare_cut():
        pass
    return us


def collected(us: Place) -> None:
    """Pairs become too old, and are collected."""
    before = len(us.engine.keyspace.keys[b"k1"].pairs.everything())
    us.at(us.now_ms + 5_000)
    assert len(us.engine.keyspace.keys[b"k1"].pairs.everything()) < before


def acknowledged(us: Place) -> None:
    us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "k0", ">")
    us.ok("XACK", "k0", "g", us.ids("k0")[0])
    us.round()


CHANGES: dict[str, Callable[[Place], object]] = {
    "nothing": lambda us: None,
    "an add": lambda us: us.ok("XADD", "k1", "*", "f", "v"),
    "another add": lambda us: [us.ok("XADD", "k1", "*", "f", "v") for _ in range(2)],
    "an idempotent add": lambda us: idempotent(us, 9),
    "a removal": lambda us: us.ok("XDEL", "k1", us.ids("k1")[0]),
    "a trim": lambda us: us.ok("XTRIM", "k1", "MAXLEN", "1"),
    "a new key": lambda us: us.ok("XADD", "new", "*", "f", "v"),
    "DEL": lambda us: us.ok("DEL", "k0"),
    "RENAME": lambda us: us.ok("RENAME", "k2", "k3"),
    "FLUSHALL": lambda us: us.ok("FLUSHALL"),
    "a group": lambda us: us.ok("XGROUP", "CREATE", "k2", "g", "$"),
    "a deadline": lambda us: us.ok("EXPIRE", "k2", "100"),
    "a configuration": lambda us: us.ok("XCFGSET", "k2", "IDMP-DURATION", "7"),
    "an acknowledgement": acknowledged,
    "a collection": collected,
}


def records(cut: SnapshotCut) -> list[bytes]:
    return sorted(cut.chunks(1))


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("made_on", [False, True])
def test_a_snapshot_has_what_changed_since(name: str, made_on: bool) -> None:
    """`made_on`: more records are made between the change and the cut."""
    us = with_keys(2 if name == "an acknowledgement" else 1)
    CHANGES[name](us)
    if made_on:
        us.engine.peers.snapshots.prepare_cut()
    cut = us.engine.peers.snapshots.cut()
    assert records(cut) == records(SnapshotCut(us.engine.keyspace, 0))


def test_keys_that_change_all_the_time_do_not_delay_a_snapshot_for_ever() -> None:
    us = with_keys()
    us.engine.peers.snapshots.drop_preparation()
    for _ in range(KEYS * 10):
        if us.engine.peers.snapshots.prepare_cut():
            break
        for n in range(KEYS):
            us.ok("XADD", f"k{n}", "*", "f", "v")
    else:
        raise AssertionError("the cut is never near")
    assert records(us.engine.peers.snapshots.cut()) == records(SnapshotCut(us.engine.keyspace, 0))


def test_a_preparation_that_is_dropped_follows_no_further() -> None:
    us = with_keys()
    assert us.engine.keyspace.unseen.unrecorded is not None
    us.engine.peers.snapshots.drop_preparation()
    assert us.engine.keyspace.unseen.unrecorded is None
