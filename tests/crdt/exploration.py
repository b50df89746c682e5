"""Exhaustive exploration of every small history of three regions, up to renaming them (S11.3).

A history is a set of units. One region issues each unit; its past is the causally closed set of
units that this region had applied before. A region can have applied any causally closed part of a
history, so each of these parts is one region state. Every proper part of a history is itself a
smaller history, which is explored on its own. Therefore the checks of a history cover only states
and operations that involve all of its units:

    commute   The state does not depend on which of the history's last units is applied last, by
              digest and by the twin.
    join      Any two parts whose union is the history join to the state that shipping the effects
              gives, in both directions.
    collect   A part that has collected its stable tombstones and clears reaches the same state:
              by applying the other effects, by joining another part, and by being joined to one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from xxhash import xxh3_128_digest

from anabranch.crdt.apply import apply
from anabranch.crdt.collecting import collect, collect_flush
from anabranch.crdt.effects import Delete, DestroyGroup, Effect, RemoveObserved
from anabranch.crdt.ids import make
from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.snapshot import read_snapshot
from anabranch.crdt.vector import Vector
from anabranch.sim.twin.effects import Plain
from anabranch.sim.twin.reading import handed, undelivered
from anabranch.sim.twin.records import Delivered, apply_record
from anabranch.sim.twin.state import NEVER
from anabranch.sim.twin.vectors import Dot
from tests.crdt.model import Contents, Model
from tests.crdt.support import converged, effect_of, kept, locals_of, snapshot_bytes

KEY, GROUP = b"k", b"g"
REGIONS = (1, 2, 3)
OBSERVER = 9
EARLY_MS, DEADLINE_MS, LATE_MS = 1000, 1500, 2000
# States kept in memory; above this number they are dropped and computed again when needed.
STATES_MAX = 20_000
# Results of joins kept in memory, likewise.
JOINS_MAX = 1_000_000
LIMITS = NodeLimits(2, 100)
RENAMINGS = [dict(zip(REGIONS, images, strict=True)) for images in permutations(REGIONS)]


class Unit:
    """The effects of one command. `past` holds the units that its region had applied before."""

    def __init__(self, region_id: int, index: int, kind: str, past: Part, ops: list[Plain]) -> None:
        self.region_id = region_id
        # Position among the units of its region, from 0.
        self.index = index
        self.kind = kind
        self.past = past
        first = sum(len(unit.ops) for unit in past if unit.region_id == region_id) + 1
        self.ops: list[tuple[Plain, Dot]] = [
            (op, (region_id, first + offset)) for offset, op in enumerate(ops)
        ]
        self.effects: list[tuple[Effect, Dot]] = [(effect_of(op, dot), dot) for op, dot in self.ops]
        # region_id → number of that region's units in the past. It identifies the past.
        self.reach = {each: sum(1 for unit in past if unit.region_id == each) for each in REGIONS}
        self.buries = any(isinstance(op, (Delete, DestroyGroup, RemoveObserved)) for op in ops)


Part = frozenset[Unit]


@dataclass
class State:
    """The state of a region that has applied a part of a history."""

    model: Model
    contents: dict[bytes, Contents]
    digest: bytes
    snapshot: list[bytes]
    # Hash of the snapshot. A join depends on nothing else.
    name: bytes


def name_of_state(snapshot: list[bytes]) -> bytes:
    return xxh3_128_digest(b"".join(snapshot))


def in_order(part: Part) -> list[Unit]:
    """The units of a part, in one order in which a region may have applied them."""
    return sorted(part, key=lambda unit: (len(unit.past), unit.region_id))


def last_units(part: Part) -> list[Unit]:
    """The units of a part that are in the past of no other unit of it."""
    return [unit for unit in part if not any(unit in other.past for other in part)]


def vector_of(part: Part) -> Vector:
    """The vector of a region that has applied the part."""
    result: Vector = {}
    for unit in part:
        for _, (region_id, counter) in unit.ops:
            result[region_id] = max(counter, result.get(region_id, 0))
    return result


def replay(units: list[Unit]) -> Keyspace:
    """The keyspace of an observing region that applied these units."""
    keyspace = Keyspace(OBSERVER, LIMITS)
    ship(keyspace, units)
    return keyspace


def modelled(units: list[Unit], region_id: int = OBSERVER, clock_ms: int = EARLY_MS) -> Model:
    """The twin of a region that applied these units."""
    model = Model(region_id, clock_ms)
    for unit in units:
        for op, dot in unit.ops:
            model.apply(op, dot)
    return model


def ship(keyspace: Keyspace, units: list[Unit]) -> None:
    """Applies the units that the keyspace has not applied yet."""
    for unit in units:
        for effect, (region_id, counter) in unit.effects:
            if counter > keyspace.vector.get(region_id, 0):
                apply(keyspace, effect, region_id, counter, 0, False)
                keyspace.vector[region_id] = counter


def collected(part: Part, stable: Vector) -> Keyspace:
    """A keyspace that has applied the part and collected with this stable vector."""
    keyspace = replay(in_order(part))
    for stream in list(keyspace.keys.values()):
        collect(keyspace, stream, stable)
    collect_flush(keyspace, stable)
    return keyspace


class Exploration:
    """Enumerates and checks all histories up to a depth, and counts the checks."""

    def __init__(self) -> None:
        self.states: dict[Part, State] = {}
        self.units: dict[tuple[int, Part], list[Unit]] = {}
        # Hashes of the names of all histories found, 16 bytes each.
        self.seen: set[bytes] = set()
        self.newest = b""
        # (name of a state, name of the state joined into it) → digest of the result.
        self.joined: dict[tuple[bytes, bytes], bytes] = {}
        # Number of histories of 1, 2, … units.
        self.histories: list[int] = []
        self.kinds: dict[str, int] = {}
        self.orders = self.joins = self.collections = 0

    # -- enumerating

    def run(self, depth: int, share: int = 1) -> None:
        """Checks all histories of up to `depth` units.

        Of the histories of exactly `depth` units only about one in `share` is checked; the hash of
        its name decides.
        """
        level: list[Part] = [frozenset()]
        for number in range(1, depth + 1):
            reached: list[Part] = []
            count = 0
            for history in level:
                for larger in self._successors(history, number < depth):
                    if number == depth and self.newest[0] % share:
                        continue
                    count += 1
                    self._check(larger, keep=number < depth)
                    if number < depth:
                        reached.append(larger)
            self.histories.append(count)
            level = reached

    def _successors(self, history: Part, keep: bool) -> Iterator[Part]:
        """The unseen histories with one unit more."""
        for past in parts(history):
            for region_id in REGIONS:
                if all(unit in past for unit in history if unit.region_id == region_id):
                    for unit in self._units(region_id, past, keep or past != history):
                        larger = history | {unit}
                        name = self.newest = xxh3_128_digest(repr(name_of(larger)).encode())
                        if name not in self.seen:
                            self.seen.add(name)
                            self.kinds[unit.kind] = self.kinds.get(unit.kind, 0) + 1
                            yield larger

    def _units(self, region_id: int, past: Part, keep: bool) -> list[Unit]:
        """The units that the region could issue after this past."""
        found = self.units.get((region_id, past))
        if found is None:
            index = sum(1 for unit in past if unit.region_id == region_id)
            found = [
                Unit(region_id, index, kind, past, ops)
                for kind, ops in commands(region_id, past)
                if ops
            ]
            if keep:
                self.units[region_id, past] = found
        return found

    # -- states

    def _state(self, part: Part) -> State:
        state = self.states.get(part)
        if state is None:
            if len(self.states) > STATES_MAX:
                self.states.clear()
            state = self.states[part] = self._make(part)
        return state

    def _make(self, part: Part) -> State:
        """The state of a part. Applies each of its last units last, and compares the outcomes."""
        state = None
        if not part:
            return State(
                Model(OBSERVER),
                {},
                bytes(16),
                snapshot_bytes(Keyspace(OBSERVER, LIMITS)),
                bytes(16),
            )
        for last in last_units(part):
            order = [*in_order(part - {last}), last]
            model, keyspace = modelled(order), replay(order)
            self.orders += 1
            if state is None:
                contents = model.converged()
                assert converged(keyspace) == contents
                assert kept(keyspace) == model.kept()
                assert locals_of(keyspace) == model.locals()
                snapshot = snapshot_bytes(keyspace)
                state = State(model, contents, keyspace.digest(), snapshot, name_of_state(snapshot))
            else:
                assert model.converged() == state.contents, (
                    "two orders give different outcomes in the twin: the rules are wrong"
                )
                assert keyspace.digest() == state.digest, "two orders give different outcomes"
        assert state is not None
        return state

    # -- checking

    def _check(self, history: Part, keep: bool) -> None:
        try:
            state = self._state(history) if keep else self._make(history)
            smaller = [part for part in parts(history) if part != history]
            self._check_joins(history, state, smaller)
            if any(unit.buries for unit in history):
                self._check_collections(history, state, smaller)
        except AssertionError:
            print(
                "history:",
                *[
                    (u.region_id, u.kind, sorted((p.region_id, p.index) for p in u.past))
                    for u in in_order(history)
                ],
                file=sys.stderr,
            )
            raise

    def _check_joins(self, history: Part, state: State, smaller: list[Part]) -> None:
        """Checks all joins of two parts whose union is the history."""
        for one in smaller:
            mine = self._state(one)
            self._join(one, mine, state, state)
            self._join(history, state, mine, state)
            for other in smaller:
                if one | other == history:
                    self._join(one, mine, self._state(other), state)

    def _join(self, part: Part, mine: State, other: State, expected: State) -> None:
        """Joins `other` into `mine`, and compares.

        Many histories lead to equal states; equal states are joined only once.
        """
        self.joins += 1
        pair = (mine.name, other.name)
        if len(self.joined) > JOINS_MAX:
            self.joined.clear()
        if pair not in self.joined:
            keyspace = replay(in_order(part))
            join(keyspace, read_snapshot(other.snapshot, LIMITS), 0)
            model = modelled(in_order(part))
            model.join(other.model)
            assert converged(keyspace) == model.converged()
            assert locals_of(keyspace) == model.locals()
            assert kept(keyspace) == model.kept()
            assert keyspace.vector == model.vector
            self.joined[pair] = keyspace.digest()
        assert self.joined[pair] == expected.digest, "the join differs from shipping the effects"

    def _check_collections(self, history: Part, state: State, smaller: list[Part]) -> None:
        """Collects in each smaller part, and checks that all ways to the history's state remain.

        A unit of the part may count as stable if it is in the past of every unit still missing:
        otherwise it could not have been on the disks of all members.
        """
        for part in smaller:
            stable = part
            for unit in history - part:
                stable &= unit.past
            if not any(unit.buries for unit in stable):
                continue
            vector = vector_of(stable)
            keyspace = collected(part, vector)
            snapshot = snapshot_bytes(keyspace)
            ship(keyspace, in_order(history - part))
            assert keyspace.digest() == state.digest, "collecting changed the outcome of effects"
            model = modelled(in_order(part))
            model.collect(vector)
            for unit in in_order(history - part):
                for op, dot in unit.ops:
                    model.apply(op, dot)
            assert model.converged() == state.contents, (
                "collecting changed the outcome of effects in the twin"
            )
            self.collections += 1
            name = name_of_state(snapshot)
            for other in [*smaller, history]:
                if part | other == history:
                    theirs = state if other == history else self._state(other)
                    if (name, theirs.name) not in self.joined:
                        keyspace = collected(part, vector)
                        join(keyspace, read_snapshot(theirs.snapshot, LIMITS), 0)
                        self.joined[name, theirs.name] = keyspace.digest()
                    if (theirs.name, name) not in self.joined:
                        keyspace = replay(in_order(other))
                        join(keyspace, read_snapshot(snapshot, LIMITS), 0)
                        self.joined[theirs.name, name] = keyspace.digest()
                    assert self.joined[name, theirs.name] == state.digest, (
                        "collecting changed the outcome of a join"
                    )
                    assert self.joined[theirs.name, name] == state.digest, (
                        "joining a region that had collected changed the outcome"
                    )
                    self.collections += 2


def parts(history: Part) -> list[Part]:
    """Every causally closed part of a history, including the history itself."""
    found: set[Part] = {frozenset()}
    for unit in in_order(history):
        found |= {part | {unit} for part in found if unit.past <= part}
    return sorted(
        found,
        key=lambda part: (len(part), [(unit.region_id, unit.index) for unit in in_order(part)]),
    )


def name_of(history: Part) -> tuple[object, ...]:
    """A name that is equal for histories that differ only in the numbers of the regions."""
    return min(
        tuple(
            sorted(
                (
                    to[u.region_id],
                    u.index,
                    u.kind,
                    *(reach for _, reach in sorted((to[r], n) for r, n in u.reach.items())),
                )
                for u in history
            )
        )
        for to in RENAMINGS
    )


def commands(region_id: int, past: Part) -> Iterator[tuple[str, list[Plain]]]:
    """Each command and its effects; these are empty where it would change nothing."""
    # A clock that is past the deadline never goes back before it.
    is_late = any(unit.region_id == region_id and unit.kind == "expire" for unit in past)
    clock_ms = LATE_MS if is_late else EARLY_MS
    units = in_order(past)

    def fresh(at_ms: int = clock_ms) -> Model:
        return modelled(units, region_id, at_ms)

    state = fresh().state
    key = state.key(KEY)
    won = key.deadline()
    yield "add", fresh().add(KEY)
    if key.order:
        yield "xdel", fresh().delete_entry(KEY, next(iter(key.order))[0])
    yield "trim", fresh().trim(KEY, 0)
    yield "del", fresh().delete(KEY)
    yield "create 0", fresh().create(KEY, GROUP, 0)
    yield "create $", fresh().create(KEY, GROUP, None)
    yield "destroy", fresh().destroy(KEY, GROUP)
    yield "ack", read_and_announce(fresh())
    yield "xsetid", fresh().set_id(KEY, make((key.last_id() >> 64) + 1, 0))
    if won is None or won[1] != DEADLINE_MS:
        yield "deadline", fresh().expire_at(KEY, DEADLINE_MS)
    yield "persist", fresh().expire_at(KEY, NEVER)
    yield "expire", fresh(LATE_MS).expiry(KEY)


def read_and_announce(model: Model) -> list[Plain]:
    """Reads and acknowledges all undelivered entries, and begins a sync round."""
    key = model.state.visible(KEY)
    if key is None or GROUP not in key.groups:
        return []
    entries = handed(key, undelivered(key, key.groups[GROUP]))
    apply_record(model.state, Delivered(key, GROUP, model.state.clock_ms, b"c", entries, True))
    return model.announcement(KEY, GROUP)
