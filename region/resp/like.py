"""Commands that follow another one in a client's input and differ from it in some arguments only.

A producer that pipelines sends XADD after XADD with other values. Their bytes are those of the
first up to its first value, between two values, and after the last one. So each of them is found by
comparing these texts, without making an object for an argument. Idempotent adds differ in the iid,
too, which stands before the values.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from anabranch.crdt.encoding import stands_at, write_part, write_varint
from anabranch.crdt.node import FOLLOWS

# No further command is taken once those taken have so many bytes: so a run of adds makes a block of
# the effect log little larger.
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


class LikeAdds:
    """XADDs that were taken.

    The arguments that may differ are the first value, at the index `first_value`, each second one
    after it, and the one at `other_at` before them (0: none): an iid, or the key. `data` are the
    values of each: with `as_entries` as entries that follow each other (`crdt/adds.py`), otherwise
    as `encode_values` has them. With `notes_each` it is noted where each ends (`ends`) and where
    its command began (`starts`), and `others` has the other argument of each.
    """

    def __init__(
        self, first_value: int, other_at: int, *, notes_each: bool, as_entries: bool = True
    ) -> None:
        self.notes_each: Final = notes_each
        self.as_entries: Final = as_entries
        self.other_at: Final = other_at
        self.first_index: Final = other_at or first_value
        # Arguments between the first one that may differ and the next one.
        self.between: Final = first_value - other_at - 1 if other_at else 1
        self.count = 0
        self.others: Final[list[bytes]] = []
        self.ends: Final[list[int]] = []
        self.starts: Final[list[int]] = []
        self.out: Final = BytesWriter()

    def data(self) -> bytes:
        return self.out.getvalue()


class LikeCommands:
    """The commands from `offset` on in `data` that are like the one that began at `began`.

    That one ends at `offset`. Its argument `first_index` may differ, the one that follows it after
    `between` others, and every second one after that.
    """

    def __init__(
        self,
        data: bytes,
        began: int,
        offset: int,
        first_index: int,
        argument_bytes_max: int,
        between: int = 1,
    ) -> None:
        self.offset: i64 = offset
        self._between: Final = between
        self._data: Final = data
        self._argument_bytes_max: i64 = argument_bytes_max
        # Where the argument that was read last begins and ends, without its length.
        self._start: i64 = 0
        self._stop: i64 = 0
        # Where these arguments of the command at hand begin, and where they end.
        self._starts: Final[list[int]] = []
        self._stops: Final[list[int]] = []
        # Where the first of them begins in the first command, with its length.
        self._first: i64 = after_arguments(data, began, first_index)
        # The text before each of them.
        self._texts: Final = [data[began : self._first]]

    def take(self, adds: LikeAdds, count_max: int) -> None:
        """Takes up to `count_max` commands; see `RequestParser.take_like`."""
        head = self._texts[0]
        if self._data[self.offset : self.offset + len(head)] != head:
            return
        self._find_texts()
        if adds.notes_each:
            self._take_each(adds, count_max)
            return
        out = adds.out
        count = 0
        while count < count_max and len(out) < BYTES_MAX and self._is_like():
            out.write(FOLLOWS)
            self._put_length(out, 0)
            self._put(out, 0)
            self.offset = self._stop + 2
            count += 1
        adds.count = count

    def _take_each(self, adds: LikeAdds, count_max: int) -> None:
        """As `take`, with notes about each; an effect has about the bytes of its command."""
        out = adds.out
        first_value = 1 if adds.other_at else 0
        end = self.offset + BYTES_MAX
        while adds.count < count_max and self.offset < end and self._is_like():
            adds.starts.append(int(self.offset))
            if first_value:
                adds.others.append(self._data[self._starts[0] : self._stops[0]])
            if adds.as_entries:
                out.write(FOLLOWS)
                self._put_length(out, first_value)
            self._put(out, first_value)
            adds.ends.append(len(out))
            self.offset = self._stop + 2
            adds.count += 1

    def last_words(self, count_max: int, starts: list[int]) -> list[bytes]:
        """Takes up to `count_max` commands; see `RequestParser.take_last_words`.

        Appends where each of them begins to `starts`.
        """
        found: list[bytes] = []
        while len(found) < count_max and self._is_like():
            starts.append(int(self.offset))
            found.append(self._data[self._start : self._stop])
            self.offset = self._stop + 2
        return found

    def _find_texts(self) -> None:
        """Finds the other texts, each of which ends one argument and holds the next ones."""
        at = self._first
        between = self._between
        while self._read(at) and self._stop + 2 < self.offset:
            begin = self._stop
            at = begin + 2
            for _ in range(between):
                self._read(at)
                at = self._stop + 2
            between = 1
            self._texts.append(self._data[begin:at])

    def _is_like(self) -> bool:
        """Whether the command at `offset` is whole and like the first; finds its arguments."""
        data = self._data
        at = self.offset
        if len(self._texts) == 1:
            text = self._texts[0]
            return stands_at(data, at, text) and self._read(at + len(text))
        self._starts.clear()
        self._stops.clear()
        for text in self._texts:
            if not stands_at(data, at, text) or not self._read(at + len(text)):
                return False
            self._starts.append(int(self._start))
            self._stops.append(int(self._stop))
            at = self._stop
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

    def _put_length(self, out: BytesWriter, first: int) -> None:
        """Appends the length of what `_put` appends."""
        total: i64 = 0
        if len(self._texts) == 1:
            total = self._stop - self._start
            total += _varint_size(total)
        else:
            for n in range(first, len(self._starts)):
                size: i64 = self._stops[n] - self._starts[n]
                total += size + _varint_size(size)
        write_varint(out, total)

    def _put(self, out: BytesWriter, first: int) -> None:
        """Appends the arguments of a command, without those before the argument `first`."""
        if len(self._texts) == 1:
            self._put_argument(out, self._start, self._stop)
            return
        for n in range(first, len(self._starts)):
            self._put_argument(out, self._starts[n], self._stops[n])

    def _put_argument(self, out: BytesWriter, start: i64, stop: i64) -> None:
        write_varint(out, stop - start)
        write_part(out, self._data, start, stop)


def _varint_size(number: i64) -> i64:
    size: i64 = 1
    while number > 127:
        number >>= 7
        size += 1
    return size
