"""Walking the entries of a packed node or of a run of adds, whose layout `crdt/node.py` describes.

Compiled code keeps the halves of an ID in machine words of 64 bits. There a half of 2**63 or more
is a negative number, and in interpreted code it is a positive one. So words are made by `word` and
`words`, compared by `is_below` and turned into numbers by `unsigned`. Most code reads `ms`, `seq`,
`counter` and `id`, which are plain numbers.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le
from mypy_extensions import i64, mypyc_attr

from anabranch.crdt.ids import IS_COMPILED, MAX_HALF, MAX_ID, SEQ_STRIDE

DELETED: Final = 1
SAME_NAMES: Final = 2
SAME_MS: Final = 4
NEXT_COUNTER: Final = 8
# The three bytes before the length of an entry that follows the one before it as adds of one ms do
# (`node.FOLLOWS`), as a number whose lowest byte is the first.
FOLLOWS_WORD: Final = 0x07E80E
_FOLLOWS_FLAGS: Final = SAME_NAMES | SAME_MS | NEXT_COUNTER


def is_below(one: i64, other: i64) -> bool:
    """Whether a word is lower than another, both without a sign."""
    return (one < other) != ((one < 0) != (other < 0))


def is_up_to(ms: i64, seq: i64, last_ms: i64, last_seq: i64) -> bool:
    """Whether the ID of two words is not above the one of two others."""
    if ms == last_ms:
        return not is_below(last_seq, seq)
    return is_below(ms, last_ms)


def word(number: int) -> i64:
    """Returns an unsigned number of 64 bits as a word."""
    if not IS_COMPILED:
        return number
    return (i64(number >> 32) << 32) | i64(number & 0xFFFFFFFF)


LAST_WORD: Final = word(MAX_HALF)


def words(entry_id: int) -> tuple[i64, i64]:
    """Returns the halves of an ID as words."""
    if entry_id == MAX_ID:
        # Most reads have no other end.
        return LAST_WORD, LAST_WORD
    return word(entry_id >> 64), word(entry_id & MAX_HALF)


def unsigned(number: i64) -> int:
    """Returns a word as an unsigned number."""
    return number if number >= 0 else int(number) & MAX_HALF


@mypyc_attr(acyclic=True)
class Scan:
    """Walks a buffer of entries forward, deleted ones included.

    After `step` returned True, the attributes describe one entry. `step` reads the varints that
    each entry has in place, without calls, because every read and merge runs through it. Compiled
    code recognizes the usual entry of a run of adds by its first four bytes. `step` raises
    IndexError where the bytes end early, and ValueError where a number has more than 64 bits.
    """

    def __init__(self, data: bytes, base_counter: int) -> None:
        self.data = data
        # Offset of the entry after the current one.
        self.next: i64 = 0
        # Offset of the current entry's flags.
        self.start: i64 = 0
        self.flags: i64 = 0
        self.ms_word: i64 = 0
        self.seq_word: i64 = 0
        self.counter_word: i64 = base_counter
        # The payload is data[payload_start:next].
        self.payload_start: i64 = 0

    def step(self) -> bool:
        """Moves to the next entry; returns False at the end."""
        data = self.data
        offset = self.next
        if offset >= len(data):
            return False
        self.start = offset
        if IS_COMPILED and offset + 4 <= len(data):
            head = i64(read_i32_le(data, offset))
            # Not below 0: the length has one byte.
            if head >= 0 and head & 0xFFFFFF == FOLLOWS_WORD:
                self.flags = _FOLLOWS_FLAGS
                self.seq_word += SEQ_STRIDE
                self.counter_word += 1
                self.payload_start = offset + 4
                self.next = offset + 4 + (head >> 24)
                return True
        flags: i64 = data[offset]
        self.flags = flags
        offset += 1
        seq_base: i64 = 0
        delta: i64 = 0
        if flags & SAME_MS:
            seq_base = self.seq_word
        else:
            delta, offset = word_at(data, offset)
            self.ms_word += delta
        byte: i64 = data[offset]
        offset += 1
        delta = byte & 127
        shift: i64 = 7
        while byte > 127:
            byte = data[offset]
            offset += 1
            delta |= (byte & 127) << shift
            shift += 7
        if shift > 63:
            _check(byte, shift)
        self.seq_word = seq_base + delta
        if flags & NEXT_COUNTER:
            self.counter_word += 1
        else:
            delta, offset = word_at(data, offset)
            self.counter_word += delta
        byte = data[offset]
        offset += 1
        delta = byte & 127
        shift = 7
        while byte > 127:
            byte = data[offset]
            offset += 1
            delta |= (byte & 127) << shift
            shift += 7
        if shift > 63:
            _check(byte, shift)
        self.payload_start = offset
        self.next = offset + delta
        return True

    @property
    def ms(self) -> int:
        return unsigned(self.ms_word)

    @property
    def seq(self) -> int:
        return unsigned(self.seq_word)

    @property
    def counter(self) -> int:
        return self.counter_word

    def id(self) -> int:
        ms = self.ms_word
        seq = self.seq_word
        if ms >= 0 and seq >= 0:
            return (int(ms) << 64) | int(seq)
        return (unsigned(ms) << 64) | unsigned(seq)

    def is_too_high(self) -> bool:
        """Whether a sum is no word, or the counter has more than 63 bits.

        In compiled code such a sum is lower than the one before instead.
        """
        if IS_COMPILED:
            return False
        return max(self.ms, self.seq, 2 * self.counter) > MAX_HALF

    def is_up_to(self, ms: i64, seq: i64) -> bool:
        """Whether the ID of the current entry is not above the one of these words."""
        return is_up_to(self.ms_word, self.seq_word, ms, seq)

    def is_from(self, ms: i64, seq: i64) -> bool:
        """Whether the ID of the current entry is not below the one of these words."""
        if self.ms_word == ms:
            return not is_below(self.seq_word, seq)
        return is_below(ms, self.ms_word)

    def payload(self) -> bytes:
        return self.data[self.payload_start : self.next]

    def copy(self) -> Scan:
        """Returns a walk that stands where this one does."""
        other = Scan(self.data, 0)
        other.next = self.next
        other.start = self.start
        other.flags = self.flags
        other.ms_word = self.ms_word
        other.seq_word = self.seq_word
        other.counter_word = self.counter_word
        other.payload_start = self.payload_start
        return other


def word_at(data: bytes, offset: i64) -> tuple[i64, i64]:
    """Returns the varint at an offset, and the offset after it. Raises ValueError."""
    byte: i64 = data[offset]
    offset += 1
    number: i64 = byte & 127
    shift: i64 = 7
    while byte > 127:
        byte = data[offset]
        offset += 1
        number |= (byte & 127) << shift
        shift += 7
    if shift > 63:
        _check(byte, shift)
    return number, offset


def _check(last: i64, shift: i64) -> None:
    """Raises ValueError if a varint has more than 64 bits: it ends with `last`, before `shift`."""
    if shift > 70 or last > 1:
        raise ValueError("a number has more than 64 bits")
