"""Which runs of a producer may hold the pair of an idempotent ID: a table of hashes.

It is linear hashing (Litwin 1980). Each bucket is a string of items of eight bytes: 32 bits of the
hash of an iid, and the number of a run. There is one bucket more whenever the buckets are full on
average, and one bucket less when they are nearly empty. So the table grows and shrinks by a little
at a time.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, mypyc_attr

# Items of a bucket on average, above and below which the number of buckets changes.
_FULL: Final = 12
_SPARSE: Final = 3
_ITEM_BYTES: Final = 8
_HASH_MASK: Final = (1 << 32) - 1


@mypyc_attr(acyclic=True)
class PairFinder:
    """An item for each pair that was added and not removed."""

    def __init__(self) -> None:
        self._buckets: list[bytes] = [b""]
        # The bucket of a hash is its part under the mask or, if there are not so many yet, under
        # half the mask.
        self._mask: i64 = 0
        self._count: i64 = 0

    def _bucket(self, hashed: i64) -> i64:
        index = hashed & self._mask
        return index if index < len(self._buckets) else index & (self._mask >> 1)

    def may_have(self, iid: bytes) -> bool:
        """Whether a pair may have this iid; True is wrong once in a million times or so."""
        hashed = _hashed(iid)
        bucket = self._buckets[self._bucket(hashed)]
        at: i64 = 0
        while at < len(bucket):
            if read_i64_le(bucket, at) & _HASH_MASK == hashed:
                return True
            at += _ITEM_BYTES
        return False

    def runs_of(self, iid: bytes) -> list[int]:
        """Returns the numbers of the runs that may hold a pair with this iid."""
        hashed = _hashed(iid)
        bucket = self._buckets[self._bucket(hashed)]
        found: list[int] = []
        for at in range(0, len(bucket), _ITEM_BYTES):
            item = read_i64_le(bucket, at)
            if item & _HASH_MASK == hashed:
                number = int(item >> 32)
                if number not in found:
                    found.append(number)
        return found

    def add(self, iid: bytes, run: i64) -> None:
        """A run now holds a pair with this iid; run numbers are below 2**31."""
        hashed = _hashed(iid)
        index = self._bucket(hashed)
        out = BytesWriter()
        out.write(self._buckets[index])
        write_i64_le(out, run << 32 | hashed)
        self._buckets[index] = out.getvalue()
        self._count += 1
        if self._count > len(self._buckets) * _FULL:
            self._split()

    def remove(self, iid: bytes, run: i64) -> None:
        """The run holds one pair less with this iid, for which `add` was called."""
        hashed = _hashed(iid)
        index = self._bucket(hashed)
        bucket = self._buckets[index]
        at: i64 = 0
        while read_i64_le(bucket, at) != run << 32 | hashed:
            at += _ITEM_BYTES
        self._buckets[index] = bucket[:at] + bucket[at + _ITEM_BYTES :]
        self._count -= 1
        if self._count < len(self._buckets) * _SPARSE and len(self._buckets) > 1:
            self._merge()

    def _split(self) -> None:
        """Adds a bucket, which takes its items from one other."""
        added: i64 = len(self._buckets)
        if added > self._mask:
            self._mask = 2 * self._mask + 1
        index = added & (self._mask >> 1)
        bucket = self._buckets[index]
        stay, leave = BytesWriter(), BytesWriter()
        at: i64 = 0
        while at < len(bucket):
            item = read_i64_le(bucket, at)
            write_i64_le(leave if item & self._mask == added else stay, item)
            at += _ITEM_BYTES
        self._buckets[index] = stay.getvalue()
        self._buckets.append(leave.getvalue())

    def _merge(self) -> None:
        """Removes the last bucket, whose items go to the one that they came from."""
        bucket = self._buckets.pop()
        removed: i64 = len(self._buckets)
        self._buckets[removed & (self._mask >> 1)] += bucket
        if 2 * removed == self._mask + 1:
            self._mask >>= 1


def _hashed(iid: bytes) -> i64:
    hashed: i64 = hash(iid)
    return hashed & _HASH_MASK
