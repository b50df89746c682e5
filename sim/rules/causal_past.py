"""Every committed effect, and the vector that its region had applied before it.

Two effects of different regions are concurrent iff neither vector covers the other effect.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, Optional

from anabranch.crdt import effects as fx
from anabranch.sim.history import Vector
from anabranch.sim.logged import Add, Logged

Dot = tuple[int, int]
"""(region_id, counter)"""

ADD: Final = "add"
PAIR: Final = "idempotent add"  # besides ADD
REMOVE: Final = "XDEL"
TRIM: Final = "trim"
DELETE: Final = "DEL"
FLUSH: Final = "FLUSHALL"
SET_ID: Final = "XSETID"
CREATE: Final = "create"
DESTROY: Final = "destroy"
ACKNOWLEDGE: Final = "acknowledgement"
DEADLINE: Final = "deadline"
EXPIRY: Final = "expiry"
CLEARING: Final = "clearing"  # RemoveObserved with the deadlines: S10.5, S10.6
CONFIGURE: Final = "configuration"

KINDS: Final[dict[type, str]] = {
    Add: ADD,
    fx.RemoveEntries: REMOVE,
    fx.Trim: TRIM,
    fx.Delete: DELETE,
    fx.Flush: FLUSH,
    fx.SetId: SET_ID,
    fx.CreateGroup: CREATE,
    fx.DestroyGroup: DESTROY,
    fx.Acknowledge: ACKNOWLEDGE,
    fx.SetDeadline: DEADLINE,
    fx.Configure: CONFIGURE,
}

EVERY_KEY: Final = b""
"""The key under which FLUSHALL is indexed."""
_NEVER: Final = 1 << 62


def kind_of(effect: Logged) -> str:
    """The kind of an effect: one of the names above."""
    if isinstance(effect, fx.RemoveObserved):
        return CLEARING if effect.with_deadlines else EXPIRY
    return KINDS[type(effect)]


class Steps:
    """The steps in which one region issued effects, in ascending order of counters.

    Steps whose effects a crash or a restore lost are overwritten when their counters come again.
    """

    def __init__(self) -> None:
        # Of each step: the counter of its last effect.
        self.last: list[int] = []
        # Of each step: the vector that the region had applied before.
        self.vectors: list[Vector] = []
        # Of each step: whether the region issued the effects without a command.
        self.by_itself: list[bool] = []

    def add(self, first: int, last: int, vector: Vector, by_itself: bool) -> None:
        if self.last and self.last[-1] >= first:
            keep = bisect_left(self.last, first)
            del self.last[keep:], self.vectors[keep:], self.by_itself[keep:]
        self.last.append(last)
        self.vectors.append(vector)
        self.by_itself.append(by_itself)

    def at(self, counter: int) -> int:
        """The index of the step that issued an effect; the number of steps if none did."""
        return bisect_left(self.last, counter)

    def first_after(self, region: int, counter: int) -> int:
        """The first counter of this region whose step had applied effect `counter` of `region`."""
        index = bisect_left(self.vectors, counter, key=lambda vector: vector.get(region, 0))
        if index == len(self.last):
            return _NEVER
        return self.last[index - 1] + 1 if index else 1


class CausalPast:
    """Effects by dot, by key and by kind.

    `index` builds the lookup by key and kind; call it once all effects are known.
    """

    def __init__(self, regions: tuple[int, ...]) -> None:
        self.regions = regions
        self.steps = {region: Steps() for region in regions}
        # region_id → its effects; counter n at index n - 1, None where unknown.
        self.effects: dict[int, list[Optional[Logged]]] = {region: [] for region in regions}
        # key → kind → region_id → counters, ascending.
        self.by_key: dict[bytes, dict[str, dict[int, list[int]]]] = {}

    def take(self, region: int, first: int, effects: list[Logged]) -> None:
        """Takes effects that are on their region's disk; a restored region may repeat counters."""
        known = self.effects[region]
        if len(known) >= first:
            del known[first - 1 :]
        elif len(known) < first - 1:
            known.extend([None] * (first - 1 - len(known)))
        known.extend(effects)

    def index(self, vector: Vector) -> None:
        """Indexes the effects that `vector` covers, those that have spread, by key and kind."""
        for region in self.regions:
            for counter, effect in enumerate(self.effects[region][: vector.get(region, 0)], 1):
                if effect is None:
                    continue
                key = EVERY_KEY if isinstance(effect, fx.Flush) else effect.key
                kinds = self.by_key.setdefault(key, {})
                kinds.setdefault(kind_of(effect), {}).setdefault(region, []).append(counter)
                if isinstance(effect, Add) and effect.pid:
                    kinds.setdefault(PAIR, {}).setdefault(region, []).append(counter)

    def at(self, dot: Dot) -> Logged:
        effect = self.effects[dot[0]][dot[1] - 1]
        assert effect is not None
        return effect

    def before(self, dot: Dot) -> Vector:
        """The vector that the region of the dot had applied before its step."""
        steps = self.steps[dot[0]]
        index = steps.at(dot[1])
        return steps.vectors[index] if index < len(steps.last) else {}

    def is_by_itself(self, dot: Dot) -> bool:
        """Whether the region issued the effect without a command."""
        steps = self.steps[dot[0]]
        index = steps.at(dot[1])
        return index < len(steps.last) and steps.by_itself[index]

    def dots(self, key: bytes, kind: str) -> list[Dot]:
        """The dots of all effects of a kind on a key."""
        by_region = self.by_key.get(key, {}).get(kind, {})
        return [(region, counter) for region, counters in by_region.items() for counter in counters]

    def seen(self, dot: Dot, key: bytes, kind: str, vector: Vector) -> list[Dot]:
        """The effects of a kind on a key that `vector` covers.

        Of the dot's own region, the effects before the dot count instead.
        """
        found: list[Dot] = []
        for region, counters in self.by_key.get(key, {}).get(kind, {}).items():
            end = (
                bisect_left(counters, dot[1])
                if region == dot[0]
                else bisect_right(counters, vector.get(region, 0))
            )
            found += [(region, counter) for counter in counters[:end]]
        return found

    def unaware(self, dot: Dot, key: bytes, kind: str) -> list[Dot]:
        """The effects of a kind on a key that are concurrent with the dot."""
        found: list[Dot] = []
        region, counter = dot
        before = self.before(dot)
        for other, counters in self.by_key.get(key, {}).get(kind, {}).items():
            if other == region:
                continue
            start = bisect_right(counters, before.get(other, 0))
            if start < len(counters):
                end = bisect_left(counters, self.steps[other].first_after(region, counter))
                found += [(other, one) for one in counters[start:end]]
        return found
