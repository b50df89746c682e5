"""The state at a vector, by definition: a function of the set of effects that the vector covers.

The order in which the effects are taken does not matter.

    entry      present iff no removal names it: its dot, a prefix of its region log, or a vector
               that covers it (S5)
    header     holds each region's newest add or XSETID, unless a vector covers that (S3)
    create     lives iff its vector covers every tombstone of its name, and no vector of a
               RemoveObserved covers its dot (S6.1, S10.3)
    deadline   in force unless replaced, or covered by a RemoveObserved that also takes
               deadlines (S10.2)

Removals are kept for ever and never collected. So an element that wrongly comes back in a region
is found by comparison with this state.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, Final, Optional

from anabranch.crdt import effects as fx
from anabranch.crdt.vector import Vector
from anabranch.sim.logged import Add, Dot, Logged

NEVER: Final = (1 << 64) - 1  # the deadline of PERSIST, as the wire has it (S10.2)
# (entry ID, region_id, counter, the add): sorts in the order of the logical stream.
Place = tuple[int, int, int, Add]


def covers(vector: Vector, region: int, counter: int) -> bool:
    return vector.get(region, 0) >= counter


def raise_to(vector: Vector, other: Vector) -> None:
    """Raises `vector` in place to the component-wise maximum of both."""
    for region, counter in other.items():
        if counter > vector.get(region, 0):
            vector[region] = counter


class Create:
    """One create of a group. `start_id` is None for `$`; then the start is the vector (S6.3)."""

    __slots__ = ("dot", "start_id", "vector")

    def __init__(self, dot: Dot, effect: fx.CreateGroup) -> None:
        self.dot = dot
        self.vector = effect.vector
        self.start_id = None if effect.starts_at_vector else effect.start_id


class KeyState:
    """One key at a vector."""

    def __init__(self, key: bytes, cleared: Vector, tombstones: Vector) -> None:
        self.key = key
        # The entries present, in the order of the logical stream.
        self.stream: list[Place] = []
        # The entries present, by dot.
        self.adds: dict[Dot, Add] = {}
        # region_id → (counter, entry ID) of its newest add or XSETID.
        self.heads: dict[int, tuple[int, int]] = {}
        # Group name → its live creates; no name has an empty dict.
        self.groups: dict[bytes, dict[Dot, Create]] = {}
        # Dot → deadline in ms, or NEVER.
        self.deadlines: dict[Dot, int] = {}
        # Dot → (duration in s, maxsize).
        self.configurations: dict[Dot, tuple[int, int]] = {}
        # (pid, iid) → every idempotent add, cleared or not.
        self.pairs: dict[tuple[bytes, bytes], list[Add]] = {}
        # The durations of all configurations ever set.
        self.durations_s: list[int] = []
        # -- removals, kept for ever
        # Dots named by XDEL and by conflicts.
        self.gone: set[Dot] = set()
        # Entries and header removed by DEL, FLUSHALL, expiry.
        self.cleared: Vector = cleared
        self.trimmed: Vector = {}
        # Group name → region_id → the counter of that region's newest destroy.
        self.tombstones: dict[bytes, Vector] = {}
        # The newest DEL or FLUSHALL of each region.
        self.tombstones_of_all: Vector = tombstones
        # Creates removed by RemoveObserved.
        self.observed: Vector = {}
        self.deadlines_cleared: Vector = {}
        self.pairs_cleared: Vector = dict(cleared)
        # Dots of deadlines and configurations that a later one replaced.
        self.replaced: set[Dot] = set()

    # -- derived values

    def is_removed(self, region: int, counter: int) -> bool:
        """Whether a removal names an entry with that dot."""
        return (
            self.cleared.get(region, 0) >= counter
            or self.trimmed.get(region, 0) >= counter
            or (region, counter) in self.gone
        )

    def has_header(self) -> bool:
        """Whether the header is non-empty (S3.1)."""
        get = self.cleared.get
        return any(get(region, 0) < head[0] for region, head in self.heads.items())

    def last_id(self) -> int:
        """The highest ID of the header (S3.2); 0 if the header is empty."""
        highest = 0
        get = self.cleared.get
        for region, (counter, entry_id) in self.heads.items():
            if entry_id > highest and get(region, 0) < counter:
                highest = entry_id
        return highest

    def winning_deadline(self) -> Optional[tuple[Dot, int]]:
        """(dot, time in ms) of the longest deadline; on a tie the highest dot wins (S10.2)."""
        if not self.deadlines:
            return None
        dot = max(self.deadlines, key=lambda each: (self.deadlines[each], each[1], each[0]))
        return dot, self.deadlines[dot]

    def is_hidden(self, clock_ms: int) -> bool:
        if not self.deadlines:
            return False
        at_ms = max(self.deadlines.values())
        return at_ms != NEVER and clock_ms > at_ms

    def is_present(self) -> bool:
        """Whether the key exists when deadlines are ignored (S3.1)."""
        return bool(self.groups) or self.has_header()

    def with_id(self, entry_id: int) -> list[Add]:
        """The present entries that bear the ID."""
        found: list[Add] = []
        index = bisect_left(self.stream, (entry_id,))
        while index < len(self.stream) and self.stream[index][0] == entry_id:
            found.append(self.stream[index][3])
            index += 1
        return found

    # -- removals

    def drop(self, dots: list[Dot]) -> None:
        """Removes the entries with these dots from `adds` and `stream`."""
        if len(dots) > 8:
            for dot in dots:
                del self.adds[dot]
            self.stream = [place for place in self.stream if (place[1], place[2]) in self.adds]
            return
        for dot in dots:
            add = self.adds.pop(dot)
            del self.stream[bisect_left(self.stream, (add.entry_id, dot[0], dot[1]))]

    def drop_covered(self, vector: Vector) -> None:
        get = vector.get
        dots = [dot for dot in self.adds if get(dot[0], 0) >= dot[1]]
        if dots:
            self.drop(dots)

    def clear(self, vector: Vector) -> None:
        """The part that DEL, FLUSHALL and expiry share (S3.3, S5.4, S10.3)."""
        raise_to(self.cleared, vector)
        raise_to(self.pairs_cleared, vector)
        self.drop_covered(vector)
        for dot in [dot for dot in self.configurations if covers(self.cleared, *dot)]:
            del self.configurations[dot]

    def bury(self, name: Optional[bytes], region: int, counter: int) -> None:
        """Adds a tombstone for one name, or for all names if `name` is None.

        The tombstone kills the creates whose vectors do not cover it (S6.1).
        """
        raise_to(
            self.tombstones_of_all if name is None else self.tombstones.setdefault(name, {}),
            {region: counter},
        )
        for group in list(self.groups) if name is None else [name]:
            self.keep_creates(group, lambda create: covers(create.vector, region, counter))

    def keep_creates(self, name: bytes, lives: Callable[[Create], bool]) -> None:
        creates = self.groups.get(name)
        if creates is None:
            return
        for dot in [dot for dot, create in creates.items() if not lives(create)]:
            del creates[dot]
        if not creates:
            del self.groups[name]

    def is_buried(self, name: bytes, create: Create) -> bool:
        """Whether a tombstone or an observed-remove kills a create that arrives."""
        if covers(self.observed, *create.dot):
            return True
        vector = create.vector
        for tombstone in (self.tombstones_of_all, self.tombstones.get(name, {})):
            for region, counter in tombstone.items():
                if vector.get(region, 0) < counter:
                    return True
        return False


class State:
    """All keys at a vector."""

    def __init__(self) -> None:
        self.vector: Vector = {}
        self.keys: dict[bytes, KeyState] = {}
        self.flushed: Vector = {}
        self.flush_tombstones: Vector = {}

    def key(self, key: bytes) -> KeyState:
        """The key, made if need be."""
        found = self.keys.get(key)
        if found is None:
            found = self.keys[key] = KeyState(key, dict(self.flushed), dict(self.flush_tombstones))
        return found

    def apply(self, region: int, counter: int, effect: Logged) -> None:
        """Applies the next effect of a region."""
        self.vector[region] = counter
        if not isinstance(effect, fx.Acknowledge):  # Groups are here without what they were given.
            _APPLY[type(effect)](self, region, counter, effect)

    # -- one function for each effect

    def _add(self, region: int, counter: int, add: Add) -> None:
        state = self.keys.get(add.key)
        if state is None:
            state = self.key(add.key)
        state.heads[region] = (counter, add.entry_id)
        if add.pid:
            state.pairs.setdefault((add.pid, add.iid), []).append(add)
        if not state.is_removed(region, counter):
            state.adds[(region, counter)] = add
            entry_id = add.entry_id
            place = (entry_id, region, counter, add)
            stream = state.stream
            if not stream or stream[-1][0] < entry_id:
                stream.append(place)
                return
            insort(stream, place)

    def _remove_entries(self, region: int, counter: int, effect: fx.RemoveEntries) -> None:
        state = self.key(effect.key)
        state.gone.update(effect.dots)
        state.drop([dot for dot in dict.fromkeys(effect.dots) if dot in state.adds])

    def _trim(self, region: int, counter: int, effect: fx.Trim) -> None:
        state = self.key(effect.key)
        raise_to(state.trimmed, effect.prefix)
        state.drop_covered(effect.prefix)

    def _delete(self, region: int, counter: int, effect: fx.Delete) -> None:
        state = self.key(effect.key)
        state.clear(effect.vector)
        state.bury(None, region, counter)

    def _flush(self, region: int, counter: int, effect: fx.Flush) -> None:
        raise_to(self.flushed, effect.vector)
        raise_to(self.flush_tombstones, {region: counter})
        for state in self.keys.values():
            state.clear(effect.vector)
            state.bury(None, region, counter)

    def _set_id(self, region: int, counter: int, effect: fx.SetId) -> None:
        self.key(effect.key).heads[region] = (counter, effect.entry_id)

    def _create_group(self, region: int, counter: int, effect: fx.CreateGroup) -> None:
        state = self.key(effect.key)
        create = Create((region, counter), effect)
        if not state.is_buried(effect.group, create):
            state.groups.setdefault(effect.group, {})[create.dot] = create

    def _destroy_group(self, region: int, counter: int, effect: fx.DestroyGroup) -> None:
        self.key(effect.key).bury(effect.group, region, counter)

    def _set_deadline(self, region: int, counter: int, effect: fx.SetDeadline) -> None:
        state = self.key(effect.key)
        for dot in effect.replaces:
            state.replaced.add(dot)
            state.deadlines.pop(dot, None)
        if (region, counter) not in state.replaced and not covers(
            state.deadlines_cleared, region, counter
        ):
            state.deadlines[(region, counter)] = effect.at_ms

    def _remove_observed(self, region: int, counter: int, effect: fx.RemoveObserved) -> None:
        state = self.key(effect.key)
        vector = effect.vector
        state.clear(vector)
        raise_to(state.observed, vector)
        for name in list(state.groups):
            state.keep_creates(name, lambda create: not covers(vector, *create.dot))
        if effect.with_deadlines:
            raise_to(state.deadlines_cleared, vector)
            for dot in [dot for dot in state.deadlines if covers(vector, *dot)]:
                del state.deadlines[dot]

    def _configure(self, region: int, counter: int, effect: fx.Configure) -> None:
        state = self.key(effect.key)
        for dot in effect.replaces:
            state.replaced.add(dot)
            state.configurations.pop(dot, None)
        raise_to(state.pairs_cleared, effect.vector)
        state.durations_s.append(effect.duration_s)
        if (region, counter) not in state.replaced and not covers(state.cleared, region, counter):
            state.configurations[(region, counter)] = (effect.duration_s, effect.maxsize)


_APPLY: Final[dict[type, Callable[[State, int, int, Any], None]]] = {
    Add: State._add,
    fx.RemoveEntries: State._remove_entries,
    fx.Trim: State._trim,
    fx.Delete: State._delete,
    fx.Flush: State._flush,
    fx.SetId: State._set_id,
    fx.CreateGroup: State._create_group,
    fx.DestroyGroup: State._destroy_group,
    fx.SetDeadline: State._set_deadline,
    fx.RemoveObserved: State._remove_observed,
    fx.Configure: State._configure,
}
