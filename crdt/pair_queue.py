"""The pairs of one producer in an order, oldest first, of which a cut is taken without a copy.

They stand in runs. The list of a run is only appended to: any other change gives the run a new
list. So a cut refers to the lists, and says how far they reach (`crdt/images.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy_extensions import mypyc_attr

from anabranch.crdt.pair import Pair

# Pairs of a full run.
RUN_MAX: Final = 64
# Later than every time.
NO_TIME: Final = 1 << 62


@mypyc_attr(acyclic=True)
class PairRun:
    """Pairs that follow each other: those of `pairs` from `start` on."""

    def __init__(self, pairs: list[Pair]) -> None:
        self.pairs = pairs
        self.start = 0
        # None of them was held since before this time.
        self.oldest_ms = min([pair.held_ms for pair in pairs])

    def size(self) -> int:
        return len(self.pairs) - self.start


@mypyc_attr(acyclic=True)
class PairQueue:
    """Pairs, oldest first."""

    def __init__(self) -> None:
        self.runs: list[PairRun] = []
        self.length = 0

    def __iter__(self) -> Iterator[Pair]:
        for run in self.runs:
            for n in range(run.start, len(run.pairs)):
                yield run.pairs[n]

    def first(self) -> Pair:
        run = self.runs[0]
        return run.pairs[run.start]

    def append(self, pair: Pair) -> None:
        """Adds the newest pair."""
        self.length += 1
        if self.runs and len(self.runs[-1].pairs) < RUN_MAX:
            run = self.runs[-1]
            run.pairs.append(pair)
            if pair.held_ms < run.oldest_ms:
                run.oldest_ms = pair.held_ms
        else:
            self.runs.append(PairRun([pair]))

    def append_run(self, run: PairRun) -> None:
        """Adds the newest pairs, a run of another queue that is dropped."""
        self.runs.append(run)
        self.length += run.size()

    def oldest_ms(self) -> int:
        """Returns a time before which none of the pairs was held."""
        return min([run.oldest_ms for run in self.runs], default=NO_TIME)

    def pop_first(self) -> Pair:
        """Removes and returns the oldest pair."""
        run = self.runs[0]
        pair = run.pairs[run.start]
        self.length -= 1
        run.start += 1
        if run.size() == 0:
            del self.runs[0]
        elif run.start > run.size():
            # The list holds the pairs that are gone until now.
            run.pairs = run.pairs[run.start :]
            run.start = 0
        return pair

    def insert(self, pair: Pair) -> None:
        """Adds a pair after the last one that was recorded no later.

        A pair that was recorded before the oldest one becomes the oldest.
        """
        if not self.length:
            self.append(pair)
        elif pair.recorded_ms < self.first().recorded_ms:
            # After a cut most pairs are such ones, and the loop would pass all pairs.
            self._put(0, self.runs[0].start, pair)
        elif pair.recorded_ms >= self.runs[-1].pairs[-1].recorded_ms:
            self.append(pair)
        else:
            index = len(self.runs) - 1
            at = self._after(index, pair)
            while at == self.runs[index].start and index > 0:
                index -= 1
                at = self._after(index, pair)
            self._put(index, at, pair)

    def _after(self, index: int, pair: Pair) -> int:
        """Returns where the later pairs at the end of a run begin."""
        run = self.runs[index]
        at = len(run.pairs)
        while at > run.start and run.pairs[at - 1].recorded_ms > pair.recorded_ms:
            at -= 1
        return at

    def _put(self, index: int, at: int, pair: Pair) -> None:
        """Puts a pair before the place `at` of a run."""
        self.length += 1
        run = self.runs[index]
        pairs = [*run.pairs[run.start : at], pair, *run.pairs[at:]]
        if len(pairs) > RUN_MAX:
            half = len(pairs) // 2
            self.runs.insert(index + 1, PairRun(pairs[half:]))
            pairs = pairs[:half]
        run.pairs = pairs
        run.start = 0
        run.oldest_ms = min(run.oldest_ms, pair.held_ms)
