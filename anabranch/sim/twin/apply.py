"""One effect applied to the twin's data: one function for each kind (S3, S5, S6, S8 to S10)."""

from __future__ import annotations

from typing import Optional

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
from anabranch.sim.twin.effects import Add, Announce, Plain
from anabranch.sim.twin.state import Create, Entry, Group, Key, Pair, Place, State
from anabranch.sim.twin.vectors import Dot, Vector, covers, raise_to


def apply(state: State, effect: Plain, dot: Dot, is_issued: bool) -> None:
    """Applies an effect. `is_issued`: this region issues it now, or its own log replays it."""
    if isinstance(effect, Flush):
        _flush(state, effect, dot)
    else:
        key = state.key(effect.key)
        existed, was_filled = key.holds_data(), bool(key.entries)
        if not isinstance(effect, Announce):
            key.changes += 1
        if isinstance(effect, Add):
            _add(state, key, effect, dot, is_issued)
        elif isinstance(effect, RemoveEntries):
            for one in effect.dots:
                _drop(key, one)
        elif isinstance(effect, Trim):
            _trim(state, key, effect)
        elif isinstance(effect, Delete):
            if is_issued and key.deadlines:
                state.count("S3.3")
            last_id = key.last_id()
            remove_observed(key, effect.vector)
            raise_to(key.clears, effect.vector)
            if 0 < key.last_id() < last_id:
                state.count("S3.2")
            key.tombstones.append((None, dot))
            for name in list(key.groups):
                end_creates(state, key, name, None)
        elif isinstance(effect, SetId):
            key.header[dot[0]] = (dot[1], effect.entry_id)
        elif isinstance(effect, CreateGroup):
            _create(state, key, effect, dot)
        elif isinstance(effect, DestroyGroup):
            key.tombstones.append((effect.group, dot))
            end_creates(state, key, effect.group, None)
        elif isinstance(effect, Announce):
            _acknowledge(state, key, effect, is_issued)
        elif isinstance(effect, SetDeadline):
            for one in effect.replaces:
                key.deadlines.pop(one, None)
            key.deadlines[dot] = effect.at_ms
            state.timed.append(key.name)
        elif isinstance(effect, RemoveObserved):
            remove_observed(key, effect.vector)
            raise_to(key.clears, effect.vector)
            for name in list(key.groups):
                end_creates(state, key, name, effect.vector)
            if effect.with_deadlines:
                key.deadlines = {
                    one: at for one, at in key.deadlines.items() if not covers(effect.vector, one)
                }
                state.timed.append(key.name)
        else:
            _configure(key, effect, dot)
        if was_filled and not key.entries and key.holds_data():
            state.count("S3.1")
        if existed and not key.holds_data():
            restart_figures(key)
    state.vector[dot[0]] = dot[1]


# -- entries


def _add(state: State, key: Key, effect: Add, dot: Dot, is_issued: bool) -> None:
    key.put(Entry(dot, effect.entry_id, effect.fields))
    if not is_issued and effect.entry_id <= key.read_to:
        state.count("S7.2")
    for group in key.groups.values():
        starts = [one.start for one in group.creates.values() if not one.start.is_id]
        if any(effect.entry_id <= start.entry_id for start in starts):
            state.count("S6.4")
    key.header[dot[0]] = (dot[1], effect.entry_id)
    key.added += 1
    state.added.append(key.name)
    one = effect.pairing
    if one is not None:
        held_ms = one.recorded_ms if is_issued else state.clock_ms
        pair = Pair(dot, effect.entry_id, one.pid, one.iid, one.recorded_ms, one.vector, held_ms)
        state.arrivals += 1
        pair.arrival = state.arrivals
        key.pairs[dot] = pair
        state.paired.append((key.name, pair))
        retire(state, key, one.pid)


def retire(state: State, key: Key, pid: bytes) -> None:
    """The oldest pairs of a producer beyond maxsize answer no retries any more (S9.3).

    Free: which pairs are the oldest, where times and the order of arrival differ, because the
    clocks of regions do; and which were pushed out before a start, if the setting has changed.
    Then each pair may answer or not.
    """
    lowest, highest = state.maxsizes(key)
    pairs = [one for one in key.pairs.values() if one.pid == pid and not one.is_retired]
    if len(pairs) <= lowest:
        return
    pairs.sort(key=lambda one: (one.arrival, one.recorded_ms, one.entry_id))
    in_order = all(map(_is_older, pairs, pairs[1:]))
    surely_newer = sum(not one.is_doubtful for one in pairs)
    for place, one in enumerate(pairs):
        surely_newer -= not one.is_doubtful
        if not in_order:
            one.is_doubtful = True
        elif len(pairs) - place > lowest:
            one.is_retired = surely_newer >= highest
            one.is_doubtful = True


def _is_older(one: Pair, other: Pair) -> bool:
    """Whether of two pairs in the order of arrival the first is the older one by its times, too."""
    times = (one.recorded_ms, one.entry_id), (other.recorded_ms, other.entry_id)
    if one.arrival < other.arrival:
        return times[0][0] <= times[1][0] and times[0][1] < times[1][1]
    return times[0][0] < times[1][0] and times[0][1] < times[1][1]  # one snapshot brought both


def _drop(key: Key, dot: Dot) -> None:
    """Removes an entry, as XDEL does."""
    entry = key.entries.get(dot)
    if entry is not None:
        key.remove(dot)
        key.max_deleted = max(key.max_deleted, entry.entry_id)


def _trim(state: State, key: Key, effect: Trim) -> None:
    key.note_trimmed(effect.prefix)
    for region in effect.prefix:
        # A log that went with the key may be told as trimmed up to where the key was removed.
        for clears in (key.clears, state.flush_clears):
            raise_to(key.removed_most, {region: clears.get(region, 0)})
    for dot in [one for one in key.entries if covers(effect.prefix, one)]:
        key.remove(dot)
    if effect.drops_references:
        for group in key.groups.values():
            pel = group.local.pel
            for dot in [one for one in pel if covers(effect.prefix, one)]:
                del pel[dot]
            raise_to(group.local.unreferenced, effect.prefix)


def remove_observed(key: Key, vector: Vector) -> None:
    """Removes the entries, header, pairs and configurations that a vector covers (S10.3)."""
    for dot in [one for one in key.entries if covers(vector, one)]:
        key.remove(dot)
        key.note_trimmed(dict([dot]))
    for region, (counter, _) in list(key.header.items()):
        if covers(vector, (region, counter)):
            del key.header[region]
    key.pairs = {dot: pair for dot, pair in key.pairs.items() if not covers(vector, dot)}
    key.configurations = {
        dot: value for dot, value in key.configurations.items() if not covers(vector, dot)
    }


def restart_figures(key: Key) -> None:
    """The local statistics begin anew with the next life of the key (S3.4), and so do trims."""
    key.trimmed = {}
    key.added = 0
    key.max_deleted = 0


# -- groups


def end_creates(state: State, key: Key, name: bytes, vector: Optional[Vector]) -> None:
    """Removes the creates that a vector covers, or all (None).

    With the last one the local state of the group ends (S6.5).
    """
    group = key.groups.get(name)
    if group is None:
        return
    group.creates = {
        dot: one
        for dot, one in group.creates.items()
        if vector is not None and not covers(vector, dot)
    }
    if not group.creates:
        end_group(state, key, name)


def end_group(state: State, key: Key, name: bytes) -> None:
    """The local state of a group ends (S6.5)."""
    local = key.groups.pop(name).local
    state.ended.append(key.name)
    if local.highest or local.set_back:
        state.count("S6.5")


def _create(state: State, key: Key, effect: CreateGroup, dot: Dot) -> None:
    """A create dies if a tombstone here is not covered by its vector (S6.1)."""
    tombs = [one for name, one in key.tombstones if name in (None, effect.group)]
    if any(not covers(effect.vector, one) for one in [*tombs, *state.flushes]):
        return
    place = Place(not effect.starts_at_vector, effect.start_id, dict(effect.vector))
    if effect.starts_at_vector:
        header = key.header.items()
        had = [one for region, (at, one) in header if covers(effect.vector, (region, at))]
        place.entry_id = max(had, default=0)
        if any(place.is_below(one.dot, 0) for one in key.between(0, place.entry_id)):
            state.count("S6.4")
    group = key.groups.setdefault(effect.group, Group())
    create = group.creates[dot] = Create(dot, place, set())
    count_starts(state, group, create)
    state.added.append(key.name)


def count_starts(state: State, group: Group, create: Create) -> None:
    """Counts what a create that is new here means to those with other starts."""
    others = [one for one in group.creates.values() if not one.start.is_as(create.start)]
    if others:
        state.count("S6.3")
        if create.acked or any(one.acked for one in others):
            state.count("S8.4")


def _acknowledge(state: State, key: Key, effect: Announce, is_issued: bool) -> None:
    group = key.groups.get(effect.group)
    if group is None:
        return
    before = group.acked()
    named = [group.creates[dot] for dot in effect.creates if dot in group.creates]
    for create in named:
        create.acked |= effect.counters
    others = [one for one in group.creates.values() if one.dot not in effect.creates]
    if any(not one.start.is_as(create.start) for one in others for create in named):
        state.count("S8.4")
    key.ids.update(effect.ids)
    learn_acknowledged(state, key, group, group.acked() - before, is_issued)


def learn_acknowledged(
    state: State, key: Key, group: Group, news: set[Dot], is_issued: bool
) -> None:
    """What is newly acknowledged is given, and leaves the PELs of other regions (S8.2)."""
    group.local.given |= news
    if not is_issued:
        if key.name not in state.with_gaps and _is_above_undelivered(key, group, news):
            state.with_gaps.append(key.name)
        pel = group.local.pel
        if not news.isdisjoint(pel):
            state.count("S8.2")
        for dot in news:
            pel.pop(dot, None)


def _is_above_undelivered(key: Key, group: Group, news: set[Dot]) -> bool:
    """Whether some of these entries lie above one of their log that `>` would still deliver."""
    for region in {region for region, _ in news}:
        highest = max(counter for one, counter in news if one == region)
        for counter, entry_id in key.logs.get(region, {}).items():
            if counter < highest and group.is_undelivered((region, counter), entry_id):
                return True
    return False


# -- whole keys


def _flush(state: State, effect: Flush, dot: Dot) -> None:
    state.flushes.append(dot)
    raise_to(state.flush_clears, effect.vector)
    for key in state.keys.values():
        existed = key.holds_data()
        key.changes += 1
        remove_observed(key, effect.vector)
        for name in list(key.groups):
            end_creates(state, key, name, None)
        if existed and not key.holds_data():
            restart_figures(key)


def _configure(key: Key, effect: Configure, dot: Dot) -> None:
    for one in effect.replaces:
        key.configurations.pop(one, None)
    key.configurations[dot] = (effect.duration_s, effect.maxsize)
    key.pairs = {one: pair for one, pair in key.pairs.items() if not covers(effect.vector, one)}
    raise_to(key.clears, effect.vector)


def key_of(effect: Plain) -> Optional[bytes]:
    """The key that an effect changes; None for every key."""
    return None if isinstance(effect, Flush) else effect.key
