"""The twin's data: plain dicts, sets and lists.

A region log here is a sorted list of the entries that one region added, a PEL is a dict by dot,
and given counters are a set. Nothing is packed, joined to spans or cached.
"""

from __future__ import annotations

from typing import Final, Optional

from sortedcontainers import SortedDict

from anabranch.sim.rules import Counts
from anabranch.sim.twin.vectors import Dot, Vector, covers, newest, raise_to

_EMPTY: Final[SortedDict[int, int]] = SortedDict()
NEVER: Final = (1 << 64) - 1
"""The deadline of PERSIST."""


class Entry:
    """An entry of a stream."""

    __slots__ = ("dot", "entry_id", "fields")

    def __init__(self, dot: Dot, entry_id: int, fields: list[bytes]) -> None:
        self.dot = dot
        self.entry_id = entry_id
        self.fields = fields


class Place:
    """The start of a group or its floor: an entry ID, or for `$` a counter per region (S6.3).

    `entry_id` of the start `$` is the highest ID that the creator had, as far as it is known.
    """

    __slots__ = ("counters", "entry_id", "is_id")

    def __init__(self, is_id: bool, entry_id: int, counters: Vector) -> None:
        self.is_id = is_id
        self.entry_id = entry_id
        self.counters = counters

    def is_below(self, dot: Dot, entry_id: int) -> bool:
        """Whether the entry lies above this place."""
        if self.is_id:
            return entry_id > self.entry_id
        return not covers(self.counters, dot)

    def is_as(self, other: Place) -> bool:
        """Whether both are the same place."""
        if self.is_id and other.is_id:
            return self.entry_id == other.entry_id
        return self.is_id == other.is_id and self.counters == other.counters


class Create:
    """A live create of a group (S6). `acked`: the counters known everywhere to be acknowledged."""

    __slots__ = ("acked", "dot", "start")

    def __init__(self, dot: Dot, start: Place, acked: set[Dot]) -> None:
        self.dot = dot
        self.start = start
        self.acked = acked

    def copy(self) -> Create:
        """A copy with an own set of acked counters."""
        return Create(self.dot, self.start, set(self.acked))


class Pair:
    """An idempotency pair (S9), and since when this region has held it.

    `is_retired`: it answers no retries any more. `is_doubtful`: the region may have dropped it by
    now, which the specification leaves to it (S9.2, S9.3); then both outcomes are right. `arrival`
    numbers the steps in which pairs came.
    """

    __slots__ = (
        "arrival",
        "dot",
        "entry_id",
        "held_ms",
        "iid",
        "is_doubtful",
        "is_retired",
        "pid",
        "recorded_ms",
        "vector",
    )

    def __init__(
        self,
        dot: Dot,
        entry_id: int,
        pid: bytes,
        iid: bytes,
        recorded_ms: int,
        vector: Vector,
        held_ms: int,
    ) -> None:
        self.dot = dot
        self.entry_id = entry_id
        self.pid = pid
        self.iid = iid
        self.recorded_ms = recorded_ms
        self.vector = vector
        self.held_ms = held_ms
        self.arrival = 0
        self.is_retired = False
        self.is_doubtful = False

    def copy(self, held_ms: int) -> Pair:
        """A copy that is held since `held_ms`."""
        one = Pair(
            self.dot, self.entry_id, self.pid, self.iid, self.recorded_ms, self.vector, held_ms
        )
        one.is_doubtful = self.is_doubtful
        return one


class Pending:
    """An entry of a PEL."""

    __slots__ = ("consumer", "delivered_ms", "deliveries", "dot", "entry_id")

    def __init__(
        self, dot: Dot, entry_id: int, consumer: bytes, delivered_ms: int, deliveries: int
    ) -> None:
        self.dot = dot
        self.entry_id = entry_id
        self.consumer = consumer
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries


class Consumer:
    """Times of a consumer in ms; `active_ms` is -1 before it got anything.

    `is_known`: False for the times after a start: they are no part of the log.
    """

    __slots__ = ("active_ms", "is_known", "seen_ms")

    def __init__(self, seen_ms: int) -> None:
        self.seen_ms = seen_ms
        self.active_ms = -1
        self.is_known = True


class Local:
    """The local state of a group in one region (S6.5)."""

    def __init__(self) -> None:
        # What SETID said here; None: the starts of the live creates.
        self.floor: Optional[Place] = None
        # XCLAIM LASTID; 0: none.
        self.raised = 0
        self.given: set[Dot] = set()
        self.pel: dict[Dot, Pending] = {}
        self.dropped: set[Dot] = set()
        # Up to where a trim with DELREF dropped the references, by region log. A replay applies a
        # record after the block that was open when it arose, and so after such a trim (S13.1).
        self.unreferenced: Vector = {}
        self.consumers: dict[bytes, Consumer] = {}
        # How many entries were handed out here; None before the first one.
        self.entries_read: Optional[int] = None
        # The rest serves counts only. The highest ID handed out since the last SETID, and the
        # counters that SETIDs made undelivered again; XACKs and reads since the last announcement.
        self.highest = 0
        self.set_back: set[Dot] = set()
        self.acks = 0
        self.has_no_ack = False

    def pending(self, consumer: Optional[bytes] = None) -> list[Pending]:
        """The PEL, or one consumer's, in the order of IDs and regions."""
        found = [one for one in self.pel.values() if consumer in (None, one.consumer)]
        return sorted(found, key=lambda one: (one.entry_id, one.dot))


class Group:
    """A live group: its creates, and the local state."""

    def __init__(self) -> None:
        self.creates: dict[Dot, Create] = {}
        self.local = Local()

    def acked(self) -> set[Dot]:
        """The union over its live creates (S8.3)."""
        found: set[Dot] = set()
        for create in self.creates.values():
            found |= create.acked
        return found

    def floors(self) -> list[Place]:
        """An entry is above the floor if it is above one of these places."""
        if self.local.floor is not None:
            return [self.local.floor]
        return [create.start for create in self.creates.values()]

    def is_above_floor(self, dot: Dot, entry_id: int) -> bool:
        """Whether `>` reads the entry unless it is given."""
        return entry_id > self.local.raised and any(
            place.is_below(dot, entry_id) for place in self.floors()
        )

    def is_undelivered(self, dot: Dot, entry_id: int) -> bool:
        """Whether `>` would deliver the entry (S7.3)."""
        return dot not in self.local.given and self.is_above_floor(dot, entry_id)


class Key:
    """A key: everything that a region holds under one name."""

    def __init__(self, name: bytes) -> None:
        self.name: Final = name
        self.entries: dict[Dot, Entry] = {}
        # The logical stream: (ID, region, counter) → entry.
        self.order: SortedDict[tuple[int, ...], Entry] = SortedDict()
        # The region logs: region → counter → ID of an entry.
        self.logs: dict[int, SortedDict[int, int]] = {}
        self.header: dict[int, tuple[int, int]] = {}
        self.groups: dict[bytes, Group] = {}
        # (group or None for all, dot)
        self.tombstones: list[tuple[Optional[bytes], Dot]] = []
        self.deadlines: dict[Dot, int] = {}
        self.pairs: dict[Dot, Pair] = {}
        self.configurations: dict[Dot, tuple[int, int]] = {}
        # Up to where each region log was trimmed, or removed with the key (S5.4): in the present
        # life of the key, and ever. A region may have forgotten the rest with the key.
        self.trimmed: Vector = {}
        self.ever_trimmed: Vector = {}
        # Up to where a region may at most say so of a log that went with the key.
        self.removed_most: Vector = {}
        # Joined vectors of everything that clears pairs, FLUSHALLs aside (S11.3).
        self.clears: Vector = {}
        # IDs of all entries that were ever here, and of ends of spans.
        self.ids: dict[Dot, int] = {}
        self.added = 0
        self.max_deleted = 0
        # Counts changes, for WATCH (S10.7).
        self.changes = 0
        # The highest ID that an XREAD returned (S7.2).
        self.read_to = 0

    # -- entries

    def put(self, entry: Entry) -> None:
        """Adds an entry."""
        region, counter = entry.dot
        self.entries[entry.dot] = entry
        self.ids[entry.dot] = entry.entry_id
        self.order[(entry.entry_id, region, counter)] = entry
        if region not in self.logs:
            self.logs[region] = SortedDict()
        self.logs[region][counter] = entry.entry_id

    def remove(self, dot: Dot) -> bool:
        """Removes an entry; False if it is not here."""
        entry = self.entries.pop(dot, None)
        if entry is None:
            return False
        del self.order[(entry.entry_id, *dot)]
        del self.logs[dot[0]][dot[1]]
        return True

    def note_trimmed(self, prefix: Vector) -> None:
        """Notes that entries up to these counters were removed as a prefix of their logs."""
        raise_to(self.ever_trimmed, prefix)
        if self.holds_data():
            raise_to(self.trimmed, prefix)

    def between(self, low: int, high: int) -> list[Entry]:
        """The entries with IDs from `low` to `high`, in order."""
        return [self.order[key] for key in self.order.irange((low,), (high + 1,))]

    def with_id(self, entry_id: int) -> list[Entry]:
        """The entries that bear the ID."""
        return self.between(entry_id, entry_id)

    def before_in_log(self, dot: Dot) -> int:
        """The counter of the entry present before it in its region log, 0 if none."""
        log = self.logs.get(dot[0], _EMPTY)
        return next(log.irange(None, dot[1], (True, False), True), 0)

    def last_not_above(self, region: int, place: Place) -> int:
        """The counter of the log's last entry not above the place, 0 if none (S8.1)."""
        log = self.logs.get(region, _EMPTY)
        if not place.is_id:
            return next(log.irange(None, place.counters.get(region, 0), reverse=True), 0)
        found = 0
        for counter, entry_id in log.items():
            if entry_id > place.entry_id:
                break
            found = counter
        return found

    # -- existence

    def last_id(self) -> int:
        """The highest ID in the header (S3.2)."""
        return max((entry_id for _, entry_id in self.header.values()), default=0)

    def holds_data(self) -> bool:
        """Whether the key exists if no deadline hides it (S3.1)."""
        return bool(self.header) or bool(self.groups)

    def deadline(self) -> Optional[tuple[Dot, int]]:
        """(dot, time) of the deadline that wins: the longest, on a tie the highest dot (S10.2)."""
        if not self.deadlines:
            return None
        dot = max(self.deadlines, key=lambda one: (self.deadlines[one], one[1], one[0]))
        return dot, self.deadlines[dot]

    def is_hidden(self, clock_ms: int) -> bool:
        """Whether a deadline has passed."""
        won = self.deadline()
        return won is not None and won[1] != NEVER and clock_ms > won[1]

    def exists(self, clock_ms: int) -> bool:
        """Whether clients see the key."""
        return self.holds_data() and not self.is_hidden(clock_ms)

    def has_remnants(self) -> bool:
        """Whether anything is left that a write which creates the key must remove (S10.5)."""
        return bool(self.pairs) or self.holds_more()

    def holds_more(self) -> bool:
        """Whether anything but pairs is left."""
        parts = (self.entries, self.header, self.groups, self.deadlines, self.configurations)
        return any(parts)

    def configuration(self) -> Optional[tuple[int, int]]:
        """(duration in s, maxsize) in force; None without XCFGSET (S9.4)."""
        if not self.configurations:
            return None
        return self.configurations[newest(iter(self.configurations))]


class State:
    """Everything that a region's log determines, and what the last step changed in it."""

    def __init__(self, region: int) -> None:
        self.region: Final = region
        self.keys: dict[bytes, Key] = {}
        self.vector: Vector = {}
        # Dots of FLUSHALLs, and the joined vectors that they clear.
        self.flushes: list[Dot] = []
        self.flush_clears: Vector = {}
        # Of the present step, in order: keys with new entries or floors, keys of groups that
        # ended, keys with other deadlines, and pairs that have come, which may have gone since.
        self.added: list[bytes] = []
        self.ended: list[bytes] = []
        self.timed: list[bytes] = []
        self.paired: list[tuple[bytes, Pair]] = []
        # Keys with groups in which others acknowledged entries above undelivered ones, for looks.
        self.with_gaps: list[bytes] = []
        self.clock_ms = 0
        # How many steps have brought idempotency pairs.
        self.arrivals = 0
        # Settings in force, for streams without XCFGSET.
        self.duration_s = 100
        self.maxsize = 100
        # While a start replays the log: the lowest and the highest maxsize that was ever in force.
        self.past_maxsizes: Optional[tuple[int, int]] = None
        # None while a start replays the log, and where nobody counts.
        self.counts: Optional[Counts] = None

    def count(self, rule: str) -> None:
        """A rule mattered in this region (`sim.rules`)."""
        if self.counts is not None:
            self.counts.rule(rule)

    def key(self, name: bytes) -> Key:
        """The key, made if need be."""
        found = self.keys.get(name)
        if found is None:
            found = self.keys[name] = Key(name)
        return found

    def visible(self, name: bytes) -> Optional[Key]:
        """The key, if clients see it."""
        found = self.keys.get(name)
        return found if found is not None and found.exists(self.clock_ms) else None

    def idempotency(self, key: Optional[Key]) -> tuple[int, int]:
        """(duration in ms, maxsize) in force for a key."""
        found = key.configuration() if key is not None else None
        duration_s, maxsize = found if found is not None else (self.duration_s, self.maxsize)
        return duration_s * 1000, maxsize

    def maxsizes(self, key: Key) -> tuple[int, int]:
        """The lowest and the highest maxsize for a key: what a replay may find in a checkpoint."""
        if self.past_maxsizes is not None and key.configuration() is None:
            return self.past_maxsizes
        return (self.idempotency(key)[1],) * 2
