"""Damage in the middle of SQLite's write-ahead log, told from a torn end.

SQLite takes the valid prefix of the write-ahead log (WAL): the frames up to the first one whose
checksum is wrong. After a crash that is right, because the first wrong frame is the torn end. After
a byte was flipped in the middle it silently gives an older state. So the WAL is damaged if frames
of the same run (the same salts) follow a wrong frame and are sound in themselves: a checksum covers
the frame and the checksum of the frame before it, which stands in that frame.

The format is that of https://www.sqlite.org/fileformat2.html, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, Optional

HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
_LITTLE: Final = 0x377F0682
_BIG: Final = 0x377F0683
_PAGE_SIZES: Final = frozenset(1 << n for n in range(9, 17))
_HEADER: Final = Struct(">8I")
_FRAME: Final = Struct(">6I")
_MASK: Final = 0xFFFFFFFF

Checksum = tuple[int, int]


def damage(data: bytes) -> str:
    """What is damaged in a WAL, in words; empty if it is sound or ends in a torn frame."""
    if len(data) < HEADER_BYTES or not any(data[:HEADER_BYTES]):
        return ""
    header = _HEADER.unpack_from(data)
    magic, page_bytes, salts, stored = header[0], header[2], header[4:6], header[6:8]
    if magic in (_LITTLE, _BIG) and checksum(data[:24], (0, 0), magic == _BIG) == stored:
        wrong: Optional[int] = None
        for number, frame in enumerate(_frames(data, page_bytes)):
            if frame.salts == salts and frame.is_sound(magic == _BIG):
                if wrong is not None:
                    return f"frame {wrong + 1} is wrong, and frame {number + 1} after it is sound"
            elif wrong is None:
                wrong = number
        return ""
    for size in [page_bytes] if page_bytes in _PAGE_SIZES else sorted(_PAGE_SIZES):
        for is_big in (False, True):
            sound = (frame.is_sound(is_big) for frame in _frames(data, size))
            if any(sound):
                return "its header is wrong, and frames after it are sound"
    return ""


def checksum(data: bytes, before: Checksum, is_big: bool) -> Checksum:
    """SQLite's checksum of `data`, whose length is a multiple of 8, continued from `before`."""
    first, second = before
    words = Struct(f"{'>' if is_big else '<'}{len(data) // 4}I").unpack(data)
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & _MASK
        second = (second + words[index + 1] + first) & _MASK
    return first, second


class _Frame:
    """One frame: its salts, its checksum, the stored checksum before it, and the summed bytes."""

    def __init__(self, salts: tuple[int, ...], stored: Checksum, before: Checksum) -> None:
        self.salts = salts
        self.stored = stored
        self.before = before
        self.summed = b""

    def is_sound(self, is_big: bool) -> bool:
        return checksum(self.summed, self.before, is_big) == self.stored


def _frames(data: bytes, page_bytes: int) -> Iterator[_Frame]:
    """The complete frames of a WAL, valid or not."""
    size = FRAME_HEADER_BYTES + page_bytes
    before = _HEADER.unpack_from(data)[6:8]
    for start in range(HEADER_BYTES, len(data) - size + 1, size):
        found = _FRAME.unpack_from(data, start)
        frame = _Frame(found[2:4], (found[4], found[5]), (before[0], before[1]))
        frame.summed = data[start : start + 8] + data[start + FRAME_HEADER_BYTES : start + size]
        yield frame
        before = found[4:6]
