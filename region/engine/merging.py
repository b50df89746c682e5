"""What comes from peers: blocks (S2), snapshots (S11), and the conflicts of idempotent adds that they bring (S9.2)."""

from __future__ import annotations

from anabranch.crdt.apply import apply_effects
from anabranch.crdt.block import Block, chain_after, read_effects
from anabranch.crdt.effects import AddIdempotent, dots_of
from anabranch.crdt.encoding import Malformed
from anabranch.crdt.join import join
from anabranch.crdt.state import read_snapshot
from anabranch.region.engine.core import Core
from anabranch.region.engine.errors import ChainForked, NotAMember, PeerError, SyncGap
from anabranch.region.engine.idempotency import configuration, evict_pairs


def merge_blocks(core: Core, blocks: list[Block], source: int) -> int:
    """Applies what of these blocks is not yet covered, in order; how many were applied. Raises a PeerError at the first that is wrong."""
    merged = 0
    for block in blocks:
        applied = core.keyspace.vector.get(block.origin, 0)
        if block.last <= applied:
            continue
        _check(core, block, applied)
        _merge(core, block, source)
        merged += 1
    return merged


def _check(core: Core, block: Block, applied: int) -> None:
    """Membership (S1.1), no gap (S2.2), the chain (S13.5)."""
    if block.origin not in core.members:
        raise NotAMember(
            f"block of region {block.origin}, which is no member of cluster {core.cluster}"
        )
    if block.origin == core.region_id:
        # Somebody holds effects of this region that it does not know: it has lost them (S13.7), and its start is no excuse.
        core.lifecycle.enter_recovery(core.clock_ms)
    if block.first != applied + 1 or block.last < block.first:
        core.statistics.gaps += 1
        raise SyncGap(
            f"block {block.first}–{block.last} of region {block.origin} does not follow counter {applied}"
        )
    if chain_after(core.keyspace.chain(block.origin), block.body) != block.chain:
        core.statistics.forks += 1
        raise ChainForked(
            f"the chain of region {block.origin} forks at counter {block.first}: two different contents carry the same counters"
        )


def _merge(core: Core, block: Block, source: int) -> None:
    core.journal.cut_block()
    try:
        effects = read_effects(block)
    except Malformed as error:
        raise PeerError(
            f"block {block.first}–{block.last} of region {block.origin} is malformed: {error}"
        ) from error
    apply_effects(core.keyspace, block, effects, core.clock_ms, False)
    core.journal.push_merged(block, source)
    core.note_unsaved()
    core.statistics.blocks_merged += 1
    core.statistics.effects_merged += block.last - block.first + 1
    counter = block.first
    for effect in effects:
        core.removals.note(effect, block.origin, counter)
        if isinstance(effect, AddIdempotent):
            stream = core.keyspace.get(effect.key)
            if stream is not None:
                evict_pairs(core, stream, effect.pid, configuration(core, stream)[1])
        counter += dots_of(effect)


def join_snapshot(core: Core, chunks: list[bytes], source: int) -> None:
    """Joins a whole staged snapshot in one step (S11.2); its removals of losers go into the same commit (S9.2)."""
    try:
        other = read_snapshot(chunks, core.keyspace.limits)
    except Malformed as error:
        raise PeerError(f"the snapshot is malformed: {error}") from error
    unknown = [region_id for region_id in other.vector if region_id not in core.members]
    if unknown:
        raise NotAMember(
            f"the snapshot knows region {unknown[0]}, which is no member of cluster {core.cluster}"
        )
    for region_id, counter in other.vector.items():
        if counter == core.keyspace.vector.get(region_id, 0) and other.chain(
            region_id
        ) != core.keyspace.chain(region_id):
            core.statistics.forks += 1
            raise ChainForked(
                f"the chain of region {region_id} forks: the snapshot has another value at counter {counter}"
            )
    if other.vector.get(core.region_id, 0) > core.keyspace.vector.get(core.region_id, 0):
        core.lifecycle.enter_recovery(core.clock_ms)
    core.journal.cut_block()
    join(core.keyspace, other, core.clock_ms)
    for key, pid in dict.fromkeys((key, pid) for key, pid, _ in core.keyspace.changes.pairs):
        stream = core.keyspace.get(key)
        if stream is not None:
            evict_pairs(core, stream, pid, configuration(core, stream)[1])
    core.journal.push_snapshot(source, chunks, other.vector)
    core.note_unsaved()
    core.statistics.snapshots_joined += 1
