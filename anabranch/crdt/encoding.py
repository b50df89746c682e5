"""The bytes of numbers, strings, IDs, vectors and dots, on disk, on the wire and in nodes.

Numbers are LEB128 varints. A length precedes bytes. Vectors ascend by region_id.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from anabranch.crdt.ids import IS_COMPILED, MAX_HALF
from anabranch.crdt.vector import Dot, Vector

# The varints of one byte.
_SHORT: Final = [bytes([value]) for value in range(128)]
# The highest number that compiled code has without an object, and compares without a call.
_SMALL_MAX: Final = (1 << 62) - 1
# Bits of a varint that is read in a machine word.
_WORD_SHIFT_MAX: Final = 56
# Compiled code copies parts up to this length in words of eight bytes.
_WORDS_BYTES_MAX: Final = 64 if IS_COMPILED else 0


class Malformed(ValueError):
    """Bytes that no writer of this version produces."""


def put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)


def varint(value: int) -> bytes:
    if 0 <= value < len(_SHORT):
        return _SHORT[value]
    out = bytearray()
    put_varint(out, value)
    return bytes(out)


def put_bytes(out: bytearray, data: bytes) -> None:
    put_varint(out, len(data))
    out += data


def with_length(data: bytes) -> bytes:
    """`data` after its length."""
    return varint(len(data)) + data


def put_id(out: bytearray, entry_id: int) -> None:
    put_varint(out, entry_id >> 64)
    put_varint(out, entry_id & MAX_HALF)


def put_vector(out: bytearray, vector: Vector) -> None:
    put_varint(out, len(vector))
    for region_id in sorted(vector):
        put_varint(out, region_id)
        put_varint(out, vector[region_id])


def write_varint(out: BytesWriter, value: int) -> None:
    """As `put_varint`, into a buffer that compiled code appends to faster."""
    if value < 0:
        raise ValueError(f"a varint is not below 0, as {value} is")
    while value > _SMALL_MAX:
        out.append((value & 127) | 128)
        value >>= 7
    number: i64 = value
    while number > 127:
        out.append(u8((number & 127) | 128))
        number >>= 7
    out.append(u8(number))


def write_bytes(out: BytesWriter, data: bytes) -> None:
    """As `put_bytes`."""
    write_varint(out, len(data))
    out.write(data)


def write_part(out: BytesWriter, data: bytes, start: i64, stop: i64) -> None:
    """Appends data[start:stop]. Compiled code makes no object for a short part."""
    if stop - start > _WORDS_BYTES_MAX:
        out.write(data[start:stop])
        return
    while start + 8 <= stop:
        write_i64_le(out, read_i64_le(data, start))
        start += 8
    while start < stop:
        out.append(u8(data[start]))
        start += 1


def stands_at(data: bytes, start: i64, text: bytes) -> bool:
    """Whether `text` stands in `data` at an offset from 0 on."""
    size: i64 = len(text)
    if not IS_COMPILED or start + size > len(data):
        return data[start : start + size] == text
    at: i64 = 0
    while at + 8 <= size:
        if read_i64_le(data, start + at) != read_i64_le(text, at):
            return False
        at += 8
    if at < size and size >= 8:
        # The last word begins within the one before it.
        at = size - 8
        return read_i64_le(data, start + at) == read_i64_le(text, at)
    while at < size:
        if data[start + at] != text[at]:
            return False
        at += 1
    return True


def write_id(out: BytesWriter, entry_id: int) -> None:
    """As `put_id`."""
    write_varint(out, entry_id >> 64)
    write_varint(out, entry_id & MAX_HALF)


def write_vector(out: BytesWriter, vector: Vector) -> None:
    """As `put_vector`."""
    write_varint(out, len(vector))
    for region_id in sorted(vector):
        write_varint(out, region_id)
        write_varint(out, vector[region_id])


def put_dots(out: bytearray, dots: list[Dot]) -> None:
    put_varint(out, len(dots))
    for region_id, counter in dots:
        put_varint(out, region_id)
        put_varint(out, counter)


class Reader:
    """Reads the bytes that the functions above write.

    Raises Malformed when the bytes end early or when a number has more than 21 bytes.
    """

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data = data
        self.offset = offset

    def at_end(self) -> bool:
        return self.offset >= len(self.data)

    def varint(self) -> int:
        data = self.data
        offset: i64 = self.offset
        end: i64 = len(data)
        number: i64 = 0
        shift: i64 = 0
        while offset < end and shift < _WORD_SHIFT_MAX:
            byte: i64 = data[offset]
            offset += 1
            number |= (byte & 127) << shift
            if byte < 128:
                self.offset = offset
                return number
            shift += 7
        return self._long_varint()

    def _long_varint(self) -> int:
        """Reads a number that is not in a machine word, or ends early."""
        data = self.data
        offset = self.offset
        result = 0
        shift = 0
        while True:
            if offset >= len(data) or shift > 140:
                raise Malformed("a number ends early, or has more than 21 bytes")
            byte = data[offset]
            offset += 1
            result |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
        self.offset = offset
        return result

    def take(self, length: int) -> bytes:
        start = self.offset
        if start + length > len(self.data):
            raise Malformed("bytes end early")
        self.offset = start + length
        return self.data[start : start + length]

    def bytes_(self) -> bytes:
        return self.take(self.varint())

    def id_(self) -> int:
        ms = self.varint()
        seq = self.varint()
        if ms > MAX_HALF or seq > MAX_HALF:
            raise Malformed("an entry ID of more than 64+64 bits")
        return (ms << 64) | seq

    def half(self) -> int:
        """Reads a number of at most 64 bits."""
        number = self.varint()
        if number > MAX_HALF:
            raise Malformed("a number of more than 64 bits")
        return number

    def count(self) -> int:
        """Reads the number of items that follow; Malformed if it exceeds the bytes left.

        Each item has at least one byte. So a malformed count cannot cause a long loop.
        """
        number = self.varint()
        if number > len(self.data) - self.offset:
            raise Malformed("more items are promised than bytes are left")
        return number

    def vector(self) -> Vector:
        result: Vector = {}
        for _ in range(self.count()):
            region_id = self.varint()
            result[region_id] = self.varint()
        return result

    def dots(self) -> list[Dot]:
        result: list[Dot] = []
        for _ in range(self.count()):
            region_id = self.varint()
            result.append((region_id, self.varint()))
        return result
