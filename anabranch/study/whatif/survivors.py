"""One key as the other regions hold it once they have exchanged what they have (S8.2, S11.3).

Vectors are read before states, so a state may be newer than its vector: an entry or a create that
its region has removed since then may still count as present, never the reverse.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.place import Place
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.study.replies.groups import GroupState
from anabranch.study.replies.parts import place_of
from anabranch.study.replies.spans import holds, minus, union

Entries = dict[Dot, int]
"""Dot → entry ID, of one key."""


class KeyInRegion:
    """A key in one region. `entries` are those present whose counters were asked for."""

    def __init__(self, groups: dict[bytes, GroupState]) -> None:
        self.groups: Final = groups
        self.entries: Final[Entries] = {}


class Survivors:
    """The regions that answer and are not lost: their vectors, and one key there."""

    def __init__(self, vectors: dict[int, Vector], keys: dict[int, KeyInRegion]) -> None:
        self._vectors: Final = vectors
        self._keys: Final = keys

    def group_names(self) -> list[bytes]:
        """The groups that live in any of them."""
        return sorted({name for key in self._keys.values() for name in key.groups})

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
            dot: place_of(start)
            for key in self._keys.values()
            if name in key.groups
            for dot, start in key.groups[name].creates.items()
        }

    def _with_create(self, name: bytes, dot: Dot) -> set[int]:
        return {
            one
            for one, key in self._keys.items()
            if name in key.groups and dot in key.groups[name].creates
        }

    def _group(self, region: int, name: bytes) -> GroupState | None:
        return self._keys[region].groups.get(name)

    def acked(self, name: bytes) -> SpansByRegion:
        """The counters that any of them knows to be acknowledged everywhere."""
        return union(*(its.groups[name].acked for its in self._keys.values() if name in its.groups))

    def given(self, region: int, name: bytes) -> SpansByRegion:
        """The counters that a region will not deliver with ``>`` after the exchange.

        Of acknowledgements that others tell, only what the region did not hold joins (S8.2).
        """
        told = [
            group.acked
            for other in self._keys
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
            return place_of(mine.floor).is_below(*dot, entry_id)
        return any(start.is_below(*dot, entry_id) for start in self.creates(name).values())

    def entries(self, spans: SpansByRegion) -> Entries:
        """The entries in these spans that are present after the exchange."""
        found: Entries = {}
        for key in self._keys.values():
            for dot, entry_id in key.entries.items():
                if dot not in found and holds(spans, dot):
                    having = {one for one, its in self._keys.items() if dot in its.entries}
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
