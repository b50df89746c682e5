"""Rows, and their idempotency pairs, by which a region recognises a row that it has (S9.1).

A task may run several times, and each time it meets the same rows. Their order can differ, because
Spark fetches the blocks of a shuffle in any order. So a row is not known by its number but by its
content: the hash of its fields, and how many rows of the same content came before it in the task.
With `idColumn` it is known by the value of that column.

The rows of a task are spread over several producer IDs, by the hash. A stream recognises only the
newest `maxsize` rows of a producer ID (S9.3), and each producer ID costs memory in the region.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from anabranch.pipeline.errors import PipelineError

# `maxsize` that the sink asks of a stream: the highest that there is.
MAXSIZE: Final = 10_000
# Producer IDs of one partition of a batch, and of an idColumn.
CONTENT_BUCKETS: Final = 256
ID_BUCKETS: Final = 4096
_HASH_BYTES: Final = 16
SUM_MASK: Final = (1 << 64) - 1


class RowToAdd:
    """One row. `words` are its fields as words of a command, `number` counts from 1 in its task.

    `identity` is the value of the option `idColumn`, empty without it.
    """

    def __init__(
        self, number: int, stream: bytes, field_count: int, words: bytes, identity: bytes
    ) -> None:
        self.number: Final = number
        self.stream: Final = stream
        self.field_count: Final = field_count
        self.words: Final = words
        self.identity: Final = identity


class Pairs:
    """The pairs of the rows of one task.

    `prefix` begins each producer ID. For rows with a column that identifies them it names the
    writer, for others also the batch and the partition. `by_id`: whether there is such a column.
    """

    def __init__(self, prefix: str, by_id: bool) -> None:
        self._prefix: Final = prefix.encode()
        self._by_id: Final = by_id
        buckets = ID_BUCKETS if by_id else CONTENT_BUCKETS
        self._buckets: Final = buckets
        # Rows of each producer ID in this task.
        self._counts: Final = [0] * buckets
        # Hash → how many rows had it before; a row that came once stands only in `_seen`.
        self._seen: Final[set[int]] = set()
        self._repeated: Final[dict[int, int]] = {}
        # Sum of the hashes modulo 2⁶⁴: the same for the same rows in any order.
        self.sum = 0

    def pair(self, row: RowToAdd) -> tuple[bytes, bytes]:
        """The producer ID and the idempotent ID of the next row.

        Raises PipelineError if a producer ID has more rows than the region recognises.
        """
        hasher = blake2b(row.identity or row.words, digest_size=_HASH_BYTES)
        if not self._by_id:
            # The length of the stream's name divides it from the fields.
            hasher.update(b"%b%d" % (row.stream, len(row.stream)))
        digest = hasher.digest()
        self.sum = (self.sum + int.from_bytes(digest[:8], "big")) & SUM_MASK
        key = int.from_bytes(digest, "big")
        before = 0 if self._by_id else self._before(key)
        # Rows of one content are spread, too.
        bucket = (key + before) % self._buckets
        self._counts[bucket] += 1
        if self._counts[bucket] > MAXSIZE:
            raise PipelineError(self._too_many(row))
        pid = b"%b/%d" % (self._prefix, bucket)
        if self._by_id:
            return pid, row.identity
        return pid, b"%b%d" % (digest, before) if before else digest

    def _before(self, key: int) -> int:
        """How many rows of this content came before."""
        if key not in self._seen:
            self._seen.add(key)
            return 0
        self._repeated[key] = self._repeated.get(key, 0) + 1
        return self._repeated[key]

    def _too_many(self, row: RowToAdd) -> str:
        if self._by_id:
            return (
                f"more than {MAXSIZE} rows of one task have ids that fall into one group, at row "
                f"{row.number}: is idColumn the same for many rows? If not, use more partitions"
            )
        return (
            f"the task has too many rows for a region to recognise them again, at row "
            f"{row.number}: use more partitions, or idColumn"
        )
