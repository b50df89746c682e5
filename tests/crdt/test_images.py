"""An image of a key keeps what was there at the cut, whatever changes while it is encoded (S13.1).

What a checkpoint writes is the state at one position. An image that shares its columns with the
PEL, and sees a later change, would put the state of two positions on disk: a start would replay a
removal that the checkpoint already has, or lose an entry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

import pytest

from anabranch.crdt.idempotency import PairLimits, Pairs
from anabranch.crdt.images import PairsImage, PelImage, StateImage
from anabranch.crdt.pair import pair_of
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import NOBODY, entry_ref

CONSUMERS = [b"a", b"b", b"c"]


def change_pel(chance: Random, pel: Pel, number: int) -> None:
    """One change that a command makes to a PEL."""
    region_id = chance.randint(1, 2)
    counter = chance.randint(1, number)
    entry = entry_ref(region_id, counter, counter << 64)
    consumer = chance.choice(CONSUMERS)
    kind = chance.randrange(7)
    if kind == 0:
        above = [entry_ref(region_id, one, one << 64) for one in range(number, number + 3)]
        pel.assign_all(above, consumer, 1000 + number)
    elif kind <= 2:
        pel.assign(entry, consumer, 1000 + number, number)
    elif kind == 3:
        pel.remove(region_id, counter, counter << 64)
    elif kind == 4:
        pel.remove_all([entry, entry_ref(region_id, counter + 1, (counter + 1) << 64)])
    elif kind == 5:
        pel.remove_counters(region_id, counter, counter + 2)
    elif chance.random() < 0.1:
        pel.remove_consumer(consumer)


def cut_pel(pel: Pel) -> StateImage:
    image = StateImage()
    of_pel = PelImage(pel)
    for consumer in CONSUMERS:
        number = pel.numbers.get(consumer, NOBODY)
        of_pel.add(consumer + b"%d" % pel.length_of(consumer), number)
    image.out += b"before"
    image.add(of_pel)
    image.out += b"after"
    return image


def change_pairs(chance: Random, pairs: Pairs, number: int) -> None:
    """One change that a command, a merge or a collection makes to pairs."""
    pid = chance.choice([b"p", b"q"])
    region_id = chance.randint(1, 2)
    dot = (region_id, number)
    iid = b"%d" % chance.randint(1, 9)
    pair = pair_of(pid, iid, dot, number << 64, number, {region_id: number - 1}, number)
    kind = chance.randrange(5)
    if kind <= 1:
        pairs.add(pair)
    elif kind == 2:
        pairs.merge(pair)
    elif kind == 3:
        pairs.retire(pid, chance.randint(0, 5))
    else:
        seen = chance.randint(0, number)
        if chance.random() < 0.5:
            pairs.collect({1: seen, 2: seen}, number, chance.randint(1, 20))
        else:
            pairs.clear({region_id: seen // 2})


def cut_pairs(pairs: Pairs) -> StateImage:
    image = StateImage()
    image.out += b"before"
    image.add(PairsImage(pairs))
    image.out += b"after"
    return image


def broken_off(chance: Random, image: StateImage, stretch: int) -> Iterator[int]:
    """Encodes an image; now and then the encoding is broken off, and begun again."""
    while True:
        for count in image.encode(stretch):
            yield count
            if chance.random() < 0.1:
                break
        else:
            return


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("stretch", [1, 3, 1000])
def test_changes_during_the_encoding_of_pending_entries_are_not_in_it(
    seed: int, stretch: int
) -> None:
    chance = Random(seed)
    pel = Pel(chunk_max=4)
    number = 3
    while number < 60:
        number += 1
        change_pel(chance, pel, number)
    rests = 0
    for _ in range(20):
        wanted = cut_pel(pel).encoded()
        image = cut_pel(pel)
        for _ in broken_off(chance, image, stretch):
            rests += 1
            for _ in range(chance.randint(1, 3)):
                number += 1
                change_pel(chance, pel, number)
        assert b"".join(image.taken()) == wanted
        number += 1
        change_pel(chance, pel, number)
    assert rests > 20, "the encoding rested, so something could change"


@pytest.mark.parametrize("seed", range(30))
def test_changes_during_the_encoding_of_pairs_are_not_in_it(seed: int) -> None:
    chance = Random(seed)
    pairs = Pairs(PairLimits())
    number = 0
    rests = 0
    for _ in range(20):
        for _ in range(8):
            number += 1
            change_pairs(chance, pairs, number)
        wanted = cut_pairs(pairs).encoded()
        image = cut_pairs(pairs)
        for _ in broken_off(chance, image, 1):
            rests += 1
            number += 1
            change_pairs(chance, pairs, number)
        assert b"".join(image.taken()) == wanted
    assert rests > 20, "the encoding rested, so something could change"


def test_an_image_rests_after_a_bounded_number_of_entries() -> None:
    """Otherwise a checkpoint of a million pending entries keeps all clients waiting for it."""
    pel = Pel()
    pel.assign_all([entry_ref(1, one, one << 64) for one in range(1, 3001)], b"a", 5)
    counts: Iterator[int] = cut_pel(pel).encode(100)
    found = list(counts)
    assert sum(found) == 3000 and max(found) <= 100


def test_pairs_are_let_go_of_as_they_are_encoded() -> None:
    """A collection may have dropped them. To free 300,000 pairs at the end took 12 ms."""
    pairs = Pairs(PairLimits())
    for number in range(1, 1001):
        iid = b"iid %d" % number
        pairs.add(pair_of(b"p", iid, (1, number), number << 64, number, {}, number))
    records = [run.data for run in pairs.producers[b"p"].runs]

    def references() -> int:
        return sum(sys.getrefcount(records[n]) for n in range(len(records)))

    image = cut_pairs(pairs)
    pairs.clear({1: 1000})
    alone = 2 * len(records)  # `records`, and the argument
    found = [references() - alone for _ in image.encode(400)]
    assert found[0] >= len(records) > 20 and found[-1] < 5


def test_many_pending_entries_of_a_consumer_are_put_in_pieces() -> None:
    """The pieces, which keep no large buffer, together are what one piece would be."""
    chunked, whole = Pel(chunk_max=64), Pel(chunk_max=1 << 20)
    entries = [entry_ref(1, n, n << 64) for n in range(1, 20_001)]
    for pel in (chunked, whole):
        pel.assign_all(entries, b"a", 1 << 40)
        pel.assign(entries[7], b"b", 1 << 40, 2)
    image = cut_pel(chunked)
    assert sum(1 for _ in image.encode(1000)) >= 20
    pieces = image.taken()
    assert b"".join(pieces) == cut_pel(whole).encoded()
    assert len(pieces) > 4 and max(map(len, pieces)) < 1 << 17
