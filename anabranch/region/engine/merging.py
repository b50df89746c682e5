"""Merging of blocks (S2) and snapshots (S11) that peers sent."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.apply import apply_effects
from anabranch.crdt.block import Block, chain_after, read_effects
from anabranch.crdt.effects import dots_of
from anabranch.crdt.encoding import Malformed
from anabranch.crdt.errors import ChainForked, NotAMember, PeerError, SyncGap
from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.snapshot import SnapshotReader
from anabranch.region.engine.state import EngineState


def merge_blocks(state: EngineState, blocks: list[Block], source: int) -> int:
    """Applies, in order, the blocks that the vector does not cover.

    Returns the number of blocks applied.

    Raises:
        PeerError: A block is wrong; the blocks before it are applied.
    """
    merged = 0
    for block in blocks:
        applied = state.keyspace.vector.get(block.origin, 0)
        if block.last <= applied:
            continue
        _check(state, block, applied)
        _merge(state, block, source)
        merged += 1
    return merged


def merge_salvage(state: EngineState, items: list[Block]) -> int:
    """Merges items of the salvage, in order; returns how many are dealt with.

    It stops before the first item that demands effects which are not applied here: a gap, or a
    block that does not follow the last effect of its region.

    Raises:
        PeerError: A block is wrong; the blocks before it are applied.
    """
    for number, block in enumerate(items):
        applied = state.keyspace.vector.get(block.origin, 0)
        if block.last <= applied:
            if block.last == applied and block.body:
                _check_chain(block, state.keyspace.chain(block.origin))
            continue
        if not block.body or block.first != applied + 1:
            return number
        if block.origin not in state.members.by_id:
            raise NotAMember(f"block of region {block.origin}, which is no member")
        _check_chain(block, chain_after(state.keyspace.chain(block.origin), block.body))
        # The source is this region, but not 0: the effects are applied like those that come back
        # from a peer (S8.2).
        _merge(state, block, state.members.region_id)
    return len(items)


def _check_chain(block: Block, chain: bytes) -> None:
    if chain != block.chain:
        raise ChainForked(
            f"the chain of region {block.origin} forks at counter {block.first}: "
            "two different contents carry the same counters"
        )


def _check(state: EngineState, block: Block, applied: int) -> None:
    """Checks membership (S1.1), contiguity (S2.2) and the chain (S13.5)."""
    if block.origin not in state.members.by_id:
        raise NotAMember(
            f"block of region {block.origin}, which is no member of cluster {state.members.cluster}"
        )
    if block.origin == state.members.region_id:
        # The peer holds an effect of this region that the region lacks: the region lost effects,
        # whether its start is over or not.
        state.check_held_by_peer({block.origin: block.last})
    if block.first != applied + 1 or block.last < block.first:
        raise SyncGap(
            f"block {block.first}–{block.last} of region {block.origin} "
            f"does not follow counter {applied}"
        )
    _check_chain(block, chain_after(state.keyspace.chain(block.origin), block.body))


def _merge(state: EngineState, block: Block, source: int) -> None:
    state.journal.cut_block()
    try:
        effects = read_effects(block)
    except Malformed as error:
        raise PeerError(
            f"block {block.first}–{block.last} of region {block.origin} is malformed: {error}"
        ) from error
    apply_effects(state.keyspace, block, effects, state.clock.now_ms, False)
    state.journal.push_merged(block, source, effects)
    state.schedule.note_unsaved(state.clock.steady_ms)
    state.replication.blocks_merged += 1
    state.replication.effects_merged += block.last - block.first + 1
    merged = state.replication.merged_by_kind
    for effect in effects:
        kind = type(effect)
        merged[kind] = merged.get(kind, 0) + dots_of(effect)


class ReadAhead:
    """A snapshot that is read while its chunks come, so that its join takes less time (S11.2)."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace: Final = keyspace
        # The list to which the chunks are added, the number of those read, and their reader.
        self._chunks: Optional[list[bytes]] = None
        self._count = 0
        self._reader = SnapshotReader(keyspace)

    def read(self, chunks: list[bytes]) -> None:
        """Reads the chunks that were not read yet; of another list all, and drops the former.

        Raises:
            PeerError: A chunk is malformed.
        """
        if self._chunks is not chunks:
            self.drop()
            self._chunks = chunks
        try:
            while self._count < len(chunks):
                self._reader.read(chunks[self._count])
                self._count += 1
        except Malformed as error:
            self.drop()
            raise _malformed(error) from error

    def take(self, chunks: list[bytes]) -> Keyspace:
        """Reads the rest of a whole snapshot, hands it out and holds nothing of it any more.

        Raises:
            PeerError: The snapshot is malformed.
        """
        self.read(chunks)
        reader = self._reader
        self.drop()
        try:
            return reader.finish()
        except Malformed as error:
            raise _malformed(error) from error

    def drop(self) -> None:
        """Frees all that was read."""
        if self._chunks is not None:
            self._chunks = None
            self._count = 0
            self._reader = SnapshotReader(self._keyspace)


def _malformed(error: Malformed) -> PeerError:
    return PeerError(f"the snapshot is malformed: {error}")


def join_snapshot(state: EngineState, other: Keyspace, chunks: list[bytes], source: int) -> None:
    """Joins a whole staged snapshot in one step (S11.2). `other` is what `chunks` say.

    The removals of losing idempotent adds, which follow, go into the same commit (S9.2).

    Raises:
        PeerError: The snapshot forks a chain, or knows a region that is not a member.
    """
    unknown = [region_id for region_id in other.vector if region_id not in state.members.by_id]
    if unknown:
        raise NotAMember(
            f"the snapshot knows region {unknown[0]}, "
            f"which is no member of cluster {state.members.cluster}"
        )
    for region_id, counter in other.vector.items():
        if counter == state.keyspace.vector.get(region_id, 0) and other.chain(
            region_id
        ) != state.keyspace.chain(region_id):
            raise ChainForked(
                f"the chain of region {region_id} forks: "
                f"the snapshot has another value at counter {counter}"
            )
    state.check_held_by_peer(other.vector)
    state.journal.cut_block()
    join(state.keyspace, other, state.clock.now_ms)
    state.journal.push_snapshot(source, chunks, other.vector)
    if source == state.disk.rebuild_from:
        state.end_rebuild()
    state.schedule.note_unsaved(state.clock.steady_ms)
    state.replication.snapshots_joined += 1
