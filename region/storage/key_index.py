"""The index of the effect log by key.

A row of the table log_keys covers a stretch of the log, the rows `first` to `last`, about 1 MiB
of bodies. Its Bloom filter (Bloom 1970) tells which keys these rows change: about 1.25 bytes a key,
and one key in a hundred is taken for one that is there. So the index costs the log one small row
for each MiB, is only ever appended to, and is cut off with the log.

The index only saves reading. A stretch that no row covers is read in full: the end of the log,
which is still in memory here, and the rows before a crash or a start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Optional

from xxhash import xxh3_128_intdigest

from anabranch.region.engine.rows import KeyedRow, Row, SnapshotRow
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

SEGMENTS: Final = "SELECT first, last, filter, sum FROM log_keys ORDER BY last"
DELETE_UP_TO: Final = "DELETE FROM log_keys WHERE last <= ?"
_INSERT: Final = "INSERT INTO log_keys (last, first, filter, sum) VALUES (?, ?, ?, ?)"


def _probes(key: bytes, bits: int) -> list[int]:
    """The bits of a key (Kirsch and Mitzenmacher 2006: two hashes make all of them)."""
    value = xxh3_128_intdigest(key)
    first, step = value & _HALF, (value >> 64) | 1
    return [(first + number * step) % bits for number in range(_PROBES)]


def make_filter(keys: Iterable[bytes]) -> bytes:
    """The Bloom filter of keys."""
    wanted = list(keys)
    bits = max(len(wanted) * _BITS_PER_KEY, 64)
    found = bytearray((bits + 7) // 8)
    for key in wanted:
        for bit in _probes(key, len(found) * 8):
            found[bit >> 3] |= 1 << (bit & 7)
    return bytes(found)


def may_contain(found: bytes, key: bytes) -> bool:
    """Whether a filter may be one of keys among which `key` is; False is certain."""
    if found == EVERY_KEY:
        return True
    return all(found[bit >> 3] & (1 << (bit & 7)) for bit in _probes(key, len(found) * 8))


class KeyIndex:
    """The keys of the newest rows of the log, until they become a row of the index."""

    def __init__(self, position: int) -> None:
        self._first = position + 1
        self._last = position
        self._bytes = 0
        self._keys: set[Optional[bytes]] = set()

    def note(self, row: Row, size: int) -> None:
        """Takes the keys of the next row of the log, whose body has `size` bytes."""
        self._last = row.position
        self._bytes += size
        if isinstance(row, KeyedRow):
            keys = row.take_keys()
            self._keys |= {None} if keys is None else keys
        elif isinstance(row, SnapshotRow):
            self._keys.add(None)

    def take_due(self) -> list[Statement]:
        """The statement that writes a row of the index, once the newest rows are enough for one."""
        if self._bytes < STRETCH_BYTES:
            return []
        keys = [key for key in self._keys if key is not None]
        found = make_filter(keys) if len(keys) == len(self._keys) else EVERY_KEY
        total = sums.of_segment(self._first, self._last, found)
        statement: Statement = (_INSERT, (self._last, self._first, found, total))
        self._first = self._last + 1
        self._bytes = 0
        self._keys = set()
        return [statement]


def stretches_without(key: bytes, segments: Iterable[Sequence[object]]) -> list[tuple[int, int]]:
    """The stretches of the log, first and last position, whose rows do not change `key`.

    `segments` are the rows that SEGMENTS selects. A row that is damaged excludes nothing.
    """
    excluded: list[tuple[int, int]] = []
    for first, last, found, total in segments:
        assert isinstance(first, int) and isinstance(last, int) and isinstance(found, bytes)
        if total == sums.of_segment(first, last, found) and not may_contain(found, key):
            excluded.append((first, last))
    return excluded
