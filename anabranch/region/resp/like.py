"""Commands that follow another one in a client's input and differ from it in a few words only.

A producer that pipelines sends XADD after XADD with other values. Their bytes are those of the
first up to its first value, between two values, and after the last one. So each of them is found by
comparing these texts, without making an object for an argument. Idempotent adds differ in the iid,
too, adds to several streams in the key, acknowledgements in the last word.
"""

from __future__ import annotations

from typing import Final, Optional

from librt.strings import BytesWriter
from mypy_extensions import i64

from anabranch.crdt.encoding import stands_at, write_part, write_varint
from anabranch.crdt.node import FOLLOWS
from anabranch.region.engine.batch import Packed, Places, Shape

# No further command is taken once the entries of those taken have so many bytes, or, where each has
# an effect of its own, which has about the bytes of its command, the commands. So a run of adds
# makes a block of the effect log little larger.
BYTES_MAX: Final = 64 << 10


def after_arguments(data: bytes, began: i64, count: i64) -> i64:
    """Returns where the first `count` arguments end of a whole command that begins at `began`."""
    at = began + 2
    while data[at] != 13:
        at += 1
    at += 2
    while count > 0:
        at += 1
        size: i64 = 0
        while data[at] != 13:
            size = size * 10 + data[at] - 48
            at += 1
        at += size + 4
        count -= 1
    return at


class LikeCommands:
    """The commands from `offset` on in `data` that are like the one that began at `began`.

    That one ends at `offset`. They may differ from it at the places of `places`.
    """

    def __init__(
        self, data: bytes, began: int, offset: int, places: Places, argument_bytes_max: int
    ) -> None:
        self.offset: i64 = offset
        self._places: Final = places
        self._data: Final = data
        self._argument_bytes_max: i64 = argument_bytes_max
        # Where the argument that was read last begins and ends, without its length.
        self._start: i64 = 0
        self._stop: i64 = 0
        # Where the command at hand ends, but for its last line break, and the bytes of its values
        # as they are written: those of its arguments from this one on.
        self._end: i64 = 0
        self._values_bytes: i64 = 0
        self._first_value: i64 = 1 if places.word else 0
        # Where the first argument that may differ begins in the first command, with its length.
        self._first: i64 = after_arguments(data, began, places.word or places.first_value)
        # The text before each argument that may differ.
        self._texts: Final = [data[began : self._first]]
        self._words: Final[list[bytes]] = []
        self._ends: Final[list[int]] = []
        self._out: Final = BytesWriter()

    def take(self, shape: Shape, count_max: int) -> Optional[Packed]:
        """Takes up to `count_max` commands, or some 64 KiB; None if the next one is not like it.

        `offset` is then behind them.
        """
        if not stands_at(self._data, self.offset, self._texts[0]):
            return None
        if self._places.first_value:
            self._find_texts()
        began = self.offset
        count = self._take_values(count_max) if self._places.first_value else self._take(count_max)
        if not count:
            return None
        return Packed(
            shape,
            self._places,
            count,
            int(self.offset - began),
            self._words,
            self._out.getvalue(),
            self._ends,
        )

    def _take(self, count_max: int) -> int:
        """Takes commands that differ in their single word, which is the last."""
        count = 0
        while count < count_max and self._is_like():
            self._words.append(self._data[self._start : self._stop])
            self.offset = self._end + 2
            count += 1
        return count

    def _take_values(self, count_max: int) -> int:
        """Takes commands that differ in their values."""
        places = self._places
        out = self._out
        as_entries = places.as_entries
        notes_ends = not as_entries or places.word != 0
        offset_end = self.offset + BYTES_MAX if notes_ends else i64(len(self._data))
        count = 0
        while (
            count < count_max
            and len(out) < BYTES_MAX
            and self.offset < offset_end
            and self._is_like()
        ):
            if as_entries:
                out.write(FOLLOWS)
                write_varint(out, int(self._values_bytes))
            self._put()
            if notes_ends:
                self._ends.append(len(out))
            self.offset = self._end + 2
            count += 1
        return count

    def _find_texts(self) -> None:
        """Finds the other texts, each of which ends one argument and holds the next ones."""
        at = self._first
        places = self._places
        # Arguments between the first one that may differ and the next one.
        between = places.first_value - places.word - 1 if places.word else 1
        while self._read(at) and self._stop + 2 < self.offset:
            begin = self._stop
            at = begin + 2
            for _ in range(between):
                self._read(at)
                at = self._stop + 2
            between = 1
            self._texts.append(self._data[begin:at])

    def _is_like(self) -> bool:
        """Whether the command at `offset` is whole and like the first."""
        at = self.offset
        total: i64 = 0
        for n, text in enumerate(self._texts):
            if not stands_at(self._data, at, text) or not self._read(at + len(text)):
                return False
            at = self._stop
            if n >= self._first_value:
                size = at - self._start
                total += size + _varint_size(size)
        self._end = at
        self._values_bytes = total
        return True

    def _read(self, at: i64) -> bool:
        """Reads the argument whose length begins at `at`, if it is whole and in plain form."""
        data = self._data
        end: i64 = len(data)
        if at + 4 > end or data[at] != 36:  # $
            return False
        at += 1
        size: i64 = 0
        first = at
        while at < end and 48 <= data[at] <= 57 and size <= self._argument_bytes_max:
            size = size * 10 + data[at] - 48
            at += 1
        digits = at - first
        if (
            digits == 0
            or (data[first] == 48 and digits > 1)
            or size > self._argument_bytes_max
            or at + 2 + size + 2 > end
            or data[at] != 13
        ):
            return False
        self._start = at + 2
        self._stop = self._start + size
        return True

    def _put(self) -> None:
        """Appends the values of the command at hand, and notes the word before them.

        To read several arguments again takes less than to note where each lies. If there is only
        one, `_is_like` has just read it, and `_start` and `_stop` still describe it.
        """
        at = self.offset
        are_several = len(self._texts) > 1
        for n, text in enumerate(self._texts):
            if are_several:
                self._read(at + len(text))
                at = self._stop
            if n >= self._first_value:
                write_varint(self._out, int(self._stop - self._start))
                write_part(self._out, self._data, self._start, self._stop)
            else:
                self._words.append(self._data[self._start : self._stop])


def _varint_size(number: i64) -> i64:
    size: i64 = 1
    while number > 127:
        number >>= 7
        size += 1
    return size
