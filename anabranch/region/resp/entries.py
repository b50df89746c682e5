"""Turns entries into RESP bytes, straight from the packed nodes or the columns that hold them.

The bytes are the same in RESP2 and RESP3. An entry is

    *2  $<size> <ms>-<seq>  *<fields × 2>  $<size> <name>  $<size> <value>  …

Nearly all entries of a node have the field names of the node. So the text before each value is made
once for each list of names (`_heads`). Compiled code writes the digits of numbers and short values
as words of eight bytes, which is faster there than an object for each part; interpreted code
formats, which is faster there.

A pending entry is

    *4  $<size> <ms>-<seq>  $<size> <consumer>  :<idle ms>  :<deliveries>
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le, write_i32_le, write_i64_le
from mypy_extensions import i64

from anabranch.crdt.encoding import write_part
from anabranch.crdt.ids import IS_COMPILED, SEQ_STRIDE
from anabranch.crdt.node import decode_names, names_end
from anabranch.crdt.pel_slices import PendingSlice
from anabranch.crdt.scan import DELETED, SAME_NAMES, Scan, unsigned, word
from anabranch.crdt.slices import Entries, EntrySlice
from anabranch.region.engine.replies import AddedIds, PendingReply

_TABLE_SIZE: Final = 1025
_SIZES: Final[list[bytes]] = [b"$%d\r\n" % size for size in range(_TABLE_SIZE)]
_ARRAYS: Final[list[bytes]] = [b"*%d\r\n" % size for size in range(_TABLE_SIZE)]
# The header of an array and that of its first element, an ID, by the length of the ID.
_ID_MAX: Final = 41
_ENTRY_HEADS: Final[list[bytes]] = [b"*2\r\n$%d\r\n" % size for size in range(_ID_MAX + 1)]
_PENDING_HEADS: Final[list[bytes]] = [b"*4\r\n$%d\r\n" % size for size in range(_ID_MAX + 1)]
_CRLF: Final = b"\r\n"
# The highest integer that clients can read.
INTEGER_MAX: Final = (1 << 63) - 1
# Lists of field names that are remembered, and the longest that is.
_NAMES_MAX: Final = 4096
_NAMES_BYTES_MAX: Final = 1024
# Numbers below this have eight digits at most, which make one word. Few seqs are higher.
_WORD_DIGITS_END: Final = 100_000_000

# Encoded names → the text before each value; the first part begins after the ID.
_remembered: Final[dict[bytes, list[bytes]]] = {}


def encode_entries(entries: Entries) -> bytes:
    """Returns the bytes of an array of entries."""
    out = BytesWriter()
    count = entries.count
    out.write(_ARRAYS[count] if count < _TABLE_SIZE else b"*%d\r\n" % count)
    writer = _EntryWriter(out)
    for piece in entries.slices:
        if piece.is_descending and piece.count > 1:
            _put_reversed(piece, out)
        else:
            scan = piece.scan()
            heads = _heads(piece.names)
            while True:
                if not scan.flags & DELETED:
                    writer.put(scan, heads)
                if scan.next >= piece.end:
                    break
                scan.step()
    return out.getvalue()


def _put_reversed(piece: EntrySlice, out: BytesWriter) -> None:
    """Appends the entries of a slice from the last to the first."""
    upward = BytesWriter()
    writer = _EntryWriter(upward)
    begins = BytesWriter()
    scan = piece.scan()
    heads = _heads(piece.names)
    while True:
        if not scan.flags & DELETED:
            write_i32_le(begins, len(upward))
            writer.put(scan, heads)
        if scan.next >= piece.end:
            break
        scan.step()
    texts = upward.getvalue()
    offsets = begins.getvalue()
    n: i64 = piece.count
    stop: i64 = len(texts)
    while n > 0:
        n -= 1
        start = int(read_i32_le(offsets, n * 4))
        out.write(texts[start:stop])
        stop = start


def encode_pending(reply: PendingReply) -> bytes:
    """Returns the bytes of an array of pending entries."""
    out = BytesWriter()
    count = reply.count
    out.write(_ARRAYS[count] if count < _TABLE_SIZE else b"*%d\r\n" % count)
    writer = _PendingWriter(out, reply)
    for piece in reply.slices:
        writer.put(piece)
    return out.getvalue()


def encode_ids(added: AddedIds) -> bytes:
    """Returns the bytes of the replies to several adds, each a bulk string."""
    out = BytesWriter()
    ms_text = b"%d-" % added.ms
    seq = word(added.first_seq)
    # What precedes seqs of so many digits.
    head, head_size = b"", i64(0)
    left: i64 = added.count
    while left > 0:
        left -= 1
        if not IS_COMPILED or seq < 0 or seq >= _WORD_DIGITS_END:
            text = b"%b%d" % (ms_text, unsigned(seq))
            out.write(b"$%d\r\n%b\r\n" % (len(text), text))
        else:
            digits, size = _digits_word(seq)
            if size != head_size:
                head, head_size = _SIZES[len(ms_text) + size] + ms_text, size
            out.write(head)
            _put_word(out, digits, size)
            out.write(_CRLF)
        seq += SEQ_STRIDE
    return out.getvalue()


class _IdWriter:
    """Appends IDs to `out`. It keeps the text of the last ms, which entries mostly share."""

    def __init__(self, out: BytesWriter) -> None:
        self._out: Final = out
        self._ms_word: i64 = -1
        self._ms_text = b""

    def put_id(self, heads: list[bytes], ms: i64, seq: i64) -> None:
        """Appends the header of an array and its first element, an ID, up to its line break.

        `heads` are the headers, by the length of the ID.
        """
        out = self._out
        if not IS_COMPILED or seq < 0 or seq >= _WORD_DIGITS_END:
            text = b"%d-%d" % (unsigned(ms), unsigned(seq))
            out.write(heads[len(text)])
            out.write(text)
            return
        if ms != self._ms_word or len(self._ms_text) == 0:
            self._ms_word = ms
            self._ms_text = b"%d-" % unsigned(ms)
        ms_text = self._ms_text
        digits, size = _digits_word(seq)
        out.write(heads[len(ms_text) + size])
        out.write(ms_text)
        _put_word(out, digits, size)


class _PendingWriter(_IdWriter):
    """Appends pending entries to `out`.

    They mostly share what follows the ID, so that text is kept for the next one.
    """

    def __init__(self, out: BytesWriter, reply: PendingReply) -> None:
        super().__init__(out)
        self._reply: Final = reply
        # The attributes of the last entry, and the text that follows its ID.
        self._consumer: i64 = -1
        self._delivered_ms: i64 = 0
        self._deliveries: i64 = 0
        self._rest = b""

    def put(self, piece: PendingSlice) -> None:
        window = piece.window
        n = piece.start
        while n < piece.stop:
            self.put_id(_PENDING_HEADS, window.ms(n), window.seq(n))
            consumer = window.consumer(n)
            delivered_ms = window.delivered_ms(n)
            deliveries = window.deliveries(n)
            if (
                consumer != self._consumer
                or delivered_ms != self._delivered_ms
                or deliveries != self._deliveries
            ):
                self._consumer = consumer
                self._delivered_ms = delivered_ms
                self._deliveries = deliveries
                name = window.names[int(consumer)]
                idle_ms = self._reply.idle_ms(unsigned(delivered_ms))
                self._rest = b"\r\n$%d\r\n%b\r\n:%d\r\n:%d\r\n" % (
                    len(name),
                    name,
                    min(idle_ms, INTEGER_MAX),
                    min(unsigned(deliveries), INTEGER_MAX),
                )
            self._out.write(self._rest)
            n += 1


class _EntryWriter(_IdWriter):
    """Appends entries to `out`."""

    def put(self, scan: Scan, heads: list[bytes]) -> None:
        """Appends the entry on which `scan` stands; `heads` belong to its node's names."""
        self.put_id(_ENTRY_HEADS, scan.ms_word, scan.seq_word)
        out = self._out
        data = scan.data
        offset = scan.payload_start
        if not scan.flags & SAME_NAMES:
            names = scan.payload()
            names = names[: names_end(names)]
            heads = _heads(names)
            offset += len(names)
        for head in heads:
            out.write(head)
            byte: i64 = data[offset]
            offset += 1
            size: i64 = byte & 127
            shift: i64 = 7
            while byte > 127:
                byte = data[offset]
                offset += 1
                size |= (byte & 127) << shift
                shift += 7
            out.write(_SIZES[size] if size < _TABLE_SIZE else b"$%d\r\n" % size)
            stop = offset + size
            write_part(out, data, offset, stop)
            offset = stop
        out.write(_CRLF if heads else b"\r\n*0\r\n")


def _heads(names: bytes) -> list[bytes]:
    """The text before each value of entries with these encoded names.

    It begins with the line break that ends what precedes it.
    """
    known = _remembered.get(names)
    if known is not None:
        return known
    decoded = decode_names(names)
    heads = [b"\r\n$%d\r\n%b\r\n" % (len(name), name) for name in decoded]
    if heads:
        heads[0] = b"\r\n*%d%b" % (2 * len(decoded), heads[0])
    if len(names) <= _NAMES_BYTES_MAX:
        if len(_remembered) >= _NAMES_MAX:
            _remembered.clear()
        _remembered[names] = heads
    return heads


def _digits_word(number: i64) -> tuple[i64, i64]:
    """The digits of a number from 0 to 99,999,999, the first in the lowest byte, and how many."""
    text: i64 = 0
    size: i64 = 1
    while number >= 10:
        tenth: i64 = number // 10
        text = (text << 8) | (48 + number - tenth * 10)
        number = tenth
        size += 1
    return (text << 8) | (48 + number), size


def _put_word(out: BytesWriter, text: i64, size: i64) -> None:
    """Appends the lowest `size` bytes of a word, the lowest first."""
    write_i64_le(out, text)
    if size < 8:
        out.truncate(len(out) - 8 + size)
