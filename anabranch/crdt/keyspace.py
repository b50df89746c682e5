"""The replicated data of one region.

It consists of the keys, the version vector, the chain values, and the tombstone and clears that
FLUSHALL left. `crdt/apply.py` changes it by effects, `crdt/local.py` by local records, and
`crdt/join.py` by snapshots.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import digest
from anabranch.crdt.block import NO_CHAIN
from anabranch.crdt.conflicts import Conflicts
from anabranch.crdt.digest_cache import DigestCache
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.node import DIGEST_MASK
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.scan_order import ScanOrder
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector


class Changes:
    """The changes of one step that a client or a part of the engine may wait for.

    The engine empties it after each step. Keys stand in the order in which they changed. `count`
    numbers the changes that clients could notice, and is not reset.
    """

    def __init__(self) -> None:
        self.count = 0
        # Keys that got entries: readers may wake.
        self.added_keys: dict[bytes, None] = {}
        # Keys with any change that a client could notice.
        self.changed_keys: dict[bytes, None] = {}
        # (key, group) of groups whose local state was dropped (S6.5).
        self.dropped_groups: list[tuple[bytes, bytes]] = []
        # (key, pid, iid) of merged pairs, which may be in conflict (S9.2). An add that this region
        # issues covers all pairs here, so it conflicts with none.
        self.pairs: list[tuple[bytes, bytes, bytes]] = []
        # Keys whose deadlines changed.
        self.deadlines: dict[bytes, None] = {}


class LateEntries:
    """Statistics of merged entries that readers may have missed.

    `arrivals`: entries not above the highest ID that an XREAD returned (S7.2). `below_stable`:
    entries below `stable_id`, the lowest ID that is not below the highest stable time of this
    region (S7.7); 0 without one.
    """

    def __init__(self) -> None:
        self.arrivals = 0
        self.below_stable = 0
        self.stable_id = 0


class Unseen:
    """Keys whose last changes others have yet to look at.

    `uncounted`: keys that changed since they were counted (`region.engine.contents`).
    `unrecorded`: keys that changed since their records of a snapshot were made
    (`crdt/snapshot.py`); None while none are made. FLUSHALL puts None there instead of naming all.
    """

    def __init__(self) -> None:
        self.uncounted: Final[dict[bytes, None]] = {}
        self.unrecorded: Optional[dict[bytes, None]] = None


class _Dropped:
    """Streams that FLUSHALL dropped, and that are not freed yet (`Keyspace.free_some`).

    They changed after the row at `position`.
    """

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.position = 0


class Keyspace:
    """The state that effects change, and the local state that belongs to its keys and groups."""

    def __init__(
        self, region_id: int, limits: NodeLimits, pair_limits: Optional[PairLimits] = None
    ) -> None:
        self.region_id = region_id
        self.limits = limits
        self.pair_limits: Final = pair_limits or PairLimits()
        self.keys: dict[bytes, Stream] = {}
        self.vector: Vector = {}
        # region_id → chain value after its newest block here (S13.5).
        self.chains: dict[int, bytes] = {}
        # FLUSHALL, for all keys, known here or not (S5.4): the tombstone of all groups.
        self.flush_tombstone: Vector = {}
        # The joined vectors of the FLUSHALLs, which clear pairs.
        self.flush_clears: Vector = {}
        # Every effect up to this vector was on every member's disk when a tombstone, clear or pair
        # was collected (S6.2), here or in a region whose snapshot was joined.
        self.collected: Vector = {}
        self.changes = Changes()
        # (key, group) of groups whose acknowledgements may have become announceable (S8.1).
        self.acknowledgeable: dict[tuple[bytes, bytes], None] = {}
        # Key → position after which it changed since its last checkpoint. Keys that FLUSHALL
        # dropped come in with `free_some`.
        self.dirty: dict[bytes, int] = {}
        # The flush state changed, or a snapshot was joined, since the last checkpoint.
        self.is_dirty = False
        # Position of the last complete row of the effect log: present changes are in later rows.
        self.position = 0
        self.late: Final = LateEntries()
        self.conflicts: Final = Conflicts()
        self.scan_order = ScanOrder()
        self.unseen: Final = Unseen()
        self._digest: Final = DigestCache()
        self._dropped: Final = _Dropped()

    def get(self, key: bytes) -> Optional[Stream]:
        return self.keys.get(key)

    def get_or_create(self, key: bytes) -> Stream:
        stream = self.keys.get(key)
        return self.create(key) if stream is None else stream

    def create(self, key: bytes) -> Stream:
        """Makes the stream of a key that is absent."""
        stream = self.keys[key] = Stream(key, self.limits, self.pair_limits)
        self._note_new(key)
        return stream

    def create_read(self, key: bytes) -> Optional[Stream]:
        """Makes the stream of a key of a snapshot that is read; None if the key is there already.

        A read snapshot is only joined into another keyspace, so it has no counts.
        """
        stream = Stream(key, self.limits, self.pair_limits)
        if self.keys.setdefault(key, stream) is not stream:
            return None
        self.scan_order.add(key)
        self._digest.note_new(key)
        return stream

    def put_joined(self, streams: dict[bytes, Stream], order: ScanOrder) -> None:
        """Puts in streams with entries only, whose keys are absent and in the scan order `order`.

        A join calls it for all of them at once. They have no deadlines and nothing to collect, so
        they need no upkeep and are not among `Changes.changed_keys`.
        """
        for stream in streams.values():
            stream.set_pair_limits(self.pair_limits)
            self.note_visible(stream)
        self.keys.update(streams)
        self.scan_order.add_those(order, streams)
        names: dict[bytes, None] = dict.fromkeys(streams)
        self._digest.note_all_new(names)
        self.changes.added_keys.update(names)
        self.touch_joined(names)

    def note_joined(self, stream: Stream) -> None:
        """Notes a change by a join, which at last calls `touch_joined` for all keys that changed.

        One dict after the other takes less time than all of them for each key.
        """
        self.note_visible(stream)
        self._digest.note_changed(stream)
        self.note_parts(stream)

    def touch_joined(self, names: dict[bytes, None]) -> None:
        """Notes that keys changed, for the checkpoint and the counts."""
        self.unseen.uncounted.update(names)
        if self.unseen.unrecorded is not None:
            self.unseen.unrecorded.update(names)
        before = dict(self.dirty)
        self.dirty.update(dict.fromkeys(names, self.position))
        self.dirty.update(before)

    def put_loaded(self, stream: Stream) -> None:
        """Puts in a stream that was loaded from the disk; its key is absent."""
        self.keys[stream.key] = stream
        self._note_new(stream.key)
        self.note_visible(stream)

    def _note_new(self, key: bytes) -> None:
        self.scan_order.add(key)
        self.unseen.uncounted[key] = None
        self._digest.note_new(key)

    def note_visible(self, stream: Stream) -> None:
        """Numbers a change that clients could notice (WATCH)."""
        self.changes.count += 1
        stream.change = self.changes.count

    def note_parts(self, stream: Stream) -> None:
        """Notes what changed in a key: groups may have more to announce, statistics may be over."""
        if stream.rare is not None:
            for name in stream.groups:
                self.acknowledgeable[(stream.key, name)] = None
        if not stream.is_present():
            stream.forget_statistics()

    def touch(self, stream: Stream) -> None:
        """Notes that a key changed, for the checkpoint, the digest and the counts."""
        key = stream.key
        self.dirty.setdefault(key, self.position)
        self.unseen.uncounted[key] = None
        self._digest.note_changed(stream)
        self.note_unrecorded(key)

    def note_unrecorded(self, key: bytes) -> None:
        """Notes that a key changed in what a snapshot has of it."""
        unrecorded = self.unseen.unrecorded
        if unrecorded is not None:
            unrecorded[key] = None

    def touch_local(self, stream: Stream) -> None:
        """Notes that the local group state of a key changed, for the checkpoint and the counts.

        Local group state is not part of the digest, nor of snapshots.
        """
        self.unseen.uncounted[stream.key] = None
        self.dirty.setdefault(stream.key, self.position)

    def drop_if_empty(self, stream: Stream) -> None:
        """Drops a key that holds no state."""
        if stream.is_empty() and self.keys.get(stream.key) is stream:
            self.touch(stream)
            del self.keys[stream.key]
            self.scan_order.discard(stream.key)

    def drop_plain(self, vector: Vector) -> None:
        """Drops every key that holds nothing but what an observed-remove by `vector` removes.

        `vector` covers all effects that were applied here. A key stays if it has deadlines,
        tombstones or clears.
        """
        kept: dict[bytes, Stream] = {}
        dropped = self._dropped.streams
        if not dropped:
            self._dropped.position = self.position
        for stream in self.keys.values():
            if stream.rare is not None:
                if not stream.is_plain():
                    kept[stream.key] = stream
                    continue
                for name in stream.groups:
                    self.acknowledgeable.pop((stream.key, name), None)
                    self.changes.dropped_groups.append((stream.key, name))
                if stream.pairs:
                    stream.pairs.clear(vector)
            dropped.append(stream)
        self.keys = kept
        self.unseen.unrecorded = None
        self._digest.keep(kept)
        self.scan_order = ScanOrder()
        for key in kept:
            self.scan_order.add(key)

    def is_freeing(self) -> bool:
        """Whether streams that were dropped are not freed yet."""
        return bool(self._dropped.streams)

    def free_some(self, streams_max: int = 1 << 62) -> None:
        """Frees at most so many of the streams that were dropped.

        Only then the checkpoint and the counts learn that these keys changed: noting all at once
        would take long.
        """
        dropped = self._dropped.streams
        position = self._dropped.position
        for _ in range(min(streams_max, len(dropped))):
            key = dropped.pop().key
            self.unseen.uncounted[key] = None
            if self.dirty.get(key, position) >= position:
                self.dirty[key] = position

    def chain(self, origin: int) -> bytes:
        return self.chains.get(origin, NO_CHAIN)

    # -- digest

    def hash_some(self, entries_max: int) -> bool:
        """Hashes about `entries_max` changed entries for the next digest.

        Returns True when nothing changed is left to hash.
        """
        return self._digest.hash_some(self.keys, entries_max)

    def digest(self) -> bytes:
        """Returns the digest of the converged state, 16 bytes (S13.9): a function of the vector.

        The digest of an empty keyspace is zero.
        """
        self.hash_some(1 << 62)
        return (self._digest.total & DIGEST_MASK).to_bytes(16, "big")

    def digest_of(self, key: bytes) -> bytes:
        stream = self.keys.get(key)
        return bytes(16) if stream is None else digest.of_stream(stream).to_bytes(16, "big")
