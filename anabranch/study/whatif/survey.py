"""Everything that was asked: what the regions hold on their disks, and of each key.

The region in question is called the lost one, although it still runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Optional

from anabranch.crdt import ids
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.vector import Dot, Vector, covers, raise_to
from anabranch.study.replies.events import REMOVALS, KeyEvent
from anabranch.study.replies.spans import minus, spans_of, spans_with, union
from anabranch.study.whatif.survivors import KeyInRegion, Survivors

# A counter above all.
NO_END: Final = ids.MAX_HALF >> 1


def joined(vectors: Iterable[Vector]) -> Vector:
    """The highest counter of each region."""
    found: Vector = {}
    for vector in vectors:
        raise_to(found, vector)
    return found


def removed_by(effect: KeyEvent) -> SpansByRegion:
    """The counters of entries that an effect removes if they are there."""
    if effect.kind not in REMOVALS:
        return {}
    ranges = ((origin, 0, counter) for origin, counter in effect.covered.items())
    return union(spans_with(effect.dots), spans_of(ranges))


class KeySurvey:
    """One key in the lost region and in the others.

    `effects` are those that concern the key and are in the lost region alone. `delivered` holds,
    by group, the entries that the log of the lost region tells as delivered, for groups that are
    destroyed there. `is_cut`: it holds more entries than were looked at.
    """

    def __init__(
        self,
        key: bytes,
        effects: list[KeyEvent],
        lost: KeyInRegion,
        others: dict[int, KeyInRegion],
        vectors: dict[int, Vector],
    ) -> None:
        self.key: Final = key
        self.effects: Final = effects
        self.lost: Final = lost
        self.others: Final = others
        self.survivors: Final = Survivors(vectors, others)
        self.delivered: Final[dict[bytes, set[Dot]]] = {}
        self.is_cut = False

    def unheard(self, name: bytes) -> SpansByRegion:
        """The counters that a group of the lost region has acknowledged, announced or not.

        Without those that another region knows to be acknowledged.
        """
        group = self.lost.groups[name]
        return minus(union(group.unannounced(), group.acked), self.survivors.acked(name))

    def removed(self) -> SpansByRegion:
        """The counters that lost effects remove."""
        return union(*map(removed_by, self.effects))

    def destroyed_groups(self, vector: Vector) -> dict[bytes, set[Dot]]:
        """Groups of the others that the lost region, with this vector, has destroyed.

        With the dots of the creates that live in the others and that it has ended.
        """
        found: dict[bytes, set[Dot]] = {}
        for name in self.survivors.group_names():
            mine = self.lost.groups.get(name)
            live = {} if mine is None else mine.creates
            creates = self.survivors.creates(name)
            ended = {dot for dot in creates if dot not in live and covers(vector, *dot)}
            if ended:
                found[name] = ended
        return found

    def shares(self, name: bytes) -> bool:
        """Whether the lost region and the others have the same group, not one of the same name."""
        mine = self.lost.groups.get(name)
        return mine is not None and bool(mine.creates.keys() & self.survivors.creates(name).keys())


class Survey:
    """What the regions answered.

    - `lost`: the region_id in question. `lost_vector`: the vector on its disk, None if it does not
      answer.
    - `vectors`: those of the other regions that answer, read first.
    - `known`: of each region that does not answer, what the others know that it had on its disk:
      a lower bound.
    - `effects`: those that no other region that answers has. `unread`: origin → (from, to], the
      counters whose effects were not read, because the log does not reach back or by the bound.
    - `keys_total`: the keys of the lost region; `keys_asked`: those that were looked at.
    """

    def __init__(
        self, lost: int, lost_vector: Optional[Vector], vectors: dict[int, Vector]
    ) -> None:
        self.lost: Final = lost
        self.lost_vector: Final = lost_vector
        self.vectors: Final = vectors
        self.known: Final[dict[int, Vector]] = {}
        self.effects: Final[list[KeyEvent]] = []
        self.unread: Final[dict[int, tuple[int, int]]] = {}
        self.keys: Final[list[KeySurvey]] = []
        self.keys_total = 0
        self.keys_asked = 0

    def vector_of_lost(self) -> Vector:
        """What the lost region has on its disk; a lower bound if it does not answer."""
        return self.lost_vector or self.known.get(self.lost, {})

    def raise_known(self) -> None:
        """Counts the effects of silent regions that others hold: they were on the issuer's disk.

        An effect leaves its region once it is on its disk. What a region has acknowledged is
        forgotten when the one that heard it restarts.
        """
        have = joined([*self.vectors.values(), self.lost_vector or {}])
        for region_id, vector in self.known.items():
            counter = have.get(region_id, 0)
            if counter > vector.get(region_id, 0):
                vector[region_id] = counter

    def ahead(self) -> dict[int, tuple[int, int]]:
        """Origin → (from, to]: the counters that no other region that answers has."""
        have = joined(self.vectors.values())
        return {
            origin: (have.get(origin, 0), counter)
            for origin, counter in sorted((self.lost_vector or {}).items())
            if counter > have.get(origin, 0)
        }

    def only_there(self) -> SpansByRegion:
        """The counters of `ahead`, and those that come after them."""
        return spans_of((origin, base, NO_END) for origin, (base, _) in self.ahead().items())
