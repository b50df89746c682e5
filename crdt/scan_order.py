"""The keys in the order in which SCAN returns them: by hash.

Adding or removing a key does not change the order of the others. The keys lie in buckets by the
first bits of their hashes, and a bucket is sorted when SCAN comes to it. So no step takes longer
the more keys there are, but for the few in a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xxhash import xxh3_64_intdigest

_BITS: Final = 12
_SHIFT: Final = 64 - _BITS
_BUCKETS: Final = 1 << _BITS


class ScanOrder:
    """A set of keys. A key may be added only while it is absent."""

    def __init__(self) -> None:
        self._buckets: dict[int, list[bytes]] = {}
        # The bucket that was sorted last, and (hash, key) of its keys; -1: none.
        self._sorted_bucket = -1
        self._sorted: list[tuple[int, bytes]] = []

    def add(self, key: bytes) -> None:
        number = xxh3_64_intdigest(key) >> _SHIFT
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = [key]
        else:
            bucket.append(key)
        if number == self._sorted_bucket:
            self._sorted_bucket = -1

    def discard(self, key: bytes) -> None:
        """Removes a key that is there."""
        number = xxh3_64_intdigest(key) >> _SHIFT
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
            self._sorted = sorted((xxh3_64_intdigest(key), key) for key in self._buckets[number])
            self._sorted_bucket = number
        return self._sorted
