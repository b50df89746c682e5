"""The state of one key (S3).

It consists of region logs, header, groups, tombstones, deadlines, idempotency pairs and statistics.
"""

from __future__ import annotations

from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.groups import Create, Group
from anabranch.crdt.header import Header
from anabranch.crdt.idempotency import PairLimits, Pairs
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.crdt.vector import Dot, Vector, covers, dot_order

# The deadline that PERSIST sets: longer than any other (S10.2).
NEVER: Final = (1 << 64) - 1


@mypyc_attr(acyclic=True)
class Rare:
    """What most streams of a region with many keys do not have."""

    def __init__(self, pair_limits: PairLimits) -> None:
        # -- converged state
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
        self.pairs: Final = Pairs(pair_limits)
        # -- local statistics (S3.4): idempotent adds, and retries that were answered
        self.iids_added = 0
        self.iids_duplicates = 0


@mypyc_attr(acyclic=True)
class Stream:
    """One stream key. `exists_at` says whether a client sees it; its state may outlive that.

    A region can hold millions of streams. So a part is made when it is needed, and the region log
    of a stream that has only one is kept without a dict: `logs` makes one for the reader then.
    """

    def __init__(
        self, key: bytes, limits: NodeLimits, pair_limits: Optional[PairLimits] = None
    ) -> None:
        self.key = key
        self.header: Final = Header()
        self.limits = limits
        self._pair_limits = pair_limits
        # The first region log, and all of them once there are several.
        self._log: Optional[RegionLog] = None
        self._logs: Optional[dict[int, RegionLog]] = None
        # None: the stream has nothing of it. The properties of the same names make it.
        self.rare: Optional[Rare] = None
        # -- local statistics (S3.4)
        self.entries_added = 0
        self.max_deleted_id = 0
        # -- volatile
        # Number of the last change that clients could notice (WATCH).
        self.change = 0
        # Highest ID that any XREAD in this region has returned (S7.2).
        self.xread_high_id = 0
        # Number under which a checkpoint stores the key; 0: not stored yet.
        self.stored_number = 0
        # Cached digest; None: to be computed.
        self.share: Optional[int] = None

    # -- what most streams lack

    def set_pair_limits(self, pair_limits: PairLimits) -> None:
        """Sets the limits of the pairs that it gets; it has none."""
        assert self.rare is None
        self._pair_limits = pair_limits

    def _made(self) -> Rare:
        rare = self.rare
        if rare is None:
            rare = self.rare = Rare(self._pair_limits or PairLimits())
        return rare

    def read_rare(self) -> Rare:
        """Returns the rare parts for reading only: empty ones if the stream has none.

        The properties below would give the stream such parts for good.
        """
        return Rare(PairLimits()) if self.rare is None else self.rare

    @property
    def groups(self) -> dict[bytes, Group]:
        return self._made().groups

    @property
    def deadlines(self) -> dict[Dot, int]:
        return self._made().deadlines

    @deadlines.setter
    def deadlines(self, deadlines: dict[Dot, int]) -> None:
        self._made().deadlines = deadlines

    @property
    def configurations(self) -> dict[Dot, tuple[int, int]]:
        return self._made().configurations

    @configurations.setter
    def configurations(self, configurations: dict[Dot, tuple[int, int]]) -> None:
        self._made().configurations = configurations

    @property
    def tombstones(self) -> dict[bytes, Vector]:
        return self._made().tombstones

    @property
    def tombstone_of_all(self) -> Vector:
        return self._made().tombstone_of_all

    @tombstone_of_all.setter
    def tombstone_of_all(self, tombstone: Vector) -> None:
        self._made().tombstone_of_all = tombstone

    @property
    def clears(self) -> Vector:
        return self._made().clears

    @clears.setter
    def clears(self, clears: Vector) -> None:
        self._made().clears = clears

    @property
    def pairs(self) -> Pairs:
        return self._made().pairs

    @property
    def iids_added(self) -> int:
        return 0 if self.rare is None else self.rare.iids_added

    @iids_added.setter
    def iids_added(self, count: int) -> None:
        if count != self.iids_added:
            self._made().iids_added = count

    @property
    def iids_duplicates(self) -> int:
        return 0 if self.rare is None else self.rare.iids_duplicates

    @iids_duplicates.setter
    def iids_duplicates(self, count: int) -> None:
        if count != self.iids_duplicates:
            self._made().iids_duplicates = count

    def find_group(self, name: bytes) -> Optional[Group]:
        """Returns the group of that name; None if there is none."""
        rare = self.rare
        return None if rare is None else rare.groups.get(name)

    def group_names(self) -> list[bytes]:
        """Returns the names of the groups in the order in which they were created."""
        rare = self.rare
        return [] if rare is None else list(rare.groups)

    # -- existence

    def length(self) -> int:
        if self._logs is None:
            return 0 if self._log is None else self._log.length
        total = 0
        for log in self._logs.values():
            total += log.length
        return total

    def winning_deadline(self) -> Optional[tuple[Dot, int]]:
        """Returns (dot, deadline) of the longest deadline, on a tie of the highest dot (S10.2).

        Returns None without deadlines.
        """
        if self.rare is None:
            return None
        best: Optional[Dot] = None
        for dot, at_ms in self.deadlines.items():
            if best is None or (at_ms, dot_order(dot)) > (self.deadlines[best], dot_order(best)):
                best = dot
        return None if best is None else (best, self.deadlines[best])

    def has_deadlines(self) -> bool:
        return self.rare is not None and bool(self.rare.deadlines)

    def is_hidden(self, clock_ms: int) -> bool:
        """Whether the winning deadline has passed (S10.2)."""
        if not self.has_deadlines():
            return False
        winner = self.winning_deadline()
        return winner is not None and winner[1] != NEVER and clock_ms > winner[1]

    def is_present(self) -> bool:
        """Whether the header is non-empty or a group is live (S3.1), deadlines aside."""
        return self.header.has_heads() or (self.rare is not None and bool(self.rare.groups))

    def exists_at(self, clock_ms: int) -> bool:
        rare = self.rare
        if rare is None:
            return self.header.has_heads()
        return (self.header.has_heads() or bool(rare.groups)) and not (
            rare.deadlines and self.is_hidden(clock_ms)
        )

    def has_collectable(self) -> bool:
        """Whether state is held that is dropped once it is stable (S6.2, S9.2)."""
        rare = self.rare
        return rare is not None and bool(
            rare.tombstones or rare.tombstone_of_all or rare.clears or rare.pairs
        )

    def has_leftovers(self) -> bool:
        """Whether a write that creates the key must first remove state of the key (S10.5).

        Tombstones and clears do not count.
        """
        rare = self.rare
        return (
            self.header.has_heads()
            or self.length() > 0
            or (
                rare is not None
                and bool(rare.groups or rare.deadlines or rare.configurations or rare.pairs)
            )
        )

    def is_plain(self) -> bool:
        """Whether an observed-remove that has seen everything leaves nothing of the key (S5.4).

        Groups are destroyed with it.
        """
        rare = self.rare
        return rare is None or not (
            rare.deadlines or rare.tombstones or rare.tombstone_of_all or rare.clears
        )

    def is_empty(self) -> bool:
        """Whether the key holds no state at all, so that the keyspace can drop it."""
        return self.is_plain() and not self.has_leftovers()

    def forget_statistics(self) -> None:
        """Resets the statistics, because a key that is created anew counts from 0."""
        self.entries_added = 0
        self.max_deleted_id = 0
        if self.rare is not None:
            self.rare.iids_added = 0
            self.rare.iids_duplicates = 0
        self.xread_high_id = 0

    # -- parts

    @property
    def logs(self) -> dict[int, RegionLog]:
        """region_id → region log."""
        if self._logs is not None:
            return self._logs
        return {} if self._log is None else {self._log.region_id: self._log}

    def each_log(self) -> list[RegionLog]:
        """Returns the region logs, in the order in which they were made."""
        if self._logs is not None:
            return list(self._logs.values())
        return [] if self._log is None else [self._log]

    def only_log(self) -> Optional[RegionLog]:
        """Returns the log of a stream that never had another one; None: it has none or several."""
        return self._log if self._logs is None else None

    def find_log(self, region_id: int) -> Optional[RegionLog]:
        """Returns the log of a region; None if there is none."""
        log = self._log
        if log is not None and log.region_id == region_id:
            return log
        return None if self._logs is None else self._logs.get(region_id)

    def log(self, region_id: int) -> RegionLog:
        """Returns the log of a region; makes it if there is none."""
        found = self.find_log(region_id)
        if found is None:
            found = RegionLog(region_id, self.limits)
            first = self._log
            if first is None:
                self._log = found
            elif self._logs is None:
                self._logs = {first.region_id: first, region_id: found}
            else:
                self._logs[region_id] = found
        return found

    def configuration(self) -> Optional[tuple[int, int]]:
        """Returns (duration in s, maxsize) of the highest dot (S9.4); None when never set."""
        if self.rare is None or not self.configurations:
            return None
        return self.configurations[max(self.configurations, key=dot_order)]

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

    def trim(self, region_id: int, counter: int, flushed: int) -> None:
        """Removes a prefix of a region log, and notes up to where entries were trimmed.

        `flushed`: up to where a FLUSHALL that is not stable yet has removed that log. A log that is
        not here was removed with the key, perhaps beyond the prefix of a concurrent trim.
        """
        log = self.find_log(region_id)
        if log is None:
            log = self.log(region_id)
            counter = max(counter, self.read_rare().clears.get(region_id, 0), flushed)
            log.began = counter
        log.remove_prefix(counter)
        log.trimmed = max(log.trimmed, counter)

    def remove_entry(self, region_id: int, counter: int) -> bool:
        log = self.find_log(region_id)
        entry_id = -1 if log is None else log.remove(counter)
        self.note_deleted(entry_id)
        return entry_id >= 0

    def remove_observed(self, vector: Vector) -> None:
        """Observed-remove of entries, header, configurations and pairs, by vector.

        Each log notes up to where it lost entries, as with a trim (S5.4).
        DEL, FLUSHALL and expiry share this part (S5.4, S10.3).
        """
        for region_id, counter in vector.items():
            log = self.find_log(region_id)
            if log is not None and log.length:
                log.trimmed = max(log.trimmed, log.last_counter_up_to(counter))
                log.remove_prefix(counter)
        self.header.set_heads(
            {
                region_id: head
                for region_id, head in self.header.heads.items()
                if not covers(vector, region_id, head[0])
            }
        )
        if self.rare is None:
            return
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
