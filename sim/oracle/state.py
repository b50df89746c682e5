"""The state at a vector, by definition: a function of the set of effects that the vector covers, in whatever order they are taken.

    an entry      is present iff no removal named it: its dot, a prefix of its region log, or a vector that covers it (S5)
    the header    has of each region its newest add or XSETID, unless a vector covers that (S3)
    a create      lives iff its vector covers every tombstone of its name, and no vector of a RemoveObserved covers its dot (S6.1, S10.3)
    a deadline    is in force unless replaced, or covered by a RemoveObserved that takes deadlines, too (S10.2)

Removals are remembered for ever: nothing here is ever collected. That is what makes it naive, and the judge of what comes back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, Final, Optional

from anabranch.crdt import effects as fx
from anabranch.sim.oracle.log import Add, Dot, Logged, Vector

NEVER: Final = (1 << 64) - 1  # the deadline of PERSIST, as the wire has it (S10.2)
# (entry ID, region_id, counter, the add): sorts as the logical stream does
Place = tuple[int, int, int, Add]


def covers(vector: Vector, region: int, counter: int) -> bool:
    return vector.get(region, 0) >= counter


def raise_to(vector: Vector, other: Vector) -> None:
    """The component-wise maximum, in place."""
    for region, counter in other.items():
        if counter > vector.get(region, 0):
            vector[region] = counter


class Create:
    """One create of a group. `start_id` None: `$`, the vector."""

    __slots__ = ("dot", "start_id", "vector")

    def __init__(self, dot: Dot, effect: fx.CreateGroup) -> None:
        self.dot = dot
        self.vector = effect.vector
        self.start_id = None if effect.starts_at_vector else effect.start_id

    def is_below(self, add: Add) -> bool:
        """Whether that entry lies above this start (S6.3)."""
        if self.start_id is not None:
            return add.entry_id > self.start_id
        return not covers(self.vector, add.region, add.counter)


class KeyState:
    """One key at a vector."""

    def __init__(self, key: bytes, cleared: Vector, tombstones: Vector) -> None:
        self.key = key
        self.stream: list[Place] = []  # the entries present, as the logical stream
        self.adds: dict[Dot, Add] = {}  # the same by dot
        # region_id → (counter, entry ID) of its newest add or XSETID
        self.heads: dict[int, tuple[int, int]] = {}
        self.groups: dict[bytes, dict[Dot, Create]] = {}  # the live creates; never an empty dict
        # by group: spans (region_id, from, to] ever said to be acknowledged
        self.announced: dict[bytes, list[tuple[int, int, int]]] = {}
        self.deadlines: dict[Dot, int] = {}
        self.configurations: dict[Dot, tuple[int, int]] = {}
        # every idempotent add, by (pid, iid), cleared or not
        self.pairs: dict[tuple[bytes, bytes], list[Add]] = {}
        self.pair_counts: dict[bytes, int] = {}  # by pid
        self.least_maxsize = 1 << 30  # of all configurations that there ever were
        self.durations_s: list[int] = []  # likewise, of all of them
        self.touched: Vector = {}  # the newest effect on this key by region, announcements left out
        self.changes = 0  # how often a client could have seen it change
        # -- removals, for ever
        self.gone: set[Dot] = set()  # named by XDEL and by conflicts
        self.cleared: Vector = cleared  # DEL, FLUSHALL, expiry
        self.trimmed: Vector = {}
        self.tombstones: dict[bytes, Vector] = {}  # destroys, by name: of each region the newest
        self.tombstones_of_all: Vector = tombstones  # DELs and FLUSHALLs
        self.observed: Vector = {}  # RemoveObserved: what it takes of creates
        self.deadlines_cleared: Vector = {}
        self.pairs_cleared: Vector = dict(cleared)
        self.replaced: set[Dot] = set()  # deadlines and configurations

    # -- what follows from it

    def is_removed(self, region: int, counter: int) -> bool:
        """Whether a removal names an entry with that dot."""
        return (
            self.cleared.get(region, 0) >= counter
            or self.trimmed.get(region, 0) >= counter
            or (region, counter) in self.gone
        )

    def has_header(self) -> bool:
        """Whether something of the header is left (S3.1)."""
        get = self.cleared.get
        return any(get(region, 0) < head[0] for region, head in self.heads.items())

    def last_id(self) -> int:
        """The highest ID of the header (S3.2); 0 without one."""
        highest = 0
        get = self.cleared.get
        for region, (counter, entry_id) in self.heads.items():
            if entry_id > highest and get(region, 0) < counter:
                highest = entry_id
        return highest

    def winning_deadline(self) -> Optional[tuple[Dot, int]]:
        """The longest; of equal ones that of the highest dot (S10.2)."""
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
        """Deadlines aside (S3.1)."""
        return bool(self.groups) or self.has_header()

    def configuration(self) -> Optional[tuple[int, int]]:
        """(duration in s, maxsize) of the highest dot (S9.4); None without one."""
        if not self.configurations:
            return None
        return self.configurations[max(self.configurations, key=lambda dot: (dot[1], dot[0]))]

    def open_pairs(self, pid: bytes, iid: bytes) -> list[Add]:
        """The adds of a pair that nothing cleared (S9.4)."""
        cleared = self.pairs_cleared
        return [
            add
            for add in self.pairs.get((pid, iid), ())
            if cleared.get(add.region, 0) < add.counter
        ]

    def open_pair_count(self) -> int:
        """How many idempotent adds nothing cleared."""
        cleared = self.pairs_cleared
        return sum(
            cleared.get(add.region, 0) < add.counter for adds in self.pairs.values() for add in adds
        )

    def with_id(self, entry_id: int) -> list[Add]:
        """The entries present that bear the ID."""
        found: list[Add] = []
        index = bisect_left(self.stream, (entry_id,))
        while index < len(self.stream) and self.stream[index][0] == entry_id:
            found.append(self.stream[index][3])
            index += 1
        return found

    def between(self, start: int, end: int) -> list[Add]:
        """The entries with start ≤ ID ≤ end, as the logical stream has them."""
        stream = self.stream
        low = bisect_left(stream, (start,)) if start > 0 else 0
        high = bisect_left(stream, (end + 1,))
        return [place[3] for place in stream[low:high]]

    # -- removals

    def drop(self, dots: list[Dot]) -> None:
        """Entries that are present no more."""
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
        """What DEL, FLUSHALL and expiry have in common (S3.3, S5.4, S10.3)."""
        raise_to(self.cleared, vector)
        raise_to(self.pairs_cleared, vector)
        self.drop_covered(vector)
        for dot in [dot for dot in self.configurations if covers(self.cleared, *dot)]:
            del self.configurations[dot]

    def bury(self, name: Optional[bytes], region: int, counter: int) -> None:
        """A tombstone for one name, or with None for all: kills the creates whose vectors do not cover it (S6.1)."""
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
        """Whether a tombstone, or an observed-remove, has a create that arrives."""
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
        # entries that came to be present beside one of the same ID; taken by whoever looks
        self.twins: list[tuple[Add, Add]] = []

    def key(self, key: bytes) -> KeyState:
        found = self.keys.get(key)
        if found is None:
            found = self.keys[key] = KeyState(key, dict(self.flushed), dict(self.flush_tombstones))
        return found

    def apply(self, region: int, counter: int, effect: Logged) -> None:
        """Takes the next effect of a region."""
        self.vector[region] = counter
        _APPLY[type(effect)](self, region, counter, effect)

    def touch(self, key: bytes, region: int, counter: int) -> KeyState:
        state = self.key(key)
        state.touched[region] = counter
        state.changes += 1
        return state

    # -- one function an effect

    def _add(self, region: int, counter: int, add: Add) -> None:
        state = self.keys.get(add.key)
        if state is None:
            state = self.key(add.key)
        state.touched[region] = counter
        state.changes += 1
        state.heads[region] = (counter, add.entry_id)
        if add.pid:
            state.pairs.setdefault((add.pid, add.iid), []).append(add)
            state.pair_counts[add.pid] = state.pair_counts.get(add.pid, 0) + 1
        if not state.is_removed(region, counter):
            state.adds[(region, counter)] = add
            entry_id = add.entry_id
            place = (entry_id, region, counter, add)
            stream = state.stream
            if not stream or stream[-1][0] < entry_id:
                stream.append(place)
                return
            self.twins += [(twin, add) for twin in state.with_id(entry_id)]
            insort(stream, place)

    def _remove_entries(self, region: int, counter: int, effect: fx.RemoveEntries) -> None:
        state = self.touch(effect.key, region, counter)
        state.gone.update(effect.dots)
        state.drop([dot for dot in dict.fromkeys(effect.dots) if dot in state.adds])

    def _trim(self, region: int, counter: int, effect: fx.Trim) -> None:
        state = self.touch(effect.key, region, counter)
        raise_to(state.trimmed, effect.prefix)
        state.drop_covered(effect.prefix)

    def _delete(self, region: int, counter: int, effect: fx.Delete) -> None:
        state = self.touch(effect.key, region, counter)
        state.clear(effect.vector)
        state.bury(None, region, counter)

    def _flush(self, region: int, counter: int, effect: fx.Flush) -> None:
        raise_to(self.flushed, effect.vector)
        raise_to(self.flush_tombstones, {region: counter})
        for state in self.keys.values():
            state.changes += 1
            state.clear(effect.vector)
            state.bury(None, region, counter)

    def _set_id(self, region: int, counter: int, effect: fx.SetId) -> None:
        self.touch(effect.key, region, counter).heads[region] = (counter, effect.entry_id)

    def _create_group(self, region: int, counter: int, effect: fx.CreateGroup) -> None:
        state = self.touch(effect.key, region, counter)
        create = Create((region, counter), effect)
        if not state.is_buried(effect.group, create):
            state.groups.setdefault(effect.group, {})[create.dot] = create

    def _destroy_group(self, region: int, counter: int, effect: fx.DestroyGroup) -> None:
        self.touch(effect.key, region, counter).bury(effect.group, region, counter)

    def _acknowledge(self, region: int, counter: int, effect: fx.Acknowledge) -> None:
        state = self.key(effect.key)
        # An announcement is no change that a client could mean (S10.7), and once its group is gone a key may be forgotten with it (S10.6).
        announced = state.announced.setdefault(effect.group, [])
        for origin, spans in effect.spans.items():
            announced += [
                (origin, start, end) for start, end in zip(spans.starts, spans.ends, strict=True)
            ]

    def _set_deadline(self, region: int, counter: int, effect: fx.SetDeadline) -> None:
        state = self.touch(effect.key, region, counter)
        for dot in effect.replaces:
            state.replaced.add(dot)
            state.deadlines.pop(dot, None)
        if (region, counter) not in state.replaced and not covers(
            state.deadlines_cleared, region, counter
        ):
            state.deadlines[(region, counter)] = effect.at_ms

    def _remove_observed(self, region: int, counter: int, effect: fx.RemoveObserved) -> None:
        state = self.touch(effect.key, region, counter)
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
        state = self.touch(effect.key, region, counter)
        for dot in effect.replaces:
            state.replaced.add(dot)
            state.configurations.pop(dot, None)
        raise_to(state.pairs_cleared, effect.vector)
        state.least_maxsize = min(state.least_maxsize, effect.maxsize)
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
    fx.Acknowledge: State._acknowledge,
    fx.SetDeadline: State._set_deadline,
    fx.RemoveObserved: State._remove_observed,
    fx.Configure: State._configure,
}
