"""Checkpoints of dirty keys in slices (S13.1).

Theory of operation
-------------------
A checkpoint begins at a position P. It takes the region's own state there (vector, chains,
tombstone and clears of FLUSHALL) and the list of the keys that are dirty. It captures some of these
keys at a time, each at the position of its step: packed nodes by reference (`NodeImage`), the rest
as an image of which the large parts are encoded later (`crdt/images.py`). The rows of a key are
written in slices under a new cut number. The last slice of a key makes that cut the valid one;
until then a start uses the former cut. After all keys the region's state is written. From then on a
start replays the log from P, and for each key from the position of that key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Optional

from xxhash import xxh3_64_digest

from anabranch.crdt.encoding import Malformed, Reader, put_bytes, put_varint, put_vector
from anabranch.crdt.images import StateImage
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.state import NodeImage, cut_converged, cut_local
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector
from anabranch.region.storage.schema import Statement, in_bulk, meta
from anabranch.region.storage.slices import GONE, KeyCut, slices

# What is captured in one step of the engine, so that a step stays short: bytes, where a key and a
# node count as many bytes more as take the same time.
CAPTURE_BYTES: Final = 1 << 20
_KEY_BYTES: Final = 2048
_NODE_BYTES: Final = 128
# Pending entries that are encoded before a checkpoint rests; see `StateImage.encode`.
STRETCH: Final = 2048
REGION_STATE_VERSION: Final = 1


class RegionState:
    """The state of the region as a whole at a position. `clock_ms` is its clock there."""

    def __init__(
        self,
        position: int,
        clock_ms: int,
        vector: Vector,
        chains: dict[int, bytes],
        tombstone: Vector,
        clears: Vector,
    ) -> None:
        self.position = position
        self.clock_ms = clock_ms
        self.vector = vector
        self.chains = chains
        self.flush_tombstone = tombstone
        self.flush_clears = clears

    def encoded(self) -> bytes:
        out = bytearray()
        put_varint(out, REGION_STATE_VERSION)
        put_varint(out, self.position)
        put_varint(out, self.clock_ms)
        put_vector(out, self.vector)
        put_varint(out, len(self.chains))
        for region_id in sorted(self.chains):
            put_varint(out, region_id)
            put_bytes(out, self.chains[region_id])
        put_vector(out, self.flush_tombstone)
        put_vector(out, self.flush_clears)
        return xxh3_64_digest(out) + bytes(out)


def checked(body: bytes) -> Reader:
    """A reader of the bytes after the leading 8-byte checksum; Malformed if it does not match."""
    if xxh3_64_digest(body[8:]) != body[:8]:
        raise Malformed("its checksum is wrong")
    return Reader(body, 8)


def read_region_state(body: bytes) -> RegionState:
    reader = checked(body)
    if reader.varint() != REGION_STATE_VERSION:
        raise Malformed("region state of an unknown version")
    position = reader.varint()
    clock_ms = reader.varint()
    vector = reader.vector()
    chains: dict[int, bytes] = {}
    for _ in range(reader.count()):
        region_id = reader.varint()
        chains[region_id] = reader.bytes_()
    tombstone = reader.vector()
    return RegionState(position, clock_ms, vector, chains, tombstone, reader.vector())


class Checkpointer:
    """Makes one checkpoint after the other.

    `Checkpoints` (region/driver/checkpoints.py) calls `begin`, then, until no keys are left,
    `capture` after a cut of the journal, `slices`, which it writes, and `written`. At last it calls
    `finish`, writes its statements, and calls `finished`.
    """

    def __init__(
        self,
        numbers: dict[bytes, int],
        gone: dict[bytes, int],
        cut: int,
        slice_max_bytes: int,
        capture_bytes: int = CAPTURE_BYTES,
        stretch: int = STRETCH,
    ) -> None:
        # Key → number under which its rows are stored.
        self.numbers = numbers
        # Key → position at which it was gone, kept until a start replays from there or later.
        self.gone = gone
        self.cut = cut
        self.slice_max_bytes = slice_max_bytes
        self.capture_bytes = capture_bytes
        self.stretch = stretch
        self._next_number = max(numbers.values(), default=0) + 1
        self._state: Optional[RegionState] = None
        self._todo: list[bytes] = []
        # Keys that were captured and are not completely written. A captured key counts as saved in
        # memory, so it must stay here until it is on disk.
        self.pending: list[KeyCut] = []
        self.pending_position = 0
        self._collected = b""

    def is_under_way(self) -> bool:
        return self._state is not None

    def begin(self, keyspace: Keyspace, position: int, clock_ms: int) -> None:
        """Begins a checkpoint at `position`, which the keyspace reflects exactly."""
        self.cut += 1
        self._state = RegionState(
            position,
            clock_ms,
            dict(keyspace.vector),
            dict(keyspace.chains),
            dict(keyspace.flush_tombstone),
            dict(keyspace.flush_clears),
        )
        keyspace.free_some()
        self._todo = list(keyspace.dirty)
        keyspace.is_dirty = False
        self._note_collected(keyspace)

    def _note_collected(self, keyspace: Keyspace) -> None:
        """Takes the vector `collected`.

        It must be on disk no later than any captured key from which a collection dropped data.
        """
        out = bytearray()
        put_vector(out, keyspace.collected)
        self._collected = xxh3_64_digest(out) + bytes(out)

    def capture(self, keyspace: Keyspace, position: int) -> None:
        """Captures the next dirty keys into `pending`, as they are at `position`."""
        assert not self.pending
        self._note_collected(keyspace)
        cuts = self.pending
        self.pending_position = position
        size = 0
        while self._todo and size < self.capture_bytes:
            key = self._todo.pop()
            keyspace.dirty.pop(key, None)
            cut = self._capture(key, keyspace.get(key), position)
            weight = 0 if cut.image is None else cut.image.weight()
            size += _KEY_BYTES + weight + _NODE_BYTES * len(cut.images)
            cuts.append(cut)
        if not keyspace.dirty:
            # An emptied dict keeps its memory until it is cleared.
            keyspace.dirty.clear()

    def written(self) -> None:
        """All slices of `pending` are on disk."""
        self.pending = []

    def has_more(self) -> bool:
        return bool(self._todo)

    def _capture(self, key: bytes, stream: Optional[Stream], position: int) -> KeyCut:
        stored = self.numbers.get(key, 0)
        if stream is None:
            self.numbers.pop(key, None)
            self.gone[key] = position
            return KeyCut(key, position, GONE, stored)
        self.gone.pop(key, None)
        is_new = stream.stored_number == 0 or stream.stored_number != stored
        if is_new:
            stream.stored_number = self._next_number
            self._next_number += 1
            self.numbers[key] = stream.stored_number
        cut = KeyCut(key, position, stream.stored_number, stored if is_new else 0)
        cut.has_older = not is_new
        cut.image = image = StateImage()
        cut_converged(image, stream)
        cut_local(image, stream)
        put_varint(image.out, stream.length())
        for region_id, log in stream.logs.items():
            _capture_log(region_id, log, cut)
        return cut

    def slices(self) -> Iterator[list[Statement]]:
        """The transactions that write `pending`, each of about `slice_max_bytes`.

        An empty one means a rest, so that clients wait for no long encoding. They are idempotent:
        after a failure all may be written again.
        """
        first = meta("collected", self._collected)
        return slices(self.pending, self.cut, self.slice_max_bytes, self.stretch, first)

    def finish(self) -> tuple[int, list[Statement]]:
        """The position from which a start replays the log, and the statements that store it.

        Call `finished` once they are written.
        """
        state = self._state
        assert state is not None and not self._todo and not self.pending
        gone = [(key,) for key, position in self.gone.items() if position <= state.position]
        statements = [
            meta("collected", self._collected),
            meta("region_state", state.encoded()),
            meta("cut", b"%d" % self.cut),
            ("DELETE FROM staged WHERE position <= ?", (state.position,)),
            *in_bulk("DELETE FROM key_state WHERE number = 0 AND key IN (VALUES {})", gone),
        ]
        return state.position, statements

    def finished(self) -> None:
        """Ends the checkpoint: all of it is on disk."""
        assert self._state is not None
        for key in [key for key, position in self.gone.items() if position <= self._state.position]:
            del self.gone[key]
        self._state = None


def _capture_log(region_id: int, log: RegionLog, cut: KeyCut) -> None:
    for node in log.unsaved:
        if node.is_dropped:
            continue
        node.is_unsaved = False
        if node.number == 0:
            node.number = log.next_number
            log.next_number += 1
        else:
            cut.rewritten.append((region_id, node.number))
        cut.images.append(NodeImage(region_id, node))
    cut.dropped += [(region_id, number) for number in log.dropped_numbers]
    log.saved()
