"""The join of a snapshot: the frozen state of a peer's twin, joined by S11.3."""

from __future__ import annotations

from typing import Optional, TypeVar

from anabranch.sim.twin.apply import (
    count_starts,
    end_group,
    learn_acknowledged,
    restart_figures,
    retire,
)
from anabranch.sim.twin.state import Create, Entry, Group, Key, Pair, State
from anabranch.sim.twin.vectors import Dot, Vector, covers, raise_to

T = TypeVar("T")


class FrozenKey:
    """A copy of what a snapshot carries of a key."""

    def __init__(self, key: Key, may_forget: bool = False) -> None:
        self.entries: dict[Dot, Entry] = dict(key.entries)
        self.header = dict(key.header)
        self.creates = {
            name: {dot: create.copy() for dot, create in group.creates.items()}
            for name, group in key.groups.items()
        }
        self.tombstones = list(key.tombstones)
        self.deadlines = dict(key.deadlines)
        self.pairs = {dot: pair.copy(pair.held_ms) for dot, pair in key.pairs.items()}
        for dot, pair in key.pairs.items():
            self.pairs[dot].is_doubtful |= may_forget and pair.is_retired
        self.configurations = dict(key.configurations)
        self.clears = dict(key.clears)
        self.trimmed = dict(key.trimmed)
        self.ever_trimmed = dict(key.ever_trimmed)
        self.removed_most = dict(key.removed_most)
        self.ids = dict(key.ids)


class Frozen:
    """A consistent cut of a region (S11.2).

    `may_forget`: the region may have forgotten retired pairs, because their limit is low (S9.3).
    """

    def __init__(self, state: State, may_forget: bool) -> None:
        self.vector: Vector = dict(state.vector)
        self.flushes = list(state.flushes)
        self.flush_clears = dict(state.flush_clears)
        self.keys = {name: FrozenKey(key, may_forget) for name, key in state.keys.items()}


def join(state: State, cut: Frozen, is_restored: bool) -> None:
    """Joins the cut. `is_restored`: this region once was put back to a backup.

    Such a region has again pairs that others have cleared since, and others may have forgotten the
    clear: these pairs become doubtful instead of being dropped.
    """
    for name in cut.keys:
        state.key(name)
    for name, key in state.keys.items():
        frozen = cut.keys.get(name)
        if frozen is None:
            frozen = FrozenKey(Key(name))
        _join_key(state, key, frozen, cut, is_restored)
    for dot in cut.flushes:
        if dot not in state.flushes:
            state.flushes.append(dot)
    raise_to(state.flush_clears, cut.flush_clears)
    raise_to(state.vector, cut.vector)


def _join_key(state: State, key: Key, frozen: FrozenKey, cut: Frozen, is_restored: bool) -> None:
    existed = key.holds_data()
    key.changes += 1
    for dot in [one for one in key.entries if one not in frozen.entries]:
        if covers(cut.vector, dot):
            key.remove(dot)
            if dot[0] not in frozen.header:
                # It was removed with the whole key (S5.4).
                key.note_trimmed(dict([dot]))
    for dot, entry in frozen.entries.items():
        if dot not in key.entries and not covers(state.vector, dot):
            key.put(entry)
            if entry.entry_id <= key.read_to:
                state.count("S7.2")
            key.added += 1
            state.added.append(key.name)
    _join_header(key.header, frozen.header, state.vector, cut.vector)
    _join_groups(state, key, frozen, cut)
    deadlines = dict(key.deadlines)
    key.deadlines = _joined(key.deadlines, frozen.deadlines, state.vector, cut.vector)
    if key.deadlines != deadlines:
        state.timed.append(key.name)
    key.configurations = _joined(
        key.configurations, frozen.configurations, state.vector, cut.vector
    )
    _join_pairs(state, key, frozen, cut, is_restored)
    key.ids.update(frozen.ids)
    for one in frozen.tombstones:
        if one not in key.tombstones:
            key.tombstones.append(one)
    raise_to(key.clears, frozen.clears)
    raise_to(key.ever_trimmed, frozen.ever_trimmed)
    raise_to(key.removed_most, frozen.removed_most)
    # A log that the other side does not have may have gone with the key, unseen entries included.
    held = {region for region, _ in frozen.entries}
    raise_to(key.removed_most, {one: at for one, at in cut.vector.items() if one not in held})
    if key.holds_data():
        raise_to(key.trimmed, frozen.trimmed)
    if existed and not key.holds_data():
        restart_figures(key)


def _join_header(
    here: dict[int, tuple[int, int]],
    there: dict[int, tuple[int, int]],
    vector: Vector,
    other: Vector,
) -> None:
    for region in {*here, *there}:
        mine, theirs = here.get(region), there.get(region)
        if mine is not None and theirs != mine and covers(other, (region, mine[0])):
            del here[region]
        if theirs is not None and theirs != mine and not covers(vector, (region, theirs[0])):
            here[region] = theirs


def _joined(here: dict[Dot, T], there: dict[Dot, T], vector: Vector, other: Vector) -> dict[Dot, T]:
    """Elements of both sides, and those of one side that the other has not removed."""
    kept = {dot: one for dot, one in here.items() if dot in there or not covers(other, dot)}
    for dot, one in there.items():
        if dot not in kept and not covers(vector, dot):
            kept[dot] = one
    return kept


def _join_groups(state: State, key: Key, frozen: FrozenKey, cut: Frozen) -> None:
    for name in {*key.groups, *frozen.creates}:
        group = key.groups.get(name)
        mine = group.creates if group is not None else {}
        theirs = frozen.creates.get(name, {})
        before = group.acked() if group is not None else set()
        kept: dict[Dot, Create] = {}
        for dot in {*mine, *theirs}:
            if dot not in theirs:
                if covers(cut.vector, dot) or _is_buried(
                    name, frozen.tombstones, cut.flushes, state.vector
                ):
                    continue
                kept[dot] = mine[dot]
            elif dot not in mine:
                if covers(state.vector, dot) or _is_buried(
                    name, key.tombstones, state.flushes, cut.vector
                ):
                    continue
                kept[dot] = theirs[dot].copy()
            else:
                kept[dot] = mine[dot]
                kept[dot].acked |= theirs[dot].acked
        survives = any(dot in mine for dot in kept)
        if group is not None and not survives:
            end_group(state, key, name)
            group, before = None, set()
        if not kept:
            continue
        if group is None:
            group = key.groups[name] = Group()
            state.added.append(key.name)
        group.creates = kept
        for dot in [one for one in kept if one not in mine]:
            count_starts(state, group, kept[dot])
        learn_acknowledged(state, key, group, group.acked() - before, is_issued=False)


def _is_buried(
    name: bytes, tombstones: list[tuple[Optional[bytes], Dot]], flushes: list[Dot], vector: Vector
) -> bool:
    """Whether the other side has a tombstone of the group that this side's vector lacks."""
    dots = [dot for group, dot in tombstones if group in (None, name)]
    return any(not covers(vector, dot) for dot in [*dots, *flushes])


def _join_pairs(state: State, key: Key, frozen: FrozenKey, cut: Frozen, is_restored: bool) -> None:
    """One only there is taken if it is new; one only here goes only if a clear covers it."""
    clears = dict(frozen.clears)
    raise_to(clears, cut.flush_clears)
    kept: dict[Dot, Pair] = {}
    for dot, pair in key.pairs.items():
        if dot not in frozen.pairs and covers(clears, dot):
            if not is_restored:
                continue
            pair.is_doubtful = True
        kept[dot] = pair
    producers: set[bytes] = set()
    state.arrivals += 1
    for dot, pair in frozen.pairs.items():
        if dot not in kept and not covers(state.vector, dot):
            kept[dot] = pair.copy(state.clock_ms)
            kept[dot].arrival = state.arrivals
            state.paired.append((key.name, kept[dot]))
            producers.add(pair.pid)
    key.pairs = kept
    for pid in producers:
        retire(state, key, pid)
