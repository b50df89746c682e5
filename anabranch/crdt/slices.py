"""Entries of a stream as they lie in packed nodes, in an order in which a command returns them.

A slice is a range of one node. It holds the bytes of the node as they were, so it stays as it is
while the log changes. Nothing is made for each entry until a reader asks for it (`Entries.listed`);
the encoder of replies walks the slices (`region/resp/entries.py`).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from anabranch.crdt.node import decode_fields, names_end
from anabranch.crdt.pel_chunk import EntryRef
from anabranch.crdt.scan import DELETED, SAME_NAMES, Scan, unsigned


class Entry:
    """One entry as commands see it; its identity is the dot (region_id, counter)."""

    def __init__(self, entry_id: int, region_id: int, counter: int, fields: list[bytes]) -> None:
        self.entry_id = entry_id
        self.region_id = region_id
        self.counter = counter
        # field, value, field, value, …
        self.fields = fields


class EntrySlice:
    """Entries of one region log that follow each other in one node, at least one of them present.

    `count` counts those present. `names` are the node's master fields. If the slice is descending,
    its entries are meant from the last to the first.
    """

    def __init__(self, region_id: int, names: bytes, scan: Scan, is_descending: bool) -> None:
        self.region_id: Final = region_id
        self.names: Final = names
        self.data: Final = scan.data
        self.is_descending: Final = is_descending
        self.count: i64 = 0
        # Offset after the last entry.
        self.end: i64 = scan.next
        # The first entry, as `Scan` describes it.
        self._flags: i64 = 0
        self._ms_word: i64 = 0
        self._seq_word: i64 = 0
        self._counter_word: i64 = 0
        self._payload_start: i64 = 0
        self._next: i64 = 0
        self.begin(scan)

    def begin(self, scan: Scan) -> None:
        """Makes the entry on which `scan` stands the first one."""
        self._flags = scan.flags
        self._ms_word = scan.ms_word
        self._seq_word = scan.seq_word
        self._counter_word = scan.counter_word
        self._payload_start = scan.payload_start
        self._next = scan.next

    def scan(self) -> Scan:
        """Returns a walk that stands on the first entry. The slice ends where its `next` is `end`.

        The entries between may be deleted ones; the first one is present.
        """
        scan = Scan(self.data, 0)
        scan.flags = self._flags
        scan.ms_word = self._ms_word
        scan.seq_word = self._seq_word
        scan.counter_word = self._counter_word
        scan.payload_start = self._payload_start
        scan.next = self._next
        return scan

    def size(self) -> int:
        """Returns the bytes of the entries."""
        return int(self.end - self._payload_start)

    def listed(self) -> list[Entry]:
        """Returns the present entries in the order in which they are meant."""
        found: list[Entry] = []
        scan = self.scan()
        while True:
            if not scan.flags & DELETED:
                payload = scan.payload()
                split = 0 if scan.flags & SAME_NAMES else names_end(payload)
                names = payload[:split] if split else self.names
                fields = decode_fields(names, payload[split:])
                found.append(Entry(scan.id(), self.region_id, scan.counter, fields))
            if scan.next >= self.end:
                break
            scan.step()
        return found[::-1] if self.is_descending else found


class Entries:
    """The entries that a command returns, as slices. `count` counts them."""

    def __init__(self) -> None:
        self.slices: Final[list[EntrySlice]] = []
        self.count: i64 = 0
        # The entry that was added last.
        self._ms_word: i64 = 0
        self._seq_word: i64 = 0
        self._counter_word: i64 = 0

    def add(self, piece: EntrySlice, ms_word: i64, seq_word: i64, counter_word: i64) -> None:
        """Adds a slice, of which the last entry in the order of reading has this ID and counter."""
        self.slices.append(piece)
        self.count += piece.count
        self._ms_word = ms_word
        self._seq_word = seq_word
        self._counter_word = counter_word

    def last_id(self) -> int:
        """Returns the ID of the entry that was added last."""
        return (unsigned(self._ms_word) << 64) | unsigned(self._seq_word)

    def end_with_id_of(self, scan: Scan) -> bool:
        """Whether the entry that was added last has the ID of the one on which `scan` stands."""
        return self.count > 0 and self._ms_word == scan.ms_word and self._seq_word == scan.seq_word

    def last_counter(self) -> int:
        """Returns the counter of the entry that was added last."""
        return int(self._counter_word)

    def size(self) -> int:
        """Returns the bytes of the slices."""
        total = 0
        for piece in self.slices:
            total += piece.size()
        return total

    def listed(self) -> list[Entry]:
        """Returns all entries as objects."""
        return [entry for piece in self.slices for entry in piece.listed()]

    def put_references(self, found: list[EntryRef]) -> None:
        """Appends dots and IDs of all entries to `found`. No slice is descending."""
        for piece in self.slices:
            scan = piece.scan()
            while True:
                if not scan.flags & DELETED:
                    found.append(EntryRef(piece.region_id, scan.counter, scan.ms, scan.seq))
                if scan.next >= piece.end:
                    break
                scan.step()
