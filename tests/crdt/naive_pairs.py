"""The idempotency pairs of a region (S9), as one list that every operation searches from the start.

The list is in the order in which the region came to hold the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.crdt.naive_log import Dot

Vector = dict[int, int]


def covers(vector: Vector, dot: Dot) -> bool:
    """Whether the vector covers the dot."""
    return dot[1] <= vector.get(dot[0], 0)


@dataclass
class NaiveHeld:
    """One pair. `stream` is the number of the stream that holds it."""

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
        """The pair with the lower rank wins a conflict (S9.2)."""
        return (self.entry_id, self.dot[0])


def conflict(one: NaiveHeld, other: NaiveHeld, duration_ms: int) -> bool:
    """Whether two pairs of one (pid, iid) conflict (S9.2).

    They do if neither adder had seen the other pair, and the pairs were recorded at most the
    duration apart.
    """
    if one.dot == other.dot or covers(one.vector, other.dot) or covers(other.vector, one.dot):
        return False
    return -duration_ms <= one.recorded_ms - other.recorded_ms <= duration_ms


class NaivePairs:
    """All pairs of one region. `retired_max` limits the retired pairs of all its streams."""

    def __init__(self, retired_max: int) -> None:
        self.retired_max = retired_max
        self.held: list[NaiveHeld] = []
        self.forgotten_early = 0
        self.stable: Vector = {}

    def of_producer(self, stream: int, pid: bytes) -> list[NaiveHeld]:
        """The pairs of one producer in one stream, in order."""
        return [pair for pair in self.held if (pair.stream, pair.pid) == (stream, pid)]

    def merge(self, merged: NaiveHeld) -> None:
        """Adds a merged pair where its recorded time belongs among the answering ones (S9.3).

        It is the oldest if the oldest answering pair was recorded later. Otherwise it stands after
        the last one that was recorded no later.
        """
        answering = [
            pair for pair in self.of_producer(merged.stream, merged.pid) if not pair.is_retired
        ]
        no_later = [pair for pair in answering if pair.recorded_ms <= merged.recorded_ms]
        if answering and answering[0] not in no_later:
            self.held.insert(self.held.index(answering[0]), merged)
        elif no_later:
            self.held.insert(self.held.index(no_later[-1]) + 1, merged)
        else:
            self.held.append(merged)

    def retired(self) -> int:
        """The number of retired pairs in all streams."""
        return sum(pair.is_retired for pair in self.held)

    def retire(self, stream: int, pid: bytes, maxsize: int) -> None:
        """Retires the producer's oldest answering pairs above `maxsize` (S9.3).

        The oldest retired ones are dropped up to the first that is not stable. Above the region's
        limit, the producer's oldest retired pairs are forgotten.
        """
        answering = [pair for pair in self.of_producer(stream, pid) if not pair.is_retired]
        for pair in answering[: max(len(answering) - maxsize, 0)]:
            pair.is_retired = True
        for pair in self.of_producer(stream, pid):
            if not (pair.is_retired and covers(self.stable, pair.dot)):
                break
            self._drop({pair.dot}, stream)
        for pair in self.of_producer(stream, pid):
            if pair.is_retired and self.retired() > self.retired_max:
                self._drop({pair.dot}, stream)
                self.forgotten_early += 1

    def retire_first(self, stream: int, pid: bytes, count: int) -> None:
        """Retires the first `count` pairs of a producer."""
        for pair in self.of_producer(stream, pid)[:count]:
            pair.is_retired = True

    def clear(self, stream: int, vector: Vector) -> None:
        """Drops the stream's pairs that `vector` covers (S9.4)."""
        self._drop({pair.dot for pair in self.held if covers(vector, pair.dot)}, stream)

    def collect(self, stream: int, stable: Vector, now_ms: int, duration_ms: int) -> int:
        """Drops the stable pairs that no longer answer (S9.2, S9.3). Returns their number."""
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
        """The pairs of which one may answer a retry (S9.1). If empty, the retry is a new add.

        The candidates are the pairs that are not retired and that this region has held for at most
        the duration. The candidate of the lowest rank answers. If that pair lost a conflict, a
        winner answers in its place: the pair that it lost to, or one that this pair lost to in
        turn.
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
