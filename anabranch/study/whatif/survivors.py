"""One key as the other regions hold it once they have exchanged what they have (S8.2, S11.3).

Vectors are read before states, so a state may be newer than its vector: an entry or a create that
its region has removed since then may still count as present, never the reverse.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.place import Place
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.study.whatif.telling import Entries, GroupState, KeyTelling, holds, minus, union


class Survivors:
    """The regions that answer and are not lost: their vectors, and their tellings of one key."""

    def __init__(self, vectors: dict[int, Vector], tellings: dict[int, KeyTelling]) -> None:
        self._vectors: Final = vectors
        self._tellings: Final = tellings

    def group_names(self) -> list[bytes]:
        """The groups that live in any of them."""
        return sorted({name for telling in self._tellings.values() for name in telling.groups})

    def _has_removed(self, dot: Dot, having: set[int]) -> bool:
        """Whether a region that is not among `having` has applied the effect: it has removed it."""
        return any(
            covers(vector, *dot) for one, vector in self._vectors.items() if one not in having
        )

    def creates(self, name: bytes) -> dict[Dot, Place]:
        """The live creates of a group after the exchange; empty if the group will not be there."""
        found: dict[Dot, Place] = {}
        for dot, start in self._all_creates(name).items():
            if not self._has_removed(dot, self._with_create(name, dot)):
                found[dot] = start
        return found

    def _all_creates(self, name: bytes) -> dict[Dot, Place]:
        return {
            dot: start
            for telling in self._tellings.values()
            if name in telling.groups
            for dot, start in telling.groups[name].creates.items()
        }

    def _with_create(self, name: bytes, dot: Dot) -> set[int]:
        return {
            one
            for one, telling in self._tellings.items()
            if name in telling.groups and dot in telling.groups[name].creates
        }

    def _group(self, region: int, name: bytes) -> GroupState | None:
        return self._tellings[region].groups.get(name)

    def acked(self, name: bytes) -> SpansByRegion:
        """The counters that any of them knows to be acknowledged everywhere."""
        return union(
            *(its.groups[name].acked for its in self._tellings.values() if name in its.groups)
        )

    def given(self, region: int, name: bytes) -> SpansByRegion:
        """The counters that a region will not deliver with ``>`` after the exchange.

        Of acknowledgements that others tell, only what the region did not hold joins (S8.2).
        """
        told = [
            group.acked
            for other in self._tellings
            if other != region and (group := self._group(other, name)) is not None
        ]
        mine = self._group(region, name)
        if mine is None:
            return union(*told)
        return union(mine.given, minus(union(*told), mine.acked))

    def is_above_floor(self, region: int, name: bytes, dot: Dot, entry_id: int) -> bool:
        """Whether a group of the region delivers an entry at that place after the exchange."""
        mine = self._group(region, name)
        if mine is not None and entry_id <= mine.raised_to:
            return False
        if mine is not None and mine.floor is not None:
            return mine.floor.is_below(*dot, entry_id)
        return any(start.is_below(*dot, entry_id) for start in self.creates(name).values())

    def entries(self, spans: SpansByRegion) -> Entries:
        """The entries in these spans that are present after the exchange."""
        found: Entries = {}
        for telling in self._tellings.values():
            for dot, entry_id in telling.entries.items():
                if dot not in found and holds(spans, dot):
                    having = {one for one, its in self._tellings.items() if dot in its.entries}
                    if not self._has_removed(dot, having):
                        found[dot] = entry_id
        return found

    def deliverable(self, region: int, name: bytes, spans: SpansByRegion) -> Entries:
        """The entries in these spans that the region would deliver with ``>`` after the exchange.

        No entries if the group is not there then.
        """
        if not self.creates(name):
            return {}
        left = minus(spans, self.given(region, name))
        return {
            dot: entry_id
            for dot, entry_id in self.entries(left).items()
            if self.is_above_floor(region, name, dot, entry_id)
        }
