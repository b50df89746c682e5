"""The decoder of packed nodes, compared with the ordinary way of reading a log."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from typing import Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.ids import format_id
from anabranch.crdt.log_reading import packed_range
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.pipeline.column_buffers import TextBuffers, Validity
from anabranch.pipeline.node_columns import (
    ARRAY,
    JSON,
    LAST_TIME_MS,
    MAP,
    NO_FIELDS,
    NodeColumns,
    NodesError,
)
from tests.crdt.naive_log import Fields
from tests.crdt.test_logs import LIMITS, append

# -- reading the buffers of Arrow


def numbers(buffer: BytesWriter, kind: str) -> list[int]:
    data = buffer.getvalue()
    return list(struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data))


def texts(offsets: BytesWriter, data: BytesWriter) -> list[bytes]:
    ends = numbers(offsets, "i")
    whole = data.getvalue()
    return [whole[start:stop] for start, stop in pairwise(ends)]


def present(validity: Validity, rows: int) -> list[bool]:
    bits = validity.bits()
    found = [bool(bits[row // 8] >> row % 8 & 1) for row in range(rows)]
    assert found.count(False) == validity.missing
    return found


def column(buffers: TextBuffers, rows: int) -> list[Optional[bytes]]:
    values = texts(buffers.offsets, buffers.data)
    assert len(values) == rows
    return [
        value if here else None
        for value, here in zip(values, present(buffers.validity, rows), strict=True)
    ]


class Rows:
    """All that a decoder makes of the answers for one range, batch by batch."""

    def __init__(self, decoder: NodeColumns, log: RegionLog, low: int, high: int, cut: int) -> None:
        self.ids: list[bytes] = []
        self.counters: list[int] = []
        self.times: list[Optional[int]] = []
        self.pairs: list[list[tuple[bytes, bytes]]] = []
        self.json: list[bytes] = []
        self.typed: list[list[Optional[bytes]]] = []
        reached = low
        while reached < high:
            reached, answer = packed_range(log, reached, high, cut)
            decoder.feed(answer)
            while rows := decoder.decode(1 + cut % 7):
                self.take(decoder, rows)

    def take(self, decoder: NodeColumns, rows: int) -> None:
        self.ids += texts(decoder.id_offsets, decoder.ids)
        self.counters += numbers(decoder.counters, "q")
        micros = numbers(decoder.times, "q")
        has_time = present(decoder.has_time, rows)
        self.times += [one if here else None for one, here in zip(micros, has_time, strict=True)]
        names = texts(decoder.name_offsets, decoder.names)
        values = texts(decoder.value_offsets, decoder.values)
        pairs = list(zip(names, values, strict=True))
        ends = numbers(decoder.list_offsets, "i")
        self.pairs += [pairs[start:stop] for start, stop in pairwise(ends)]
        self.json += texts(decoder.json_offsets, decoder.json)
        columns = [column(one, rows) for one in decoder.typed]
        self.typed += [list(row) for row in zip(*columns, strict=True)]


# -- the expected rows

Entry = tuple[int, int, list[tuple[bytes, bytes]]]


def ordinary(log: RegionLog, low: int, high: int) -> list[Entry]:
    """(counter, ID, pairs) of the entries of a range."""
    found: list[Entry] = []
    cursor = LogCursor(log)
    cursor.seek_counter(low)
    while cursor.valid and cursor.counter <= high:
        flat = cursor.fields()
        found.append((cursor.counter, cursor.id(), list(zip(flat[::2], flat[1::2], strict=True))))
        cursor.step()
    return found


def utf8(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


def as_map(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    return {utf8(name): value for name, value in pairs}


# -- logs of all kinds

names = st.sampled_from([b"a", b"b", b"user", b"", b"\xff", b"\xfe", b'q"\\', "naïve".encode()])
values = st.one_of(
    st.binary(max_size=6),
    st.sampled_from(
        [b"12", b"x" * 39, b"x" * 40, b"x" * 41, b"y" * 300, b'"\\\n\x7f', b"\xc3\xa9"]
    ),
)
fields = st.lists(st.tuples(names, values), min_size=1, max_size=4)
# Distance from the former entry in ms, seq and counter.
steps = st.tuples(
    st.sampled_from([0, 0, 1, 3, 9_999, 10_000, 1 << 40, 1 << 62]),
    st.sampled_from([1, 2, 1000, 1 << 63]),
    st.sampled_from([1, 1, 1, 2, 130]),
)
entries = st.lists(st.tuples(fields, steps), max_size=40)
Described = list[tuple[list[tuple[bytes, bytes]], tuple[int, int, int]]]


def made(limits: NodeLimits, described: Described, removed: list[int]) -> RegionLog:
    """A log with these entries, without those at the places `removed`."""
    log = RegionLog(1, limits)
    ms = seq = counter = 0
    counters = []
    for pairs, (ms_step, seq_step, counter_step) in described:
        ms, seq = (ms + ms_step, seq_step) if ms_step else (ms, seq + seq_step)
        counter += counter_step
        if ms >= 1 << 64 or seq >= 1 << 64:
            break
        flat: Fields = tuple(part for pair in pairs for part in pair)
        append(log, ms << 64 | seq, counter, flat)
        counters.append(counter)
    for place in removed:
        if counters:
            log.remove(counters[place % len(counters)])
    return log


@settings(max_examples=300)
@given(
    st.sampled_from(LIMITS),
    entries,
    st.lists(st.integers(0, 60), max_size=8),
    st.integers(0, 12),
    st.integers(0, 400),
    st.sampled_from([1, 90, 100_000]),
)
def test_columns_hold_the_entries(
    limits: NodeLimits, described: Described, removed: list[int], low: int, length: int, cut: int
) -> None:
    log, high = made(limits, described, removed), low + length
    expected = ordinary(log, low, high)
    rows = Rows(NodeColumns(low, high, ARRAY, []), log, low, high, cut)
    assert rows.counters == [counter for counter, _, _ in expected]
    assert rows.ids == [format_id(entry_id) for _, entry_id, _ in expected]
    assert rows.times == [
        (entry_id >> 64) * 1000 if entry_id >> 64 <= LAST_TIME_MS else None
        for _, entry_id, _ in expected
    ]
    assert rows.pairs == [
        [(utf8(name), value) for name, value in pairs] for _, _, pairs in expected
    ]


@settings(max_examples=150)
@given(st.sampled_from(LIMITS), entries, st.sampled_from([1, 90, 100_000]))
def test_maps_json_and_typed_columns(limits: NodeLimits, described: Described, cut: int) -> None:
    """Of fields with equal names, maps, JSON and typed columns have the last."""
    log, high = made(limits, described, []), 1 << 40
    expected = [pairs for _, _, pairs in ordinary(log, 0, high)]
    maps = Rows(NodeColumns(0, high, MAP, []), log, 0, high, cut).pairs
    assert [dict(pairs) for pairs in maps] == [as_map(pairs) for pairs in expected]
    assert all(len(dict(pairs)) == len(pairs) for pairs in maps), "a key stands twice"
    as_json = Rows(NodeColumns(0, high, JSON, []), log, 0, high, cut).json
    assert [json.loads(text) for text in as_json] == [
        {name.decode(): value.decode("utf-8", "replace") for name, value in as_map(pairs).items()}
        for pairs in expected
    ]
    wanted = [b"user", "naïve".encode(), b"\xff"]
    typed = Rows(NodeColumns(0, high, NO_FIELDS, wanted), log, 0, high, cut).typed
    assert typed == [[dict(pairs).get(name) for name in wanted] for pairs in expected]


def test_the_highest_id() -> None:
    """IDs have 64+64 bits, and compiled code counts with signed numbers of 64 bits."""
    log = RegionLog(1, NodeLimits())
    highest = (1 << 64) - 1
    for counter, entry_id in enumerate([1, highest, 1 << 127, highest << 64 | highest], 1):
        append(log, entry_id, counter, (b"f", b"v"))
    rows = Rows(NodeColumns(0, 9, ARRAY, []), log, 0, 9, 10_000)
    assert rows.ids == [
        b"0-1",
        b"0-18446744073709551615",
        b"9223372036854775808-0",
        b"18446744073709551615-18446744073709551615",
    ]
    assert rows.times == [0, 0, None, None]


def test_malformed_answers_are_refused() -> None:
    """An answer that is cut off or of another format never reads as a shorter one."""
    log = RegionLog(1, NodeLimits())
    for counter in range(1, 4):
        append(log, counter, counter, (b"field", b"value"))
    _, answer = packed_range(log, 0, 3, 10_000)
    for length in range(len(answer)):
        decoder = NodeColumns(0, 3, ARRAY, [])
        if length == 1:
            # An answer without nodes.
            continue
        with pytest.raises(NodesError):
            decoder.feed(answer[:length])
            decoder.decode(100)
    with pytest.raises(NodesError, match="another version"):
        NodeColumns(0, 3, ARRAY, []).feed(b"\x02" + answer[1:])
