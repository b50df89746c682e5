"""The calls of the engine for other regions: blocks, snapshots, lives, gossip, digests."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.crdt.snapshot import CUT_WEIGHT, SnapshotCut, SnapshotRecords
from anabranch.crdt.vector import Vector
from anabranch.region.engine import gossiping, merging, rounds
from anabranch.region.engine.lifecycle import LOST, RECOVERY
from anabranch.region.engine.rounds import Attestation
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.statistics import ends_round
from anabranch.region.engine.steps import Steps

# Approximate number of entries hashed for one heartbeat. While more remain to be hashed, heartbeats
# carry no digest.
DIGEST_ENTRIES_MAX: Final = 2000


class PeerCalls(Steps):
    """The engine as the hub and its links use it."""

    def __init__(self, state: EngineState) -> None:
        super().__init__(state)
        # What is made ahead of the next cut, and how much of it in one step: for about as long as
        # it takes to encode so many bytes.
        self._cut_records: Optional[SnapshotRecords] = None
        self._cut_weight = CUT_WEIGHT
        # The snapshot under way.
        self._ahead: Final = merging.ReadAhead(state.keyspace.limits)

    # -- heartbeats

    def attest(self, with_digest: bool, now_ms: int) -> Attestation:
        """Takes vector, clock and, if wanted, digest in one step.

        The caller may send the attestation once its position is on disk (S2.4).
        """
        self.state.clock.read(now_ms)
        return rounds.attest(self.state, DIGEST_ENTRIES_MAX if with_digest else 0)

    def refreshes_clock(self, now_ms: int) -> bool:
        """Whether the heartbeat that is due waits for a commit of the clock (S7.7).

        That is so while a client of any region asks for the stable time, if nothing else was
        committed here lately.
        """
        state = self.state
        state.clock.read(now_ms)
        if not state.stability.time.is_wanted(state.clock.steady_ms):
            return False
        age_ms = state.settings.integer("crdt-heartbeat-interval-ms") // 2
        return rounds.refresh_clock(state, max(age_ms, 1))

    # -- blocks and snapshots of peers

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        """Applies blocks that a peer sent.

        Blocks that the vector covers are ignored. All blocks are ignored if the link to the peer is
        DOWN (CRDT.LINK) or the peer is a lost member.

        Raises:
            SyncGap: A block does not follow the last applied effect of its region (S2.2).
            ChainForked: A block does not continue the chain of its region (S13.5).
            NotAMember: A block is of a region that is not a member (S1.1).
            PeerError: A block is malformed.
        """
        self.state.clock.read(now_ms)
        if self._is_taken_from(source):
            try:
                merging.merge_blocks(self.state, blocks, source)
            finally:
                self._after_merge()

    def read_ahead(self, chunks: list[bytes]) -> None:
        """Reads the chunks of a staged snapshot that came since the last call, for its `join`.

        `chunks` is the list to which the caller adds chunks. Another list is another snapshot, and
        the former one is dropped.

        Raises:
            PeerError: The snapshot is malformed.
        """
        self._ahead.read(chunks)

    def drop_read_ahead(self) -> None:
        """Drops the snapshot that was read ahead: it is joined, or never will be."""
        self._ahead.drop()

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        """Joins a whole staged snapshot in one step (S11), most of it read ahead.

        Raises:
            PeerError: The snapshot is malformed, forks a chain, or knows a region that is not a
                member.
        """
        self.state.clock.read(now_ms)
        if self._is_taken_from(source):
            try:
                merging.join_snapshot(self.state, self._ahead.take(chunks), chunks, source)
            finally:
                self._after_merge()

    def merge_salvage(self, items: list[Block], now_ms: int) -> int:
        """Merges the next items of the salvage (`region.storage.salvage`) while it `wants_salvage`.

        Returns how many items are dealt with: those before the first that does not follow yet.

        Raises:
            PeerError: A block forks a chain, is malformed, or is of a region that is no member.
        """
        self.state.clock.read(now_ms)
        try:
            return merging.merge_salvage(self.state, items)
        finally:
            self._after_merge()

    def wants_salvage(self) -> bool:
        """Whether the salvage on disk is to be merged now.

        It waits while commits fail or are slow, so that too many bytes wait for the disk (S14).
        """
        state = self.state
        if not state.disk.has_salvage or state.lifecycle.state not in (RECOVERY, LOST):
            return False
        return state.journal.pending_bytes() <= state.cached.uncommitted_max_bytes

    def is_salvage_final(self) -> bool:
        """Whether an item of the salvage that does not follow now never will.

        In recovery the region then holds all that other members hold; a lost region gets nothing.
        """
        state = self.state
        return state.lifecycle.state == LOST or state.lifecycle.holds_all_answered(
            state.members.others(), state.disk.vector
        )

    def end_salvage(self) -> None:
        """The salvage is dealt with. Its rows go with the commit that ends the recovery."""
        self.state.disk.note_salvage(False)

    def _is_taken_from(self, source: int) -> bool:
        status = self.state.peers.by_id.get(source)
        return status is None or not (status.is_down or self.members[source].lost)

    def _after_merge(self) -> None:
        self._note_lifecycle()
        self.state.stability.count(self.state.keyspace.vector)
        self._settle()
        self.state.journal.end_unit()

    # -- snapshots for peers

    def limit_preparation(self, weight: int) -> None:
        """Makes `prepare_cut` take about as long as it takes to encode `weight` bytes."""
        self._cut_weight = weight

    def prepare_cut(self) -> bool:
        """Makes some records of the next snapshot; True once `snapshot_cut` takes little time."""
        if self._cut_records is None:
            self._cut_records = SnapshotRecords(self.state.keyspace)
        return self._cut_records.make_some(self._cut_weight)

    def drop_preparation(self) -> None:
        """Drops the records that were made for the next snapshot: nobody waits for it any more."""
        if self._cut_records is not None:
            self._cut_records.drop()
            self._cut_records = None

    def snapshot_cut(self) -> SnapshotCut:
        """A consistent cut of everything applied (S11.2).

        The caller may send it once its position is on disk.
        """
        state = self.state
        state.journal.cut_block()
        if state.journal.position > state.disk.position:
            state.schedule.commit_wanted = True
        state.replication.snapshots_cut += 1
        made, self._cut_records = self._cut_records, None
        return SnapshotCut(state.keyspace, state.journal.position, made)

    # -- lives, starts and gossip

    def may_answer(self, lost: Collection[int]) -> bool:
        """Whether a start that calls these members lost can be answered (S13.6, S13.8).

        It cannot while a salvage is not merged, which may bring effects of the asker (S13.7).
        """
        return not self.state.disk.has_salvage and self.state.members.all_lost(lost)

    def newest_life(self, peer: int) -> int:
        """The newest life heard of a peer, 0 if none (S1.3)."""
        return self.state.lifecycle.lives.get(peer, 0)

    def hear_lives(self, lives: dict[int, int], now_ms: int) -> None:
        """Takes the lives that a peer names in a handshake or in a question (S1.3, S13.6)."""
        self.state.clock.read(now_ms)
        gossiping.hear_lives(self.state, lives)
        self._note_lifecycle()

    def peer_holds(self, peer: int, vector: Vector, now_ms: int) -> None:
        """Takes the vector that a peer with matching chains reports in a handshake (S13.7)."""
        self.state.clock.read(now_ms)
        if peer in self.members:
            self.state.check_held_by_peer(vector)
            self._note_lifecycle()

    def start_question(self) -> Optional[StartQuestion]:
        """The question to send to every other member; None once the start is over (S13.6)."""
        return self.state.lifecycle.start_question()

    def start_answered(self, peer: int, answer: StartAnswer, now_ms: int) -> None:
        """Takes a member's answer to a question of this start (S13.6).

        The answer must have come on a connection opened since the start.
        """
        state = self.state
        state.clock.read(now_ms)
        if peer in self.members:
            state.raise_id_floor(answer.clock_ms)
            state.check_held_by_peer(answer.vector)
            state.check_collected_by_peer(answer.collected)
            state.hear_life(peer, answer.life)
            gossiping.hear_lives(state, answer.lives)
            state.lifecycle.start_answered(peer, answer, state.members.others())
            self._note_lifecycle()

    def gossip(self) -> Gossip:
        """The gossip to send (S6.2, S13.7). This region's own part describes its disk."""
        return gossiping.compose(self.state)

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        """Takes gossip from a peer."""
        self.state.clock.read(now_ms)
        gossiping.hear(self.state, gossip)
        self.state.stability.count(self.state.keyspace.vector)
        self._note_lifecycle()

    # -- links

    def receiver_opened(self, peer: int) -> None:
        """A peer has begun to receive from this region."""
        self.state.peers.receives(peer, True)

    def receiver_closed(self, peer: int) -> None:
        """A peer no longer receives from this region."""
        self.state.peers.receives(peer, False)

    def acknowledged(self, peer: int, vector: Vector, now_ms: int) -> None:
        """A receiving peer reports the vector on its disk (S13.7)."""
        self.state.clock.read(now_ms)
        self.state.check_held_by_peer(vector)
        self._note_lifecycle()
        status = self.state.peers.by_id[peer]
        status.traffic.sent_rounds += ends_round(status.acknowledged, vector, peer)
        status.acknowledged = vector
        if self.state.waiting.waiters:
            rounds.answer_waiters(self.state)

    def message_sent(self, peer: int, size: int) -> None:
        """Counts a message of `size` bytes that was sent to a peer."""
        status = self.state.peers.by_id.get(peer)
        if status is not None:
            status.traffic.sent_bytes += size
            status.traffic.sent_messages += 1

    def message_received(self, peer: int, size: int) -> None:
        """Counts a message of `size` bytes that a peer sent."""
        status = self.state.peers.by_id.get(peer)
        if status is not None:
            status.traffic.received_bytes += size
            status.traffic.received_messages += 1

    def reports_vector(self, peer: int) -> None:
        """Notes that the vector on this region's disk is reported to a peer that sends to it."""
        state = self.state
        status, vector = state.peers.by_id[peer], state.disk.vector
        status.traffic.received_rounds += ends_round(
            status.reported, vector, state.members.region_id
        )
        status.reported = vector

    def link_state(self, peer: int, state: str, detail: str) -> None:
        """Sets the state that CRDT.PEERS shows for the link that receives from `peer`."""
        status = self.state.peers.by_id[peer]
        status.state = state
        status.detail = detail

    def called_lost(self, peer: int) -> None:
        """A member refuses this region as lost (S13.8).

        The word of a member that is lost here does not count, nor of one that has not said who it
        is: `peer` is 0 then.
        """
        state = self.state
        member = state.members.by_id.get(peer)
        if member is None or member.lost or not state.lifecycle.call_lost([peer]):
            return
        by = sorted(state.lifecycle.called_lost_by)
        state.store_meta("called_lost", ",".join(map(str, by)).encode())

    def link_refused(self, reason: str) -> None:
        """A link was closed for `reason`, by this region or by the peer; counts the alarms."""
        self.state.replication.gaps += reason == "gap"
        self.state.replication.forks += reason == "forked"

    # -- digests

    def compare_digest(self, vector: Vector, digest: bytes) -> None:
        """Compares the digest of a heartbeat if the vectors are equal (S13.9).

        Unequal digests raise the alarm crdt_divergence.
        """
        keyspace = self.state.keyspace
        if not digest or vector != keyspace.vector or not keyspace.hash_some(DIGEST_ENTRIES_MAX):
            return
        if keyspace.digest() != digest:
            self.state.replication.divergences += 1
