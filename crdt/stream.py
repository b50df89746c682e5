"""The state of one key (S3).

It consists of region logs, header, groups, tombstones, deadlines, idempotency pairs and statistics.
"""

from __future__ import annotations

from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.groups import Create, Group
from anabranch.crdt.idempotency import PairLimits, Pairs
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.crdt.vector import Dot, Vector, covers, dot_order

# The deadline that PERSIST sets: longer than any other (S10.2).
NEVER: Final = (1 << 64) - 1


@mypyc_attr(acyclic=True)
class Stream:
    """One stream key. `exists_at` says whether a client sees it; its state may outlive that."""

    def __init__(
        self, key: bytes, limits: NodeLimits, pair_limits: Optional[PairLimits] = None
    ) -> None:
        self.key = key
        self.limits = limits
        # -- converged state
        self.logs: dict[int, RegionLog] = {}
        # region_id → (counter, entry ID) of its newest add or XSETID; observed-remove (S3).
        self.header: dict[int, tuple[int, int]] = {}
        self.groups: dict[bytes, Group] = {}
        # dot → ms since the epoch, or NEVER (S10.2).
        self.deadlines: dict[Dot, int] = {}
        # dot → (duration in s, maxsize) (S9.4).
        self.configurations: dict[Dot, tuple[int, int]] = {}
        # -- kept until causally stable
        # Group name → the dots of its newest destroys, as a vector (S6.1).
        self.tombstones: dict[bytes, Vector] = {}
        # The dots of the newest DELs, which destroy the groups of all names.
        self.tombstone_of_all: Vector = {}
        # Joined vectors of the effects that cleared pairs (S11.3).
        self.clears: Vector = {}
        self.pairs = Pairs(pair_limits or PairLimits())
        # region_id → counter of its newest effect on this key.
        self.touched: Vector = {}
        # -- local statistics (S3.4)
        self.entries_added = 0
        self.max_deleted_id = 0
        self.iids_added = 0
        self.iids_duplicates = 0
        # -- volatile
        # Number of the last change that clients could notice (WATCH).
        self.change = 0
        # Highest ID that any XREAD in this region has returned (S7.2).
        self.xread_high_id = 0
        # Number under which a checkpoint stores the key; 0: not stored yet.
        self.stored_number = 0
        # Cached digest; None: to be computed.
        self.share: Optional[int] = None

    # -- existence

    def last_id(self) -> int:
        """Returns the highest ID in the header (S3.2); 0 if the header is empty."""
        highest = 0
        for _, entry_id in self.header.values():
            if entry_id > highest:
                highest = entry_id
        return highest

    def length(self) -> int:
        total = 0
        for log in self.logs.values():
            total += log.length
        return total

    def winning_deadline(self) -> Optional[tuple[Dot, int]]:
        """Returns (dot, deadline) of the longest deadline, on a tie of the highest dot (S10.2).

        Returns None without deadlines.
        """
        best: Optional[Dot] = None
        for dot, at_ms in self.deadlines.items():
            if best is None or (at_ms, dot_order(dot)) > (self.deadlines[best], dot_order(best)):
                best = dot
        return None if best is None else (best, self.deadlines[best])

    def is_hidden(self, clock_ms: int) -> bool:
        """Whether the winning deadline has passed (S10.2)."""
        if not self.deadlines:
            return False
        winner = self.winning_deadline()
        return winner is not None and winner[1] != NEVER and clock_ms > winner[1]

    def is_present(self) -> bool:
        """Whether the header is non-empty or a group is live (S3.1), deadlines aside."""
        return bool(self.header) or bool(self.groups)

    def exists_at(self, clock_ms: int) -> bool:
        return (bool(self.header) or bool(self.groups)) and not (
            self.deadlines and self.is_hidden(clock_ms)
        )

    def has_collectable(self) -> bool:
        """Whether state is held that is dropped once it is stable (S6.2, S9.2)."""
        return bool(self.tombstones or self.tombstone_of_all or self.clears or self.pairs)

    def has_leftovers(self) -> bool:
        """Whether a write that creates the key must first remove state of the key (S10.5).

        Tombstones and clears do not count.
        """
        return bool(
            self.header
            or self.groups
            or self.deadlines
            or self.configurations
            or self.pairs
            or self.length()
        )

    def is_plain(self) -> bool:
        """Whether an observed-remove that has seen everything leaves nothing of the key (S5.4).

        Groups are destroyed with it.
        """
        return not (self.deadlines or self.tombstones or self.tombstone_of_all or self.clears)

    def is_empty(self) -> bool:
        """Whether the key holds no state at all, so that the keyspace can drop it."""
        return not (self.has_leftovers() or self.tombstones or self.tombstone_of_all or self.clears)

    def forget_statistics(self) -> None:
        """Resets the statistics, because a key that is created anew counts from 0."""
        self.entries_added = 0
        self.max_deleted_id = 0
        self.iids_added = 0
        self.iids_duplicates = 0
        self.xread_high_id = 0

    # -- parts

    def log(self, region_id: int) -> RegionLog:
        log = self.logs.get(region_id)
        if log is None:
            log = self.logs[region_id] = RegionLog(region_id, self.limits)
        return log

    def configuration(self) -> Optional[tuple[int, int]]:
        """Returns (duration in s, maxsize) of the highest dot (S9.4); None when never set."""
        return (
            self.configurations[max(self.configurations, key=dot_order)]
            if self.configurations
            else None
        )

    def tombstones_of(self, name: bytes) -> list[Vector]:
        """Returns the tombstones of this key that apply to a group name."""
        named = self.tombstones.get(name)
        return [self.tombstone_of_all] if named is None else [named, self.tombstone_of_all]

    def group_with(self, name: bytes) -> Group:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name)
        return group

    # -- removal, used by effects and joins alike

    def note_deleted(self, entry_id: int) -> None:
        if entry_id > self.max_deleted_id:
            self.max_deleted_id = entry_id

    def remove_prefix(self, region_id: int, counter: int) -> int:
        """Removes a prefix of a region log; returns the number of entries removed."""
        log = self.logs.get(region_id)
        if log is None:
            return 0
        return log.remove_prefix(counter)[0]

    def trim(self, region_id: int, counter: int) -> None:
        """Removes a prefix of a region log, and notes up to where entries were trimmed."""
        log = self.log(region_id)
        log.remove_prefix(counter)
        log.trimmed = max(log.trimmed, counter)

    def remove_entry(self, region_id: int, counter: int) -> bool:
        log = self.logs.get(region_id)
        entry_id = -1 if log is None else log.remove(counter)
        self.note_deleted(entry_id)
        return entry_id >= 0

    def remove_observed(self, vector: Vector) -> None:
        """Observed-remove of entries, header, configurations and pairs, by vector.

        DEL, FLUSHALL and expiry share this part (S5.4, S10.3).
        """
        for region_id, counter in vector.items():
            self.remove_prefix(region_id, counter)
        self.header = {
            region_id: head
            for region_id, head in self.header.items()
            if not covers(vector, region_id, head[0])
        }
        self.configurations = {
            dot: value for dot, value in self.configurations.items() if not covers(vector, *dot)
        }
        self.pairs.clear(vector)

    def add_create(self, name: bytes, dot: Dot, create: Create) -> None:
        group = self.group_with(name)
        group.creates[dot] = create
        group.delivery.memos.clear()

    def drop_creates(self, name: bytes, dots: list[Dot]) -> bool:
        """Removes live creates of a group.

        Returns True when no create is left: the group is then removed with its local state (S6.5).
        """
        group = self.groups[name]
        for dot in dots:
            del group.creates[dot]
        group.delivery.memos.clear()
        if not group.creates:
            del self.groups[name]
            return True
        return False
