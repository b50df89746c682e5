"""Conflicts by kind: concurrent effects of two regions; and the rules that they exercise."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from anabranch.crdt import effects as fx
from anabranch.crdt.vector import covers
from anabranch.sim.history import Vector
from anabranch.sim.logged import Add
from anabranch.sim.rules import causal_past as p
from anabranch.sim.rules.causal_past import CausalPast, Dot

Count = Callable[[str], None]
"""Counts one occurrence under a name: `rule:S6.1`, `conflict:create and destroy`."""

CONFLICTS: Final = (
    "add and XDEL of its ID",
    "add and trim",
    "add and DEL",
    "add and FLUSHALL",
    "add and expiry",
    "add and RENAME",
    "one entry removed twice",
    "create and destroy",
    "create and DEL",
    "create and FLUSHALL",
    "create and create",
    "XSETID and add",
    "XSETID and DEL",
    "one ID twice",
    "one pair twice",
    "deadline and deadline",
    "deadline and expiry",
    "RENAME and RENAME",
    "configuration and configuration",
    "configuration and idempotent add",
    "one entry acknowledged twice",
)


class Rename:
    """A RENAME that was executed. `dot` is that of its first effect, the DEL of the source.

    `effects` is the number of its effects.
    """

    def __init__(self, dot: Dot, source: bytes, target: bytes, effects: int) -> None:
        self.dot = dot
        self.source = source
        self.target = target
        self.effects = effects


class Conflicts:
    """Counts all conflicts of a run, once, when all effects are known."""

    def __init__(self, past: CausalPast, renames: list[Rename], count: Count) -> None:
        self.past = past
        self.renames = renames
        self.count = count

    def look(self) -> None:
        for key, kinds in self.past.by_key.items():
            if key == p.EVERY_KEY:
                for dot in self.past.dots(key, p.FLUSH):
                    self._flush(dot)
                continue
            for kind, judge in _JUDGES.items():
                if kind in kinds:
                    for dot in self.past.dots(key, kind):
                        judge(self, key, dot)
            self._adds(key)
        for rename in self.renames:
            self._rename(rename)

    def _met(self, dot: Dot, key: bytes, kind: str, name: str) -> list[Dot]:
        """Counts one conflict if effects of a kind are concurrent with the dot; returns them."""
        found = self.past.unaware(dot, key, kind)
        if found:
            self.count("conflict:" + name)
        return found

    # -- entries

    def _adds(self, key: bytes) -> None:
        """Counts concurrent adds of one ID, and concurrent adds of one pair."""
        by_id: dict[int, list[Dot]] = {}
        by_pair: dict[tuple[bytes, bytes], list[Dot]] = {}
        for dot in self.past.dots(key, p.ADD):
            add = self.past.at(dot)
            assert isinstance(add, Add)
            by_id.setdefault(add.entry_id, []).append(dot)
            if add.pid:
                by_pair.setdefault((add.pid, add.iid), []).append(dot)
        for dots in by_id.values():
            if len(dots) > 1 and self._is_any_unaware(dots):
                self.count("conflict:one ID twice")
        for dots in by_pair.values():
            if len(dots) > 1 and self._is_any_unaware(dots):
                self.count("conflict:one pair twice")

    def _is_any_unaware(self, dots: list[Dot]) -> bool:
        pasts = [self.past.before(dot) for dot in dots]
        return any(
            one[0] != other[0]
            and not covers(pasts[index], *other)
            and not covers(pasts[place], *one)
            for index, one in enumerate(dots)
            for place, other in enumerate(dots[:index])
        )

    def _removal(self, key: bytes, dot: Dot) -> None:
        effect = self.past.at(dot)
        assert isinstance(effect, fx.RemoveEntries)
        ids = [
            add.entry_id
            for add in map(self.past.at, self._known(effect.dots))
            if isinstance(add, Add)
        ]
        if len(set(ids)) < len(ids):
            self.count("rule:S5.1")
        for other in self.past.unaware(dot, key, p.REMOVE):
            twin = self.past.at(other)
            if (
                other < dot
                and isinstance(twin, fx.RemoveEntries)
                and not set(twin.dots).isdisjoint(effect.dots)
            ):
                self.count("conflict:one entry removed twice")
        for other in self.past.unaware(dot, key, p.ADD):
            add = self.past.at(other)
            if isinstance(add, Add) and add.entry_id in ids:
                self.count("conflict:add and XDEL of its ID")

    def _known(self, dots: list[Dot]) -> list[Dot]:
        effects = self.past.effects
        return [
            dot
            for dot in dots
            if dot[0] in effects
            and dot[1] <= len(effects[dot[0]])
            and effects[dot[0]][dot[1] - 1] is not None
        ]

    def _trim(self, key: bytes, dot: Dot) -> None:
        if self._met(dot, key, p.ADD, "add and trim"):
            self.count("rule:S5.2")

    def _delete(self, key: bytes, dot: Dot) -> None:
        effect = self.past.at(dot)
        assert isinstance(effect, fx.Delete)
        survivors = self._met(dot, key, p.ADD, "add and DEL")
        if survivors:
            self.count("rule:S5.4")
            observed = self._highest_id(key, effect.vector)
            if observed > max(self._id(survivor) for survivor in survivors):
                self.count("rule:S3.2")
        if self._met(dot, key, p.CREATE, "create and DEL"):
            self.count("rule:S6.1")
        self._met(dot, key, p.SET_ID, "XSETID and DEL")
        if self._has_deadline(key, dot, effect.vector):
            self.count("rule:S3.3")

    def _has_deadline(self, key: bytes, dot: Dot, vector: Vector) -> bool:
        """Whether a deadline was in force before the dot, an infinite one (PERSIST) included."""
        live = self.past.seen(dot, key, p.DEADLINE, vector)
        if not live:
            return False
        gone: set[Dot] = set()
        for one in live:
            deadline = self.past.at(one)
            assert isinstance(deadline, fx.SetDeadline)
            gone.update(deadline.replaces)
        for one in self.past.seen(dot, key, p.CLEARING, vector):
            clearing = self.past.at(one)
            assert isinstance(clearing, fx.RemoveObserved)
            gone.update(
                deadline_dot for deadline_dot in live if covers(clearing.vector, *deadline_dot)
            )
        return any(one not in gone for one in live)

    def _flush(self, dot: Dot) -> None:
        meets_add = meets_create = False
        for key in self.past.by_key:
            meets_add = meets_add or bool(self.past.unaware(dot, key, p.ADD))
            meets_create = meets_create or bool(self.past.unaware(dot, key, p.CREATE))
        if meets_add:
            self.count("conflict:add and FLUSHALL")
            self.count("rule:S5.4")
        if meets_create:
            self.count("conflict:create and FLUSHALL")
            self.count("rule:S6.1")

    def _set_id(self, key: bytes, dot: Dot) -> None:
        self._met(dot, key, p.ADD, "XSETID and add")

    def _id(self, dot: Dot) -> int:
        add = self.past.at(dot)
        assert isinstance(add, Add)
        return add.entry_id

    def _highest_id(self, key: bytes, vector: Vector) -> int:
        """The highest of the last IDs that each region had added within `vector`; 0 without any."""
        highest = 0
        for region, counters in self.past.by_key[key].get(p.ADD, {}).items():
            place = bisect_right(counters, vector.get(region, 0))
            if place:
                highest = max(highest, self._id((region, counters[place - 1])))
        return highest

    # -- groups

    def _destroy(self, key: bytes, dot: Dot) -> None:
        effect = self.past.at(dot)
        assert isinstance(effect, fx.DestroyGroup)
        if self._creates(dot, key, effect.group):
            self.count("conflict:create and destroy")
            self.count("rule:S6.1")

    def _creates(self, dot: Dot, key: bytes, group: bytes) -> list[fx.CreateGroup]:
        """The creates of a name that are concurrent with the dot."""
        effects = [self.past.at(other) for other in self.past.unaware(dot, key, p.CREATE)]
        return [
            effect
            for effect in effects
            if isinstance(effect, fx.CreateGroup) and effect.group == group
        ]

    def _create(self, key: bytes, dot: Dot) -> None:
        effect = self.past.at(dot)
        assert isinstance(effect, fx.CreateGroup)
        for other in self.past.unaware(dot, key, p.CREATE):
            twin = self.past.at(other)
            if other < dot and isinstance(twin, fx.CreateGroup) and twin.group == effect.group:
                self.count("conflict:create and create")
                if _start(twin) != _start(effect):
                    self.count("rule:S6.3")
        if effect.starts_at_vector and self._comes_below(key, effect.vector):
            self.count("rule:S6.4")

    def _comes_below(self, key: bytes, vector: Vector) -> bool:
        """Whether an entry beyond `vector` has an ID not above the highest ID within `vector`."""
        highest = self._highest_id(key, vector)
        for region, counters in self.past.by_key[key].get(p.ADD, {}).items():
            place = bisect_right(counters, vector.get(region, 0))
            if place < len(counters) and self._id((region, counters[place])) <= highest:
                return True
        return False

    def _acknowledgement(self, key: bytes, dot: Dot) -> None:
        effect = self.past.at(dot)
        assert isinstance(effect, fx.Acknowledge)
        named = [self.past.at(one) for one in self._known(effect.creates)]
        starts = {_start(create) for create in named if isinstance(create, fx.CreateGroup)}
        if len(starts) == len(named) == 1 and any(
            _start(create) not in starts for create in self._creates(dot, key, effect.group)
        ):
            self.count("rule:S8.4")
        if len(effect.creates) > 1:
            self.count("rule:S8.3")
        for other in self.past.unaware(dot, key, p.ACKNOWLEDGE):
            twin = self.past.at(other)
            if (
                other < dot
                and isinstance(twin, fx.Acknowledge)
                and twin.group == effect.group
                and _overlap(effect, twin)
            ):
                self.count("conflict:one entry acknowledged twice")

    # -- deadlines, configuration

    def _deadline(self, key: bytes, dot: Dot) -> None:
        if any(other < dot for other in self.past.unaware(dot, key, p.DEADLINE)):
            self.count("conflict:deadline and deadline")
            self.count("rule:S10.2")
        self._met(dot, key, p.EXPIRY, "deadline and expiry")

    def _expiry(self, key: bytes, dot: Dot) -> None:
        self.count("rule:S10.3")
        if self._met(dot, key, p.ADD, "add and expiry"):
            self.count("rule:S10.4")

    def _clearing(self, key: bytes, dot: Dot) -> None:
        self.count("rule:S10.6" if self.past.is_by_itself(dot) else "rule:S10.5")

    def _configuration(self, key: bytes, dot: Dot) -> None:
        twins = self.past.unaware(dot, key, p.CONFIGURE)
        if any(other < dot for other in twins):
            self.count("conflict:configuration and configuration")
        if self._met(dot, key, p.PAIR, "configuration and idempotent add") or twins:
            self.count("rule:S9.4")

    # -- RENAME

    def _rename(self, rename: Rename) -> None:
        effects = self.past.effects[rename.dot[0]]
        if rename.dot[1] > len(effects) or not isinstance(effects[rename.dot[1] - 1], fx.Delete):
            return  # a crash lost the RENAME
        if rename.effects > 2:
            self.count("rule:S10.1")
        self._met(rename.dot, rename.source, p.ADD, "add and RENAME")
        for other in self.renames:
            if (
                other.dot < rename.dot
                and other.source == rename.source
                and other.dot in self.past.unaware(rename.dot, rename.source, p.DELETE)
            ):
                self.count("conflict:RENAME and RENAME")


def _start(create: fx.CreateGroup) -> tuple[int, tuple[Dot, ...]]:
    return create.start_id, tuple(sorted(create.vector.items())) if create.starts_at_vector else ()


def _overlap(one: fx.Acknowledge, other: fx.Acknowledge) -> bool:
    """Whether both announcements acknowledge a common entry."""
    return any(
        region in other.spans and spans.minus(other.spans[region]).ends != spans.ends
        for region, spans in one.spans.items()
    )


_JUDGES: Final[dict[str, Callable[[Conflicts, bytes, Dot], None]]] = {
    p.REMOVE: Conflicts._removal,
    p.TRIM: Conflicts._trim,
    p.DELETE: Conflicts._delete,
    p.SET_ID: Conflicts._set_id,
    p.DESTROY: Conflicts._destroy,
    p.CREATE: Conflicts._create,
    p.ACKNOWLEDGE: Conflicts._acknowledgement,
    p.DEADLINE: Conflicts._deadline,
    p.EXPIRY: Conflicts._expiry,
    p.CLEARING: Conflicts._clearing,
    p.CONFIGURE: Conflicts._configuration,
}
