"""The packed PEL beside a dict: random steps, and all short histories of a small PEL."""

from __future__ import annotations

import sys
from itertools import pairwise, product
from typing import Optional, Union

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt import ids
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import EntryRef, entry_ref
from anabranch.crdt.pel_finder import PelFinder
from anabranch.crdt.pel_slices import Pending
from anabranch.crdt.spans import Spans

MAX_ID = (1 << 128) - 1
# (region_id, counter, entry ID)
Ref = tuple[int, int, int]
# Counts of deliveries: those that have 4 bytes, the largest of them, and those that need 8.
COUNTS = (2, 0, (1 << 32) - 1, 3, 1 << 32, 5, (1 << 63) - 1)
# consumer, delivery time, deliveries
Facts = tuple[bytes, int, int]


def ordered(naive: dict[Ref, Facts]) -> list[Ref]:
    """The entries by (ID, region_id, counter)."""
    return sorted(naive, key=lambda ref: (ref[2], ref[0], ref[1]))


def refs(entries: list[EntryRef]) -> list[Ref]:
    return [(each.region_id, each.counter, each.entry_id) for each in entries]


def told(found: list[Pending]) -> list[tuple[Ref, Facts]]:
    return [
        (
            (each.region_id, each.counter, each.entry_id),
            (each.consumer, each.delivered_ms, each.deliveries),
        )
        for each in found
    ]


def check_columns(pel: Pel) -> None:
    """The columns are in step, chunks are neither empty nor too large, and the counts are right."""
    totals: dict[int, int] = {}
    for part in pel.parts.values():
        places: list[tuple[int, int]] = []
        assert len(part.chunks) == len(part.first_ids) == len(part.first_counters)
        for index, chunk in enumerate(part.chunks):
            assert 0 < chunk.size() <= pel.chunk_max
            columns = (chunk.ms, chunk.seqs, chunk.delivered_ms, chunk.deliveries, chunk.consumers)
            assert all(len(column) == chunk.size() for column in columns)
            held: dict[int, int] = {}
            for number in chunk.consumers:
                held[number] = held.get(number, 0) + 1
                totals[number] = totals.get(number, 0) + 1
            assert chunk.held == held
            mine = [(chunk.id_at(n), chunk.counters[n]) for n in range(chunk.size())]
            assert part.first_ids[index] <= mine[0][0]
            assert not places or places[-1][0] <= part.first_ids[index]
            if part.agrees:
                assert part.first_counters[index] <= mine[0][1]
                assert not places or places[-1][1] < part.first_counters[index]
            places += mine
        assert places == sorted(places) and part.length == len(places)
        if part.agrees:
            for (one_id, one), (other_id, other) in pairwise(places):
                assert one_id < other_id and one < other
    assert pel.totals == totals


def check(pel: Pel, naive: dict[Ref, Facts]) -> None:
    """The PEL answers as the dict does, to every question."""
    check_columns(pel)
    order = ordered(naive)
    expected = [(ref, naive[ref]) for ref in order]
    assert pel.length == len(naive)
    assert told(list(pel.ascending())) == expected
    assert pel.bounds() == ((order[0][2], order[-1][2]) if order else None)
    for consumer in (b"a", b"b", b"nobody"):
        mine = [one for one in expected if one[1][0] == consumer]
        assert told(list(pel.ascending(consumer=consumer))) == mine
        assert in_slices(pel, ids.MAX_ID, consumer) == mine
        assert pel.length_of(consumer) == len(mine)
    for ref in order:
        assert pel.contains(*ref)
        found = pel.get(*ref)
        assert found is not None and told([found]) == [(ref, naive[ref])]
        assert not pel.contains(ref[0], ref[1] + 1, ref[2]) or (ref[0], ref[1] + 1, ref[2]) in naive
    # The last one found is a hint for the next search, so every order of questions counts.
    for ref in [*order[::-1], *order]:
        assert refs(pel.with_id(ref[2])) == [one for one in order if one[2] == ref[2]]
        above = told(list(pel.ascending(ref[2] + 1)))
        assert above == [one for one in expected if one[0][2] > ref[2]]
        assert in_slices(pel, ref[2], None) == [one for one in expected if one[0][2] <= ref[2]]
    check_finder(pel, order)


def in_slices(pel: Pel, end: int, consumer: Optional[bytes]) -> list[tuple[Ref, Facts]]:
    """A walk that takes as many entries at once as follow each other in the columns."""
    walk = pel.ascending(0, end, consumer)
    found: list[Pending] = []
    while walk.valid:
        entry_id = walk.id()
        piece = walk.take(5)
        some = piece.listed()
        assert 1 <= piece.size() == len(some) <= 5
        assert (some[0].entry_id, some[-1].entry_id) == (entry_id, piece.last_id())
        for time_ms in range(6):
            early = [one for part in piece.delivered_up_to(time_ms) for one in part.listed()]
            assert told(early) == told([one for one in some if one.delivered_ms <= time_ms])
        found += some
    return told(found)


def check_finder(pel: Pel, order: list[Ref]) -> None:
    """Each ID is found once, and those that no entry bears are not."""
    wanted = sorted({ref[2] for ref in order})
    for some in (wanted, wanted[::2], wanted[1::3]):
        finder = PelFinder(pel)
        for entry_id in some:
            for one in (entry_id, entry_id + 1):
                if one == entry_id or one not in wanted:
                    finder.find(one >> 64, one & ids.MAX_HALF)
        assert refs(finder.found) == [ref for one in some for ref in order if ref[2] == one]


class Both:
    """A packed PEL and a dict that take the same steps."""

    def __init__(self, chunk_max: int) -> None:
        self.pel = Pel(chunk_max)
        self.naive: dict[Ref, Facts] = {}

    def assign(self, ref: Ref, consumer: bytes, ms: int, deliveries: int) -> None:
        self.pel.assign(entry_ref(*ref), consumer, ms, deliveries)
        self.naive[ref] = (consumer, ms, deliveries)

    def assign_all(self, some: list[Ref], consumer: bytes, ms: int) -> None:
        self.pel.assign_all([entry_ref(*ref) for ref in some], consumer, ms)
        for ref in some:
            self.naive[ref] = (consumer, ms, 1)

    def remove(self, ref: Ref) -> None:
        assert self.pel.remove(*ref) == (self.naive.pop(ref, None) is not None)

    def remove_all(self, some: list[Ref]) -> None:
        self.pel.remove_all([entry_ref(*ref) for ref in some])
        for ref in some:
            self.naive.pop(ref, None)

    def remove_counters(self, region_id: int, spans: Spans) -> None:
        for n in range(len(spans.starts)):
            self.pel.remove_counters(region_id, spans.starts[n], spans.ends[n])
        for ref in list(self.naive):
            if ref[0] == region_id and spans.contains(ref[1]):
                del self.naive[ref]

    def remove_consumer(self, consumer: bytes) -> None:
        gone = [ref for ref, facts in self.naive.items() if facts[0] == consumer]
        assert sorted(self.pel.remove_consumer(consumer)) == sorted((a, b) for a, b, _ in gone)
        for ref in gone:
            del self.naive[ref]


# -- random steps

# IDs that ascend with their counters, IDs that come again, and IDs that descend (after an expiry).
ids_of = st.sampled_from([lambda n: n, lambda n: (n + 1) // 2, lambda n: 40 - n, lambda n: n % 5])
counters = st.lists(st.integers(1, 30), max_size=12)
step = st.one_of(
    st.tuples(st.just("assign"), st.integers(1, 3), counters, st.sampled_from([b"a", b"b"])),
    st.tuples(st.just("assign_all"), st.integers(1, 3), counters, st.sampled_from([b"a", b"b"])),
    st.tuples(st.just("remove"), st.integers(1, 3), counters, st.just(b"")),
    st.tuples(st.just("remove_all"), st.integers(1, 3), counters, st.just(b"")),
    st.tuples(st.just("spans"), st.integers(1, 3), counters, st.just(b"")),
    st.tuples(st.just("consumer"), st.just(0), st.just([]), st.sampled_from([b"a", b"b"])),
)
Step = tuple[str, int, list[int], bytes]


def take(both: Both, number: int, one: Step, shift: int, id_of: Union[object, None]) -> None:
    kind, region_id, some, consumer = one
    assert callable(id_of)
    found: list[Ref] = [
        # One ms for several IDs, and counters of all regions in one list.
        (region_id + n % 2, counter, (id_of(counter) >> shift << 64) + id_of(counter))
        for n, counter in enumerate(sorted(some) if consumer == b"a" else some)
    ]
    if kind == "assign":
        for ref in found:
            both.assign(ref, consumer, number, COUNTS[number % len(COUNTS)])
    elif kind == "assign_all":
        both.assign_all(found, consumer, number)
    elif kind == "remove":
        for ref in found:
            both.remove(ref)
    elif kind == "remove_all":
        both.remove_all(found)
    elif kind == "spans":
        spans = Spans()
        for counter in some:
            spans.add(counter - 2, counter + 2, 0)
        both.remove_counters(region_id, spans)
    else:
        both.remove_consumer(consumer)


@settings(max_examples=300, deadline=None)
@given(st.lists(step, max_size=20), st.integers(2, 6), st.sampled_from([0, 2, 6]), ids_of)
def test_random_steps(steps: list[Step], chunk_max: int, shift: int, id_of: object) -> None:
    both = Both(chunk_max)
    for number, one in enumerate(steps):
        take(both, number, one, shift, id_of)
        check(both.pel, both.naive)


# -- all short histories

ENTRIES: list[Ref] = [(1, 1, 5), (1, 2, 6), (1, 3, 6), (1, 4, 4), (2, 1, 6)]


def test_all_short_histories() -> None:
    """Entries of one ID, of an ID that came again, and of an ID below those before it."""
    steps = [(n, ref) for ref in ENTRIES for n in range(3)] + [(3, (1, 0, 0)), (3, (1, 2, 0))]
    for history in product(steps, repeat=3):
        for begins_full in (False, True):
            both = Both(2)
            if begins_full:
                both.assign_all(ENTRIES, b"a", 1)
            for kind, ref in history:
                if kind == 0:
                    both.assign(ref, b"a", 2, 2)
                elif kind == 1:
                    both.assign_all([ref, *ENTRIES[2:]], b"b", 3)
                elif kind == 2:
                    both.remove_all([ref, ENTRIES[1], ENTRIES[2]])
                else:
                    spans = Spans()
                    spans.add(ref[1], ref[1] + 2, 0)
                    both.remove_counters(1, spans)
            check(both.pel, both.naive)


def test_a_range_of_counters_is_a_range_of_entries_again_once_the_ids_are_gone() -> None:
    both = Both(2)
    both.assign_all([(1, 1, 9), (1, 2, 10)], b"a", 1)
    assert both.pel.parts[1].agrees
    both.assign((1, 3, 5), b"a", 1, 1)
    assert not both.pel.parts[1].agrees
    check(both.pel, both.naive)
    both.remove_all([(1, 1, 9), (1, 2, 10), (1, 3, 5)])
    assert both.pel.parts[1].agrees
    both.assign_all([(1, 4, 6), (1, 5, 7)], b"a", 1)
    assert both.pel.parts[1].agrees
    check(both.pel, both.naive)


def test_small_chunks_are_joined() -> None:
    pel = Pel(8)
    pel.assign_all([entry_ref(1, n, n) for n in range(1, 801)], b"a", 1)
    assert len(pel.parts[1].chunks) == 100
    for n in range(1, 801):
        if n % 20:
            assert pel.remove(1, n, n)
    check_columns(pel)
    assert pel.length == 40 and len(pel.parts[1].chunks) <= 40


def test_a_chunk_that_is_full_has_no_room_to_grow() -> None:
    one, many = Pel(64), Pel(64)
    for n in range(1, 66):
        one.assign_all([entry_ref(1, n, n)], b"a", 1)
    many.assign_all([entry_ref(1, n, n) for n in range(1, 66)], b"a", 1)
    for pel in (one, many):
        full, last = pel.parts[1].chunks
        assert (full.size(), last.size()) == (64, 1)
        columns = (full.ms, full.seqs, full.counters, full.delivered_ms, full.deliveries)
        for column in (*columns, full.consumers):
            assert sys.getsizeof(column) == sys.getsizeof(column[:])
        check_columns(pel)


def test_a_long_span_of_counters_covers_many_chunks() -> None:
    for first in ((1, 1, 9), (1, 1, 90)):  # IDs and counters agree, or the first ID is the highest
        both = Both(4)
        both.assign_all([first, *((1, n, 10 + n) for n in range(2, 40))], b"a", 1)
        assert both.pel.parts[1].agrees == (first[2] == 9)
        spans = Spans()
        spans.add(3, 36, 0)
        both.remove_counters(1, spans)
        check(both.pel, both.naive)
