"""Keys of a joined snapshot that are new here are taken as they were read (S11.3).

A join of 100,000 new keys was one step of 0.3 s, because each was made anew and noted by itself.
"""

from __future__ import annotations

import pytest

from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.pair import pair_of
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.snapshot import SnapshotCut, read_snapshot

KEYS = [b"k%d" % number for number in range(300)]
NAMES, VALUES = encode_names([b"f"]), encode_values([b"v"])
OURS, THEIRS, THIRD = 1, 2, 3


def put(keyspace: Keyspace, key: bytes, origin: int) -> None:
    """Applies an add of a region."""
    counter = keyspace.vector.get(origin, 0) + 1
    stream = keyspace.get_or_create(key)
    stream.log(origin).append(counter, origin, counter, NAMES, VALUES)
    stream.header.note(origin, counter, counter, origin)
    stream.header.touch(origin, counter)
    stream.entries_added += 1
    keyspace.touch(stream)
    keyspace.vector[origin] = counter


def filled(keys: list[bytes]) -> Keyspace:
    """The keyspace of the other side."""
    keyspace = Keyspace(THEIRS, NodeLimits(3, 0))
    for key in keys:
        for _ in range(5 if key == keys[0] else 1):
            put(keyspace, key, THEIRS)
    return keyspace


def read(keyspace: Keyspace, limits: NodeLimits) -> Keyspace:
    return read_snapshot(list(SnapshotCut(keyspace, 0).chunks(100)), limits)


def order(keyspace: Keyspace) -> list[bytes]:
    return [key for _, key in keyspace.scan_order.from_hash(0)]


def test_new_keys_are_the_streams_that_were_read() -> None:
    keyspace = Keyspace(OURS, NodeLimits(3, 0))
    put(keyspace, b"mine", OURS)
    source = filled(KEYS)
    other = read(source, keyspace.limits)
    streams = dict(other.keys)
    keyspace.dirty = {KEYS[1]: 3}
    keyspace.unseen.uncounted.clear()
    keyspace.unseen.unrecorded = {}
    keyspace.position = 9
    watched = keyspace.changes.count
    join(keyspace, other, 0)
    for key in KEYS:
        stream = keyspace.keys[key]
        assert stream is streams[key]
        assert stream.entries_added == stream.length() == (5 if key == KEYS[0] else 1)
        assert stream.change > watched
    assert len({stream.change for stream in keyspace.keys.values()}) == len(KEYS) + 1
    # The key of this region is joined as before.
    everything = {b"mine", *KEYS}
    assert set(keyspace.unseen.uncounted) == everything == set(keyspace.unseen.unrecorded)
    assert set(keyspace.changes.added_keys) == set(KEYS)
    assert {key: keyspace.dirty[key] for key in KEYS} == {
        key: 3 if key == KEYS[1] else 9 for key in KEYS
    }
    assert keyspace.vector == {OURS: 1, THEIRS: len(KEYS) + 4}
    assert sorted(order(keyspace)) == sorted([b"mine", *KEYS])
    again = Keyspace(OURS, NodeLimits())
    for key in [*KEYS, b"mine"]:
        again.scan_order.add(key)
    assert order(keyspace) == order(again)
    put(source, b"mine", OURS)
    assert keyspace.digest() == source.digest()


def test_pairs_that_a_taken_key_gets_have_the_limits_of_the_region() -> None:
    keyspace = Keyspace(OURS, NodeLimits())
    other = read(filled([b"k"]), keyspace.limits)
    join(keyspace, other, 0)
    pairs = keyspace.keys[b"k"].pairs
    pairs.merge(pair_of(b"p", b"i", (OURS, 1), 1 << 64, 0, {}, 0))
    pairs.retire(b"p", 0)
    assert keyspace.pair_limits.retired == 1


@pytest.mark.parametrize("seen", [1, 3, 5])
def test_entries_that_were_removed_here_do_not_come_back(seen: int) -> None:
    """The key is absent, and the vector covers some of what the snapshot has."""
    keyspace = Keyspace(OURS, NodeLimits(3, 0))
    keyspace.vector[THEIRS] = seen
    join(keyspace, read(filled([b"k"]), keyspace.limits), 0)
    stream = keyspace.keys.get(b"k")
    assert (0 if stream is None else stream.length()) == 5 - seen


def test_a_log_that_begins_in_the_middle_begins_above_what_was_seen_here() -> None:
    source = filled([b"x", b"k"])
    log = source.keys[b"k"].find_log(THEIRS)
    assert log is not None
    log.began = 1
    keyspace = Keyspace(OURS, NodeLimits())
    keyspace.vector[THEIRS] = 4
    join(keyspace, read(source, keyspace.limits), 0)
    taken = keyspace.keys[b"k"].find_log(THEIRS)
    assert taken is not None and (taken.began, taken.length) == (5, 1)


def test_new_keys_of_several_logs_join_as_before() -> None:
    source = filled([b"k", b"two"])
    put(source, b"two", THIRD)
    keyspace = Keyspace(OURS, NodeLimits(3, 0))
    join(keyspace, read(source, keyspace.limits), 0)
    assert keyspace.digest() == source.digest()
    assert sorted(order(keyspace)) == [b"k", b"two"]


def test_entries_below_a_stable_time_are_counted() -> None:
    """S7.7: they come late, and a reader of the stable time has missed them."""
    keyspace = Keyspace(OURS, NodeLimits(3, 0))
    keyspace.late.stable_id = 4 << 64
    join(keyspace, read(filled([b"k"]), keyspace.limits), 0)
    assert keyspace.late.below_stable == 3
