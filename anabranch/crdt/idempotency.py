"""The idempotency pairs of one stream (S9): the add that each (producer ID, idempotent ID) made.

A pair goes through two stages. An **answering** pair answers retries. A producer's oldest pairs
above `maxsize` are **retired** (S9.3): they answer no retries, and still recognise conflicts until
they are stable.

The pairs of a producer stand in one order, oldest first, and the retired ones at its beginning. An
own pair is the newest when it is added. A merged pair is put where its recorded time belongs, not
at the end: when a link heals, the pairs of seconds arrive at once, and as the newest they would
retire the pairs whose retries are still under way. A recorded time that is ahead of this region's
clock counts as the moment of arrival.

A region collects pairs by itself, so they are not part of the digest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.adds import IdempotentAdds
from anabranch.crdt.pair import Pair, is_conflict, others_in
from anabranch.crdt.pair_run import NO_TIME
from anabranch.crdt.producer import Producer
from anabranch.crdt.vector import Dot, Vector

NO_LIMIT: Final = 1 << 62
# Pairs that one call of `Pairs.collect` looks at, so that clients do not wait for a million.
LOOK_MAX: Final = 2048


class PairLimits:
    """Limits on the pairs of all streams of a region, and the counts that they bound.

    `maxsize`: answering pairs of one producer in a stream without a configuration (S9.4).
    `retired_max`: retired pairs of the region. `look_max`: pairs that a collection looks at in one
    call, but for those of its last producer. `stable`: what is known to be stable, empty while that
    is not certain; retired pairs that it covers are dropped with the next add of their producer.
    """

    def __init__(self) -> None:
        self.maxsize = 100
        self.retired_max = 100_000
        self.look_max = LOOK_MAX
        self.stable: Vector = {}
        # Present number of retired pairs of the region.
        self.retired = 0
        # Number of pairs forgotten above `retired_max`: each may leave a duplicate (S9.3).
        self.forgotten_early = 0


@mypyc_attr(acyclic=True)
class Pairs:
    """All pairs of one stream."""

    def __init__(self, limits: PairLimits) -> None:
        self.producers: dict[bytes, Producer] = {}
        self._limits: Final = limits
        # The producers at which the present collection has yet to look.
        self._to_look_at: list[bytes] = []
        # The stable vector of the last collection.
        self._stable: Vector = {}
        # The earliest time at which the age of a stable pair allows its collection.
        self._next_ms = 0
        self._duration_ms = 0
        # No answering pair was held since before this time, and whether there may be retired ones.
        self._oldest_ms = NO_TIME
        self._may_have_retired = False
        # What the newest pair of each region has seen of all others.
        self._seen: dict[int, Vector] = {}

    def __bool__(self) -> bool:
        return bool(self.producers)

    def count(self) -> int:
        """Returns the number of pairs, retired ones included."""
        return sum(producer.count for producer in self.producers.values())

    def count_answering(self) -> int:
        """Returns the number of pairs that answer retries."""
        return sum(one.answering for one in self.producers.values())

    def count_answering_producers(self) -> int:
        """Returns the number of producers that have an answering pair."""
        return sum(1 for one in self.producers.values() if one.answering)

    def everything(self) -> list[Pair]:
        """Returns all pairs, one producer after the other."""
        return [pair for producer in self.producers.values() for pair in producer.everything()]

    def of(self, pid: bytes, iid: bytes) -> list[Pair]:
        """Returns all pairs with that producer ID and idempotent ID, in no particular order."""
        producer = self.producers.get(pid)
        return [] if producer is None else producer.of(iid)

    def answer(self, pid: bytes, iid: bytes, now_ms: int, duration_ms: int) -> Optional[Pair]:
        """Returns the pair that answers a retry (S9.1), or None when the command is a new add.

        While both pairs of a conflict are here, the winner answers, even when only the loser is
        held for less than the duration or when the winner is retired. If the winner has lost
        another conflict, the winner of that one answers, because only its entry stays.
        """
        pairs = self.of(pid, iid)
        found: Optional[Pair] = None
        for pair in pairs:
            if pair.is_retired or now_ms - pair.held_ms > duration_ms:
                continue
            if found is None or pair.order() < found.order():
                found = pair
        has_lost = found is not None
        while found is not None and has_lost:
            has_lost = False
            for pair in pairs:
                if pair.order() < found.order() and is_conflict(pair, found, duration_ms):
                    found, has_lost = pair, True
        return found

    def add(self, pair: Pair) -> None:
        """Adds a pair as the newest of its producer: an own add, or the next of a checkpoint."""
        self._look_at(pair)
        self._producer(pair.pid).add(pair)

    def add_own(
        self, adds: IdempotentAdds, region_id: int, counter: int, now_ms: int, vector: Vector
    ) -> None:
        """Adds the pairs of adds that this region has just made, as the newest of their producer.

        `counter` is that of the first; `vector` covers all that was applied before it.
        """
        seen = self._seen[region_id] = others_in(vector, region_id, self._seen.get(region_id))
        self._producer(adds.pid).add_own(adds, region_id, counter, now_ms, seen)
        self._oldest_ms = min(self._oldest_ms, now_ms)

    def merge(self, pair: Pair) -> None:
        """Adds the pair of another region's add where its recorded time belongs."""
        self._look_at(pair)
        self._producer(pair.pid).insert(pair)

    def _producer(self, pid: bytes) -> Producer:
        producer = self.producers.get(pid)
        if producer is None:
            producer = self.producers[pid] = Producer(pid)
        return producer

    def _look_at(self, pair: Pair) -> None:
        """Notes what a collection must know of a new pair, and lets it share what it has seen.

        If the pair is stable already, the next collection looks at all pairs.
        """
        self._seen[pair.region_id] = pair.share(self._seen.get(pair.region_id))
        if pair.held_ms < self._oldest_ms:
            self._oldest_ms = pair.held_ms
        if pair.is_stable(self._stable):
            self._next_ms = 0

    def retire(self, pid: bytes, maxsize: int) -> None:
        """Retires a producer's oldest pairs above `maxsize` (S9.3).

        Its oldest retired pairs are dropped if they are stable: a producer can retire more between
        two collections than the region may hold. Above the region's limit of retired pairs, the
        oldest are forgotten and counted.
        """
        producer = self.producers.get(pid)
        if producer is None:
            return
        limits = self._limits
        while producer.answering > maxsize:
            self._retire_oldest(producer)
        while producer.retired and producer.is_oldest_covered(limits.stable):
            producer.forget_oldest()
            limits.retired -= 1
        while producer.retired and limits.retired > limits.retired_max:
            producer.forget_oldest()
            limits.retired -= 1
            limits.forgotten_early += 1
        if not producer.count:
            del self.producers[pid]

    def retire_first(self, pid: bytes, count: int) -> None:
        """Retires the first `count` pairs of a producer, as a loaded checkpoint says."""
        producer = self.producers.get(pid)
        while producer is not None and producer.retired < count and producer.answering:
            self._retire_oldest(producer)

    def _retire_oldest(self, producer: Producer) -> None:
        """Retires the oldest answering pair. If it is stable, the next collection takes it."""
        self._may_have_retired = True
        if self._stable and producer.is_next_covered(self._stable):
            self._next_ms = 0
        producer.retire_oldest()
        self._limits.retired += 1

    def clear(self, vector: Vector) -> None:
        """Drops the pairs that a clear with this vector has seen (S9.4)."""
        self._drop_covered(vector, ())

    def keep_only(self, known: Pairs, vector: Vector) -> None:
        """Drops the pairs that the vector covers and that are not in `known`."""
        self._drop_covered(vector, {pair.dot for pair in known.everything()})

    def _drop_covered(self, vector: Vector, kept: Collection[Dot]) -> None:
        """Drops the pairs that the vector covers, but for those with a dot in `kept`."""
        for pid in list(self.producers):
            producer = self.producers[pid]
            before = producer.retired
            producer.drop_covered(vector, only_retired=False, kept=kept)
            self._collected(pid, producer, before)

    @property
    def is_collecting(self) -> bool:
        """Whether the next call of `collect` goes on where the last one ended."""
        return bool(self._to_look_at)

    def collect(self, stable: Vector, now_ms: int, duration_ms: int) -> int:
        """Drops the pairs whose add is stable and that answer no retries (S9.2, S9.3).

        Returns the number of pairs dropped. Of a producer it looks at the retired pairs, and at
        those that answer only if one of them may be too old. A collection of many pairs takes
        several calls (`is_collecting`).
        """
        if not self._to_look_at and not self._begin_collection(stable, now_ms, duration_ms):
            return 0
        dropped = looked = 0
        while self._to_look_at and looked < self._limits.look_max:
            pid = self._to_look_at.pop()
            producer = self.producers.get(pid)
            if producer is None:
                continue
            before, retired = producer.count, producer.retired
            looked += 1 + retired
            producer.drop_covered(stable, only_retired=True)
            next_ms = producer.oldest_ms + duration_ms
            if now_ms > next_ms:
                count, next_ms = producer.drop_old(stable, now_ms, duration_ms)
                looked += count
            self._next_ms = min(self._next_ms, next_ms)
            self._oldest_ms = min(self._oldest_ms, producer.oldest_ms)
            self._may_have_retired = self._may_have_retired or producer.retired > 0
            dropped += before - producer.count
            self._collected(pid, producer, retired)
        return dropped

    def _begin_collection(self, stable: Vector, now_ms: int, duration_ms: int) -> bool:
        """Begins a collection; returns False if no pair can be dropped."""
        if stable == self._stable and duration_ms == self._duration_ms and now_ms <= self._next_ms:
            # No pair has become collectable since the last collection.
            return False
        if not self._may_have_retired and now_ms - self._oldest_ms <= duration_ms:
            # All pairs still answer retries. With a long duration there can be a million of them.
            return False
        # What comes during the collection lowers these again.
        self._oldest_ms, self._may_have_retired = NO_TIME, False
        self._stable, self._next_ms = dict(stable), now_ms + duration_ms
        self._duration_ms = duration_ms
        self._to_look_at = list(self.producers)
        return True

    def _collected(self, pid: bytes, producer: Producer, retired_before: int) -> None:
        """Notes what has become of a producer whose pairs were dropped."""
        self._limits.retired += producer.retired - retired_before
        if not producer.count:
            del self.producers[pid]
