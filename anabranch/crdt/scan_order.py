"""The keys in the order in which SCAN returns them: by hash.

Adding or removing a key does not change the order of the others. The keys lie in buckets by the
first bits of their hashes, and a bucket is sorted when SCAN comes to it. So no step takes longer
the more keys there are, but for the few in a bucket.

A hash is the cursor of SCAN, too. It has 52 bits, because many clients keep a cursor in a number
that is exact up to 2**53 only, or in 63 bits: node-redis 4 lost keys with cursors of 64 bits, and
phpredis and the exporter of Prometheus went on for ever.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from xxhash import xxh3_64_intdigest

_HASH_BITS: Final = 52
_BITS: Final = 12
_SHIFT: Final = _HASH_BITS - _BITS
_BUCKETS: Final = 1 << _BITS


def _hash(key: bytes) -> int:
    return xxh3_64_intdigest(key) >> (64 - _HASH_BITS)


class ScanOrder:
    """A set of keys. A key may be added only while it is absent."""

    def __init__(self) -> None:
        self._buckets: dict[int, list[bytes]] = {}
        # The bucket that was sorted last, and (hash, key) of its keys; -1: none.
        self._sorted_bucket = -1
        self._sorted: list[tuple[int, bytes]] = []

    def add(self, key: bytes) -> None:
        number = _hash(key) >> _SHIFT
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = [key]
        else:
            bucket.append(key)
        if number == self._sorted_bucket:
            self._sorted_bucket = -1

    def add_those(self, other: ScanOrder, keys: Container[bytes]) -> None:
        """Adds those of `keys` that are in the other set; they are absent here."""
        for number, bucket in other._buckets.items():
            some = [key for key in bucket if key in keys]
            if some:
                self._buckets[number] = self._buckets.get(number, []) + some
        self._sorted_bucket = -1

    def discard(self, key: bytes) -> None:
        """Removes a key that is there."""
        number = _hash(key) >> _SHIFT
        bucket = self._buckets[number]
        if len(bucket) == 1:
            del self._buckets[number]
        else:
            bucket.remove(key)
        if number == self._sorted_bucket:
            self._sorted_bucket = -1

    def from_hash(self, first: int) -> Iterator[tuple[int, bytes]]:
        """(hash, key) of the keys whose hash is at least `first`, ascending.

        The set must not change during the iteration.
        """
        for number in range(first >> _SHIFT, _BUCKETS):
            if number in self._buckets:
                for pair in self._bucket(number):
                    if pair[0] >= first:
                        yield pair

    def _bucket(self, number: int) -> list[tuple[int, bytes]]:
        if number != self._sorted_bucket:
            self._sorted = sorted((_hash(key), key) for key in self._buckets[number])
            self._sorted_bucket = number
        return self._sorted
