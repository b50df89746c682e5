"""One region as plain dicts and sets: the rules of SEMANTICS on effects, join and collection.

Entries, creates, deadlines, configurations and pairs are dicts by dot. Tombstones and clears are
kept in full, one by one, never as a joined vector. Spans are sets of counters. The code follows the
rules clause by clause and has no optimisations, so that it can be checked by reading it beside
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Union

from tests.oracles.naive_log import Dot, Fields, NaiveEntry

Vector = dict[int, int]
# region_id → counters of its region log.
Counters = dict[int, frozenset[int]]
# An entry ID, or (region_id, counter) for each region (`$`).
Start = Union[int, tuple[tuple[int, int], ...]]
# In place of a group name: a tombstone for all names of the key.
ALL_NAMES: None = None


@dataclass(frozen=True)
class Add:
    """XADD. `vector` is the adder's vector; it and `recorded_ms` are used only with a pair (S9)."""

    key: bytes
    entry_id: int
    fields: Fields
    # Empty if the add has no idempotency pair.
    pid: bytes = b""
    iid: bytes = b""
    recorded_ms: int = 0
    vector: Vector = field(default_factory=dict)


@dataclass(frozen=True)
class Remove:
    """XDEL: removes the entries with these dots (S5.1)."""

    key: bytes
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Trim:
    """XTRIM: removes a prefix of each region log (S5.2). `prefix`: region_id → highest counter."""

    key: bytes
    prefix: Vector
    drops_references: bool = False


@dataclass(frozen=True)
class Delete:
    """DEL. `vector` covers everything observed (S5.4)."""

    key: bytes
    vector: Vector


@dataclass(frozen=True)
class Flush:
    """FLUSHALL. `vector` covers everything observed (S5.4)."""

    vector: Vector


@dataclass(frozen=True)
class SetId:
    """XSETID."""

    key: bytes
    entry_id: int


@dataclass(frozen=True)
class Create:
    """XGROUP CREATE. `vector` is the creator's vector (S6)."""

    key: bytes
    group: bytes
    # None means `$`.
    start_id: Optional[int]
    vector: Vector


@dataclass(frozen=True)
class Destroy:
    """XGROUP DESTROY (S6.1)."""

    key: bytes
    group: bytes


@dataclass(frozen=True)
class Acknowledge:
    """Acknowledged counters of a group, for the live ones of the creates named (S8.1, S8.2)."""

    key: bytes
    group: bytes
    creates: tuple[Dot, ...]
    counters: Counters


@dataclass(frozen=True)
class Deadline:
    """A deadline in Unix time in ms. `replaces`: the dots of the deadlines that it saw (S10.2)."""

    key: bytes
    at_ms: int
    replaces: tuple[Dot, ...]


@dataclass(frozen=True)
class RemoveObserved:
    """Removes the state that `vector` covers, deadlines only if `with_deadlines` (S10.3, S10.5)."""

    key: bytes
    vector: Vector
    with_deadlines: bool


@dataclass(frozen=True)
class Configure:
    """XCFGSET (S9.4). `replaces`: the dots of the configurations that it saw."""

    key: bytes
    duration_s: int
    maxsize: int
    replaces: tuple[Dot, ...]
    vector: Vector


Op = Union[
    Add,
    Remove,
    Trim,
    Delete,
    Flush,
    SetId,
    Create,
    Destroy,
    Acknowledge,
    Deadline,
    RemoveObserved,
    Configure,
]


@dataclass
class NaiveLocal:
    """Local state of one group (S6.5)."""

    floor: Optional[Start] = None
    raised_id: int = 0
    given: set[Dot] = field(default_factory=set)
    dropped: set[Dot] = field(default_factory=set)
    # (entry ID, consumer, delivery time in ms, number of deliveries).
    pel: dict[Dot, tuple[int, bytes, int, int]] = field(default_factory=dict)
    consumers: set[bytes] = field(default_factory=set)

    def copy(self) -> NaiveLocal:
        return NaiveLocal(
            self.floor,
            self.raised_id,
            set(self.given),
            set(self.dropped),
            dict(self.pel),
            set(self.consumers),
        )


@dataclass
class NaiveCreate:
    """One live create of a group, with its start and its acked counters."""

    start: Start
    acked: set[Dot] = field(default_factory=set)


@dataclass
class NaivePair:
    """One idempotency pair (S9). `vector` is the adder's; `held_ms` is this region's clock."""

    pid: bytes
    iid: bytes
    entry_id: int
    recorded_ms: int
    vector: Vector
    held_ms: int


def covers(vector: Vector, dot: Dot) -> bool:
    """Whether the vector covers the dot."""
    return vector.get(dot[0], 0) >= dot[1]


def is_above(start: Start, dot: Dot, entry_id: int) -> bool:
    """Whether an entry lies above a start or floor (S6.3, S6.4)."""
    return entry_id > start if isinstance(start, int) else dot[1] > dict(start).get(dot[0], 0)


class NaiveKey:
    """The state of one stream key (S3). `touched` holds the dots of all effects on the key."""

    def __init__(self) -> None:
        self.entries: dict[Dot, tuple[int, Fields]] = {}
        self.header: dict[Dot, int] = {}
        self.creates: dict[bytes, dict[Dot, NaiveCreate]] = {}
        self.deadlines: dict[Dot, int] = {}
        self.configurations: dict[Dot, tuple[int, int]] = {}
        self.pairs: dict[Dot, NaivePair] = {}
        self.tombstones: set[tuple[Optional[bytes], Dot]] = set()
        self.clears: list[Vector] = []
        self.touched: set[Dot] = set()
        # region_id → highest counter that a trim removed.
        self.trimmed: Vector = {}
        self.locals: dict[bytes, NaiveLocal] = {}

    def copy(self) -> NaiveKey:
        other = NaiveKey()
        other.entries = dict(self.entries)
        other.header = dict(self.header)
        other.creates = {
            name: {
                dot: NaiveCreate(create.start, set(create.acked)) for dot, create in creates.items()
            }
            for name, creates in self.creates.items()
        }
        other.deadlines = dict(self.deadlines)
        other.configurations = dict(self.configurations)
        other.pairs = dict(self.pairs)
        other.tombstones = set(self.tombstones)
        other.clears = list(self.clears)
        other.touched = set(self.touched)
        other.trimmed = dict(self.trimmed)
        other.locals = {name: local.copy() for name, local in self.locals.items()}
        return other

    def note_trimmed(self, prefix: Vector) -> None:
        """Raises the marks up to which entries were trimmed."""
        for region_id, counter in prefix.items():
            self.trimmed[region_id] = max(counter, self.trimmed.get(region_id, 0))

    def holds_anything(self) -> bool:
        """Whether the region must remember the key."""
        contents = (
            self.entries,
            self.header,
            self.creates,
            self.deadlines,
            self.configurations,
            self.pairs,
            self.tombstones,
            self.clears,
        )
        return any(contents)

    # -- derived values

    def last_id(self) -> int:
        """The highest ID in the header, 0 if it is empty (S3.2)."""
        return max(self.header.values(), default=0)

    def is_present(self) -> bool:
        """Whether the key exists, deadlines aside (S3.1)."""
        return bool(self.header) or any(self.creates.values())

    def winning_deadline(self) -> Optional[tuple[Dot, int]]:
        """The dot and time of the longest deadline, on a tie that of the highest dot (S10.2)."""
        if not self.deadlines:
            return None
        dot = max(self.deadlines, key=lambda each: (self.deadlines[each], each[1], each[0]))
        return dot, self.deadlines[dot]

    def listed(self) -> list[NaiveEntry]:
        """All entries, in no particular order."""
        return [
            NaiveEntry(entry_id, dot[0], dot[1], fields)
            for dot, (entry_id, fields) in self.entries.items()
        ]

    def acked(self, name: bytes) -> set[Dot]:
        """The dots that the group's live creates hold as acknowledged (S8.3)."""
        return {dot for create in self.creates.get(name, {}).values() for dot in create.acked}

    def is_above_start(self, name: bytes, dot: Dot, entry_id: int) -> bool:
        """Whether an entry is above the start of any live create (S6.3)."""
        return any(is_above(create.start, dot, entry_id) for create in self.creates[name].values())

    def is_above_floor(self, name: bytes, dot: Dot, entry_id: int) -> bool:
        """Whether an entry is above the group's floor in this region (S7.3, S7.4)."""
        local = self.local(name)
        if entry_id <= local.raised_id:
            return False
        return (
            is_above(local.floor, dot, entry_id)
            if local.floor is not None
            else self.is_above_start(name, dot, entry_id)
        )

    def local(self, name: bytes) -> NaiveLocal:
        """The local state of a group; creates it if necessary."""
        return self.locals.setdefault(name, NaiveLocal())

    # -- steps

    def keep_creates(self, name: bytes, kept: dict[Dot, NaiveCreate]) -> None:
        """Sets the group's live creates after a step.

        Drops the local state if none of the creates that were live before the step is kept (S6.5).
        """
        before = self.creates.get(name, {})
        if before and not set(before) & set(kept):
            self.locals.pop(name, None)
        if kept:
            self.creates[name] = kept
        else:
            self.creates.pop(name, None)

    def take_as_given(self, name: bytes, new: set[Dot]) -> None:
        """Applies acknowledgements of other regions: given here, and out of the PELs (S8.2)."""
        if new:
            local = self.local(name)
            local.given |= new
            for dot in new:
                local.pel.pop(dot, None)

    def remove_observed(self, vector: Vector) -> None:
        """Removes entries, header, configurations and pairs that the vector covers."""
        self.entries = {
            dot: entry for dot, entry in self.entries.items() if not covers(vector, dot)
        }
        self.header = {
            dot: entry_id for dot, entry_id in self.header.items() if not covers(vector, dot)
        }
        self.configurations = {
            dot: value for dot, value in self.configurations.items() if not covers(vector, dot)
        }
        self.clear_pairs(vector)

    def clear_pairs(self, vector: Vector) -> None:
        """Removes the pairs that the vector covers (S9.4)."""
        self.pairs = {dot: pair for dot, pair in self.pairs.items() if not covers(vector, dot)}

    def apply(
        self, op: Op, dot: Dot, now_ms: int, is_own: bool, flush_tombstones: set[Dot]
    ) -> None:
        """Applies one effect on this key.

        `flush_tombstones` are the region's tombstones of FLUSHALL, which also kill creates.
        """
        self.touched.add(dot)
        if isinstance(op, (Add, SetId)):
            self.header = {
                old: entry_id for old, entry_id in self.header.items() if old[0] != dot[0]
            }
            self.header[dot] = op.entry_id
        if isinstance(op, Add):
            self.entries[dot] = (op.entry_id, op.fields)
            if op.pid:
                self.pairs[dot] = NaivePair(
                    op.pid, op.iid, op.entry_id, op.recorded_ms, op.vector, now_ms
                )
        elif isinstance(op, Remove):
            for gone in op.dots:
                self.entries.pop(gone, None)
        elif isinstance(op, Trim):
            self.note_trimmed(op.prefix)
            self.entries = {
                each: entry for each, entry in self.entries.items() if not covers(op.prefix, each)
            }
            if op.drops_references:
                for local in self.locals.values():
                    local.pel = {
                        each: pending
                        for each, pending in local.pel.items()
                        if not covers(op.prefix, each)
                    }
        elif isinstance(op, Delete):
            self.remove_observed(op.vector)
            self.clears.append(op.vector)
            self.bury_all()
            self.tombstones.add((ALL_NAMES, dot))
        elif isinstance(op, Create):
            against = {
                each for name, each in self.tombstones if name in (ALL_NAMES, op.group)
            } | flush_tombstones
            if all(covers(op.vector, each) for each in against):
                start: Start = (
                    tuple(sorted(op.vector.items())) if op.start_id is None else op.start_id
                )
                self.creates.setdefault(op.group, {})[dot] = NaiveCreate(start)
        elif isinstance(op, Destroy):
            self.keep_creates(op.group, {})
            self.tombstones.add((op.group, dot))
        elif isinstance(op, Acknowledge):
            self.acknowledge(op, is_own)
        elif isinstance(op, Deadline):
            self.deadlines = {
                each: at_ms for each, at_ms in self.deadlines.items() if each not in op.replaces
            }
            self.deadlines[dot] = op.at_ms
        elif isinstance(op, RemoveObserved):
            self.remove_observed(op.vector)
            self.clears.append(op.vector)
            for name in list(self.creates):
                self.keep_creates(
                    name,
                    {
                        each: create
                        for each, create in self.creates[name].items()
                        if not covers(op.vector, each)
                    },
                )
            if op.with_deadlines:
                self.deadlines = {
                    each: at_ms
                    for each, at_ms in self.deadlines.items()
                    if not covers(op.vector, each)
                }
        elif isinstance(op, Configure):
            self.configurations = {
                each: value
                for each, value in self.configurations.items()
                if each not in op.replaces
            }
            self.configurations[dot] = (op.duration_s, op.maxsize)
            self.clear_pairs(op.vector)
            self.clears.append(op.vector)

    def bury_all(self) -> None:
        """Removes all groups."""
        for name in list(self.creates):
            self.keep_creates(name, {})

    def acknowledge(self, op: Acknowledge, is_own: bool) -> None:
        """Applies an announcement. A region's own changes nothing in its PELs (S8.2)."""
        before = self.acked(op.group)
        for dot in op.creates:
            create = self.creates.get(op.group, {}).get(dot)
            if create is not None:
                create.acked |= {
                    (region_id, counter)
                    for region_id, counters in op.counters.items()
                    for counter in counters
                }
        if not is_own:
            self.take_as_given(op.group, self.acked(op.group) - before)


class NaiveRegion:
    """One region: its keys, its vector, and the tombstones and clears of FLUSHALL."""

    def __init__(self, region_id: int) -> None:
        self.region_id = region_id
        self.vector: Vector = {}
        self.keys: dict[bytes, NaiveKey] = {}
        self.flush_tombstones: set[Dot] = set()
        self.flush_clears: list[tuple[Dot, Vector]] = []

    def copy(self) -> NaiveRegion:
        other = NaiveRegion(self.region_id)
        other.vector = dict(self.vector)
        other.keys = {key: stream.copy() for key, stream in self.keys.items()}
        other.flush_tombstones = set(self.flush_tombstones)
        other.flush_clears = list(self.flush_clears)
        return other

    def key(self, key: bytes) -> NaiveKey:
        """The state of a key; creates it if necessary."""
        return self.keys.setdefault(key, NaiveKey())

    def apply(self, op: Op, dot: Dot, now_ms: int = 0, is_own: bool = False) -> None:
        """Applies the next effect of the dot's region. `is_own` if this region issued it."""
        assert dot[1] == self.vector.get(dot[0], 0) + 1, "a gap in the counters"
        if isinstance(op, Flush):
            for stream in self.keys.values():
                stream.remove_observed(op.vector)
                stream.bury_all()
            self.flush_tombstones.add(dot)
            self.flush_clears.append((dot, op.vector))
        else:
            self.key(op.key).apply(op, dot, now_ms, is_own, self.flush_tombstones)
        self.vector[dot[0]] = dot[1]
        self.forget_empty_keys()

    def forget_empty_keys(self) -> None:
        """Drops the keys that hold nothing."""
        self.keys = {key: stream for key, stream in self.keys.items() if stream.holds_anything()}

    # -- state-based (S11.3)

    def join(self, other: NaiveRegion, now_ms: int = 0) -> None:
        """Joins the state of `other` into this region; `other` is unchanged.

        Reads the converged state of `other` and the parts that are kept until stable, not its local
        group state.
        """
        for key in sorted(set(self.keys) | set(other.keys)):
            self._join_key(self.key(key), other.keys.get(key) or NaiveKey(), other, now_ms)
        self.flush_tombstones |= other.flush_tombstones
        self.flush_clears = self.flush_clears + [
            each for each in other.flush_clears if each not in self.flush_clears
        ]
        for region_id, counter in other.vector.items():
            self.vector[region_id] = max(counter, self.vector.get(region_id, 0))
        self.forget_empty_keys()

    def _join_key(self, ours: NaiveKey, theirs: NaiveKey, other: NaiveRegion, now_ms: int) -> None:
        def survivors(our_dots: set[Dot], their_dots: set[Dot]) -> set[Dot]:
            return (
                (our_dots & their_dots)
                | {dot for dot in our_dots - their_dots if not covers(other.vector, dot)}
                | {dot for dot in their_dots - our_dots if not covers(self.vector, dot)}
            )

        entries = theirs.entries | ours.entries
        ours.entries = {
            dot: entries[dot] for dot in survivors(set(ours.entries), set(theirs.entries))
        }
        header = theirs.header | ours.header
        ours.header = {dot: header[dot] for dot in survivors(set(ours.header), set(theirs.header))}
        deadlines = theirs.deadlines | ours.deadlines
        ours.deadlines = {
            dot: deadlines[dot] for dot in survivors(set(ours.deadlines), set(theirs.deadlines))
        }
        configurations = theirs.configurations | ours.configurations
        ours.configurations = {
            dot: configurations[dot]
            for dot in survivors(set(ours.configurations), set(theirs.configurations))
        }

        for name in sorted(set(ours.creates) | set(theirs.creates)):
            our_creates = ours.creates.get(name, {})
            their_creates = theirs.creates.get(name, {})
            kept: dict[Dot, NaiveCreate] = {}
            for dot in survivors(set(our_creates), set(their_creates)):
                mine, yours = our_creates.get(dot), their_creates.get(dot)
                if mine is None and self._kills(ours, name, other.vector):
                    continue
                if yours is None and other._kills(theirs, name, self.vector):
                    continue
                start = (mine or yours).start  # type: ignore[union-attr]
                kept[dot] = NaiveCreate(
                    start, (mine.acked if mine else set()) | (yours.acked if yours else set())
                )
            before = ours.acked(name)
            if not set(our_creates) & set(kept):
                # A group of that name begins at its own start.
                before = set()
            ours.keep_creates(name, kept)
            ours.take_as_given(name, ours.acked(name) - before)

        clears = [*theirs.clears, *(vector for _, vector in other.flush_clears)]
        pairs: dict[Dot, NaivePair] = {}
        for dot, pair in ours.pairs.items():
            if dot in theirs.pairs or not any(covers(vector, dot) for vector in clears):
                pairs[dot] = pair
        for dot, pair in theirs.pairs.items():
            if dot not in ours.pairs and not covers(self.vector, dot):
                pairs[dot] = NaivePair(
                    pair.pid, pair.iid, pair.entry_id, pair.recorded_ms, pair.vector, now_ms
                )
        ours.pairs = pairs
        ours.tombstones |= theirs.tombstones
        ours.note_trimmed(theirs.trimmed)
        ours.clears = ours.clears + [
            vector for vector in theirs.clears if vector not in ours.clears
        ]
        ours.touched |= theirs.touched

    def _kills(self, stream: NaiveKey, name: bytes, vector: Vector) -> bool:
        """Whether a tombstone for the group name exists here that `vector` does not cover."""
        dots = {
            dot for each, dot in stream.tombstones if each in (ALL_NAMES, name)
        } | self.flush_tombstones
        return any(not covers(vector, dot) for dot in dots)

    # -- collection (S6.2, S11.3)

    def collect(self, stable: Vector) -> None:
        """Drops the tombstones and clears that are no longer needed when `stable` is stable."""
        for stream in self.keys.values():
            stream.tombstones = {
                (name, dot) for name, dot in stream.tombstones if not covers(stable, dot)
            }
            if all(covers(stable, dot) for dot in stream.touched):
                stream.clears = []
        self.forget_empty_keys()
        self.flush_tombstones = {dot for dot in self.flush_tombstones if not covers(stable, dot)}
        if not self.flush_tombstones:
            # Kept, as those of a key are, until every FLUSHALL known here is stable.
            self.flush_clears = []

    # -- comparison

    def converged(self) -> dict[bytes, object]:
        """The state that the digest covers (S13.9), by key. Leaves out keys without such state."""
        return {
            key: contents
            for key, stream in self.keys.items()
            if (contents := _converged(stream)) is not None
        }


def _converged(stream: NaiveKey) -> Optional[tuple[object, ...]]:
    creates = {
        (name, dot): (create.start, frozenset(create.acked))
        for name, group in stream.creates.items()
        for dot, create in group.items()
    }
    contents = (
        dict(stream.entries),
        dict(stream.header),
        creates,
        dict(stream.deadlines),
        dict(stream.configurations),
    )
    return contents if any(contents) else None
