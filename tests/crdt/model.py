"""A region that is nothing but the simulator's twin (`sim.twin`), for the tests of `crdt`.

The twin forgets nothing. `Model` adds what a region forgets once it is stable (S6.2, S11.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Optional, TypeVar

from anabranch.crdt.effects import RemoveObserved
from anabranch.crdt.ids import format_id
from anabranch.crdt.place import Place as PackedPlace
from anabranch.region.engine.replies import CommandError
from anabranch.region.engine.setting import Value
from anabranch.sim import calls
from anabranch.sim.twin.announce import runs
from anabranch.sim.twin.apply import apply, key_of
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.dispatch import HANDLERS, run
from anabranch.sim.twin.effects import Announce, Plain
from anabranch.sim.twin.join import Frozen, join
from anabranch.sim.twin.session import Session
from anabranch.sim.twin.state import NEVER, Key, Place, State
from anabranch.sim.twin.vectors import Dot, Vector, covers, raise_to

# An entry ID, or (region_id, counter) for each region (`$`).
Start = int | tuple[tuple[int, int], ...]

_SETTINGS: dict[str, Value] = {
    "crdt-xadd-id-uniqueness-mode": "liberal",
    "crdt-unit-max-bytes": 1 << 30,
}

T = TypeVar("T")


class Held(NamedTuple):
    """The local state of a group (S6.5). `pel`: (entry ID, consumer, time in ms, deliveries)."""

    floor: Optional[Start]
    raised: int
    given: set[Dot]
    dropped: set[Dot]
    pel: dict[Dot, tuple[int, bytes, int, int]]
    consumers: set[bytes]


Contents = tuple[dict[Any, Any], ...]
"""Entries, header, creates, deadlines and configurations of a key, by dot."""
Locals = dict[tuple[bytes, bytes], Held]
"""Local states by (key, group)."""


class Commands(Generic[T]):
    """The commands that change a region. Each returns what it issued; nothing if it was refused."""

    def run(self, *argv: bytes) -> list[T]:
        """Runs a command of a client."""
        raise NotImplementedError

    def add(
        self,
        key: bytes,
        fields: tuple[bytes, ...] = (b"f", b"v"),
        entry_id: int = 0,
        pid: bytes = b"",
        iid: bytes = b"",
    ) -> list[T]:
        """XADD with `entry_id`, or with `*` if that is 0; with a pair if `pid` is not empty."""
        pair = (b"IDMP", pid, iid) if pid else ()
        return self.run(b"XADD", key, *pair, format_id(entry_id) if entry_id else b"*", *fields)

    def delete_entry(self, key: bytes, entry_id: int) -> list[T]:
        """XDEL of one ID."""
        return self.run(b"XDEL", key, format_id(entry_id))

    def trim(self, key: bytes, length_max: int, drops_references: bool = False) -> list[T]:
        """XTRIM MAXLEN; with DELREF if `drops_references`."""
        flags = (b"DELREF",) if drops_references else ()
        return self.run(b"XTRIM", key, b"MAXLEN", b"%d" % length_max, *flags)

    def delete(self, key: bytes) -> list[T]:
        """DEL."""
        return self.run(b"DEL", key)

    def flush(self) -> list[T]:
        """FLUSHALL."""
        return self.run(b"FLUSHALL")

    def rename(self, source: bytes, target: bytes) -> list[T]:
        """RENAME."""
        return self.run(b"RENAME", source, target)

    def set_id(self, key: bytes, entry_id: int) -> list[T]:
        """XSETID."""
        return self.run(b"XSETID", key, format_id(entry_id))

    def configure(self, key: bytes, duration_s: int, maxsize: int) -> list[T]:
        """XCFGSET."""
        values = (b"IDMP-DURATION", b"%d" % duration_s, b"IDMP-MAXSIZE", b"%d" % maxsize)
        return self.run(b"XCFGSET", key, *values)

    def create(self, key: bytes, group: bytes, start_id: Optional[int]) -> list[T]:
        """XGROUP CREATE … MKSTREAM; `start_id` None is `$`."""
        start = b"$" if start_id is None else format_id(start_id)
        return self.run(b"XGROUP", b"CREATE", key, group, start, b"MKSTREAM")

    def destroy(self, key: bytes, group: bytes) -> list[T]:
        """XGROUP DESTROY."""
        return self.run(b"XGROUP", b"DESTROY", key, group)

    def expire_at(self, key: bytes, at_ms: int) -> list[T]:
        """PEXPIREAT (Unix time in ms), or PERSIST if `at_ms` is NEVER."""
        if at_ms == NEVER:
            return self.run(b"PERSIST", key)
        return self.run(b"PEXPIREAT", key, b"%d" % at_ms)


class Model(Commands[Plain]):
    """A region that is nothing but its twin.

    `touched` has the dots of all effects on each key, as long as the region remembers the key.
    """

    def __init__(self, region_id: int, clock_ms: int = 1000) -> None:
        self.twin = TwinCore(region_id)
        self.twin.is_alone = True
        facts = self.twin.facts = calls.EngineFacts(
            {}, 0, False, clock_ms, 0, 0, "serving", "", 0, (region_id,)
        )
        self.twin.call = calls.Call(region_id, calls.EXECUTE, 0, facts, [], [], [], _SETTINGS)
        self.state.clock_ms = clock_ms
        self.touched: dict[bytes, set[Dot]] = {}

    @property
    def state(self) -> State:
        """The data of the twin."""
        return self.twin.state

    @property
    def vector(self) -> Vector:
        """All effects that were applied."""
        return self.state.vector

    @property
    def keys(self) -> dict[bytes, Key]:
        """The keys that the region remembers."""
        return self.state.keys

    # -- steps

    def run(self, *argv: bytes) -> list[Plain]:
        """Runs a command; the effects are applied."""
        assert argv[0] in HANDLERS and b"~" not in argv, "the twin follows a region in this"
        self.twin.to_follow = {}
        # A command that is refused, or answered with the ID of an earlier add, issues nothing.
        try:
            run(self.twin, Session(0), argv)
        except CommandError as error:
            assert not self.twin.to_follow and "syntax" not in error.message
        for counter, effect in self.twin.to_follow.items():
            self._touch(effect, (self.twin.region, counter))
        self._forget_empty_keys()
        return list(self.twin.to_follow.values())

    def issue(self, effects: Sequence[Plain]) -> list[Plain]:
        """Issues effects."""
        for effect in effects:
            self.apply(effect, (self.twin.region, self.twin.counter() + 1), is_own=True)
        return list(effects)

    def expiry(self, key: bytes) -> list[Plain]:
        """The removal after a passed deadline (S10.3), if it has passed.

        If the key holds nothing but deadlines, it removes these (S10.6).
        """
        held = self.keys.get(key)
        if held is None or not held.is_hidden(self.state.clock_ms):
            return []
        parts = (held.entries, held.header, held.groups, held.configurations, held.pairs)
        return [RemoveObserved(key, dict(self.vector), not any(parts))]

    def announcement(self, key: bytes, group: bytes) -> list[Plain]:
        """The acknowledgements that a sync round announces (S8.1), if there are any."""
        held = self.keys.get(key)
        if held is None or group not in held.groups:
            return []
        live = held.groups[group]
        counters = runs(held, live, live.acked())
        return [Announce(key, group, sorted(live.creates), counters, {})] if counters else []

    def apply(self, effect: Plain, dot: Dot, is_own: bool = False) -> None:
        """Applies the next effect of the dot's region. `is_own` if this region issues it now."""
        assert dot[1] == self.vector.get(dot[0], 0) + 1, "a gap in the counters"
        given = self._given(effect) if is_own and isinstance(effect, Announce) else set()
        before = set(given)
        apply(self.state, effect, dot, is_own)
        # All entries of a run are given already. Here the twin adds counters that no entry bears,
        # and `crdt` changes no local state at all (S8.2).
        given.intersection_update(before)
        self._touch(effect, dot)
        self._forget_empty_keys()

    def join(self, other: Model) -> None:
        """Joins the state of `other` into this region; `other` is unchanged (S11.3)."""
        join(self.state, Frozen(other.state, may_forget=False), is_restored=False)
        for key, dots in other.touched.items():
            self.touched.setdefault(key, set()).update(dots)
        self._forget_empty_keys()

    def collect(self, stable: Vector) -> None:
        """Drops the tombstones and clears that are no longer needed when `stable` is stable.

        Source: S6.2, S11.3.
        """
        for name, key in self.keys.items():
            key.tombstones = [one for one in key.tombstones if not covers(stable, one[1])]
            if all(covers(stable, dot) for dot in self.touched[name]):
                key.clears = {}
        self.state.flushes = [dot for dot in self.state.flushes if not covers(stable, dot)]
        if not self.state.flushes:
            # Kept, as those of a key are, until every FLUSHALL known here is stable.
            self.state.flush_clears = {}
        self._forget_empty_keys()

    def _given(self, effect: Announce) -> set[Dot]:
        return self.keys[effect.key].groups[effect.group].local.given

    def _touch(self, effect: Plain, dot: Dot) -> None:
        name = key_of(effect)
        if name is not None:
            self.touched.setdefault(name, set()).add(dot)

    def _forget_empty_keys(self) -> None:
        for name, key in list(self.keys.items()):
            if not (key.has_remnants() or key.tombstones or key.clears):
                del self.keys[name]
        self.touched = {name: self.touched.get(name, set()) for name in self.keys}

    # -- what tests compare

    def converged(self) -> dict[bytes, Contents]:
        """The state that the digest covers (S13.9), by key. Leaves out keys without such state."""
        found = {name: _converged(key) for name, key in self.keys.items()}
        return {name: contents for name, contents in found.items() if any(contents)}

    def kept(self) -> dict[object, object]:
        """Tombstones, clears and pairs, in the form in which a keyspace holds them.

        A keyspace keeps only the newest tombstone of each region.
        """
        state = self.state
        result: dict[object, object] = {"flush": (highest(state.flushes), state.flush_clears)}
        for name, key in self.keys.items():
            tombstones = {
                group: highest([dot for each, dot in key.tombstones if each == group])
                for group in {each for each, _ in key.tombstones}
            }
            pairs = {
                dot: (pair.pid, pair.iid, pair.entry_id, pair.recorded_ms, pair.held_ms)
                for dot, pair in key.pairs.items()
            }
            contents = (tombstones, key.clears, pairs)
            if any(contents):
                result[name] = contents
        return result

    def locals(self) -> Locals:
        """The local state of all live groups."""
        result: Locals = {}
        for name, key in self.keys.items():
            for group_name, group in key.groups.items():
                local = group.local
                pel = {
                    dot: (one.entry_id, one.consumer, one.delivered_ms, one.deliveries)
                    for dot, one in local.pel.items()
                }
                result[name, group_name] = Held(
                    None if local.floor is None else start_of(local.floor),
                    local.raised,
                    local.given,
                    # A deleted entry counts as neither pending nor dropped (S8.1).
                    local.dropped & key.entries.keys(),
                    pel,
                    set(local.consumers),
                )
        return result


def start_of(place: Place | PackedPlace) -> Start:
    """A start or floor as a value."""
    return place.entry_id if place.is_id else tuple(sorted(place.counters.items()))


def highest(dots: Sequence[Dot]) -> Vector:
    """The highest counter of each region."""
    result: Vector = {}
    for dot in dots:
        raise_to(result, dict([dot]))
    return result


def _converged(key: Key) -> Contents:
    entries = {entry.dot: (entry.entry_id, tuple(entry.fields)) for entry in key.entries.values()}
    header = {(region, counter): one for region, (counter, one) in key.header.items()}
    creates = {
        (name, dot): (start_of(create.start), frozenset(create.acked))
        for name, group in key.groups.items()
        for dot, create in group.creates.items()
    }
    return entries, header, creates, dict(key.deadlines), dict(key.configurations)
