"""Hashes the entries of packed nodes (CRDT.NODES), to compare a region log with that of another.

Equal entries have equal hashes, whatever the layout of the nodes: the hash is that of ID, field
names and values. The layout of a node is described in `crdt/node.py`, that of an answer of
CRDT.NODES in `crdt/log_reading.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from librt.strings import BytesWriter, write_i64_le
from xxhash import xxh3_128_digest

from anabranch.crdt.encoding import Malformed, Reader, put_varint
from anabranch.crdt.scan import DELETED, SAME_NAMES, Scan
from anabranch.pipeline.node_columns import NodesError, check_format

HASH_BYTES: Final = 16


class EntryHashes:
    """Counters and hashes of the entries with after < counter ≤ end, in the order of the log.

    `counters` holds 8 bytes for each entry, little-endian, and `hashes` HASH_BYTES.
    """

    def __init__(self, after: int, end: int) -> None:
        self._after: Final = after
        self._end: Final = end
        self.counters = BytesWriter()
        self.hashes = BytesWriter()

    def take(self, answer: bytes) -> None:
        """Appends the entries of one answer. Raises NodesError if it is malformed."""
        try:
            for base_counter, names, data in _nodes(answer):
                self._take_node(base_counter, names, data)
        except (IndexError, Malformed):
            raise NodesError("the answer of the region ends early") from None

    def _take_node(self, base_counter: int, names: bytes, data: bytes) -> None:
        scan = Scan(data, base_counter)
        while scan.step():
            if scan.counter > self._end:
                return
            if scan.flags & DELETED or scan.counter <= self._after:
                continue
            whole = bytearray()
            put_varint(whole, scan.ms)
            put_varint(whole, scan.seq)
            if scan.flags & SAME_NAMES:
                whole += names
            whole += data[scan.payload_start : scan.next]
            write_i64_le(self.counters, scan.counter)
            self.hashes.write(xxh3_128_digest(whole))


def _nodes(answer: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The nodes of an answer of CRDT.NODES: base counter, names of fields, and bytes of each.

    Raises NodesError if the answer has another format, IndexError or Malformed if it ends early.
    """
    check_format(answer)
    reader = Reader(answer, 1)
    while not reader.at_end():
        base_counter = reader.varint()
        names = reader.bytes_()
        yield base_counter, names, reader.bytes_()


class Entry:
    """One entry: its ID as `ms-seq`, and its fields."""

    def __init__(self, entry_id: str, fields: list[tuple[bytes, bytes]]) -> None:
        self.entry_id: Final = entry_id
        self.fields: Final = fields


def entries_in(answer: bytes, counters: set[int]) -> dict[int, Entry]:
    """The entries of an answer that have one of `counters`, by counter."""
    found: dict[int, Entry] = {}
    for base_counter, names, data in _nodes(answer):
        scan = Scan(data, base_counter)
        while scan.step():
            if scan.counter in counters and not scan.flags & DELETED:
                whole = data[scan.payload_start : scan.next]
                if scan.flags & SAME_NAMES:
                    whole = names + whole
                found[scan.counter] = Entry(f"{scan.ms}-{scan.seq}", _fields(whole))
    return found


def _fields(whole: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of the bytes of names and values."""
    reader = Reader(whole)
    names = [reader.bytes_() for _ in range(reader.count())]
    return [(name, reader.bytes_()) for name in names]
