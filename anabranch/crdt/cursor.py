"""Cursors over the present entries of one region log: upward, and downward.

A cursor reads a copy of the node on which it stands. It hands out entries one by one, or a whole
run of a node as a slice (`crdt/slices.py`), for which nothing is made per entry.
"""

from __future__ import annotations

from typing import Final, Optional

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from anabranch.crdt.ids import IS_COMPILED, MAX_HALF
from anabranch.crdt.node import PackedNode, decode_names, with_values
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.scan import (
    DELETED,
    LAST_WORD,
    SAME_NAMES,
    Scan,
    is_below,
    is_up_to,
    unsigned,
    word,
    words,
)
from anabranch.crdt.slices import Entries, EntrySlice

# Bytes of one entry in the table of a `ReverseCursor`: ID, counter, flags, and where its payload
# begins and ends.
_ROW_BYTES: Final = 48
_WORD_MAX: Final = (1 << 63) - 1

# The walk of a cursor that is in no node.
_NOWHERE: Final = Scan(b"", 0)


class Cursor:
    """A place in one region log; usable until the log changes.

    `valid` is True while the cursor stands on an entry, which `scan` then describes.
    """

    def __init__(self, log: RegionLog) -> None:
        self.log: Final = log
        self.region_id: Final = log.region_id
        self.valid = False
        self.scan: Scan = _NOWHERE
        self._index: i64 = -1
        # The node at `_index`.
        self._node: Optional[PackedNode] = None
        # The node's master fields, decoded at the first call of `fields`.
        self._names: Optional[list[bytes]] = None

    @property
    def counter(self) -> int:
        return self.scan.counter

    def id(self) -> int:
        return self.scan.id()

    def fields(self) -> list[bytes]:
        """Returns field, value, field, value, … of the entry."""
        node = self._node
        assert node is not None
        scan = self.scan
        if not scan.flags & SAME_NAMES:
            return node.fields(scan)
        if self._names is None:
            self._names = decode_names(node.names)
        return with_values(self._names, scan.payload())

    def step(self) -> None:
        """Moves to the next present entry; `valid` becomes False at the end."""
        raise NotImplementedError

    def take(self, entries: Entries, ms: i64, seq: i64, count: int) -> None:
        """Adds the entry to `entries`, with those that follow it in its node, and moves past them.

        It stops after `count` entries (at least 1), and before an entry beyond the ID of the words
        `ms` and `seq`.
        """
        raise NotImplementedError

    def reaches(self, ms: i64, seq: i64) -> bool:
        """Whether the cursor stands on an entry, and not beyond the ID of these words."""
        raise NotImplementedError

    def goes_before(self, other: Cursor) -> bool:
        """Whether the entry comes before that of another log, which has a lower region_id."""
        raise NotImplementedError


class LogCursor(Cursor):
    """Walks upward. After a change of the log, `resume` tells whether the cursor may go on."""

    def __init__(self, log: RegionLog) -> None:
        super().__init__(log)
        # How many entries of the node were deleted when the cursor entered it.
        self._deleted = 0
        # Offset in the node at which the bytes begin that `scan` walks.
        self._base: i64 = 0
        # Counter of the entry of this node from which the cursor came; 0: from none.
        self._passed: i64 = 0

    def before(self) -> int:
        """Returns the counter of the present entry before the place of the cursor, 0 if none."""
        if self._passed:
            return int(self._passed)
        log = self.log
        return log.last_counter_up_to(self.counter - 1 if self.valid else log.last_counter())

    def seek_id(self, entry_id: int) -> None:
        """Moves to the first entry with an ID ≥ `entry_id`."""
        index = max(self.log.node_map.index_by_id(entry_id), 0)
        self.valid = index < self.log.node_map.size()
        if not self.valid:
            return
        self._set_node(index)
        ms, seq = words(entry_id)
        scan = self.scan
        while scan.step():
            if not scan.flags & DELETED:
                if scan.is_from(ms, seq):
                    return
                self._passed = scan.counter_word
        self._next()

    def seek_counter(self, counter: int) -> None:
        """Moves to the first entry with a counter above `counter`.

        Goes on from its place if that entry does not lie before it, nor in a later node.
        """
        node_map = self.log.node_map
        after = int(self._index) + 1
        if (
            self._node is None
            or (after < node_map.size() and node_map.first_counter(after) <= counter)
            or self.before() > counter
        ):
            self._enter(max(node_map.index_by_counter(counter), 0))
        while self.valid and self.scan.counter <= counter:
            self.step()

    def finds(self, counter: int) -> bool:
        """Moves to the present entry with that counter, or returns False: there is none."""
        self.seek_counter(counter - 1)
        return self.valid and self.scan.counter == counter

    def step(self) -> None:
        self._passed = self.scan.counter_word
        self._next()

    def take(self, entries: Entries, ms: i64, seq: i64, count: int) -> None:
        node = self._node
        assert node is not None
        scan = self.scan
        piece = EntrySlice(self.region_id, node.names, scan, False)
        if (
            self._passed == 0
            and node.deleted == 0
            and node.count <= count
            and is_up_to(word(node.last_ms), word(node.last_seq), ms, seq)
        ):
            piece.count = node.count
            piece.end = len(scan.data)
            self._skip(node)
            entries.add(piece, scan.ms_word, scan.seq_word, scan.counter_word)
            self.step()
            return
        count_: i64 = count
        while True:
            piece.count += 1
            piece.end = scan.next
            last_ms = scan.ms_word
            last_seq = scan.seq_word
            last_counter = scan.counter_word
            self.step()
            if (
                piece.count >= count_
                or not self.valid
                or self.scan is not scan
                or not scan.is_up_to(ms, seq)
            ):
                break
        entries.add(piece, last_ms, last_seq, last_counter)

    def _skip(self, node: PackedNode) -> None:
        """Moves to the last entry of the node, none of whose entries is deleted."""
        scan = self.scan
        scan.ms_word = word(node.last_ms)
        scan.seq_word = word(node.last_seq)
        scan.counter_word = node.last_counter
        scan.next = len(scan.data)

    def reaches(self, ms: i64, seq: i64) -> bool:
        return self.valid and self.scan.is_up_to(ms, seq)

    def goes_before(self, other: Cursor) -> bool:
        scan = self.scan
        if scan.ms_word == other.scan.ms_word:
            return is_below(scan.seq_word, other.scan.seq_word)
        return is_below(scan.ms_word, other.scan.ms_word)

    def rest(self) -> None:
        """Drops the copy of the node if the cursor is at the end, where `resume` needs another."""
        if not self.valid:
            self._drop_copy()

    def _drop_copy(self) -> None:
        """Drops the copy of the node, and moves offsets to one that begins at this place."""
        scan = self.scan
        keep = scan.payload_start if self.valid else scan.next
        self._base += keep
        scan.payload_start -= keep
        scan.next -= keep
        scan.data = b""

    def resume(self) -> bool:
        """Prepares the cursor for going on after changes of its log; returns whether it may.

        It may not if its node is no longer at its index, or if an entry of the node was deleted. An
        entry that was appended since stands where the cursor was at the end.
        """
        node = self._node
        node_map = self.log.node_map
        index = int(self._index)
        if (
            node is None
            or index >= node_map.size()
            or node_map.node(index) is not node
            or node.deleted != self._deleted
        ):
            return False
        if len(node.data) != self._base + len(self.scan.data):
            self._drop_copy()
            self.scan.data = bytes(node.data[self._base :])
        if not self.valid:
            self.valid = True
            self._next()
        return True

    def _enter(self, index: int) -> None:
        self.valid = index < self.log.node_map.size()
        self._node = None
        if self.valid:
            self._set_node(index)
            self._next()

    def _set_node(self, index: int) -> None:
        node = self.log.node_map.node(index)
        self._index = index
        self._node = node
        self._deleted = node.deleted
        self.scan = node.scan()
        self._base = 0
        self._names = None
        self._passed = 0

    def _next(self) -> None:
        scan = self.scan
        while True:
            if scan.step():
                if not scan.flags & DELETED:
                    return
            elif self._index + 1 >= self.log.node_map.size():
                self.valid = False
                return
            else:
                self._set_node(int(self._index) + 1)
                scan = self.scan


class ReverseCursor(Cursor):
    """Walks downward. It notes where the entries of a node lie when it enters the node."""

    def __init__(self, log: RegionLog) -> None:
        super().__init__(log)
        # The present entries of the node, a row of `_ROW_BYTES` for each, and the current row.
        self._rows = b""
        self._at: i64 = -1

    def seek_id(self, entry_id: int) -> None:
        """Moves to the last entry with an ID ≤ `entry_id`."""
        self._index = self.log.node_map.index_by_id(entry_id)
        self.valid = self._index >= 0
        if self.valid:
            node = self.log.node_map.node(int(self._index))
            ms, seq = words(entry_id)
            self._load(node, ms, seq)
            self.step()

    def step(self) -> None:
        self._at -= 1
        while self._at < 0:
            self._index -= 1
            if self._index < 0:
                self.valid = False
                return
            self._load(self.log.node_map.node(int(self._index)), LAST_WORD, LAST_WORD)
            self._at -= 1
        rows = self._rows
        offset = self._at * _ROW_BYTES
        scan = self.scan
        scan.ms_word = read_i64_le(rows, offset)
        scan.seq_word = read_i64_le(rows, offset + 8)
        if not IS_COMPILED:
            scan.ms_word = unsigned(scan.ms_word)
            scan.seq_word = unsigned(scan.seq_word)
        scan.counter_word = read_i64_le(rows, offset + 16)
        scan.flags = read_i64_le(rows, offset + 24)
        scan.payload_start = read_i64_le(rows, offset + 32)
        scan.next = read_i64_le(rows, offset + 40)

    def take(self, entries: Entries, ms: i64, seq: i64, count: int) -> None:
        node = self._node
        assert node is not None
        scan = self.scan
        piece = EntrySlice(self.region_id, node.names, scan, True)
        count_: i64 = count
        while True:
            piece.count += 1
            piece.begin(scan)
            last_ms = scan.ms_word
            last_seq = scan.seq_word
            last_counter = scan.counter_word
            self.step()
            if (
                piece.count >= count_
                or not self.valid
                or self.scan is not scan
                or not scan.is_from(ms, seq)
            ):
                break
        entries.add(piece, last_ms, last_seq, last_counter)

    def reaches(self, ms: i64, seq: i64) -> bool:
        return self.valid and self.scan.is_from(ms, seq)

    def goes_before(self, other: Cursor) -> bool:
        scan = self.scan
        if scan.ms_word == other.scan.ms_word:
            return not is_below(scan.seq_word, other.scan.seq_word)
        return is_below(other.scan.ms_word, scan.ms_word)

    def _load(self, node: PackedNode, ms: i64, seq: i64) -> None:
        """Notes the entries of a node up to the ID of these words, and moves behind them."""
        self._node = node
        self._names = None
        rows = BytesWriter()
        scan = node.scan()
        while scan.step() and scan.is_up_to(ms, seq):
            if not scan.flags & DELETED:
                write_i64_le(rows, _signed(scan.ms_word))
                write_i64_le(rows, _signed(scan.seq_word))
                write_i64_le(rows, scan.counter_word)
                write_i64_le(rows, scan.flags)
                write_i64_le(rows, scan.payload_start)
                write_i64_le(rows, scan.next)
        self._rows = rows.getvalue()
        self._at = len(self._rows) // _ROW_BYTES
        self.scan = Scan(scan.data, 0)


def _signed(number: i64) -> i64:
    """Returns a word as `write_i64_le` takes it."""
    if IS_COMPILED or number <= _WORD_MAX:
        return number
    return i64(int(number) - MAX_HALF - 1)
