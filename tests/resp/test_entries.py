"""Entries that are encoded from packed nodes, compared with the same entries as lists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt import merge
from anabranch.crdt.ids import MAX_HALF, MAX_ID, make
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import Chunk, EntryRef
from anabranch.crdt.pel_slices import PendingSlice, Window
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.crdt.scan import Scan, is_below, unsigned, word
from anabranch.region.engine.replies import (
    AddedIds,
    EntriesReply,
    MapReply,
    PendingReply,
    Reply,
    listed,
)
from anabranch.region.resp import entries
from anabranch.region.resp.encoder import encode

FIELDS = (
    [b"f", b"v"],
    [b"f", b""],
    [b"", b"x" * 32],
    [b"a", b"1" * 33, b"b", b"2" * 200],
    [b"\xff" * 1100, b"\r\n" * 700],
    [b"many", b"x" * 20_000],
    # Values of whole words of eight bytes, and of a byte more or less.
    [
        word
        for size in (7, 8, 9, 63, 64, 65)
        for word in (b"%d" % size, bytes(range(65, 65 + size)))
    ],
    [word for number in range(12) for word in (b"n%d" % number, b"%d" % number)],
)
# Some lead to numbers of eight and of nine digits, and of sixteen and seventeen.
GAPS = (1, 1000, 99_999_000, 10**16 - 99_999_000, 1 << 63, 1 << 64, (3 << 64) + 7, 1 << 127)


def encoded(reply: Reply, protocol: int) -> bytes:
    out: list[bytes] = []
    encode(reply, protocol, out)
    return b"".join(out)


def log_of(region_id: int, steps: list[tuple[int, int, bool]]) -> RegionLog:
    """A log of small nodes. A step is a gap to the ID before, fields, and whether it is gone."""
    log = RegionLog(region_id, NodeLimits(3, 4096))
    entry_id = 0
    gone: list[int] = []
    for counter, (gap, fields, is_gone) in enumerate(steps, 1):
        entry_id += GAPS[gap]
        if entry_id > MAX_ID:
            break
        names, values = FIELDS[fields][::2], FIELDS[fields][1::2]
        log.append(
            entry_id >> 64, entry_id & MAX_HALF, counter, encode_names(names), encode_values(values)
        )
        gone += [counter] * is_gone
    for counter in gone:
        log.remove(counter)
    return log


steps = st.lists(
    st.tuples(st.integers(0, len(GAPS) - 1), st.integers(0, len(FIELDS) - 1), st.booleans()),
    max_size=14,
)


@settings(max_examples=200)
@given(steps, steps, st.integers(-1, 9))
def test_slices_have_the_bytes_of_lists(
    one: list[tuple[int, int, bool]], other: list[tuple[int, int, bool]], count: int
) -> None:
    logs = {1: log_of(1, one), 2: log_of(2, other)}
    for read in (merge.forward, merge.backward):
        reply = EntriesReply(read(logs, 0, MAX_ID, count))
        for protocol in (2, 3):
            assert encoded(reply, protocol) == encoded(listed(reply), protocol)
            nested: Reply = MapReply([b"s", reply, b"t", [reply, reply]])
            assert encoded(nested, protocol) == encoded(listed(nested), protocol)


EDGES = [10**digits - 1 + more for digits in (7, 8, 9, 16, 17) for more in (0, 1)]
NUMBERS = st.sampled_from(
    [0, 1, 9, 10, *EDGES, 1_700_000_000_000, (1 << 63) - 1, 1 << 63, MAX_HALF]
)
NAMES = {1: b"", 2: b"c", 3: b"\r\n" * 600}


@given(
    st.lists(
        st.tuples(NUMBERS, NUMBERS, st.sampled_from(sorted(NAMES)), NUMBERS, NUMBERS), max_size=9
    ),
    NUMBERS,
    st.lists(st.integers(1, 4), min_size=9, max_size=9),
)
def test_pending_rows_have_the_bytes_of_lists(
    rows: list[tuple[int, int, int, int, int]], now_ms: int, sizes: list[int]
) -> None:
    chunk = Chunk()
    for n, (ms, seq, consumer, delivered_ms, deliveries) in enumerate(rows):
        chunk.append(EntryRef(1, n, ms, seq), consumer, delivered_ms, deliveries)
    window = Window(1, chunk, 0, len(rows), NAMES)
    reply = PendingReply(now_ms)
    start = 0
    for size in sizes:
        if start < len(rows):
            reply.add(PendingSlice(window, start, min(start + size, len(rows))))
            start += size
    expected: Reply = [
        [b"%d-%d" % row[:2], NAMES[row[2]], max(now_ms - row[3], 0), row[4]] for row in rows
    ]
    assert listed(reply) == expected
    for protocol in (2, 3):
        assert encoded(reply, protocol) == encoded(expected, protocol)
        assert encoded([reply, 1], protocol) == encoded([expected, 1], protocol)


def test_ids_of_a_run_have_the_bytes_of_a_list() -> None:
    for first_seq in (0, 1, 999_001, *EDGES, (1 << 63) - 2001, MAX_HALF - 5000):
        for ms in (0, 1_700_000_000_000, MAX_HALF):
            ids: list[Reply] = [b"%d-%d" % (ms, first_seq + 1000 * n) for n in range(4)]
            added = encoded(AddedIds(ms, first_seq, 4), 2)
            assert b"*4\r\n" + added == encoded(ids, 2)


def test_digits_that_compiled_code_writes_as_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreted code formats them (see `tests/crdt/test_compiled_branches.py`)."""
    monkeypatch.setattr(entries, "IS_COMPILED", True)
    test_ids_of_a_run_have_the_bytes_of_a_list()
    logs = {1: log_of(1, [(gap, 0, False) for gap in (0, 1, 2, 0, 3, 1, 4, 6, 0, 1)])}
    for read in (merge.forward, merge.backward):
        reply = EntriesReply(read(logs, 0, MAX_ID, -1))
        assert encoded(reply, 2) == encoded(listed(reply), 2)


def test_an_entry_without_fields() -> None:
    """XADD refuses it, and a peer may send it."""
    log = RegionLog(1, NodeLimits())
    log.append(5, 1, 1, encode_names([]), encode_values([]))
    reply = EntriesReply(merge.forward({1: log}, 0, MAX_ID, -1))
    assert encoded(reply, 2) == encoded(listed(reply), 2) == b"*1\r\n*2\r\n$3\r\n5-1\r\n*0\r\n"


def test_more_lists_of_names_than_are_remembered() -> None:
    for number in range(entries._NAMES_MAX + 10):
        log = RegionLog(1, NodeLimits())
        log.append(5, 1, 1, encode_names([b"name%d" % number]), encode_values([b"v"]))
        reply = EntriesReply(merge.forward({1: log}, 0, MAX_ID, -1))
        assert encoded(reply, 2) == encoded(listed(reply), 2)
        assert len(entries._remembered) <= entries._NAMES_MAX


def test_pending_rows_stay_as_they_were() -> None:
    """A reply in MULTI is sent after EXEC, when the entries and even the consumer may be gone."""
    pel = Pel()
    pel.assign_all([EntryRef(1, n, n, 0) for n in range(1, 4)], b"c", 5)
    reply = PendingReply(7)
    reply.add(pel.ascending().take(3))
    before = encoded(listed(reply), 2)
    pel.assign(EntryRef(1, 2, 2, 0), b"d", 6, 2)
    pel.remove_consumer(b"c")
    pel.assign(EntryRef(1, 4, 4, 0), b"e", 8)
    assert encoded(reply, 2) == encoded(listed(reply), 2) == before


def test_a_slice_stays_as_it_was() -> None:
    """A reply in MULTI is sent after EXEC, when later commands have changed the node."""
    log = log_of(1, [(1, 0, False)] * 3)
    replies = [
        EntriesReply(read({1: log}, 0, MAX_ID, -1)) for read in (merge.forward, merge.backward)
    ]
    before = [encoded(listed(reply), 2) for reply in replies]
    log.remove(2)
    log.append(9, 9, 4, encode_names([b"f"]), encode_values([b"late"]))
    log.remove_prefix(3)
    assert [encoded(reply, 2) for reply in replies] == before


def test_words_order_like_numbers() -> None:
    """Compiled code keeps halves of 2**63 and above as negative numbers."""
    halves = [0, 1, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, MAX_HALF]
    for one in halves:
        assert unsigned(word(one)) == one
        for other in halves:
            assert is_below(word(one), word(other)) == (one < other)
            scan = Scan(b"", 0)
            scan.ms_word, scan.seq_word = word(one), word(other)
            assert (scan.ms, scan.seq, scan.id()) == (one, other, make(one, other))
            for bound in halves:
                ms, seq = word(one), word(bound)
                assert scan.is_up_to(ms, seq) == (other <= bound)
                assert scan.is_from(ms, seq) == (other >= bound)
