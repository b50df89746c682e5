"""Causal stability (S1, S6.2): what every member is known to have on disk, with nothing older in flight."""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.gossip import Heard
from anabranch.crdt.vector import Vector, covers, minimum, raise_to


class Stability:
    """The newest that is known of each other region, and what of it counts."""

    def __init__(self) -> None:
        self.heard: dict[int, Heard] = {}
        # What counts: vectors of regions whose effects up to that vector are applied here, and the clocks said with them.
        self.counted: dict[int, Vector] = {}
        self.clocks_ms: dict[int, int] = {}
        # Regions said to be lost: what others hold of theirs may still be on its way here, and nobody else will say so (S13.8).
        self.lost: list[int] = []
        # Heard but not yet countable, oldest first. Only the oldest and the newest are kept, so it is bounded and still moves.
        self._waiting: dict[int, list[Heard]] = {}

    def hear(self, heard: Heard) -> bool:
        """Takes what was passed on of a region, unless it is older than what is known; whether it was news."""
        known = self.heard.get(heard.region_id)
        if known is not None and heard.life < known.life:
            return False
        if known is None or heard.life > known.life:
            # A higher life throws away what was heard of a lower one: it may claim what a restore lost.
            self.heard[heard.region_id] = Heard(
                heard.region_id, heard.life, heard.counts, dict(heard.vector), heard.clock_ms
            )
            self.counted.pop(heard.region_id, None)
            self.clocks_ms.pop(heard.region_id, None)
            self._waiting.pop(heard.region_id, None)
        else:
            if (
                known.clock_ms >= heard.clock_ms
                and known.counts >= heard.counts
                and all(
                    covers(known.vector, region_id, counter)
                    for region_id, counter in heard.vector.items()
                )
            ):
                return False
            raise_to(known.vector, heard.vector)
            known.clock_ms = max(known.clock_ms, heard.clock_ms)
            known.counts = known.counts or heard.counts
        if heard.counts:
            waiting = self._waiting.setdefault(heard.region_id, [])
            del waiting[1:]
            waiting.append(heard)
        return True

    def count(self, applied: Vector) -> None:
        """Lets those vectors count whose region's own effects up to them are applied here, and those of lost regions."""
        for region_id in list(self._waiting):
            waiting = self._waiting[region_id]
            while waiting and all(
                covers(applied, one, waiting[0].vector.get(one, 0))
                for one in (region_id, *self.lost)
            ):
                heard = waiting.pop(0)
                raise_to(self.counted.setdefault(region_id, {}), heard.vector)
                self.clocks_ms[region_id] = max(self.clocks_ms.get(region_id, 0), heard.clock_ms)
            if not waiting:
                del self._waiting[region_id]

    def stable(self, others: list[int], own: Vector) -> Vector:
        """What all `others` and this region have on disk; empty while one of them has not been heard to count."""
        return minimum([own] + [self.counted.get(region_id, {}) for region_id in others])

    def all_hold(self, others: list[int], region_id: int, counter: int) -> bool:
        """Whether every one of `others` is known to hold that dot, by what counts here."""
        return all(covers(self.counted.get(other, {}), region_id, counter) for other in others)

    def all_clocks_past(self, others: list[int], at_ms: int) -> bool:
        return all(self.clocks_ms.get(other, 0) > at_ms for other in others)

    def newest(self, region_id: int) -> Optional[Heard]:
        return self.heard.get(region_id)
