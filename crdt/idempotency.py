"""Idempotency pairs of one stream (S9): who added what under which (producer ID, idempotent ID).

A pair goes through two stages. While it is **answering**, it answers retries. A producer's oldest
pairs above `maxsize` are **retired** (S9.3): they answer nobody, and still recognise conflicts until
they are stable. Of each producer the retired pairs are those that this region has held longest, so
they are the beginning of its order.

A region collects pairs by itself, so they are no part of the digest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Optional

from anabranch.crdt.vector import Dot, Vector, covers


class Pair:
    """One idempotent add.

    `recorded_ms` is the adder's clock, `vector` what the adder had applied, `held_ms` since when
    this region knows of the pair.
    """

    def __init__(
        self,
        pid: bytes,
        iid: bytes,
        dot: Dot,
        entry_id: int,
        recorded_ms: int,
        vector: Vector,
        held_ms: int,
    ) -> None:
        self.pid: Final = pid
        self.iid: Final = iid
        self.dot: Final = dot
        self.entry_id: Final = entry_id
        self.recorded_ms: Final = recorded_ms
        self.vector: Final = vector
        self.held_ms: Final = held_ms
        self.is_retired = False

    def order(self) -> tuple[int, int]:
        """Of a conflict the pair with the lowest of these wins (S9.2)."""
        return (self.entry_id, self.dot[0])


def is_conflict(one: Pair, other: Pair, duration_ms: int) -> bool:
    """Two adds of one pair, neither having seen the other, recorded at most the duration apart (S9.2)."""
    return (
        one.dot != other.dot
        and not covers(one.vector, *other.dot)
        and not covers(other.vector, *one.dot)
        and abs(one.recorded_ms - other.recorded_ms) <= duration_ms
    )


NO_LIMIT: Final = 1 << 62


class PairLimits:
    """Limits on the pairs of all streams of a region, and what they come to.

    `maxsize`: answering pairs of one producer in a stream without a configuration (S9.4).
    `retired_max`: retired pairs of the region.
    """

    def __init__(self) -> None:
        self.maxsize = 100
        self.retired_max = 100_000
        self.retired = 0  # now
        # Pairs forgotten above `retired_max`: each may leave a duplicate (S9.3).
        self.forgotten_early = 0


class Producer:
    """The pairs of one producer, in the order in which this region came to hold them."""

    def __init__(self) -> None:
        self.order: deque[Pair] = deque()
        self.by_iid: dict[bytes, list[Pair]] = {}
        self.retired = 0  # that many at the beginning of the order

    def add(self, pair: Pair) -> None:
        self.order.append(pair)
        self.by_iid.setdefault(pair.iid, []).append(pair)

    def forget_oldest(self) -> None:
        """Drops the oldest pair, a retired one."""
        pair = self.order.popleft()
        self.retired -= 1
        same = self.by_iid[pair.iid]
        same.remove(pair)
        if not same:
            del self.by_iid[pair.iid]

    def keep(self, kept: list[Pair]) -> None:
        """Drops all other pairs."""
        self.order = deque(kept)
        self.retired = sum(1 for pair in kept if pair.is_retired)
        self.by_iid = {}
        for pair in kept:
            self.by_iid.setdefault(pair.iid, []).append(pair)


class Pairs:
    """All pairs of one stream."""

    def __init__(self, limits: PairLimits) -> None:
        self.producers: dict[bytes, Producer] = {}
        self._limits: Final = limits
        # What the last collection knew to be stable, and when the next pair may go by its age.
        self._stable: Vector = {}
        self._next_ms = 0
        self._duration_ms = 0

    def __bool__(self) -> bool:
        return bool(self.producers)

    def count(self) -> int:
        """How many there are, the retired included."""
        return sum(len(producer.order) for producer in self.producers.values())

    def count_answering(self) -> int:
        """How many still answer retries."""
        return sum(len(one.order) - one.retired for one in self.producers.values())

    def count_answering_producers(self) -> int:
        """How many producers have a pair that still answers."""
        return sum(1 for one in self.producers.values() if len(one.order) > one.retired)

    def everything(self) -> list[Pair]:
        """All pairs, a producer after the other."""
        return [pair for producer in self.producers.values() for pair in producer.order]

    def of(self, pid: bytes, iid: bytes) -> list[Pair]:
        """All pairs of that name."""
        producer = self.producers.get(pid)
        return [] if producer is None else producer.by_iid.get(iid, [])

    def answer(self, pid: bytes, iid: bytes, now_ms: int, duration_ms: int) -> Optional[Pair]:
        """The pair that answers a retry (S9.1), or None when it is a new add.

        Of a conflict's two it is the winner while both are here, even when only the loser is held
        for less than the duration, or when the winner is retired.
        """
        pairs = self.of(pid, iid)
        found: Optional[Pair] = None
        for pair in pairs:
            if pair.is_retired or now_ms - pair.held_ms > duration_ms:
                continue
            if found is None or pair.order() < found.order():
                found = pair
        if found is not None:
            for pair in pairs:
                if pair.order() < found.order() and is_conflict(pair, found, duration_ms):
                    found = pair
        return found

    def add(self, pair: Pair) -> None:
        """Holds a pair from now on."""
        self.producers.setdefault(pair.pid, Producer()).add(pair)
        if covers(self._stable, *pair.dot):
            self._next_ms = 0

    def retire(self, pid: bytes, maxsize: int) -> None:
        """Retires a producer's oldest pairs above `maxsize` (S9.3).

        Above the region's limit of retired pairs, this producer's oldest are forgotten, and counted.
        """
        producer = self.producers.get(pid)
        if producer is None:
            return
        limits = self._limits
        while len(producer.order) - producer.retired > maxsize:
            self._retire_oldest(producer)
        while producer.retired and limits.retired > limits.retired_max:
            producer.forget_oldest()
            limits.retired -= 1
            limits.forgotten_early += 1
        if not producer.order:
            del self.producers[pid]

    def retire_first(self, pid: bytes, count: int) -> None:
        """Retires the first `count` pairs of a producer: what a checkpoint says of it."""
        producer = self.producers.get(pid)
        while producer is not None and producer.retired < min(count, len(producer.order)):
            self._retire_oldest(producer)

    def _retire_oldest(self, producer: Producer) -> None:
        """Retires the oldest answering pair."""
        pair = producer.order[producer.retired]
        pair.is_retired = True
        producer.retired += 1
        if covers(self._stable, *pair.dot):
            self._next_ms = 0
        self._limits.retired += 1

    def clear(self, vector: Vector) -> None:
        """Drops the pairs that a clear with this vector has seen (S9.4)."""
        self._filter(lambda pair: not covers(vector, *pair.dot))

    def collect(self, stable: Vector, now_ms: int, duration_ms: int) -> int:
        """Drops the pairs whose add is stable, once they answer no more (S9.2, S9.3); how many."""
        if stable == self._stable and duration_ms == self._duration_ms and now_ms <= self._next_ms:
            return 0  # nothing can go since the last look
        before = self.count()
        next_ms = now_ms + duration_ms

        def is_kept(pair: Pair) -> bool:
            nonlocal next_ms
            if not covers(stable, *pair.dot):
                return True
            if pair.is_retired or now_ms - pair.held_ms > duration_ms:
                return False
            next_ms = min(next_ms, pair.held_ms + duration_ms)
            return True

        self._filter(is_kept)
        self._stable, self._next_ms, self._duration_ms = dict(stable), next_ms, duration_ms
        return before - self.count()

    def _filter(self, is_kept: Callable[[Pair], bool]) -> None:
        for pid in list(self.producers):
            producer = self.producers[pid]
            kept = [pair for pair in producer.order if is_kept(pair)]
            if len(kept) == len(producer.order):
                continue
            before = producer.retired
            producer.keep(kept)
            self._limits.retired += producer.retired - before
            if not kept:
                del self.producers[pid]
