"""Bulk reading of a region log, compared with a list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt.encoding import Reader
from anabranch.crdt.log_reading import (
    NODES_FORMAT,
    about_bytes,
    first_and_last,
    packed_range,
    split,
)
from anabranch.crdt.node import PackedNode
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.crdt.scan import DELETED
from tests.crdt.naive_log import Fields, NaiveLog
from tests.crdt.test_logs import LIMITS, Step, append, steps, take

Row = tuple[int, int, Fields]


def grown(limits: NodeLimits, history: list[Step]) -> tuple[RegionLog, NaiveLog, int]:
    """A log, the same log as a list, and the last counter used."""
    log, naive, counter = RegionLog(3, limits), NaiveLog(3), 0
    for step in history:
        counter = take(log, naive, step, counter)
    return log, naive, counter


def rows_of(packed: bytes, after: int, end: int) -> list[Row]:
    """(counter, ID, fields) of the present entries of a range, read from packed nodes."""
    assert packed[0] == NODES_FORMAT
    reader = Reader(packed, 1)
    rows: list[Row] = []
    while not reader.at_end():
        base_counter = reader.varint()
        node = PackedNode(reader.bytes_(), base_counter)
        node.data = bytearray(reader.bytes_())
        scan = node.scan()
        while scan.step():
            if after < scan.counter <= end and not scan.flags & DELETED:
                rows.append((scan.counter, scan.id(), tuple(node.fields(scan))))
    return rows


def rows_between(naive: NaiveLog, after: int, end: int) -> list[Row]:
    return [
        (entry.counter, entry.entry_id, entry.fields)
        for entry in naive.entries
        if after < entry.counter <= end
    ]


@settings(max_examples=300)
@given(
    st.sampled_from(LIMITS),
    steps,
    st.integers(0, 60),
    st.integers(0, 90),
    st.sampled_from([1, 30, 200, 2000, 1 << 20]),
)
def test_packed_nodes_hold_exactly_the_range(
    limits: NodeLimits, history: list[Step], after: int, length: int, bytes_max: int
) -> None:
    """A reader that follows `reached` gets each entry of the range once, and comes to its end."""
    log, naive, _ = grown(limits, history)
    end = after + length
    rows: list[Row] = []
    reached = after
    calls = 0
    while reached < end:
        start = reached
        reached, packed = packed_range(log, start, end, bytes_max)
        assert start < reached <= end, "a call makes progress"
        rows += rows_of(packed, start, end)
        assert rows == rows_between(naive, after, reached)
        calls += 1
    assert rows == rows_between(naive, after, end)
    assert (
        calls
        <= len(rows_between(naive, after, end))
        + sum(node.deleted for node in log.node_map.nodes)
        + 1
    )


def test_answers_are_bounded() -> None:
    """An answer exceeds its bound only by one entry, also from one node without limits."""
    for limits in (NodeLimits(), NodeLimits(0, 0)):
        log = RegionLog(1, limits)
        for counter in range(1, 5001):
            append(log, counter, counter, (b"field", b"v" * 30))
        reached, calls = 0, 0
        while reached < 5000:
            reached, packed = packed_range(log, reached, 5000, 20_000)
            assert len(packed) <= 20_100
            calls += 1
        assert calls > 8


def test_small_nodes_are_bounded_too() -> None:
    """A node costs time beside its bytes, so 5,000 nodes of some bytes are not one answer."""
    log = RegionLog(1, NodeLimits(1, 0))
    for counter in range(1, 5001):
        append(log, counter, counter, (b"f", b"v"))
    reached, _ = packed_range(log, 0, 5000, 1 << 20)
    assert 1000 < reached < 5000


@settings(max_examples=300)
@given(
    st.sampled_from(LIMITS),
    steps,
    st.integers(0, 60),
    st.integers(0, 90),
    st.sampled_from([1, 2, 7, 50]),
    st.booleans(),
    st.sampled_from([1, 2, 1000]),
    st.sampled_from([1, 3, 1000]),
)
def test_parts_cover_the_range(
    limits: NodeLimits,
    history: list[Step],
    after: int,
    length: int,
    size: int,
    by_entries: bool,
    nodes_max: int,
    parts_max: int,
) -> None:
    log, naive, _ = grown(limits, history)
    end = after + length
    reached = after
    while True:
        start = reached
        parts = split(log, start, end, size, by_entries, nodes_max, parts_max)
        assert parts
        for number, part in enumerate(parts):
            assert reached < part.counter <= end or start == end
            assert part.entries == len(rows_between(naive, reached, part.counter))
            if by_entries:
                assert part.entries <= size
                assert part.entries == size or number == len(parts) - 1
            reached = part.counter
        if reached == end:
            return
        assert reached > start


def test_parts_of_bytes_are_about_equal() -> None:
    log = RegionLog(1, NodeLimits())
    for counter in range(1, 20_001):
        append(log, counter, counter, (b"field", b"v" * (counter % 50)))
    whole = about_bytes(log)
    parts = split(log, 0, 20_000, whole // 8, False)
    assert 7 <= len(parts) <= 9
    assert all(abs(part.size - whole // 8) < 5000 for part in parts[:-1])
    assert sum(part.entries for part in parts) == 20_000


@settings(max_examples=100)
@given(st.sampled_from(LIMITS), steps)
def test_first_and_last(limits: NodeLimits, history: list[Step]) -> None:
    log, naive, _ = grown(limits, history)
    counters = [entry.counter for entry in naive.entries] or [0]
    assert first_and_last(log) == (counters[0], counters[-1])


def test_estimated_bytes_are_near_the_true_ones() -> None:
    log = RegionLog(1, NodeLimits(3, 0))
    for counter in range(1, 10_001):
        append(log, counter, counter, (b"field", b"v" * (counter % 40)))
    true = sum(len(node.data) + len(node.names) for node in log.node_map.nodes)
    assert len(log.node_map.nodes) > 1024 and abs(about_bytes(log) - true) < true // 20
