"""Buffers of columns, and the bytes of numbers and JSON texts in them."""

from __future__ import annotations

import json
from typing import Final

from librt.strings import BytesWriter, write_i32_le
from mypy_extensions import i64

# Up to this length, bytes are appended one by one: that is faster than a slice.
_LOOP_BYTES_MAX: Final = 40


class Validity:
    """The bits that tell which rows of a column have a value."""

    def __init__(self) -> None:
        self.missing = 0
        self._full = BytesWriter()
        # The bits of the rows after those in `_full`, and the bit of the next row.
        self._byte: i64 = 0
        self._bit: i64 = 1

    def add(self, is_present: bool) -> None:
        if is_present:
            self._byte |= self._bit
        else:
            self.missing += 1
        self._bit <<= 1
        if self._bit == 256:
            self._full.append(self._byte)
            self._byte = 0
            self._bit = 1

    def bits(self) -> bytes:
        """Returns the bits of all rows, the lowest bit of a byte first."""
        return self._full.getvalue() + bytes([self._byte])


class TextBuffers:
    """The buffers of a column of texts or bytes, in which values may be missing."""

    def __init__(self) -> None:
        self.offsets = BytesWriter()
        self.data = BytesWriter()
        self.validity = Validity()
        write_i32_le(self.offsets, 0)

    def end_value(self, is_present: bool) -> None:
        """Ends the value whose bytes, if any, were appended to `data`."""
        write_i32_le(self.offsets, len(self.data))
        self.validity.add(is_present)


def put_bytes(out: BytesWriter, data: bytes, start: i64, stop: i64) -> None:
    if stop - start > _LOOP_BYTES_MAX:
        out.write(data[start:stop])
        return
    while start < stop:
        out.append(data[start])
        start += 1


def put_decimal(out: BytesWriter, number: i64) -> None:
    """Appends the digits of an unsigned number of 64 bits."""
    if number < 0:
        # Compiled code holds numbers from 2**63 on as negative ones.
        out.write(b"%d" % (int(number) + (1 << 64)))
        return
    if number < 10:
        out.append(48 + number)
        return
    start: i64 = len(out)
    while number:
        tenth: i64 = number // 10
        out.append(48 + number - tenth * 10)
        number = tenth
    stop: i64 = len(out) - 1
    while start < stop:
        digit = out[start]
        out[start] = out[stop]
        out[stop] = digit
        start += 1
        stop -= 1


def put_json_text(out: BytesWriter, data: bytes, start: i64, stop: i64) -> None:
    """Appends the inside of a JSON string; bytes that are not UTF-8 become U+FFFD."""
    offset = start
    while offset < stop:
        byte: i64 = data[offset]
        if byte < 32 or byte == 34 or byte == 92 or byte > 126:
            text = data[start:stop].decode("utf-8", "replace")
            out.truncate(len(out) - (offset - start))
            out.write(json.dumps(text, ensure_ascii=False)[1:-1].encode())
            return
        out.append(byte)
        offset += 1
