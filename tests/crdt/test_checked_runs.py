"""`check_entries` beside a naive check with numbers of any size.

In compiled code the halves of an ID, offsets and lengths are machine words, whose sums can
overflow. So the numbers here are often near the powers of two at which words do.
"""

from __future__ import annotations

from random import Random
from typing import Optional

import pytest

from anabranch.crdt import ids
from anabranch.crdt.encoding import put_varint
from anabranch.crdt.node import check_entries
from anabranch.crdt.scan import DELETED, NEXT_COUNTER, SAME_MS, SAME_NAMES

NAMES = bytes([2, 1]) + b"a" + bytes([1]) + b"b"
EDGES = [(1 << bits) + offset for bits in (31, 32, 62, 63, 64) for offset in (-1, 0, 1)]
Checked = tuple[int, int, int, int, int]


class Entry:
    """One entry as it is written: flags, deltas, the payload's length, and the values' lengths."""

    def __init__(self, draw: Random) -> None:
        self.flags = SAME_NAMES | draw.choice([0, SAME_MS, SAME_MS]) | draw.choice([0, DELETED])
        self.flags |= draw.choice([0, NEXT_COUNTER, NEXT_COUNTER])
        if draw.random() < 0.03:
            self.flags &= ~SAME_NAMES
        self.ms, self.seq, self.counter = (
            draw.choice([1, 1, 1, 5, draw.choice([0, *EDGES])]) for _ in range(3)
        )
        self.lengths = [draw.choice([0, 3, 200]) for _ in range(2)]
        self.values = bytearray()
        for length in self.lengths:
            told = draw.choice(EDGES) if draw.random() < 0.03 else length
            put_varint(self.values, told)
            self.values += bytes(length)
        self.size = len(self.values)
        if draw.random() < 0.03:
            self.size = draw.choice([*EDGES, self.size - 1, self.size + 1])

    def write(self, out: bytearray) -> None:
        out.append(self.flags)
        if not self.flags & SAME_MS:
            put_varint(out, self.ms)
        put_varint(out, self.seq)
        if not self.flags & NEXT_COUNTER:
            put_varint(out, self.counter)
        put_varint(out, self.size)
        out += self.values


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, offset


def _naive(data: bytes, base_counter: int) -> Optional[Checked]:
    """What `check_entries` returns; None if the run is malformed."""
    count = deleted = ms = seq = offset = 0
    counter, previous = base_counter, -1
    try:
        while offset < len(data):
            flags = data[offset]
            offset += 1
            delta = 0
            if not flags & SAME_MS:
                delta, offset = _varint(data, offset)
                ms, seq = ms + delta, 0
            step, offset = _varint(data, offset)
            seq += step
            more = 1
            if not flags & NEXT_COUNTER:
                more, offset = _varint(data, offset)
            size, offset = _varint(data, offset)
            end = offset + size
            counter += more
            numbers = (delta, step, more, size, ms, seq)
            if max(numbers) > ids.MAX_HALF or counter >= 1 << 63 or more == 0 or end > len(data):
                return None
            if (ms << 64 | seq) <= previous or not flags & SAME_NAMES:
                return None
            for _ in range(2):
                length, offset = _varint(data, offset)
                offset += length
            if offset != end:
                return None
            previous = ms << 64 | seq
            count += 1
            deleted += bool(flags & DELETED)
    except IndexError:
        return None
    return count, deleted, ms, seq, counter


def _checked(data: bytes, base_counter: int) -> Optional[Checked]:
    try:
        return check_entries(NAMES, data, base_counter)
    except ValueError:
        return None


@pytest.mark.parametrize("seed", range(40))
def test_runs_are_refused_exactly_if_they_are_malformed(seed: int) -> None:
    draw = Random(seed)
    sound = 0
    for _ in range(200):
        out = bytearray()
        for _ in range(draw.randint(1, 6)):
            Entry(draw).write(out)
        if draw.random() < 0.1:
            del out[-draw.randint(1, 20) :]
        data = bytes(out)
        base_counter = draw.choice([0, 7, (1 << 62) - 1, (1 << 63) - 3])
        expected = _naive(data, base_counter)
        assert _checked(data, base_counter) == expected, data
        sound += expected is not None
    assert 20 < sound < 180
