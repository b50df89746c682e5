"""An idempotent add: the pair (producer ID, idempotent ID), and the entry that it made (S9)."""

from __future__ import annotations

from typing import Final, Optional

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
        # What the adder had seen of its own region, and of all others once pairs `share` it.
        self.seen_own: Final = vector.get(dot[0], 0)
        self.seen = vector

    @property
    def dot(self) -> Dot:
        return (self.region_id, self.counter)

    @property
    def entry_id(self) -> int:
        return make(self._ms, self._seq)

    @property
    def vector(self) -> Vector:
        """A copy of the vector."""
        vector = dict(self.seen)
        vector[self.region_id] = self.seen_own
        if not self.seen_own:
            del vector[self.region_id]
        return vector

    def share(self, seen: Optional[Vector]) -> Vector:
        """Takes over what another pair of the region has seen of all others, if it is the same.

        Returns what this pair has seen of them.
        """
        if seen is None or not self._has_seen_all(seen):
            seen = self.seen.copy()
            seen.pop(self.region_id, None)
        self.seen = seen
        return seen

    def _has_seen_all(self, seen: Vector) -> bool:
        own = 1 if self.region_id in self.seen else 0
        if len(self.seen) - own != len(seen):
            return False
        return all(self.seen.get(region_id, -1) == seen[region_id] for region_id in seen)

    def has_seen(self, other: Pair) -> bool:
        """Whether its adder had applied the other add."""
        if other.region_id == self.region_id:
            return other.counter <= self.seen_own
        return covers(self.seen, other.region_id, other.counter)

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
