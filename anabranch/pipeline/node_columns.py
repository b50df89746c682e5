"""Decodes packed nodes (CRDT.NODES) into the buffers of Arrow columns.

Theory of operation
-------------------
An Arrow column of texts is two buffers: the texts one after another, and the offsets at which they
begin and end. So the decoder appends the bytes of each entry to such buffers, and makes no Python
object for an entry or a field. `BytesWriter` (librt, mypyc's runtime library) is a growing buffer
that compiled code appends to without a call of Python; without compiling it does the same, slower.

All that depends on the field names alone is worked out once for each list of names that occurs
(`_Names`): the names as UTF-8, the fields that are left out, and the columns that fields go to.

`pipeline/arrow.py` makes record batches of the buffers. The layout of a node is described in
`crdt/node.py`, that of an answer of CRDT.NODES in `crdt/log_reading.py`.
"""

from __future__ import annotations

import json
from typing import Final, Optional

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from anabranch.crdt.log_reading import NODES_FORMAT
from anabranch.crdt.scan import DELETED, NEXT_COUNTER, SAME_MS, SAME_NAMES
from anabranch.pipeline.column_buffers import (
    TextBuffers,
    Validity,
    put_bytes,
    put_decimal,
    put_json_text,
)

# Forms of the column `fields`.
NO_FIELDS: Final = 0
ARRAY: Final = 1
MAP: Final = 2
JSON: Final = 3
# As ARRAY, with names as they are, also those that are not UTF-8.
RAW: Final = 4

# The last millisecond of the year 9999. An ID with a higher one has no time.
LAST_TIME_MS: Final = 253_402_300_799_999
# A batch ends when its names or values reach this size, because offsets have 32 bits.
BATCH_BYTES_MAX: Final = 1 << 28
# Lists of names that are remembered.
NAMES_MAX: Final = 4096


class NodesError(ValueError):
    """The bytes are not an answer of CRDT.NODES."""


def check_format(answer: bytes) -> None:
    """Raises NodesError if an answer of CRDT.NODES has another format than this module reads."""
    if answer[:1] != bytes([NODES_FORMAT]):
        raise NodesError("the region answers in another format: it is of another version")


class _Names:
    """A list of field names, and what becomes of the fields.

    Of fields with equal names, a map, a JSON object and a typed column take the last.
    """

    def __init__(self, encoded: bytes, form: int, wanted: dict[bytes, int]) -> None:
        names = _decoded(encoded)
        last = {name: number for number, name in enumerate(names)}
        self.count = len(names)
        # Whether field n is in the column `fields`.
        texts = [name.decode("utf-8", "replace") for name in names]
        last_text = {text: number for number, text in enumerate(texts)}
        self.kept = [form in (ARRAY, RAW) or last_text[text] == n for n, text in enumerate(texts)]
        plain = names if form == RAW else [text.encode() for text in texts]
        shown = [name for n, name in enumerate(plain) if self.kept[n]]
        self.kept_count = len(shown)
        self.lengths = [len(name) for name in shown]
        self.joined = b"".join(shown)
        # The text before the value of field n in a JSON object, without a comma.
        self.json_keys = [(json.dumps(text, ensure_ascii=False) + ':"').encode() for text in texts]
        # The typed column of field n, or -1; and the columns for which no field is here.
        self.columns = [
            wanted.get(name, -1) if last[name] == n else -1 for n, name in enumerate(names)
        ]
        self.absent = [column for name, column in wanted.items() if name not in last]


def _decoded(encoded: bytes) -> list[bytes]:
    """Returns the names of a list of names (`crdt.node.encode_names`)."""
    count, offset = _number(encoded, 0)
    names: list[bytes] = []
    for _ in range(count):
        length, offset = _number(encoded, offset)
        names.append(encoded[offset : offset + length])
        offset += length
    return names


def _number(data: bytes, offset: i64) -> tuple[i64, i64]:
    """Returns the varint at an offset, modulo 2**64 in compiled code, and the offset after it."""
    byte: i64 = data[offset]
    offset += 1
    value: i64 = byte & 127
    shift: i64 = 7
    while byte > 127:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        shift += 7
    return value, offset


class NodeColumns:
    """The columns of the entries with low < counter ≤ high.

    `form` is that of the column `fields`. `wanted` names the fields that have a typed column each;
    its bytes go to `typed`, in that order. Usage: `feed` an answer, then call `decode` and take
    the buffers until it returns 0.
    """

    def __init__(self, low: int, high: int, form: int, wanted: list[bytes]) -> None:
        self._low: i64 = low
        self._high: i64 = high
        self._form: i64 = form
        self._wanted = {name: column for column, name in enumerate(wanted)}
        self._known: dict[bytes, _Names] = {}
        # -- the place in the answer
        self._data = b""
        self._at: i64 = 0
        self._node_end: i64 = 0
        self._names: Optional[_Names] = None
        self._ms: i64 = 0
        self._seq: i64 = 0
        self._counter: i64 = 0
        # The digits of ms // 10000 of the newest ID.
        self._high_ms: i64 = 0
        self._high_digits = b""
        self._begin()

    def _begin(self) -> None:
        """Makes empty buffers."""
        self.rows = 0
        self.ids = BytesWriter()
        self.id_offsets = BytesWriter()
        self.counters = BytesWriter()
        # µs since 1970.
        self.times = BytesWriter()
        self.has_time = Validity()
        self.list_offsets = BytesWriter()
        self.name_offsets = BytesWriter()
        self.names = BytesWriter()
        self.value_offsets = BytesWriter()
        self.values = BytesWriter()
        self.json = BytesWriter()
        self.json_offsets = BytesWriter()
        self.typed = [TextBuffers() for _ in self._wanted]
        self._fields: i64 = 0
        self._names_end: i64 = 0
        for offsets in (
            self.id_offsets,
            self.list_offsets,
            self.name_offsets,
            self.value_offsets,
            self.json_offsets,
        ):
            write_i32_le(offsets, 0)

    def feed(self, answer: bytes) -> None:
        """Takes the next answer; the former one must have been decoded."""
        check_format(answer)
        self._data = answer
        self._at = 1
        self._node_end = 1

    def decode(self, rows_max: int) -> int:
        """Decodes the next entries of the answer into new buffers; returns their number.

        It stops at `rows_max` rows, or at the end of the answer. Raises NodesError if the answer
        is malformed.
        """
        self._begin()
        try:
            while self.rows < rows_max and len(self.names) < BATCH_BYTES_MAX:
                if self._at >= self._node_end and not self._open_node():
                    break
                self._decode_entries(rows_max)
        except IndexError:
            raise NodesError("the answer of the region ends early") from None
        return self.rows

    def _open_node(self) -> bool:
        """Goes to the first entry of the next node; returns False at the end of the answer."""
        data = self._data
        if self._at >= len(data):
            return False
        counter, at = _number(data, self._at)
        length, at = _number(data, at)
        self._names = self._known_names(data[at : at + length])
        at += length
        length, at = _number(data, at)
        if at + length > len(data):
            raise NodesError("the answer of the region ends within a node")
        self._at = at
        self._node_end = at + length
        self._counter = counter
        self._ms = 0
        self._seq = 0
        return True

    def _known_names(self, encoded: bytes) -> _Names:
        names = self._known.get(encoded)
        if names is None:
            if len(self._known) >= NAMES_MAX:
                self._known.clear()
            names = self._known[encoded] = _Names(encoded, self._form, self._wanted)
        return names

    def _decode_entries(self, rows_max: i64) -> None:
        """Decodes entries up to the end of the node, or to `rows_max` rows."""
        data = self._data
        at = self._at
        node_end = self._node_end
        rows: i64 = self.rows
        while at < node_end and rows < rows_max:
            flags: i64 = data[at]
            at += 1
            number: i64 = 0
            if not flags & SAME_MS:
                number, at = _number(data, at)
                self._ms += number
                self._seq = 0
            number, at = _number(data, at)
            self._seq += number
            if flags & NEXT_COUNTER:
                self._counter += 1
            else:
                number, at = _number(data, at)
                self._counter += number
            number, at = _number(data, at)
            entry_end = at + number
            if entry_end > node_end:
                raise NodesError("an entry ends beyond its node")
            if self._counter > self._high:
                at = node_end
                break
            if not flags & DELETED and self._counter > self._low:
                self._put_entry(flags, at)
                rows += 1
            at = entry_end
        self.rows = rows
        self._at = at

    def _put_entry(self, flags: i64, at: i64) -> None:
        """Appends the current entry, whose payload begins at `at`, to all columns."""
        names = self._names
        assert names is not None
        if not flags & SAME_NAMES:
            stop = _names_stop(self._data, at)
            names = self._known_names(self._data[at:stop])
            at = stop
        self._put_id()
        write_i64_le(self.counters, self._counter)
        has_time = 0 <= self._ms <= LAST_TIME_MS
        write_i64_le(self.times, self._ms * 1000 if has_time else 0)
        self.has_time.add(has_time)
        if self._form == JSON:
            self._put_json(names, at)
        elif self._form != NO_FIELDS:
            self._put_fields(names, at)
        if self._wanted:
            self._put_typed(names, at)

    def _put_id(self) -> None:
        ids = self.ids
        ms = self._ms
        if ms < 10_000:
            put_decimal(ids, ms)
        else:
            high = ms // 10_000
            if high != self._high_ms:
                self._high_ms = high
                self._high_digits = b"%d" % high
            ids.write(self._high_digits)
            low = ms - high * 10_000
            ids.append(48 + low // 1000)
            ids.append(48 + low // 100 % 10)
            ids.append(48 + low // 10 % 10)
            ids.append(48 + low % 10)
        ids.append(45)
        put_decimal(ids, self._seq)
        write_i32_le(self.id_offsets, len(ids))

    def _put_fields(self, names: _Names, at: i64) -> None:
        """Appends the fields as a list or map."""
        data = self._data
        values = self.values
        number: i64 = 0
        for kept in names.kept:
            number, at = _number(data, at)
            if kept:
                put_bytes(values, data, at, at + number)
                write_i32_le(self.value_offsets, len(values))
            at += number
        self.names.write(names.joined)
        end = self._names_end
        for length in names.lengths:
            end += length
            write_i32_le(self.name_offsets, i32(end))
        self._names_end = end
        self._fields += names.kept_count
        write_i32_le(self.list_offsets, i32(self._fields))

    def _put_json(self, names: _Names, at: i64) -> None:
        """Appends the fields as a JSON object."""
        data = self._data
        out = self.json
        number: i64 = 0
        out.append(123)
        is_first = True
        for n in range(names.count):
            number, at = _number(data, at)
            if names.kept[n]:
                if not is_first:
                    out.append(44)
                is_first = False
                out.write(names.json_keys[n])
                put_json_text(out, data, at, at + number)
                out.append(34)
            at += number
        out.append(125)
        write_i32_le(self.json_offsets, len(out))

    def _put_typed(self, names: _Names, at: i64) -> None:
        """Appends the wanted fields to their columns."""
        data = self._data
        number: i64 = 0
        for column in names.columns:
            number, at = _number(data, at)
            if column >= 0:
                buffers = self.typed[column]
                put_bytes(buffers.data, data, at, at + number)
                buffers.end_value(True)
            at += number
        for column in names.absent:
            self.typed[column].end_value(False)


def _names_stop(data: bytes, at: i64) -> i64:
    """Returns the offset at which a list of names that begins at `at` ends."""
    count, at = _number(data, at)
    for _ in range(count):
        length, at = _number(data, at)
        at += length
    return at
