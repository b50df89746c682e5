"""Causal stability (S1, S6.2).

A dot is stable when every member is known to have it on disk and to have nothing older in flight.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.gossip import Heard
from anabranch.crdt.vector import Vector, covers, minimum, raise_to
from anabranch.region.engine.stable_time import StableTime


class Stability:
    """The newest statement heard of each other region, and the part that counts for stability."""

    def __init__(self, time: Optional[StableTime] = None) -> None:
        # The time that follows from the clocks below, and this region's part in it (S7.7).
        self.time: Final = time or StableTime()
        self.heard: dict[int, Heard] = {}
        # The statements that count: vectors of regions whose own effects up to that vector are
        # applied here, and the clocks reported with them (ms).
        self.counted: dict[int, Vector] = {}
        self.clocks_ms: dict[int, int] = {}
        # The members that this region calls lost (S13.8), and those that each other region called
        # lost in statements that count.
        self.lost: list[int] = []
        self.called_lost: dict[int, set[int]] = {}
        # Statements that do not count yet, oldest first. Only the oldest and the newest of a region
        # are kept: that bounds the list, and the oldest can still begin to count.
        self._waiting: dict[int, list[Heard]] = {}

    def hear(self, heard: Heard) -> bool:
        """Takes a statement about a region, unless it is older than the known one.

        Returns whether it was new.
        """
        known = self.heard.get(heard.region_id)
        # In one life, what does not count is older than what counts.
        age = (heard.life, heard.counts)
        if known is not None and age < (known.life, known.counts):
            return False
        if known is None or age > (known.life, known.counts):
            # A higher life replaces all statements of a lower one, which may claim effects that a
            # restore lost (S6.2). So may statements that do not count: a region that was put back
            # may begin a life under the same number, and nobody may notice (S1.3).
            self.heard[heard.region_id] = Heard(
                heard.region_id,
                heard.life,
                heard.counts,
                dict(heard.vector),
                heard.clock_ms,
                heard.asks_stable,
                set(heard.lost),
            )
            self.counted.pop(heard.region_id, None)
            self.called_lost.pop(heard.region_id, None)
            self.clocks_ms.pop(heard.region_id, None)
            self._waiting.pop(heard.region_id, None)
        else:
            if (
                known.clock_ms >= heard.clock_ms
                and set(known.lost).issuperset(heard.lost)
                and all(
                    covers(known.vector, region_id, counter)
                    for region_id, counter in heard.vector.items()
                )
            ):
                return False
            raise_to(known.vector, heard.vector)
            known.clock_ms = max(known.clock_ms, heard.clock_ms)
            known.asks_stable = heard.asks_stable
            known.lost = {*known.lost, *heard.lost}
        if heard.counts:
            waiting = self._waiting.setdefault(heard.region_id, [])
            del waiting[1:]
            waiting.append(heard)
        return True

    def count(self, applied: Vector) -> None:
        """Lets statements count whose effects of certain regions are applied here.

        These are the region that made the statement, and the members that it called lost, which
        make no statements. `applied` is the vector of all effects applied here.
        """
        for region_id in list(self._waiting):
            waiting = self._waiting[region_id]
            while waiting and all(
                covers(applied, one, waiting[0].vector.get(one, 0))
                for one in (region_id, *waiting[0].lost)
            ):
                heard = waiting.pop(0)
                raise_to(self.counted.setdefault(region_id, {}), heard.vector)
                self.called_lost.setdefault(region_id, set()).update(heard.lost)
                self.clocks_ms[region_id] = max(self.clocks_ms.get(region_id, 0), heard.clock_ms)
            if not waiting:
                del self._waiting[region_id]

    def stable(self, others: list[int], own: Vector) -> Vector:
        """The vector that all `others` and this region have on disk.

        Empty while a member has no statement that counts. `own` is the vector on this disk.
        """
        return minimum([own] + [self.counted.get(region_id, {}) for region_id in others])

    def all_hold(self, others: list[int], region_id: int, counter: int) -> bool:
        """Whether a counting statement of each of `others` covers the dot (region_id, counter)."""
        return all(covers(self.counted.get(other, {}), region_id, counter) for other in others)

    def knows_what_lost_left(self, others: list[int]) -> bool:
        """Whether no effect of a lost member can still arrive from one of `others` (S13.8).

        A vector covers all that a region will ever hold of the members that it called lost when it
        held this vector, beside what other regions still pass on. It counts only when its effects
        of these members are applied here. A vector of a region that was not told yet proves
        nothing: that region may get a create of the lost member later, and pass it on when the
        tombstone of its group is already collected here.
        """
        return all(self._is_without_lost(other) for other in others)

    def _is_without_lost(self, region_id: int) -> bool:
        return self.called_lost.get(region_id, set()).issuperset(self.lost)

    def all_clocks_past(self, others: list[int], at_ms: int, highest_ms: int = 0) -> bool:
        """Whether the clocks of all `others` are past a time.

        A clock above `highest_ms` counts for nothing (S10.2); 0: every clock counts.
        """
        clocks = [self.clocks_ms.get(other, 0) for other in others]
        return all(at_ms < clock and (not highest_ms or clock <= highest_ms) for clock in clocks)

    def clock_that_counts(self, region_id: int) -> Optional[int]:
        """The clock (ms) that came with the newest counting vector of a region (S7.7).

        None if no vector of its present life counts, or none that covers all that the region will
        ever hold of lost members.
        """
        return self.clocks_ms.get(region_id) if self._is_without_lost(region_id) else None

    def newest(self, region_id: int) -> Optional[Heard]:
        return self.heard.get(region_id)
