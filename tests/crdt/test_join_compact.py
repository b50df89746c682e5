"""The join of streams that are kept without dicts, compared with the rule and with the dicts.

A stream of one region keeps its log, its header and `touched` without a dict, and the join has
shorter ways for it. A stream that has had a second region has the dicts. Both join to the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import pytest

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Dot, Vector, covers, joined

KEY = b"k"
# A region that touches no key: a stream has dicts once it has known it.
STRANGER = 9
MS = 5
COUNTERS_MAX = 3


@dataclass
class Side:
    """What a side of a join holds of its only key, by dots. The counter of a dot is its seq."""

    vector: Vector
    entries: set[Dot]
    heads: set[Dot]
    touched: Vector

    def __post_init__(self) -> None:
        # A key that holds nothing is dropped.
        holds = self.entries or self.heads
        self.touched = joined(self.touched, dict(self.heads)) if holds else {}

    def keyspace(self, limits: NodeLimits, has_dicts: bool) -> Keyspace:
        keyspace = Keyspace(1, limits)
        keyspace.vector = dict(self.vector)
        if not self.entries and not self.heads:
            return keyspace
        stream = keyspace.get_or_create(KEY)
        for region_id, counter in self.vector.items():
            if any(dot[0] == region_id for dot in self.entries):
                fill(stream, region_id, counter, self.entries)
        for region_id, counter in self.heads:
            stream.header.note(region_id, counter, MS, counter)
        stream.header.set_touched(dict(self.touched))
        stream.entries_added = stream.max_deleted_id = 0
        if has_dicts:
            give_dicts(stream)
        else:
            keyspace.digest()
        return keyspace


def fill(stream: Stream, region_id: int, count: int, entries: set[Dot]) -> None:
    """Adds `count` entries and removes those not in `entries`, as the node of a region has them."""
    log = stream.log(region_id)
    names, values = encode_names([b"f"]), encode_values([b"v"])
    for counter in range(1, count + 1):
        log.append(MS, counter, counter, names, values)
    for counter in range(1, count + 1):
        if (region_id, counter) not in entries:
            log.remove(counter)


def give_dicts(stream: Stream) -> None:
    """Makes the stream one that has had a second region, of which nothing is left."""
    stream.log(STRANGER)
    if stream.header.has_heads():
        touched = dict(stream.header.touched)
        stream.header.note(STRANGER, 1, MS, 1)
        stream.header.set_touched({**touched, STRANGER: 2})
        del stream.header.heads[STRANGER]
        del stream.header.touched[STRANGER]


def rule(ours: set[Dot], theirs: set[Dot], our_vector: Vector, their_vector: Vector) -> set[Dot]:
    """S11.3, element by element."""
    return {
        dot
        for dot in ours | theirs
        if (dot in ours and dot in theirs)
        or (dot in ours and not covers(their_vector, *dot))
        or (dot in theirs and not covers(our_vector, *dot))
    }


def seen(keyspace: Keyspace) -> tuple[object, ...]:
    """All that a join changes, but whether it noted a change where nothing changed."""
    stream = keyspace.keys.get(KEY)
    changes = keyspace.changes
    noted = (changes.count, list(changes.added_keys))
    late = (keyspace.late.arrivals, keyspace.late.below_stable)
    if stream is None:
        return noted, late, keyspace.vector, keyspace.digest()
    local = (stream.length(), stream.entries_added, stream.max_deleted_id, stream.change)
    held = (entries_of(stream), stream.header.heads, stream.header.touched)
    return noted, late, keyspace.vector, keyspace.digest(), local, held


def entries_of(stream: Stream) -> set[Dot]:
    found: set[Dot] = set()
    for region_id, log in stream.logs.items():
        cursor = LogCursor(log)
        cursor.seek_counter(0)
        while cursor.valid:
            assert (cursor.id(), cursor.fields()) == ((MS << 64) | cursor.counter, [b"f", b"v"])
            found.add((region_id, cursor.counter))
            cursor.step()
    return found


def check(ours: Side, theirs: Side, our_limits: NodeLimits, their_limits: NodeLimits) -> None:
    """Joins in all four forms, and compares the results with the rule and with each other."""
    outcomes: list[tuple[object, ...]] = []
    for our_dicts in (False, True):
        for their_dicts in (False, True):
            keyspace = ours.keyspace(our_limits, our_dicts)
            keyspace.late.stable_id = (MS << 64) | 3
            if KEY in keyspace.keys:
                keyspace.keys[KEY].xread_high_id = (MS << 64) | 1
            join(keyspace, theirs.keyspace(their_limits, their_dicts), 0)
            outcomes.append(seen(keyspace))
            our_vector, their_vector = ours.vector, theirs.vector
            entries = rule(ours.entries, theirs.entries, our_vector, their_vector)
            heads = rule(ours.heads, theirs.heads, our_vector, their_vector)
            stream = keyspace.keys.get(KEY)
            if stream is None:
                assert not entries and not heads
                continue
            assert entries_of(stream) == entries
            assert stream.header.heads == {
                region_id: (counter, (MS << 64) | counter) for region_id, counter in heads
            }
            assert stream.header.touched == joined(ours.touched, theirs.touched)
            assert stream.length() == len(entries)
            taken = entries - ours.entries
            assert keyspace.changes.added_keys == ({KEY: None} if taken else {})
            assert keyspace.late.below_stable == sum(counter < 3 for _, counter in taken)
    assert all(outcome == outcomes[0] for outcome in outcomes), outcomes


def sides_of_one_region() -> Iterator[Side]:
    """All that a side can hold of a region that has issued three effects."""
    for count in range(COUNTERS_MAX + 1):
        counters = range(1, count + 1)
        for size in range(count + 1):
            for entries in combinations(counters, size):
                for head in range(count + 1):
                    for touched in {head, count}:
                        yield Side(
                            {1: count} if count else {},
                            {(1, counter) for counter in entries},
                            {(1, head)} if head else set(),
                            {1: touched} if touched else {},
                        )


LIMITS = [NodeLimits(100, 0), NodeLimits(2, 0)]


@pytest.mark.parametrize("limits", LIMITS, ids=["one node", "several nodes"])
def test_every_join_of_one_region(limits: NodeLimits) -> None:
    """S11.3, for all that two sides can hold of three effects of a region."""
    sides = list(sides_of_one_region())
    assert len(sides) > 70
    for ours in sides:
        for theirs in sides:
            check(ours, theirs, limits, LIMITS[0])


def random_side(chance: random.Random) -> Side:
    vector = {one: chance.randint(1, COUNTERS_MAX) for one in (1, 2) if chance.random() < 0.8}
    dots = [(one, counter) for one in vector for counter in range(1, vector[one] + 1)]
    entries = {dot for dot in dots if chance.random() < 0.6}
    heads = {dot[0]: dot for dot in dots if chance.random() < 0.5}
    touched = dict([dot for dot in dots if chance.random() < 0.3])
    return Side(vector, entries, set(heads.values()), touched)


def test_joins_of_two_regions() -> None:
    """S11.3, where a side may hold one region and the other side another, or two."""
    chance = random.Random(1)
    for _ in range(1500):
        check(
            random_side(chance), random_side(chance), chance.choice(LIMITS), chance.choice(LIMITS)
        )
