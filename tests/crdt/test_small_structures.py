"""The small structures (vectors, spans, places, PELs, pairs) against sets, dicts and lists."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt import vector as vectors
from anabranch.crdt.encoding import Reader
from anabranch.crdt.idempotency import PairLimits, Pairs
from anabranch.crdt.pair import Pair, is_conflict, pair_of
from anabranch.crdt.pair_run import RUN_MAX
from anabranch.crdt.place import at_counters, at_id, put_place, read_place
from anabranch.crdt.producer import Producer
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.crdt.spans import Spans, put_spans_by_region, read_spans_by_region, union_by_region
from anabranch.crdt.vector import Vector
from anabranch.sim.twin.state import Place
from tests.crdt.naive_log import counters_of, spans_of
from tests.crdt.naive_pairs import NaiveHeld, NaivePairs
from tests.crdt.test_logs import append

small_vectors = st.dictionaries(st.integers(1, 4), st.integers(1, 5))


# -- vectors


def dots(vector: Vector) -> set[tuple[int, int]]:
    """The dots that a vector covers."""
    return {
        (region_id, counter) for region_id, last in vector.items() for counter in range(1, last + 1)
    }


@given(st.lists(small_vectors, max_size=4), small_vectors)
def test_vectors_are_sets_of_dots(several: list[Vector], one: Vector) -> None:
    for other in several:
        assert dots(vectors.joined(one, other)) == dots(one) | dots(other)
        assert vectors.includes(one, other) == (dots(one) >= dots(other))
        raised = dict(one)
        vectors.raise_to(raised, other)
        assert raised == vectors.joined(one, other)
    expected = set.intersection(*(dots(each) for each in several)) if several else set()
    assert dots(vectors.minimum(several)) == expected
    assert 0 not in vectors.minimum(several).values()
    for region_id in range(1, 5):
        for counter in range(1, 6):
            assert vectors.covers(one, region_id, counter) == ((region_id, counter) in dots(one))


def test_dots_compare_by_counter_then_region() -> None:
    assert sorted([(1, 2), (2, 1), (1, 1)], key=vectors.dot_order) == [(1, 1), (2, 1), (1, 2)]


# -- spans

pieces = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=12)


def built(parts: list[tuple[int, int]]) -> tuple[Spans, set[int]]:
    """The spans of these (start, length) pieces, and the same as a set of counters."""
    spans, counters = Spans(), set()
    for start, length in parts:
        spans.add(start, start + length, 1000 + start + length)
        counters |= set(range(start + 1, start + length + 1))
    return spans, counters


def is_set(spans: Spans, counters: set[int]) -> None:
    """Asserts that the spans hold exactly these counters."""
    assert list(zip(spans.starts, spans.ends, strict=True)) == spans_of(counters)
    assert len(spans.end_ids) == len(spans.ends)
    assert bool(spans) == bool(counters)
    for counter in range(30):
        assert spans.contains(counter) == (counter in counters)
        end = next((end for start, end in spans_of(counters) if start < counter <= end), 0)
        assert spans.end_covering(counter) == end


@settings(max_examples=300)
@given(pieces, pieces, st.integers(0, 28))
def test_spans_are_sets(one: list[tuple[int, int]], two: list[tuple[int, int]], cut: int) -> None:
    spans, counters = built(one)
    others, other_counters = built(two)
    is_set(spans, counters)
    assert spans.equals(others) == (counters == other_counters)
    is_set(spans.minus(others), counters - other_counters)
    joined = spans.copy()
    joined.union(others)
    is_set(joined, counters | other_counters)
    # Changing the copy has not changed the original.
    is_set(spans, counters)
    highest = max(counters, default=0)
    assert spans.highest_end() == (highest, 1000 + highest if highest else 0)
    for index, end in enumerate(joined.ends):
        assert joined.end_ids[index] == 1000 + end, "a span has lost the entry ID of its end"
    out = bytearray()
    put_spans_by_region(out, {1: joined})
    again = read_spans_by_region(Reader(bytes(out))).get(1, Spans())
    is_set(again, counters | other_counters)
    assert again.end_ids == joined.end_ids
    joined.truncate(cut, 77)
    is_set(joined, {each for each in counters | other_counters if each <= cut})
    assert counters_of(zip(joined.starts, joined.ends, strict=True)) == {
        each for each in counters | other_counters if each <= cut
    }


@given(st.dictionaries(st.integers(1, 3), pieces), st.dictionaries(st.integers(1, 3), pieces))
def test_spans_by_region(
    one: dict[int, list[tuple[int, int]]], two: dict[int, list[tuple[int, int]]]
) -> None:
    ours = {region_id: built(parts)[0] for region_id, parts in one.items()}
    theirs = {region_id: built(parts)[0] for region_id, parts in two.items()}
    union_by_region(ours, theirs)
    for region_id, spans in ours.items():
        is_set(spans, built(one.get(region_id, []))[1] | built(two.get(region_id, []))[1])
    assert all(spans is not ours[region_id] for region_id, spans in theirs.items()), (
        "the union shares a Spans object with its argument"
    )
    out = bytearray()
    put_spans_by_region(out, ours)
    again = read_spans_by_region(Reader(bytes(out)))
    assert {region_id: each.ends for region_id, each in again.items()} == {
        region_id: each.ends for region_id, each in ours.items() if each
    }


# -- places


@given(
    st.lists(st.integers(1, 4), max_size=8),
    st.sets(st.integers(0, 7)),
    st.integers(0, 20),
    small_vectors,
)
def test_places(gaps: list[int], removed: set[int], entry_id: int, counters: Vector) -> None:
    log = RegionLog(2, NodeLimits(2, 0))
    present: list[tuple[int, int]] = []
    last = 0
    for counter, gap in enumerate(gaps, 1):
        last += gap
        append(log, last, counter, (b"f", b"v"))
        present.append((counter, last))
    for index in removed:
        if index < len(gaps):
            log.remove(index + 1)
    present = [each for each in present if each[0] - 1 not in removed]
    for place, naive in (
        (at_id(entry_id), Place(True, entry_id, {})),
        (at_counters(counters), Place(False, 0, counters)),
    ):
        below = [counter for counter, each in present if not naive.is_below((2, counter), each)]
        assert place.counter_in(log) == max(below, default=0)
        for counter, each in present:
            assert place.is_below(2, counter, each) == naive.is_below((2, counter), each)
        out = bytearray()
        put_place(out, place)
        again = read_place(Reader(bytes(out)))
        assert (again.is_id, again.entry_id, again.counters) == (
            place.is_id,
            place.entry_id,
            place.counters,
        )


# -- idempotency pairs


def pair(
    region_id: int,
    counter: int,
    entry_id: int = 5,
    recorded_ms: int = 0,
    sees: Vector | None = None,
    held_ms: int = 0,
) -> Pair:
    return pair_of(b"p", b"i", (region_id, counter), entry_id, recorded_ms, sees or {}, held_ms)


def test_conflict_is_two_adds_that_have_not_seen_each_other() -> None:
    """S9.2: recorded at most the duration apart, and neither add had seen the other."""
    assert is_conflict(pair(1, 1), pair(2, 1), 100)
    assert is_conflict(pair(1, 1, recorded_ms=100), pair(2, 1), 100)
    assert not is_conflict(pair(1, 1, recorded_ms=101), pair(2, 1), 100)
    assert not is_conflict(pair(1, 1), pair(2, 1, sees={1: 1}), 100)
    assert not is_conflict(pair(1, 1, sees={2: 1}), pair(2, 1), 100)
    assert not is_conflict(pair(1, 2), pair(1, 2), 100)


def test_of_a_conflict_the_lowest_id_wins_then_the_lowest_region() -> None:
    assert pair(2, 1, entry_id=5).order() < pair(1, 1, entry_id=6).order()
    assert pair(1, 9, entry_id=5).order() < pair(2, 1, entry_id=5).order()


def test_pair_answers_for_the_duration_since_it_is_held_here() -> None:
    """S9.1: the duration counts from the time of holding, not from the entry ID's time.

    While both pairs of a conflict are present, the winner answers.
    """
    pairs = Pairs(PairLimits())
    pairs.add(pair(1, 1, entry_id=7, recorded_ms=0, held_ms=1000))
    assert pairs.answer(b"p", b"i", 1100, 100) is not None
    assert pairs.answer(b"p", b"i", 1101, 100) is None
    assert pairs.answer(b"p", b"other", 1000, 100) is None
    assert pairs.answer(b"q", b"i", 1000, 100) is None
    pairs.add(pair(2, 1, entry_id=6, held_ms=1050))
    answer = pairs.answer(b"p", b"i", 1090, 100)
    assert answer is not None and answer.entry_id == 6


def test_a_pair_is_kept_for_the_whole_of_its_duration() -> None:
    """A pair is not collected as long as it answers (S9.1)."""
    pairs = Pairs(PairLimits())
    pairs.add(pair(1, 1, held_ms=1000))
    assert pairs.collect({1: 1}, 1100, 100) == 0
    assert pairs.answer(b"p", b"i", 1100, 100) is not None
    assert pairs.collect({1: 1}, 1101, 100) == 1


def test_pairs_are_kept_until_stable_then_collected() -> None:
    pairs = Pairs(PairLimits())
    pairs.add(pair(1, 1, held_ms=0))
    pairs.add(pair(2, 4, held_ms=0))
    assert pairs.collect({}, 1000, 100) == 0
    assert pairs.collect({1: 1, 2: 3}, 50, 100) == 0
    assert pairs.collect({1: 1, 2: 3}, 1000, 100) == 1
    assert [each.dot for each in pairs.everything()] == [(2, 4)]


def test_a_pair_that_was_over_before_it_came_is_collected() -> None:
    """A pair that is stable and expired when it is added is collected by the next call.

    The result of an earlier call must not make `collect` skip it.
    """
    pairs = Pairs(PairLimits())
    assert pairs.collect({1: 5}, 1000, 100) == 0
    pairs.add(pair(1, 1, held_ms=0))
    assert pairs.collect({1: 5}, 1000, 100) == 1


def test_retiring_takes_the_oldest() -> None:
    """S9.3: retires the oldest pairs of one producer; retired pairs are kept."""
    limits = PairLimits()
    pairs = Pairs(limits)
    for counter in range(1, 5):
        pairs.add(pair(1, counter))
    pairs.add(pair_of(b"q", b"i", (1, 9), 5, 0, {}, 0))
    for _ in range(2):
        pairs.retire(b"p", 2)
        retired = [each.dot for each in pairs.everything() if each.is_retired]
        assert retired == [(1, 1), (1, 2)]
    pairs.retire(b"none", 0)
    assert [each.dot for each in pairs.of(b"p", b"i")] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert [each.dot for each in pairs.of(b"q", b"i")] == [(1, 9)]
    assert (pairs.count(), pairs.count_answering()) == (5, 3)
    assert pairs.count_answering_producers() == 2
    assert (limits.retired, limits.forgotten_early) == (2, 0)


def test_a_retired_pair_answers_nobody_and_wins_its_conflict() -> None:
    """S9.3: the retry of a retired pair is a new add.

    If the new pair lost a conflict to the retired pair, the retired pair answers for it.
    """
    pairs = Pairs(PairLimits())
    pairs.add(pair(1, 1, entry_id=5))
    pairs.retire(b"p", 0)
    assert pairs.answer(b"p", b"i", 0, 100) is None
    assert pairs.count_answering_producers() == 0 and pairs
    pairs.add(pair(2, 1, entry_id=6))
    answer = pairs.answer(b"p", b"i", 0, 100)
    assert answer is not None and answer.dot == (1, 1)
    pairs.add(pair(1, 2, entry_id=7, sees={1: 1, 2: 1}))
    pairs.retire(b"p", 1)
    answer = pairs.answer(b"p", b"i", 0, 100)
    assert answer is not None and answer.dot == (1, 2), "pair (1, 2) had seen both: no conflict"


def test_a_retired_pair_goes_when_it_is_stable() -> None:
    """S9.3: a retired pair is collected as soon as it is stable, even within its duration."""
    limits = PairLimits()
    pairs = Pairs(limits)
    for counter in range(1, 4):
        pairs.add(pair(1, counter, held_ms=1000))
    assert pairs.collect({1: 1}, 1001, 100) == 0, "the pair still answers"
    pairs.retire(b"p", 1)
    assert pairs.collect({1: 1}, 1001, 100) == 1
    assert [each.dot for each in pairs.everything()] == [(1, 2), (1, 3)]
    assert limits.retired == 1
    assert pairs.collect({1: 2}, 5000, 100) == 1
    assert [each.dot for each in pairs.everything()] == [(1, 3)], "(1, 3) is not stable"
    assert (limits.retired, limits.forgotten_early) == (0, 0)


def test_beyond_the_limit_the_oldest_retired_are_forgotten_and_counted() -> None:
    """S9.3: all streams of a region share one limit of retired pairs."""
    limits = PairLimits()
    limits.retired_max = 2
    one, two = Pairs(limits), Pairs(limits)
    for counter in range(1, 4):
        one.add(pair(1, counter))
        two.add(pair(2, counter))
    one.retire(b"p", 1)
    assert (limits.retired, limits.forgotten_early) == (2, 0)
    two.retire(b"p", 1)
    assert [each.dot for each in two.everything()] == [(2, 3)]
    assert [each.dot for each in one.everything()] == [(1, 1), (1, 2), (1, 3)]
    assert (limits.retired, limits.forgotten_early) == (2, 2)
    one.retire(b"p", 0)
    assert [each.dot for each in one.everything()] == [(1, 2), (1, 3)]
    two.retire(b"p", 0)
    assert not two
    assert (limits.retired, limits.forgotten_early) == (2, 4)
    one.clear({1: 9})
    assert limits.retired == 0


def test_a_burst_of_older_pairs_retires_itself() -> None:
    """A link healed, and more than maxsize pairs of the time of the cut arrived at once.

    As the newest pairs they retired a pair that another region had just added. The retry of that
    add, in this region, was a new add: the entry stood twice, once in 16,000 retried adds.
    """
    limits = PairLimits()
    pairs = Pairs(limits)
    pairs.merge(pair_of(b"p", b"new", (2, 1), 5000, 5000, {}, 5001))
    for counter in range(1, 200):
        pairs.merge(pair_of(b"p", b"%d" % counter, (3, counter), counter, counter, {}, 5002))
        pairs.retire(b"p", 100)
    assert pairs.answer(b"p", b"new", 5003, 1000) is not None
    assert pairs.count_answering() == 100 and limits.retired == 100


streams = st.integers(0, 1)
pids = st.sampled_from([b"p", b"q"])
pair_steps = st.one_of(
    st.tuples(
        st.sampled_from(["add", "merge"]),
        streams,
        pids,
        st.sampled_from([b"i", b"j"]),
        st.integers(1, 2),
        st.integers(1, 4),
        st.sampled_from([0, 10, 60]),
        st.dictionaries(st.integers(1, 2), st.integers(1, 6)),
        st.sampled_from([0, 0, 30, 60]),
    ),
    st.tuples(st.just("retire"), streams, pids, st.integers(0, 2)),
    st.tuples(st.just("retire first"), streams, pids, st.integers(0, 3)),
    st.tuples(st.just("clear"), streams, st.dictionaries(st.integers(1, 2), st.integers(1, 4))),
    st.tuples(
        st.just("collect"),
        streams,
        st.dictionaries(st.integers(1, 2), st.integers(1, 12)),
        st.sampled_from([0, 1, 50, 51]),
        st.sampled_from([50, 50, 50, 100]),
    ),
)


@settings(max_examples=600)
@given(
    st.lists(pair_steps, max_size=25),
    st.integers(0, 3),
    st.sampled_from([1, 1000]),
    st.sampled_from([{}, {1: 2}, {1: 4, 2: 9}]),
)
def test_pairs_are_a_list_of_what_is_held(
    steps: list[tuple[Any, ...]], retired_max: int, look_max: int, stable_at_once: Vector
) -> None:
    """`Pairs` agrees with the naive list, in two streams of one region.

    The steps add, retire, clear and collect pairs; the limit of retired pairs makes the region
    forget some. After each step the answers are compared too.
    """
    limits = PairLimits()
    limits.retired_max = retired_max
    limits.look_max = look_max
    held = [Pairs(limits), Pairs(limits)]
    naive = NaivePairs(retired_max)
    limits.stable = naive.stable = stable_at_once
    counters = {1: 0, 2: 0}
    now_ms = 1000
    for step, stream, *given_ in steps:
        pairs = held[stream]
        if step in ("add", "merge"):
            pid, iid, region_id, entry_id, recorded_ms, sees, since_ms = given_
            held_ms = now_ms - since_ms
            counters[region_id] += 1
            dot = (region_id, counters[region_id])
            one = pair_of(pid, iid, dot, entry_id, recorded_ms, sees, held_ms)
            other = NaiveHeld(stream, pid, iid, dot, entry_id, recorded_ms, sees, held_ms)
            if step == "add":
                pairs.add(one)
                naive.held.append(other)
            else:
                pairs.merge(one)
                naive.merge(other)
        elif step == "retire":
            pairs.retire(*given_)
            naive.retire(stream, *given_)
        elif step == "retire first":
            pairs.retire_first(*given_)
            naive.retire_first(stream, *given_)
        elif step == "clear":
            pairs.clear(*given_)
            naive.clear(stream, *given_)
        else:
            stable, later_ms, duration_ms = given_
            now_ms += later_ms
            assert collected(pairs, stable, now_ms, duration_ms) == naive.collect(
                stream, stable, now_ms, duration_ms
            )
        _is_the_list(held, naive, limits, now_ms)


@pytest.mark.parametrize("seed", range(8))
def test_many_pairs_are_a_list_of_what_is_held(seed: int) -> None:
    """As above, with so many pairs that those of a producer stand in several runs."""
    chance = Random(seed)
    limits = PairLimits()
    limits.retired_max = 150
    limits.look_max = chance.choice([1, 100])
    held = [Pairs(limits), Pairs(limits)]
    naive = NaivePairs(limits.retired_max)
    counters = {1: 0, 2: 0}
    now_ms = 1000
    for number in range(1500):
        now_ms += chance.randint(0, 2)
        stream, region_id = chance.randrange(2), chance.randint(1, 2)
        pid = chance.choice([b"p", b"p", b"q"])
        counters[region_id] += 1
        dot = (region_id, counters[region_id])
        recorded_ms = now_ms - chance.choice([0, 0, 1, 200, 400, 1000])
        seen = {1: counters[1], 2: counters[2]}
        seen[region_id] -= 1
        add = (pid, b"%d" % (number % 100), dot, number << 64, recorded_ms, seen, now_ms)
        if chance.random() < 0.7:
            held[stream].add(pair_of(*add))
            naive.held.append(NaiveHeld(stream, *add))
        else:
            held[stream].merge(pair_of(*add))
            naive.merge(NaiveHeld(stream, *add))
        if number > 700 and chance.random() < 0.1:
            stable = {one: last - chance.randint(150, 400) for one, last in counters.items()}
            limits.stable = naive.stable = chance.choice([{}, stable])
        held[stream].retire(pid, 200)
        naive.retire(stream, pid, 200)
        if number % 97 == 0:
            stable = {one: last - chance.randint(0, 100) for one, last in counters.items()}
            dropped = collected(held[stream], stable, now_ms, 400)
            assert dropped == naive.collect(stream, stable, now_ms, 400)
        if number % 50 == 0:
            _is_the_list(held, naive, limits, now_ms)
    lengths = [len(one.runs) for one in held[0].producers.values()]
    assert max(lengths) > 2, "the pairs of a producer stand in several runs"


def collected(pairs: Pairs, stable: Vector, now_ms: int, duration_ms: int) -> int:
    """How many pairs a whole collection drops, however many calls it takes."""
    dropped = pairs.collect(stable, now_ms, duration_ms)
    while pairs.is_collecting:
        dropped += pairs.collect(stable, now_ms, duration_ms)
    return dropped


@settings(max_examples=400)
@given(st.lists(pair_steps, max_size=40))
def test_what_comes_during_a_collection_is_collected_later(steps: list[tuple[Any, ...]]) -> None:
    """A collection takes several calls, so clients do not wait for a million pairs.

    Between two calls pairs come, retire and go. Afterwards none is left that could be dropped.
    """
    limits = PairLimits()
    limits.look_max = 1
    pairs = Pairs(limits)
    counters = {1: 0, 2: 0}
    stable: Vector = {}
    now_ms = 1000
    for step, _, *given_ in steps:
        if step in ("add", "merge"):
            pid, iid, region_id, entry_id, recorded_ms, sees, since_ms = given_
            counters[region_id] += 1
            dot = (region_id, counters[region_id])
            one = pair_of(pid, iid, dot, entry_id, recorded_ms, sees, now_ms - since_ms)
            getattr(pairs, step)(one)
        elif step == "retire":
            pairs.retire(*given_)
        elif step == "clear":
            pairs.clear(*given_)
        elif step == "collect":
            vectors.raise_to(stable, given_[0])
            now_ms += given_[1]
        pairs.collect(stable, now_ms, 50)
    collected(pairs, stable, now_ms, 50)
    collected(pairs, stable, now_ms, 50)
    for each in pairs.everything():
        assert not each.is_stable(stable) or not (each.is_retired or now_ms - each.held_ms > 50)
    assert limits.retired == sum(each.is_retired for each in pairs.everything())


def test_a_collection_pauses_when_it_has_looked_at_enough() -> None:
    """It counts producers, runs and pairs: one of each is all that this limit allows."""
    limits = PairLimits()
    limits.look_max = 3
    pairs = Pairs(limits)
    for counter, pid in enumerate((b"a", b"b"), 1):
        pairs.add(pair_of(pid, b"1", (1, counter), counter << 64, 0, {}, 0))
    assert pairs.collect({1: 2}, 1000, 50) == 1
    assert pairs.is_collecting
    assert pairs.collect({1: 2}, 1000, 50) == 1
    assert not pairs.is_collecting


def test_a_producer_tells_when_it_is_to_be_looked_at_again() -> None:
    """Before that time no pair becomes too old, so a collection need not look at its runs."""
    producer = Producer(b"p")
    for counter in range(1, RUN_MAX + 2):
        held_ms = 1000 if counter <= RUN_MAX else 5000
        producer.add(
            pair_of(b"p", b"%d" % counter, (1, counter), counter << 64, held_ms, {}, held_ms)
        )
    assert producer.drop_old({1: RUN_MAX + 1}, 1040, 50) == (2, 1050)
    assert producer.drop_old({1: RUN_MAX + 1}, 1051, 50) == (2 + RUN_MAX, 5050)
    assert producer.count == 1


def _is_the_list(held: list[Pairs], naive: NaivePairs, limits: PairLimits, now_ms: int) -> None:
    """Asserts that the pairs of both streams and their answers equal those of the naive list."""
    assert (limits.retired, limits.forgotten_early) == (naive.retired(), naive.forgotten_early)
    for stream, pairs in enumerate(held):
        expected = {pid: naive.of_producer(stream, pid) for pid in (b"p", b"q")}
        everything = [each for several in expected.values() for each in several]
        answering = [each for each in everything if not each.is_retired]
        assert set(pairs.producers) == {pid for pid, several in expected.items() if several}
        assert (pairs.count(), pairs.count_answering()) == (len(everything), len(answering))
        assert pairs.count_answering_producers() == len({each.pid for each in answering})
        assert bool(pairs) == bool(everything)
        for pid, several in expected.items():
            assert [
                (each.dot, each.is_retired) for each in pairs.everything() if each.pid == pid
            ] == [(each.dot, each.is_retired) for each in several]
            retired = [each.is_retired for each in several]
            assert retired == sorted(retired, reverse=True), "retired pairs are not the oldest"
            for iid in (b"i", b"j", b"7", b"42"):
                assert sorted(each.dot for each in pairs.of(pid, iid)) == sorted(
                    each.dot for each in several if each.iid == iid
                )
                answer = pairs.answer(pid, iid, now_ms, 50)
                may_answer = naive.answers(stream, pid, iid, now_ms, 50)
                if answer is None:
                    assert not may_answer
                else:
                    assert answer.dot in may_answer


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), unique=True, max_size=10),
    small_vectors,
)
def test_clear_takes_what_its_vector_saw(seen: list[tuple[int, int]], vector: Vector) -> None:
    pairs = Pairs(PairLimits())
    for number, dot in enumerate(seen):
        pairs.add(pair_of(b"p%d" % (number % 2), b"i%d" % (number % 3), dot, 5, 0, {}, 0))
    pairs.clear(vector)
    left = {dot for dot in seen if dot not in dots(vector)}
    assert {each.dot for each in pairs.everything()} == left
    assert pairs.count() == len(left)
    assert bool(pairs) == bool(left)
