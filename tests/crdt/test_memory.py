"""The estimate of a stream's memory, beside what Python's allocator counts."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from anabranch.crdt import memory
from anabranch.crdt.groups import Create
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.memory import about_memory
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.pair import Pair
from anabranch.crdt.pel_chunk import EntryRef
from anabranch.crdt.place import at_id
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.spans import Spans
from anabranch.crdt.stream import Stream

MS = 1_700_000_000_000
LIMITS = NodeLimits()


def empty() -> Stream:
    return Stream(b"key", LIMITS, PairLimits())


def with_entries(count: int) -> Stream:
    stream = empty()
    log = stream.log(1)
    for n in range(count):
        log.append(MS + n, 1, n + 1, encode_names([b"f"]), encode_values([b"value %d" % n]))
    return stream


def with_group(stream: Stream, name: bytes, counter: int) -> None:
    stream.add_create(name, (1, counter), Create(at_id(0)))


def with_groups(count: int) -> Stream:
    stream = empty()
    for n in range(count):
        with_group(stream, b"group %d" % n, n + 1)
    return stream


def with_consumers(count: int) -> Stream:
    stream = with_groups(1)
    delivery = stream.groups[b"group 0"].delivery
    for n in range(count):
        delivery.consumer(b"consumer %d" % n, MS)
    return stream


def with_pending(count: int) -> Stream:
    stream = with_groups(1)
    delivery = stream.groups[b"group 0"].delivery
    for n in range(0, count, 100):
        refs = [EntryRef(1, one + 1, MS + one, 1) for one in range(n, n + 100)]
        delivery.assign_all(refs, b"c", MS)
    return stream


def with_spans(count: int) -> Stream:
    stream = with_groups(1)
    (create,) = stream.groups[b"group 0"].creates.values()
    spans = create.acked[1] = Spans()
    for n in range(count):
        spans.add(4 * n, 4 * n + 1, ((MS + n) << 64) + 1)
    return stream


def with_pairs(count: int, producers: int = 3) -> Stream:
    stream = empty()
    for n in range(count):
        pid, iid = b"producer %d" % (n % producers), b"%012d" % n
        stream.pairs.add(Pair(pid, iid, 1, n + 1, MS + n, 1, MS + n, MS + n, n, {}))
    return stream


def with_producers(count: int) -> Stream:
    return with_pairs(count, count)


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (with_entries, 30_000),
        (with_groups, 3 * memory.PARTS_MAX),
        (with_consumers, 2_000),
        (with_pending, 20_000),
        (with_spans, 5_000),
        (with_pairs, 20_000),
        (with_producers, 3 * memory.PARTS_MAX),
    ],
)
def test_the_estimate_is_near(make: Callable[[int], Stream], count: int) -> None:
    """Objects of the interpreted modules are larger than those that the estimate assumes."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    stream = make(count)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.5 < about_memory(stream) / used < 1.5


def test_a_look_makes_nothing() -> None:
    """A stream without groups is not given the parts for them."""
    stream = with_entries(1)
    assert 0 < about_memory(stream) < 2000
    assert stream.rare is None


def test_everything_counts() -> None:
    stream = with_entries(1)
    sizes = [about_memory(stream)]
    with_group(stream, b"g" * 100, 1)
    sizes.append(about_memory(stream))
    delivery = stream.groups[b"g" * 100].delivery
    delivery.consumer(b"c" * 100, MS)
    sizes.append(about_memory(stream))
    delivery.assign(EntryRef(1, 1, MS, 1), b"c" * 100, MS, 1, MS)
    sizes.append(about_memory(stream))
    delivery.delete_consumer(b"c" * 100)
    delivery.spans_given(2).add(0, 5, MS << 64)
    sizes.append(about_memory(stream))
    stream.pairs.add(Pair(b"p" * 100, b"i", 1, 1, MS, 1, MS, MS, 0, {}))
    sizes.append(about_memory(stream))
    stream.deadlines = {(1, 2): MS}
    sizes.append(about_memory(stream))
    assert sizes == sorted(set(sizes))


def test_the_name_of_a_group_counts() -> None:
    short, long = empty(), empty()
    with_group(short, b"g", 1)
    with_group(long, b"g" * 1001, 1)
    assert about_memory(long) - about_memory(short) == 1000
