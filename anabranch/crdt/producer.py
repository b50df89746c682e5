"""The idempotency pairs of one producer in one stream, oldest first, in runs.

The retired pairs are the first ones. A pair is found by its idempotent ID through the numbers of
runs that may hold it (`crdt/pair_finder.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.adds import IdempotentAdds
from anabranch.crdt.pair import Pair
from anabranch.crdt.pair_finder import PairFinder
from anabranch.crdt.pair_run import NO_TIME, RUN_MAX, PairRun
from anabranch.crdt.vector import Dot, Vector


@mypyc_attr(acyclic=True)
class Producer:
    """The pairs of the producer `pid`."""

    def __init__(self, pid: bytes) -> None:
        self.pid: Final = pid
        self.runs: list[PairRun] = []
        self.count = 0
        self.retired = 0
        # No answering pair was held since before this time.
        self.oldest_ms = NO_TIME
        # The index in `runs` of the first one with a pair that answers.
        self._first = 0
        # Number → run; None for a number that another run may get.
        self._numbered: list[Optional[PairRun]] = []
        self._unused: list[int] = []
        self._finder: Final = PairFinder()

    @property
    def answering(self) -> int:
        """The number of pairs that answer retries."""
        return self.count - self.retired

    def everything(self) -> list[Pair]:
        return [pair for run in self.runs for pair in run.pairs()]

    def may_have(self, iid: bytes) -> bool:
        """Whether there is a pair with that idempotent ID; True may be wrong."""
        return self._finder.may_have(iid)

    def of(self, iid: bytes) -> list[Pair]:
        """Returns the pairs with that idempotent ID, in no particular order."""
        found: list[Pair] = []
        for number in self._finder.runs_of(iid):
            run = self._numbered[number]
            assert run is not None, "the finder names no run that is empty"
            found += run.of(iid)
        return found

    # -- new pairs

    def add(self, pair: Pair) -> None:
        """Adds the newest pair."""
        run = self._run_with_room()
        run.append(pair)
        self._finder.add(pair.iid, run.number)
        self._added(1, pair.held_ms)

    def add_own(
        self, adds: IdempotentAdds, region_id: int, counter: int, now_ms: int, seen: Vector
    ) -> None:
        """Adds the pairs of own adds, of which the first has this counter, as the newest."""
        start, total = 0, adds.count()
        while start < total:
            run = self._run_with_room()
            stop = min(start + run.room(), total)
            run.append_own(adds, start, stop, region_id, counter, now_ms, seen)
            for n in range(start, stop):
                self._finder.add(adds.iids[n], run.number)
            self._added(stop - start, now_ms)
            start = stop

    def _run_with_room(self) -> PairRun:
        """Returns the last run, to which a pair is appended now."""
        if not self.runs or not self.runs[-1].room():
            self.runs.append(self._new_run())
        self._first = min(self._first, len(self.runs) - 1)
        return self.runs[-1]

    def _new_run(self) -> PairRun:
        if self._unused:
            number = self._unused.pop()
        else:
            number = len(self._numbered)
            self._numbered.append(None)
        run = self._numbered[number] = PairRun(self.pid, number)
        return run

    def _added(self, count: int, held_ms: int) -> None:
        self.count += count
        if held_ms < self.oldest_ms:
            self.oldest_ms = held_ms

    def insert(self, pair: Pair) -> None:
        """Adds a pair after the last answering pair that is no younger (`Pair.age_ms`).

        A pair that is older than the oldest answering one becomes the oldest.
        """
        if not self.answering:
            self.add(pair)
            return
        # After a cut most pairs are older than all that answer.
        index = self._first
        place = self.runs[index].retired
        age_ms = pair.age_ms
        if age_ms >= self.runs[index].first_answering().age_ms:
            index = len(self.runs) - 1
            if age_ms >= self.runs[index].last_age_ms:
                self.add(pair)
                return
            place = self.runs[index].place_after(age_ms)
            while not place:
                index -= 1
                place = self.runs[index].place_after(age_ms)
        self._put(index, place, pair)

    def _put(self, index: int, place: int, pair: Pair) -> None:
        """Puts an answering pair before the one that has this place in a run."""
        run = self.runs[index]
        pairs = run.pairs()
        pairs.insert(place, pair)
        self._finder.add(pair.iid, run.number)
        self._added(1, pair.held_ms)
        half = len(pairs) // 2 if len(pairs) > RUN_MAX else len(pairs)
        run.fill(pairs[:half])
        if half < len(pairs):
            later = self._new_run()
            later.fill(pairs[half:])
            self.runs.insert(index + 1, later)
            for moved in pairs[half:]:
                self._finder.remove(moved.iid, run.number)
                self._finder.add(moved.iid, later.number)
            if index == self._first and run.retired == run.count:
                self._first += 1

    # -- pairs that answer no more

    def is_next_covered(self, vector: Vector) -> bool:
        """Whether the vector covers the add of the oldest answering pair."""
        return self.runs[self._first].is_first_answering_covered(vector)

    def retire_oldest(self) -> None:
        """Retires the oldest answering pair."""
        run = self.runs[self._first]
        run.retire_first()
        self.retired += 1
        if run.retired == run.count:
            self._first += 1

    def is_oldest_covered(self, vector: Vector) -> bool:
        """Whether the vector covers the add of the oldest pair."""
        return self.runs[0].is_first_covered(vector)

    def forget_oldest(self) -> None:
        """Drops the oldest pair, which must be retired."""
        run = self.runs[0]
        self._finder.remove(run.drop_first(), run.number)
        self.count -= 1
        self.retired -= 1
        if not run.count:
            self._give_back(run)
            del self.runs[0]
            self._first -= 1

    def drop_covered(
        self, vector: Vector, *, only_retired: bool, kept: Collection[Dot] = ()
    ) -> None:
        """Drops the pairs, or only the retired ones, whose add the vector covers.

        Those with a dot in `kept` stay.
        """
        if only_retired and not self.retired:
            return
        for run in self.runs[: self._first + 1] if only_retired else self.runs:
            if not run.has_covered(vector):
                continue
            left: list[Pair] = []
            for pair in run.pairs():
                goes = pair.is_stable(vector) and (pair.is_retired or not only_retired)
                if goes and pair.dot not in kept:
                    self._finder.remove(pair.iid, run.number)
                else:
                    left.append(pair)
            self._hold(run, left)
        self._tidy()

    def drop_old(self, stable: Vector, now_ms: int, duration_ms: int) -> tuple[int, int]:
        """Drops the answering pairs that are stable and were held for longer than the duration.

        It looks only at runs that may have a pair too old. Returns at how many runs and pairs it
        looked, and a time before which no other pair that is stable becomes too old.
        """
        looked = 0
        next_ms = NO_TIME
        for run in self.runs[self._first :]:
            looked += 1
            if now_ms - run.oldest_ms <= duration_ms:
                next_ms = min(next_ms, run.oldest_ms + duration_ms)
                continue
            looked += run.count
            kept: list[Pair] = []
            for pair in run.pairs():
                may_go = pair.is_stable(stable) and not pair.is_retired
                if may_go and now_ms - pair.held_ms > duration_ms:
                    self._finder.remove(pair.iid, run.number)
                    continue
                if may_go:
                    next_ms = min(next_ms, pair.held_ms + duration_ms)
                kept.append(pair)
            self._hold(run, kept)
        self._tidy()
        return looked, next_ms

    def _hold(self, run: PairRun, kept: list[Pair]) -> None:
        """A run holds only these of its pairs from now on."""
        self.count += len(kept) - run.count
        self.retired -= run.retired
        run.fill(kept)
        self.retired += run.retired

    def _tidy(self) -> None:
        """Drops empty runs, and notes anew where the first answering pair is, and since when."""
        runs: list[PairRun] = []
        for run in self.runs:
            if run.count:
                runs.append(run)
            else:
                self._give_back(run)
        self.runs = runs
        self._first = 0
        while self._first < len(runs) and runs[self._first].retired == runs[self._first].count:
            self._first += 1
        self.oldest_ms = min([run.oldest_ms for run in runs[self._first :]], default=NO_TIME)

    def _give_back(self, run: PairRun) -> None:
        """The number of an empty run may be given to another one."""
        self._numbered[run.number] = None
        self._unused.append(run.number)
