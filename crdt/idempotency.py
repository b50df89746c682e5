"""The idempotency pairs of one stream (S9): the add that each (producer ID, idempotent ID) made.

A pair goes through two stages. An **answering** pair answers retries. A producer's oldest pairs
above `maxsize` are **retired** (S9.3): they answer no retries, and still recognise conflicts until
they are stable.

The pairs of a producer stand in one order, oldest first, and the retired ones at its beginning. An
own pair is the newest when it is added. A merged pair is put where its recorded time belongs, not
at the end: when a link heals, the pairs of seconds arrive at once, and as the newest they would
retire the pairs whose retries are still under way.

A region collects pairs by itself, so they are not part of the digest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.vector import Dot, Vector, covers


@mypyc_attr(acyclic=True)
class Pair:
    """One idempotent add. All times are in ms since the epoch.

    `recorded_ms` is the time at which the adder recorded the pair; `vector` covers the effects that
    the adder had applied; `held_ms` is the time since which this region has held the pair.
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
        """Returns the sort key by which the lower pair of a conflict wins (S9.2)."""
        return (self.entry_id, self.dot[0])


def is_conflict(one: Pair, other: Pair, duration_ms: int) -> bool:
    """Whether two adds of one pair are a conflict (S9.2).

    Neither adder had seen the other add, and the two were recorded at most the duration apart.
    """
    return (
        one.dot != other.dot
        and not covers(one.vector, *other.dot)
        and not covers(other.vector, *one.dot)
        and abs(one.recorded_ms - other.recorded_ms) <= duration_ms
    )


NO_LIMIT: Final = 1 << 62


class PairLimits:
    """Limits on the pairs of all streams of a region, and the counts that they bound.

    `maxsize`: answering pairs of one producer in a stream without a configuration (S9.4).
    `retired_max`: retired pairs of the region.
    """

    def __init__(self) -> None:
        self.maxsize = 100
        self.retired_max = 100_000
        # Present number of retired pairs of the region.
        self.retired = 0
        # Number of pairs forgotten above `retired_max`: each may leave a duplicate (S9.3).
        self.forgotten_early = 0


@mypyc_attr(acyclic=True)
class Producer:
    """The pairs of one producer, oldest first."""

    def __init__(self) -> None:
        self.order: deque[Pair] = deque()
        self.by_iid: dict[bytes, list[Pair]] = {}
        # Number of retired pairs: they stand at the beginning of the order.
        self.retired = 0

    def add(self, pair: Pair) -> None:
        """Adds the newest pair."""
        self.order.append(pair)
        self.by_iid.setdefault(pair.iid, []).append(pair)

    def insert(self, pair: Pair) -> None:
        """Adds a pair after the last answering pair that was recorded no later.

        A pair that was recorded before the oldest answering one becomes the oldest.
        """
        order = self.order
        index = len(order)
        if index > self.retired and pair.recorded_ms < order[self.retired].recorded_ms:
            # After a cut most pairs are such ones, and the loop would pass all that answer.
            index = self.retired
        while index > self.retired and order[index - 1].recorded_ms > pair.recorded_ms:
            index -= 1
        order.insert(index, pair)
        self.by_iid.setdefault(pair.iid, []).append(pair)

    def forget_oldest(self) -> None:
        """Drops the oldest pair, which must be retired."""
        pair = self.order.popleft()
        self.retired -= 1
        same = self.by_iid[pair.iid]
        same.remove(pair)
        if not same:
            del self.by_iid[pair.iid]

    def keep(self, kept: list[Pair]) -> None:
        """Drops all pairs but `kept`."""
        self.order = deque(kept)
        self.retired = sum(1 for pair in kept if pair.is_retired)
        self.by_iid = {}
        for pair in kept:
            self.by_iid.setdefault(pair.iid, []).append(pair)


@mypyc_attr(acyclic=True)
class Pairs:
    """All pairs of one stream."""

    def __init__(self, limits: PairLimits) -> None:
        self.producers: dict[bytes, Producer] = {}
        self._limits: Final = limits
        # The stable vector of the last collection.
        self._stable: Vector = {}
        # The earliest time at which the age of a stable pair allows its collection.
        self._next_ms = 0
        self._duration_ms = 0
        # No pair was held since before this time, and whether there may be retired ones.
        self._oldest_ms = NO_LIMIT
        self._may_have_retired = False

    def __bool__(self) -> bool:
        return bool(self.producers)

    def count(self) -> int:
        """Returns the number of pairs, retired ones included."""
        return sum(len(producer.order) for producer in self.producers.values())

    def count_answering(self) -> int:
        """Returns the number of pairs that answer retries."""
        return sum(len(one.order) - one.retired for one in self.producers.values())

    def count_answering_producers(self) -> int:
        """Returns the number of producers that have an answering pair."""
        return sum(1 for one in self.producers.values() if len(one.order) > one.retired)

    def everything(self) -> list[Pair]:
        """Returns all pairs, one producer after the other."""
        return [pair for producer in self.producers.values() for pair in producer.order]

    def of(self, pid: bytes, iid: bytes) -> list[Pair]:
        """Returns all pairs with that producer ID and idempotent ID, in no particular order."""
        producer = self.producers.get(pid)
        return [] if producer is None else producer.by_iid.get(iid, [])

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
        self.producers.setdefault(pair.pid, Producer()).add(pair)
        self._look_at(pair)

    def merge(self, pair: Pair) -> None:
        """Adds the pair of another region's add where its recorded time belongs."""
        self.producers.setdefault(pair.pid, Producer()).insert(pair)
        self._look_at(pair)

    def _look_at(self, pair: Pair) -> None:
        """Notes what a collection must know of a pair.

        If the pair is stable already, the next collection looks at all pairs.
        """
        self._oldest_ms = min(self._oldest_ms, pair.held_ms)
        self._may_have_retired = self._may_have_retired or pair.is_retired
        if covers(self._stable, *pair.dot):
            self._next_ms = 0

    def retire(self, pid: bytes, maxsize: int) -> None:
        """Retires a producer's oldest pairs above `maxsize` (S9.3).

        Above the region's limit of retired pairs, the producer's oldest are forgotten and counted.
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
        """Retires the first `count` pairs of a producer, as a loaded checkpoint says."""
        producer = self.producers.get(pid)
        while producer is not None and producer.retired < min(count, len(producer.order)):
            self._retire_oldest(producer)

    def _retire_oldest(self, producer: Producer) -> None:
        """Retires the oldest answering pair."""
        pair = producer.order[producer.retired]
        pair.is_retired = True
        producer.retired += 1
        self._look_at(pair)
        self._limits.retired += 1

    def clear(self, vector: Vector) -> None:
        """Drops the pairs that a clear with this vector has seen (S9.4)."""
        self._filter(lambda pair: not covers(vector, *pair.dot))

    def collect(self, stable: Vector, now_ms: int, duration_ms: int) -> int:
        """Drops the pairs whose add is stable and that answer no retries (S9.2, S9.3).

        Returns the number of pairs dropped.
        """
        if stable == self._stable and duration_ms == self._duration_ms and now_ms <= self._next_ms:
            # No pair has become collectable since the last call.
            return 0
        if not self._may_have_retired and now_ms - self._oldest_ms <= duration_ms:
            # All pairs still answer retries. With a long duration there can be a million of them.
            return 0
        before = self.count()
        next_ms = now_ms + duration_ms
        oldest_ms = NO_LIMIT
        has_retired = False

        def is_kept(pair: Pair) -> bool:
            nonlocal next_ms, oldest_ms, has_retired
            if covers(stable, *pair.dot):
                if pair.is_retired or now_ms - pair.held_ms > duration_ms:
                    return False
                next_ms = min(next_ms, pair.held_ms + duration_ms)
            oldest_ms = min(oldest_ms, pair.held_ms)
            has_retired = has_retired or pair.is_retired
            return True

        self._filter(is_kept)
        self._oldest_ms, self._may_have_retired = oldest_ms, has_retired
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
