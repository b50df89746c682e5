"""Idempotency pairs of one stream (S9): who added what under which (producer ID, idempotent ID), and since when this region knows.

A region collects pairs by itself, so they are no part of the digest.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.vector import Dot, Vector, covers


class Pair:
    """One idempotent add: `recorded_ms` is the adder's clock, `vector` what it had applied, `held_ms` since when this region knows."""

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
        self.pid = pid
        self.iid = iid
        self.dot = dot
        self.entry_id = entry_id
        self.recorded_ms = recorded_ms
        self.vector = vector
        self.held_ms = held_ms

    def order(self) -> tuple[int, int]:
        """Of a conflict the lowest of these wins (S9.2)."""
        return (self.entry_id, self.dot[0])


def is_conflict(one: Pair, other: Pair, duration_ms: int) -> bool:
    """Two adds of one pair, neither having seen the other, recorded at most the duration apart (S9.2)."""
    return (
        one.dot != other.dot
        and not covers(one.vector, *other.dot)
        and not covers(other.vector, *one.dot)
        and abs(one.recorded_ms - other.recorded_ms) <= duration_ms
    )


class Producer:
    """The pairs of one producer, in the order in which this region came to hold them."""

    def __init__(self) -> None:
        self.order: list[Pair] = []
        self.by_iid: dict[bytes, list[Pair]] = {}

    def add(self, pair: Pair) -> None:
        self.order.append(pair)
        self.by_iid.setdefault(pair.iid, []).append(pair)

    def keep(self, kept: list[Pair]) -> None:
        self.order = kept
        self.by_iid = {}
        for pair in kept:
            self.by_iid.setdefault(pair.iid, []).append(pair)

    def pop_oldest(self) -> Pair:
        pair = self.order.pop(0)
        same = self.by_iid[pair.iid]
        same.remove(pair)
        if not same:
            del self.by_iid[pair.iid]
        return pair


class Pairs:
    """All pairs of one stream."""

    def __init__(self) -> None:
        self.producers: dict[bytes, Producer] = {}

    def __bool__(self) -> bool:
        return bool(self.producers)

    def count(self) -> int:
        return sum(len(producer.order) for producer in self.producers.values())

    def everything(self) -> list[Pair]:
        return [pair for producer in self.producers.values() for pair in producer.order]

    def of(self, pid: bytes, iid: bytes) -> list[Pair]:
        producer = self.producers.get(pid)
        return [] if producer is None else producer.by_iid.get(iid, [])

    def has_dot(self, pid: bytes, iid: bytes, dot: Dot) -> bool:
        return any(pair.dot == dot for pair in self.of(pid, iid))

    def answer(self, pid: bytes, iid: bytes, now_ms: int, duration_ms: int) -> Optional[Pair]:
        """The pair that answers a retry (S9.1), or None when it is a new add.

        Of a conflict's two it is the winner while both are here, even when only the loser is held for less than the duration.
        """
        pairs = self.of(pid, iid)
        found: Optional[Pair] = None
        for pair in pairs:
            if now_ms - pair.held_ms <= duration_ms and (
                found is None or pair.order() < found.order()
            ):
                found = pair
        if found is not None:
            for pair in pairs:
                if pair.order() < found.order() and is_conflict(pair, found, duration_ms):
                    found = pair
        return found

    def add(self, pair: Pair) -> None:
        self.producers.setdefault(pair.pid, Producer()).add(pair)

    def evict(self, pid: bytes, maxsize: int) -> list[Pair]:
        """Drops the oldest pairs of a producer above `maxsize` (S9.3)."""
        producer = self.producers.get(pid)
        evicted: list[Pair] = []
        while producer is not None and len(producer.order) > maxsize:
            evicted.append(producer.pop_oldest())
        return evicted

    def clear(self, vector: Vector) -> None:
        """Drops the pairs that a clear with this vector has seen (S9.4)."""
        self._filter(lambda pair: not covers(vector, *pair.dot))

    def collect(self, stable: Vector, now_ms: int, duration_ms: int) -> int:
        """Drops the pairs whose duration is over and whose add is stable (S9.2); how many."""
        before = self.count()
        self._filter(
            lambda pair: now_ms - pair.held_ms <= duration_ms or not covers(stable, *pair.dot)
        )
        return before - self.count()

    def _filter(self, keeps: object) -> None:
        assert callable(keeps)
        for pid in list(self.producers):
            producer = self.producers[pid]
            kept = [pair for pair in producer.order if keeps(pair)]
            if not kept:
                del self.producers[pid]
            elif len(kept) < len(producer.order):
                producer.keep(kept)
