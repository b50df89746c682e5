"""Pairs of one producer that follow each other, packed into bytes: a record for each pair.

A record is the iid after its length, and then eight varints. The names are those of `Pair`
(`crdt/pair.py`), an object that is made when a pair is looked at:

    region_id  counter  recorded_ms  ms - recorded_ms  seq  held_ms - recorded_ms
    counter - seen_own  number of its vector in `seen`

Differences may be below 0: `n` is written as `2 * n`, or as `-2 * n - 1`.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from anabranch.crdt.adds import IdempotentAdds
from anabranch.crdt.encoding import Reader, stands_at, write_bytes, write_varint
from anabranch.crdt.ids import SEQ_STRIDE
from anabranch.crdt.pair import Pair
from anabranch.crdt.scan import word_at
from anabranch.crdt.vector import Vector, covers

# Records of a full run.
RUN_MAX: Final = 32
# Later than every time.
NO_TIME: Final = 1 << 62
# Varints of a record after its iid.
_NUMBERS: Final = 8


@mypyc_attr(acyclic=True)
class PairRun:
    """The records from `start` on, oldest first. The first `retired` pairs are retired (S9.3).

    `data` never changes: a change gives the run other bytes. `seen` is only appended to, until
    `fill` makes a new list. So a cut refers to both (`crdt/images.py`).
    """

    def __init__(self, pid: bytes, number: int) -> None:
        self.pid: Final = pid
        # By this number the producer finds the run.
        self.number: Final = number
        self.data = b""
        # What the adders of these pairs had seen of all other regions.
        self.seen: list[Vector] = []
        # Offset of the first pair, and of the first that answers.
        self.start = 0
        self.answering_at = 0
        self.count = 0
        self.retired = 0
        # No pair was held since before this time.
        self.oldest_ms = NO_TIME
        # Records that were written, those of dropped pairs included.
        self._written = 0
        # The age of the last pair, and of the oldest one (`Pair.age_ms`).
        self.last_age_ms = 0
        self._lowest_age_ms = NO_TIME

    def room(self) -> int:
        """Returns how many pairs may be appended."""
        return RUN_MAX - self._written

    def pairs(self) -> list[Pair]:
        """Returns all pairs."""
        reader = Reader(self.data, self.start)
        return [self._read(reader) for _ in range(self.count)]

    def first_answering(self) -> Pair:
        return self._read(Reader(self.data, self.answering_at))

    def _read(self, reader: Reader) -> Pair:
        pair = read_pair(reader, self.pid, self.seen)
        pair.is_retired = reader.offset <= self.answering_at
        return pair

    def of(self, iid: bytes) -> list[Pair]:
        """Returns the pairs with this idempotent ID."""
        found: list[Pair] = []
        data = self.data
        at: i64 = self.start
        while at < len(data):
            record = at
            length, at = word_at(data, at)
            if length == len(iid) and stands_at(data, at, iid):
                found.append(self._read(Reader(data, record)))
            at = _after_pair(data, record)
        return found

    def has_covered(self, vector: Vector) -> bool:
        """Whether the vector covers the add of one of the pairs."""
        at: i64 = self.start
        while at < len(self.data):
            if _is_covered(self.data, at, vector):
                return True
            at = _after_pair(self.data, at)
        return False

    def is_first_covered(self, vector: Vector) -> bool:
        """Whether the vector covers the add of the first pair."""
        return _is_covered(self.data, self.start, vector)

    def is_first_answering_covered(self, vector: Vector) -> bool:
        """Whether the vector covers the add of the first pair that answers."""
        return _is_covered(self.data, self.answering_at, vector)

    def place_after(self, age_ms: int) -> int:
        """Returns how many pairs stand up to the last answering one that is no younger.

        0 if there is no such pair.
        """
        if self._lowest_age_ms > age_ms:
            return 0
        pairs = self.pairs()
        place = self.count
        while place > self.retired and pairs[place - 1].age_ms > age_ms:
            place -= 1
        return place if place > self.retired else 0

    def append(self, pair: Pair) -> None:
        """Adds the newest pair, for which there is room."""
        out = BytesWriter()
        self._write(out, pair)
        self.data += out.getvalue()

    def append_own(
        self,
        adds: IdempotentAdds,
        start: int,
        stop: int,
        region_id: int,
        counter: int,
        now_ms: int,
        seen: Vector,
    ) -> None:
        """Adds the pairs of own adds from number `start` up to `stop`, for which there is room.

        `counter` is that of add 0. They are recorded and held from `now_ms` on.
        """
        self._see(seen)
        vector = len(self.seen) - 1
        out = BytesWriter()
        for n in range(start, stop):
            own, seq = counter + n, adds.seq + n * SEQ_STRIDE
            # Each add has seen the ones before it.
            _write_record(
                out, adds.iids[n], region_id, own, adds.ms, seq, now_ms, now_ms, own - 1, vector
            )
        self.data += out.getvalue()
        self._note(stop - start, now_ms, now_ms)

    def fill(self, pairs: list[Pair]) -> None:
        """Holds these pairs in place of those that it held; retired ones come first."""
        self.seen = []
        self.start = self.answering_at = self.count = self.retired = self._written = 0
        self.oldest_ms = self._lowest_age_ms = NO_TIME
        out = BytesWriter()
        for pair in pairs:
            self._write(out, pair)
            if pair.is_retired:
                self.retired += 1
                self.answering_at = len(out)
        self.data = out.getvalue()

    def _see(self, seen: Vector) -> None:
        """Makes this vector the last of `seen`. Mostly pairs that follow each other share it."""
        if not self.seen or self.seen[-1] is not seen:
            self.seen.append(seen)

    def _write(self, out: BytesWriter, pair: Pair) -> None:
        self._see(pair.seen)
        _write_record(
            out,
            pair.iid,
            pair.region_id,
            pair.counter,
            pair.ms,
            pair.seq,
            pair.recorded_ms,
            pair.held_ms,
            pair.seen_own,
            len(self.seen) - 1,
        )
        self._note(1, pair.recorded_ms, pair.held_ms)

    def _note(self, count: int, recorded_ms: int, held_ms: int) -> None:
        """Notes pairs that were written."""
        self.count += count
        self._written += count
        self.last_age_ms = min(recorded_ms, held_ms)
        self._lowest_age_ms = min(self._lowest_age_ms, self.last_age_ms)
        self.oldest_ms = min(self.oldest_ms, held_ms)

    def retire_first(self) -> None:
        """Retires the first pair that answers."""
        self.answering_at = _after_pair(self.data, self.answering_at)
        self.retired += 1

    def drop_first(self) -> bytes:
        """Drops the first pair, which is retired, and returns its iid."""
        iid = Reader(self.data, self.start).bytes_()
        self.start = _after_pair(self.data, self.start)
        self.count -= 1
        self.retired -= 1
        if 2 * self.start > len(self.data):
            # Most bytes are those of pairs that are gone.
            self.data = self.data[self.start :]
            self.answering_at -= self.start
            self.start = 0
        return iid


def _is_covered(data: bytes, at: i64, vector: Vector) -> bool:
    """Whether the vector covers the add of the pair whose record begins at an offset."""
    length, at = word_at(data, at)
    region_id, at = word_at(data, at + length)
    counter, at = word_at(data, at)
    return covers(vector, region_id, counter)


def _after_pair(data: bytes, at: i64) -> i64:
    """Returns the offset after the record that begins at an offset."""
    length, at = word_at(data, at)
    at += length
    left: i64 = _NUMBERS
    while left:
        if data[at] < 128:
            left -= 1
        at += 1
    return at


def _unsigned(number: int) -> int:
    return 2 * number if number >= 0 else -2 * number - 1


def _signed(number: int) -> int:
    return -((number + 1) >> 1) if number & 1 else number >> 1


def _write_record(
    out: BytesWriter,
    iid: bytes,
    region_id: int,
    counter: int,
    ms: int,
    seq: int,
    recorded_ms: int,
    held_ms: int,
    seen_own: int,
    vector: int,
) -> None:
    """Writes a record, which `read_pair` reads; `vector` is the number of its vector in `seen`."""
    write_bytes(out, iid)
    write_varint(out, region_id)
    write_varint(out, counter)
    write_varint(out, recorded_ms)
    write_varint(out, _unsigned(ms - recorded_ms))
    write_varint(out, seq)
    write_varint(out, _unsigned(held_ms - recorded_ms))
    write_varint(out, _unsigned(counter - seen_own))
    write_varint(out, vector)


def read_pair(reader: Reader, pid: bytes, seen: list[Vector]) -> Pair:
    """Reads the record of a pair; `seen` is that of its run."""
    iid = reader.bytes_()
    region_id = reader.varint()
    counter = reader.varint()
    recorded_ms = reader.varint()
    ms = recorded_ms + _signed(reader.varint())
    seq = reader.varint()
    held_ms = recorded_ms + _signed(reader.varint())
    seen_own = counter - _signed(reader.varint())
    vector = seen[reader.varint()]
    return Pair(pid, iid, region_id, counter, ms, seq, recorded_ms, held_ms, seen_own, vector)
