"""The idempotency pairs of a region as one list in the order in which it came to hold them (S9), read anew for every question."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracles.naive_log import Dot

Vector = dict[int, int]


def covers(vector: Vector, dot: Dot) -> bool:
    return dot[1] <= vector.get(dot[0], 0)


@dataclass
class NaiveHeld:
    """One pair. `stream` says in which of the region's streams it is."""

    stream: int
    pid: bytes
    iid: bytes
    dot: Dot
    entry_id: int
    recorded_ms: int
    vector: Vector
    held_ms: int
    is_retired: bool = False

    def rank(self) -> tuple[int, int]:
        """Lower wins (S9.2)."""
        return (self.entry_id, self.dot[0])


def conflict(one: NaiveHeld, other: NaiveHeld, duration_ms: int) -> bool:
    """S9.2: neither had seen the other, and they were recorded at most the duration apart."""
    if one.dot == other.dot or covers(one.vector, other.dot) or covers(other.vector, one.dot):
        return False
    return -duration_ms <= one.recorded_ms - other.recorded_ms <= duration_ms


class NaivePairs:
    """All pairs of one region."""

    def __init__(self, retired_max: int) -> None:
        self.retired_max = retired_max
        self.held: list[NaiveHeld] = []
        self.forgotten_early = 0

    def of_producer(self, stream: int, pid: bytes) -> list[NaiveHeld]:
        return [pair for pair in self.held if (pair.stream, pair.pid) == (stream, pid)]

    def retired(self) -> int:
        return sum(pair.is_retired for pair in self.held)

    def retire(self, stream: int, pid: bytes, maxsize: int) -> None:
        """S9.3: the oldest answering ones above maxsize; above the region's limit the oldest of these are forgotten."""
        answering = [pair for pair in self.of_producer(stream, pid) if not pair.is_retired]
        for pair in answering[: max(len(answering) - maxsize, 0)]:
            pair.is_retired = True
        for pair in self.of_producer(stream, pid):
            if pair.is_retired and self.retired() > self.retired_max:
                self._drop({pair.dot}, stream)
                self.forgotten_early += 1

    def retire_first(self, stream: int, pid: bytes, count: int) -> None:
        for pair in self.of_producer(stream, pid)[:count]:
            pair.is_retired = True

    def clear(self, stream: int, vector: Vector) -> None:
        """S9.4."""
        self._drop({pair.dot for pair in self.held if covers(vector, pair.dot)}, stream)

    def collect(self, stream: int, stable: Vector, now_ms: int, duration_ms: int) -> int:
        """S9.2, S9.3: what is stable and answers no more goes; how many."""
        before = len(self.held)
        gone = {
            pair.dot
            for pair in self.held
            if covers(stable, pair.dot) and (pair.is_retired or now_ms - pair.held_ms > duration_ms)
        }
        self._drop(gone, stream)
        return before - len(self.held)

    def _drop(self, dots: set[Dot], stream: int) -> None:
        self.held = [pair for pair in self.held if pair.stream != stream or pair.dot not in dots]

    def answers(
        self, stream: int, pid: bytes, iid: bytes, now_ms: int, duration_ms: int
    ) -> set[Dot]:
        """The pairs of which one may answer a retry (S9.1); none: it is a new add.

        What answers by itself is the lowest of those that are not retired, for the duration since
        they are held. Where it lost a conflict, a winner answers in its place: the one that it lost
        to, or one that this lost to in turn.
        """
        named = [pair for pair in self.of_producer(stream, pid) if pair.iid == iid]
        answering = [
            pair for pair in named if not pair.is_retired and now_ms - pair.held_ms <= duration_ms
        ]
        if not answering:
            return set()
        own = min(answering, key=NaiveHeld.rank)
        losers = [own]
        for loser in losers:
            losers += [
                pair
                for pair in named
                if pair.rank() < loser.rank()
                and conflict(pair, loser, duration_ms)
                and pair not in losers
            ]
        return {pair.dot for pair in losers[1:]} or {own.dot}
