"""Conflicts: concurrent effects of two regions, counted by kind (`sim.rules`).

A region counts a conflict when it applies an effect of another region that had not seen one of its
own. It need not ask whether its own effect had seen the other one, which it did not have yet. So it
keeps, for each mark that own effects leave, the counter of the newest one that left it, and
compares that with what the other region had of it (`Counts.pasts`). Effects that a snapshot brings
are not compared.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.effects import (
    Configure,
    CreateGroup,
    Delete,
    DestroyGroup,
    Flush,
    RemoveEntries,
    RemoveObserved,
    SetDeadline,
    SetId,
    Trim,
)
from anabranch.sim.rules import CONFLICTS, Counts
from anabranch.sim.twin.effects import Add, Announce, Plain
from anabranch.sim.twin.state import State
from anabranch.sim.twin.vectors import Dot, Vector

Mark = tuple[str, object]
"""(kind, value): two effects are of one conflict if their kinds meet and their values are equal."""

# Kind → (conflict, the kind that it meets in it).
_PARTNERS: Final[dict[str, list[tuple[str, str]]]] = {}
for _name, (_one, _other, _) in CONFLICTS.items():
    _PARTNERS.setdefault(_one, []).append((_name, _other))
    if _one != _other:
        _PARTNERS.setdefault(_other, []).append((_name, _one))


class Conflicts:
    """The conflicts that one region meets."""

    def __init__(self, region: int, counts: Counts) -> None:
        self.region: Final = region
        self.counts: Final = counts
        # Mark → counter of the newest own effect that left it.
        self._newest: dict[Mark, int] = {}
        # The vector after the last merge, join or start.
        self._past: Vector = {}

    def begin(self, state: State) -> None:
        """A process has started: counters that it did not find on its disk come again."""
        last = state.vector.get(self.region, 0)
        self._newest = {mark: at for mark, at in self._newest.items() if at <= last}
        self.learn(state)

    def learn(self, state: State) -> None:
        """Effects of others were applied."""
        self._past = dict(state.vector)

    def issue(self, state: State, effect: Plain, dot: Dot) -> None:
        """The region issues an effect, which is applied next."""
        self.counts.pasts[dot] = self._past
        self.counts.renames.discard(dot)
        for mark in _marks(state, effect):
            self._newest[mark] = dot[1]

    def rename(self, source: bytes, dot: Dot) -> None:
        """The effect just issued deletes the source of a RENAME."""
        self.counts.renames.add(dot)
        self._newest[("RENAME", source)] = dot[1]

    def meet(self, state: State, effect: Plain, dot: Dot) -> None:
        """Another region issued an effect, which is applied next."""
        past = self.counts.pasts.get(dot)
        if past is None or dot[0] == self.region:
            return
        seen = past.get(self.region, 0)
        if seen == state.vector.get(self.region, 0):
            return
        marks = _marks(state, effect)
        if dot in self.counts.renames and isinstance(effect, Delete):
            marks.append(("RENAME", effect.key))
        found: dict[str, None] = {}
        for kind, value in marks:
            for name, other in _PARTNERS[kind]:
                if self._newest.get((other, value), 0) > seen:
                    found[name] = None
        for name in found:
            self.counts.conflict(name)


def _marks(state: State, effect: Plain) -> list[Mark]:
    """The marks of an effect that is applied next."""
    if isinstance(effect, Flush):
        return [("FLUSHALL", b"")]
    key = effect.key
    if isinstance(effect, Add):
        marks: list[Mark] = [("add", key), ("add of ID", (key, effect.entry_id)), ("any add", b"")]
        one = effect.pairing
        if one is not None:
            marks += [("idempotent add", key), ("add of pair", (key, one.pid, one.iid))]
        return marks
    if isinstance(effect, RemoveEntries):
        ids = state.key(key).ids
        marks = [("removal", (key, dot)) for dot in effect.dots]
        return marks + [("removal of ID", (key, ids.get(dot))) for dot in effect.dots]
    if isinstance(effect, Trim):
        return [("trim", key)]
    if isinstance(effect, Delete):
        return [("DEL", key)]
    if isinstance(effect, SetId):
        return [("XSETID", key)]
    if isinstance(effect, CreateGroup):
        return [("create", key), ("create of group", (key, effect.group)), ("any create", b"")]
    if isinstance(effect, DestroyGroup):
        return [("destroy of group", (key, effect.group))]
    if isinstance(effect, Announce):
        return [("acknowledgement", (key, effect.group, dot)) for dot in effect.counters]
    if isinstance(effect, SetDeadline):
        return [("deadline", key)]
    if isinstance(effect, RemoveObserved):
        return [] if effect.with_deadlines else [("expiry", key)]
    assert isinstance(effect, Configure)
    return [("configuration", key)]
