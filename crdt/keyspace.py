"""One region's replicated data: its keys, its version vector and chain values, and what FLUSHALL left.

`crdt/apply.py` changes it by effects, `crdt/local.py` by local records, `crdt/join.py` by snapshots.
"""

from __future__ import annotations

from typing import Final, Optional

from sortedcontainers import SortedSet
from xxhash import xxh3_64_intdigest

from anabranch.crdt import digest
from anabranch.crdt.block import NO_CHAIN
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector


class Changes:
    """What a step did that somebody may wait for; the engine empties it after each step.

    Keys stand in the order in which they changed, so that who wakes first is no matter of hashing.
    """

    def __init__(self) -> None:
        self.added_keys: dict[bytes, None] = {}  # entries came: readers may wake
        self.changed_keys: dict[bytes, None] = {}  # anything a client could notice
        self.gone_groups: list[
            tuple[bytes, bytes]
        ] = []  # (key, group): local state was dropped (S6.5)
        self.pairs: list[
            tuple[bytes, bytes, bytes]
        ] = []  # (key, pid, iid) merged: conflicts may be here (S9.2)
        self.deadlines: dict[bytes, None] = {}  # keys whose deadlines changed


class Keyspace:
    """All state that effects speak of, and the local state that hangs on it."""

    def __init__(
        self, region_id: int, limits: NodeLimits, pair_limits: Optional[PairLimits] = None
    ) -> None:
        self.region_id = region_id
        self.limits = limits
        self.pair_limits: Final = pair_limits or PairLimits()
        self.keys: dict[bytes, Stream] = {}
        self.vector: Vector = {}
        self.chains: dict[
            int, bytes
        ] = {}  # region_id → chain value after its newest block here (S13.5)
        # FLUSHALL, for all keys, known here or not (S5.4): tombstone of all groups, joined vectors of the clears.
        self.flush_tombstone: Vector = {}
        self.flush_clears: Vector = {}
        # All up to here was on every member's disk when a tombstone, clear or pair was dropped for that
        # (S6.2), here or in a region whose snapshot was joined.
        self.collected: Vector = {}
        self.changes = Changes()
        self.change_count = 0
        # Groups in which something may have become announceable (S8.1).
        self.acknowledgeable: dict[tuple[bytes, bytes], None] = {}
        self.dirty: dict[
            bytes, int
        ] = {}  # key → position after which it changed since its last checkpoint
        self.is_dirty = False  # flush state, vector
        self.position = 0  # of the last row complete: what changes now is in later rows
        # statistics
        self.late_arrivals = 0  # S7.2
        self._scan_order: Optional[SortedSet[tuple[int, bytes]]] = None  # made when first asked for
        # digest cache
        self._digest_total = 0
        self._undigested: set[bytes] = set()

    def get(self, key: bytes) -> Optional[Stream]:
        return self.keys.get(key)

    def get_or_create(self, key: bytes) -> Stream:
        stream = self.keys.get(key)
        if stream is None:
            stream = self.keys[key] = Stream(key, self.limits, self.pair_limits)
            self._undigested.add(
                key
            )  # even if the key is dirty already: it may have been, and then nothing was left of it
            if self._scan_order is not None:
                self._scan_order.add((xxh3_64_intdigest(key), key))
        return stream

    def scan_order(self) -> SortedSet[tuple[int, bytes]]:
        """(hash, key) of every key, ascending: an order that additions and removals elsewhere do not disturb (SCAN)."""
        if self._scan_order is None:
            self._scan_order = SortedSet((xxh3_64_intdigest(key), key) for key in self.keys)
        return self._scan_order

    def note_visible(self, stream: Stream) -> None:
        """Numbers a change that clients could notice (WATCH)."""
        self.change_count += 1
        stream.change = self.change_count

    def touch(self, stream: Stream) -> None:
        """Notes that anything of a key changed: for the checkpoint and the digest."""
        key = stream.key
        if key not in self.dirty:
            self.dirty[key] = self.position
        if stream.share is not None:
            self._digest_total -= stream.share
            stream.share = None
        self._undigested.add(key)

    def touch_local(self, stream: Stream) -> None:
        """Notes that local group state of a key changed: for the checkpoint alone, it is no part of the digest."""
        if stream.key not in self.dirty:
            self.dirty[stream.key] = self.position

    def drop_if_empty(self, stream: Stream) -> None:
        """Forgets a key of which nothing need be remembered."""
        if stream.is_empty() and self.keys.get(stream.key) is stream:
            self.touch(stream)
            del self.keys[stream.key]
            if self._scan_order is not None:
                self._scan_order.discard((xxh3_64_intdigest(stream.key), stream.key))

    def chain(self, origin: int) -> bytes:
        return self.chains.get(origin, NO_CHAIN)

    def mark_undigested(self, key: bytes) -> None:
        """A key was loaded: the region's digest does not count it yet."""
        self._undigested.add(key)

    # -- digest ------------------------------------------------------------------------------------------------------

    def hash_some(self, entries_max: int) -> bool:
        """Does about `entries_max` entries' worth of the work that the next digest needs; True when none is left but the summing up."""
        for key in self._undigested:
            stream = self.keys.get(key)
            if stream is None:
                continue
            entries_max -= 1
            for log in stream.logs.values():
                if log.unhashed:
                    entries_max -= log.hash_some(entries_max)
            if entries_max <= 0:
                return False
        return True

    def digest(self) -> bytes:
        """16 bytes over the converged state (S13.9): a function of the vector. Zeros where nothing is held."""
        for key in self._undigested:
            stream = self.keys.get(key)
            if stream is not None and stream.share is None:
                stream.share = digest.of_stream(stream)
                self._digest_total += stream.share
        self._undigested.clear()
        return (self._digest_total & digest.MASK).to_bytes(16, "big")

    def digest_of(self, key: bytes) -> bytes:
        stream = self.keys.get(key)
        return bytes(16) if stream is None else digest.of_stream(stream).to_bytes(16, "big")
