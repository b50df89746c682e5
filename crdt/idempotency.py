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
from typing import Final, Optional, Union

from mypy_extensions import mypyc_attr

from anabranch.crdt.ids import MAX_HALF, make
from anabranch.crdt.vector import Dot, Vector, covers


@mypyc_attr(acyclic=True)
class Pair:
    """One idempotent add. All times are in ms since the epoch.

    `recorded_ms` is the time at which the adder recorded the pair; `vector` covers the effects that
    the adder had applied; `held_ms` is the time since which this region has held the pair.

    A region can hold a million pairs, so a pair holds plain numbers, and shares what it can: the
    pairs of one region that were added between two merges have seen the same of all others.
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
        self.region_id: Final = dot[0]
        self.counter: Final = dot[1]
        self._ms: Final = entry_id >> 64
        self._seq: Final = entry_id & MAX_HALF
        self.recorded_ms: Final = recorded_ms
        self.held_ms: Final = held_ms
        self.is_retired = False
        # What the adder had seen of its own region and of all others.
        self._seen_own: Final = vector.get(dot[0], 0)
        self._seen = vector

    @property
    def dot(self) -> Dot:
        return (self.region_id, self.counter)

    @property
    def entry_id(self) -> int:
        return make(self._ms, self._seq)

    @property
    def vector(self) -> Vector:
        """A copy of the vector."""
        vector = dict(self._seen)
        vector[self.region_id] = self._seen_own
        if not self._seen_own:
            del vector[self.region_id]
        return vector

    def share(self, seen: Optional[Vector]) -> Vector:
        """Takes over what another pair of the region has seen of all others, if it is the same.

        Returns what this pair has seen of them.
        """
        if seen is None or not self._has_seen_all(seen):
            seen = self._seen.copy()
            seen.pop(self.region_id, None)
        self._seen = seen
        return seen

    def _has_seen_all(self, seen: Vector) -> bool:
        own = 1 if self.region_id in self._seen else 0
        if len(self._seen) - own != len(seen):
            return False
        return all(self._seen.get(region_id, -1) == seen[region_id] for region_id in seen)

    def has_seen(self, other: Pair) -> bool:
        """Whether its adder had applied the other add."""
        if other.region_id == self.region_id:
            return other.counter <= self._seen_own
        return covers(self._seen, other.region_id, other.counter)

    def is_stable(self, stable: Vector) -> bool:
        """Whether the stable vector covers its add."""
        return covers(stable, self.region_id, self.counter)

    def order(self) -> tuple[int, int, int]:
        """Returns the sort key by which the lower pair of a conflict wins (S9.2)."""
        return (self._ms, self._seq, self.region_id)


def is_conflict(one: Pair, other: Pair, duration_ms: int) -> bool:
    """Whether two adds of one pair are a conflict (S9.2).

    Neither adder had seen the other add, and the two were recorded at most the duration apart.
    """
    return (
        (one.region_id != other.region_id or one.counter != other.counter)
        and not one.has_seen(other)
        and not other.has_seen(one)
        and abs(one.recorded_ms - other.recorded_ms) <= duration_ms
    )


NO_LIMIT: Final = 1 << 62
# Pairs that one call of `Pairs.collect` looks at, so that clients do not wait for a million.
LOOK_MAX: Final = 16_384


class PairLimits:
    """Limits on the pairs of all streams of a region, and the counts that they bound.

    `maxsize`: answering pairs of one producer in a stream without a configuration (S9.4).
    `retired_max`: retired pairs of the region. `look_max`: pairs that a collection looks at in one
    call, but for those of its last producer.
    """

    def __init__(self) -> None:
        self.maxsize = 100
        self.retired_max = 100_000
        self.look_max = LOOK_MAX
        # Present number of retired pairs of the region.
        self.retired = 0
        # Number of pairs forgotten above `retired_max`: each may leave a duplicate (S9.3).
        self.forgotten_early = 0


@mypyc_attr(acyclic=True)
class Producer:
    """The pairs of one producer, oldest first."""

    def __init__(self) -> None:
        self.order: deque[Pair] = deque()
        # The pair of each idempotent ID, or all of them where there are several.
        self._by_iid: dict[bytes, Union[Pair, list[Pair]]] = {}
        # Number of retired pairs: they stand at the beginning of the order.
        self.retired = 0
        # No answering pair was held since before this time.
        self.oldest_ms = NO_LIMIT

    def of(self, iid: bytes) -> list[Pair]:
        """Returns the pairs with that idempotent ID, in no particular order."""
        found = self._by_iid.get(iid)
        if found is None:
            return []
        return found if isinstance(found, list) else [found]

    def add(self, pair: Pair) -> None:
        """Adds the newest pair."""
        self.order.append(pair)
        self._name(pair)

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
        self._name(pair)

    def _name(self, pair: Pair) -> None:
        """Makes a pair known by its idempotent ID."""
        self.oldest_ms = min(self.oldest_ms, pair.held_ms)
        found = self._by_iid.get(pair.iid)
        if found is None:
            self._by_iid[pair.iid] = pair
        elif isinstance(found, list):
            found.append(pair)
        else:
            self._by_iid[pair.iid] = [found, pair]

    def _forget(self, pair: Pair) -> None:
        """Drops the name of a pair that has left the order."""
        found = self._by_iid[pair.iid]
        if isinstance(found, list):
            found.remove(pair)
            if len(found) == 1:
                self._by_iid[pair.iid] = found[0]
        else:
            del self._by_iid[pair.iid]

    def retire_oldest(self) -> Pair:
        """Retires the oldest answering pair."""
        pair = self.order[self.retired]
        pair.is_retired = True
        self.retired += 1
        return pair

    def forget_oldest(self) -> None:
        """Drops the oldest pair, which must be retired."""
        self._forget(self.order.popleft())
        self.retired -= 1

    def collect_retired(self, stable: Vector) -> None:
        """Drops the retired pairs whose add is stable."""
        kept: list[Pair] = []
        for _ in range(self.retired):
            pair = self.order.popleft()
            if pair.is_stable(stable):
                self._forget(pair)
            else:
                kept.append(pair)
        self.retired = len(kept)
        kept.reverse()
        self.order.extendleft(kept)

    def keep(self, is_kept: Callable[[Pair], bool]) -> None:
        """Drops all pairs but those that are kept."""
        before = self.order
        self.order = deque()
        self.retired = 0
        self.oldest_ms = NO_LIMIT
        for pair in before:
            if not is_kept(pair):
                self._forget(pair)
                continue
            self.order.append(pair)
            if pair.is_retired:
                self.retired += 1
            else:
                self.oldest_ms = min(self.oldest_ms, pair.held_ms)


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
        self._oldest_ms = NO_LIMIT
        self._may_have_retired = False
        # What the newest pair of each region has seen of all others.
        self._seen: dict[int, Vector] = {}

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
        self._producer(pair.pid).add(pair)
        self._look_at(pair)

    def merge(self, pair: Pair) -> None:
        """Adds the pair of another region's add where its recorded time belongs."""
        self._producer(pair.pid).insert(pair)
        self._look_at(pair)

    def _producer(self, pid: bytes) -> Producer:
        producer = self.producers.get(pid)
        if producer is None:
            producer = self.producers[pid] = Producer()
        return producer

    def _look_at(self, pair: Pair) -> None:
        """Notes what a collection must know of a new pair, and lets it share what it has seen.

        If the pair is stable already, the next collection looks at all pairs.
        """
        self._seen[pair.region_id] = pair.share(self._seen.get(pair.region_id))
        self._oldest_ms = min(self._oldest_ms, pair.held_ms)
        if pair.is_stable(self._stable):
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
        """Retires the oldest answering pair. If it is stable, the next collection takes it."""
        self._may_have_retired = True
        if producer.retire_oldest().is_stable(self._stable):
            self._next_ms = 0
        self._limits.retired += 1

    def clear(self, vector: Vector) -> None:
        """Drops the pairs that a clear with this vector has seen (S9.4)."""
        for pid in list(self.producers):
            producer = self.producers[pid]
            before = producer.retired
            producer.keep(lambda pair: not pair.is_stable(vector))
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

        def is_kept(pair: Pair) -> bool:
            if not pair.is_stable(stable):
                return True
            if now_ms - pair.held_ms > duration_ms:
                return False
            self._next_ms = min(self._next_ms, pair.held_ms + duration_ms)
            return True

        while self._to_look_at and looked < self._limits.look_max:
            pid = self._to_look_at.pop()
            producer = self.producers.get(pid)
            if producer is None:
                continue
            before, retired = len(producer.order), producer.retired
            looked += 1 + retired
            producer.collect_retired(stable)
            if now_ms - producer.oldest_ms > duration_ms:
                looked += len(producer.order)
                producer.keep(is_kept)
            else:
                self._next_ms = min(self._next_ms, producer.oldest_ms + duration_ms)
            self._oldest_ms = min(self._oldest_ms, producer.oldest_ms)
            self._may_have_retired = self._may_have_retired or producer.retired > 0
            dropped += before - len(producer.order)
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
        self._oldest_ms, self._may_have_retired = NO_LIMIT, False
        self._stable, self._next_ms = dict(stable), now_ms + duration_ms
        self._duration_ms = duration_ms
        self._to_look_at = list(self.producers)
        return True

    def _collected(self, pid: bytes, producer: Producer, retired_before: int) -> None:
        """Notes what has become of a producer whose pairs were dropped."""
        self._limits.retired += producer.retired - retired_before
        if not producer.order:
            del self.producers[pid]
