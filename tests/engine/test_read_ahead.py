"""Snapshots that are read while their chunks come (S11.2)."""

from __future__ import annotations

import pytest

from anabranch.crdt.errors import PeerError
from tests.support.engine_cluster import Place, cluster, sync

KEYS = 12


def with_snapshot() -> tuple[Place, Place, list[bytes]]:
    """Two regions, and the chunks of a snapshot of the first one that the second one lacks."""
    us, eu = cluster(2)
    for n in range(KEYS):
        us.ok("XADD", f"k{n}", "*", "f", "v")
    us.ok("XGROUP", "CREATE", "k0", "g", "0")
    sync(us, eu)
    eu.ok("XADD", "k1", "*", "f", "of eu")
    for n in range(3, KEYS + 3):
        us.ok("XADD", f"k{n}", "*", "f", "w")
    us.ok("XDEL", "k0", us.ids("k0")[0])
    us.ok("DEL", "k2")
    chunks = list(us.engine.peers.snapshots.cut().chunks(100))
    us.commit()
    assert len(chunks) > KEYS
    return us, eu, chunks


def held(place: Place) -> int:
    """How many chunks a region holds that it has read ahead."""
    return place.engine.peers.snapshots._ahead._count


def test_it_joins_as_one_that_is_read_at_once() -> None:
    digests = []
    for ahead in (True, False):
        _, eu, chunks = with_snapshot()
        staged: list[bytes] = []
        before = (eu.engine.keyspace.digest(), dict(eu.engine.vector))
        for number, chunk in enumerate(chunks):
            staged.append(chunk)
            # Some come while the region is busy, and the last one is left to the join.
            if ahead and number % 3 and number < len(chunks) - 1:
                eu.engine.peers.snapshots.read_ahead(staged)
                assert held(eu) == len(staged)
        assert (eu.engine.keyspace.digest(), eu.engine.vector) == before, "the state before (S11.2)"
        eu.engine.peers.snapshots.join(staged, 1, eu.now_ms)
        assert held(eu) == 0
        eu.commit()
        digests.append(eu.digest())
        assert [eu.ids(f"k{n}") != [] for n in range(4)] == [False, True, False, True]
        assert len(eu.ids("k1")) == 2
    assert digests[0] == digests[1]


def test_a_chunk_that_is_malformed_is_told_at_once() -> None:
    _, eu, chunks = with_snapshot()
    for place in range(len(chunks)):
        broken = list(chunks)
        broken[place] = broken[place][:-1]
        for count in range(1, place + 1):
            eu.engine.peers.snapshots.read_ahead(staged := broken[:count])
            assert held(eu) == count
        staged = broken[:place]
        eu.engine.peers.snapshots.read_ahead(staged)
        staged.append(broken[place])
        with pytest.raises(PeerError, match="malformed"):
            eu.engine.peers.snapshots.read_ahead(staged)
        assert held(eu) == 0
        with pytest.raises(PeerError, match="malformed"):
            eu.engine.peers.snapshots.join(broken, 1, eu.now_ms)
    eu.engine.peers.snapshots.read_ahead(chunks)
    eu.engine.peers.snapshots.join(chunks, 1, eu.now_ms)
    assert len(eu.ids(f"k{KEYS}")) == 1


def test_one_that_ends_early_is_malformed() -> None:
    _, eu, chunks = with_snapshot()
    staged = chunks[:-1]
    eu.engine.peers.snapshots.read_ahead(staged)
    with pytest.raises(PeerError, match="malformed"):
        eu.engine.peers.snapshots.join(staged, 1, eu.now_ms)
    assert held(eu) == 0


def test_another_list_is_another_snapshot() -> None:
    us, eu, chunks = with_snapshot()
    eu.engine.peers.snapshots.read_ahead(chunks[: KEYS // 2])
    us.ok("XADD", "k1", "*", "f", "later")
    later = list(us.engine.peers.snapshots.cut().chunks(100))
    us.commit()
    eu.engine.peers.snapshots.read_ahead(staged := later[:2])
    assert held(eu) == 2
    staged += later[2:]
    eu.engine.peers.snapshots.join(staged, 1, eu.now_ms)
    assert len(eu.ids("k1")) == 3 and held(eu) == 0
    eu.engine.peers.snapshots.read_ahead(chunks)
    eu.engine.peers.snapshots.join(list(later), 1, eu.now_ms)
    assert len(eu.ids("k1")) == 3 and held(eu) == 0, "the former one is dropped"


def test_it_is_freed_when_it_is_given_up() -> None:
    _, eu, chunks = with_snapshot()
    eu.engine.peers.snapshots.read_ahead(chunks)
    assert held(eu) == len(chunks)
    eu.engine.peers.snapshots.drop_read_ahead()
    assert held(eu) == 0 and eu.engine.peers.snapshots._ahead._chunks is None
    eu.engine.peers.snapshots.join(chunks, 1, eu.now_ms)
    assert len(eu.ids("k1")) == 2


def test_keys_that_are_read_have_the_names_that_they_have_here() -> None:
    """A name that is the same object is found sooner in the step that joins."""
    _, eu, chunks = with_snapshot()
    eu.engine.peers.snapshots.read_ahead(chunks)
    read = eu.engine.peers.snapshots._ahead._reader._keyspace
    ours = {id(key) for key in eu.engine.keyspace.keys}
    known = [key for key in read.keys if key in eu.engine.keyspace.keys]
    assert known and all(id(key) in ours for key in known)
