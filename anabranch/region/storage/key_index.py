"""The index of the effect log by key.

A row of the table log_keys covers a stretch of the log, the rows `first` to `last`, about 1 MiB
of bodies. Its Bloom filter (Bloom 1970) tells which keys these rows change: about 1.25 bytes a key,
and one key in a hundred is taken for one that is there. So the index costs the log one small row
for each MiB, is only ever appended to, and is cut off with the log.

A row of the table log_ids belongs to it. It has the lowest and the highest ID of the entries that
these rows add, deliver or acknowledge, and a filter of the keys to which anything else happens. So
a question about one entry of a busy stream reads only the stretches in which its ID can be.

The index only saves reading. A stretch that no row covers is read in full: the end of the log,
which is still in memory here, and the rows before a crash or a start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Optional

from librt.strings import BytesWriter
from mypy_extensions import i64, u8
from xxhash import xxh3_128_intdigest

from anabranch.crdt.ids import MAX_ID
from anabranch.crdt.named import Named
from anabranch.region.engine.rows import KeyedRow, LogRow, SnapshotRow
from anabranch.region.storage import sums
from anabranch.region.storage.schema import Statement

# Bits of the filter for each key, and bits set for each key: 0.8 % of other keys seem to be there.
_BITS_PER_KEY: Final = 10
_PROBES: Final = 7
_HALF: Final = (1 << 64) - 1
# The filter of a stretch that concerns every key, as a FLUSHALL or a joined snapshot does.
EVERY_KEY: Final = b""

# Bodies of the log, in bytes, that one row of the index covers.
STRETCH_BYTES: Final = 1 << 20

# A release without log_ids writes and deletes rows of log_keys alone, so `first` must agree, too.
SEGMENTS: Final = (
    "SELECT k.first, k.last, k.filter, k.sum, i.low, i.high, i.others, i.sum FROM log_keys k"
    " LEFT JOIN log_ids i ON i.last = k.last AND i.first = k.first ORDER BY k.last"
)
DELETE_UP_TO: Final = (
    "DELETE FROM log_keys WHERE last <= ?",
    "DELETE FROM log_ids WHERE last <= ?",
)
_INSERT: Final = "INSERT INTO log_keys (last, first, filter, sum) VALUES (?, ?, ?, ?)"
_INSERT_IDS: Final = (
    "INSERT OR REPLACE INTO log_ids (last, first, low, high, others, sum) VALUES (?, ?, ?, ?, ?, ?)"
)
_ID_BYTES: Final = 16


def _first_and_step(key: bytes, bits: i64) -> tuple[i64, i64]:
    """The first bit of a key among `bits`, and the distance from each of its bits to the next.

    Two hashes make all of them (Kirsch and Mitzenmacher 2006).
    """
    value = xxh3_128_intdigest(key)
    return i64((value & _HALF) % int(bits)), i64(((value >> 64) | 1) % int(bits))


def make_filter(keys: Iterable[bytes]) -> bytes:
    """The Bloom filter of keys."""
    wanted = list(keys)
    found = BytesWriter()
    found.write(bytes((max(len(wanted) * _BITS_PER_KEY, 64) + 7) // 8))
    bits = len(found) * 8
    for key in wanted:
        bit, step = _first_and_step(key, bits)
        for _ in range(_PROBES):
            place = bit >> 3
            found[place] = found[place] | u8(1 << (bit & 7))
            bit = (bit + step) % bits
    return found.getvalue()


def may_contain(found: bytes, key: bytes) -> bool:
    """Whether a filter may be one of keys among which `key` is; False is certain."""
    if found == EVERY_KEY:
        return True
    bits: i64 = len(found) * 8
    bit, step = _first_and_step(key, bits)
    for _ in range(_PROBES):
        if not found[bit >> 3] & (1 << (bit & 7)):
            return False
        bit = (bit + step) % bits
    return True


class KeyIndex:
    """What the newest rows of the log name, until they become rows of the index."""

    def __init__(self, position: int, stretch_bytes: int = STRETCH_BYTES) -> None:
        self._stretch_bytes: Final = stretch_bytes
        self._first = position + 1
        self._bytes = 0
        self._named = Named()
        self._due: list[Statement] = []

    def note(self, row: LogRow, size: int) -> None:
        """Takes what the next row of the log names; its body has `size` bytes."""
        self._bytes += size
        if isinstance(row, KeyedRow):
            named = row.take_named()
            if named is None:
                self._named.other(None)
            else:
                self._named.include(named)
        elif isinstance(row, SnapshotRow):
            self._named.other(None)
        if self._bytes >= self._stretch_bytes:
            self._end_stretch(row.position)

    def _end_stretch(self, last: int) -> None:
        """The newest rows, up to the position `last`, are enough for a row of the index."""
        first, named = self._first, self._named
        found = _filter_of(named.keys)
        self._due.append((_INSERT, (last, first, found, sums.of_segment(first, last, found))))
        # Without entries the range is empty: its low end is above its high end.
        low = min(named.low_id, MAX_ID).to_bytes(_ID_BYTES, "big")
        high = max(named.high_id, 0).to_bytes(_ID_BYTES, "big")
        others = _filter_of(named.others)
        total = sums.of_segment(first, last, low + high + others)
        self._due.append((_INSERT_IDS, (last, first, low, high, others, total)))
        self._first = last + 1
        self._bytes = 0
        self._named = Named()

    def take_due(self) -> list[Statement]:
        """The statements that write the rows of the index that are due."""
        due, self._due = self._due, []
        return due


def _filter_of(keys: set[Optional[bytes]]) -> bytes:
    return EVERY_KEY if None in keys else make_filter(key for key in keys if key is not None)


def stretches_without(
    key: bytes,
    segments: Iterable[Sequence[object]],
    entry_id: int = -1,
    *,
    has_entries: bool = True,
) -> list[tuple[int, int]]:
    """The stretches of the log, first and last position, whose rows do not matter.

    Args:
        key: A row matters that changes this key.
        segments: The rows that SEGMENTS selects. A row that is damaged excludes nothing.
        entry_id: A row that is about entries of the key alone matters only if this one can be among
            them; -1: any matters.
        has_entries: Whether rows that are about entries alone matter at all.
    """
    excluded: list[tuple[int, int]] = []
    for first, last, found, total, *of_ids in segments:
        assert isinstance(first, int) and isinstance(last, int) and isinstance(found, bytes)
        is_sound = total == sums.of_segment(first, last, found)
        if is_sound and not may_contain(found, key):
            excluded.append((first, last))
        elif (entry_id >= 0 or not has_entries) and _has_no_other(first, last, of_ids, key):
            if not (has_entries and _may_have(of_ids, entry_id)):
                excluded.append((first, last))
    return excluded


def _has_no_other(first: int, last: int, of_ids: Sequence[object], key: bytes) -> bool:
    """Whether certainly nothing happens to a key in a stretch but to its entries."""
    low, high, others, total = of_ids
    if not (isinstance(low, bytes) and isinstance(high, bytes) and isinstance(others, bytes)):
        return False
    is_sound = total == sums.of_segment(first, last, low + high + others)
    return is_sound and not may_contain(others, key)


def _may_have(of_ids: Sequence[object], entry_id: int) -> bool:
    """Whether an entry with this ID can be among those of a stretch."""
    low, high = of_ids[:2]
    assert isinstance(low, bytes) and isinstance(high, bytes)
    return int.from_bytes(low, "big") <= entry_id <= int.from_bytes(high, "big")
