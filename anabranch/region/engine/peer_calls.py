"""The calls of the engine for other regions: vectors and digests, blocks, lives, gossip."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.crdt.vector import Vector
from anabranch.region.engine import gossiping, merging, rounds
from anabranch.region.engine.link_calls import LinkCalls
from anabranch.region.engine.rounds import Attestation
from anabranch.region.engine.snapshot_calls import SnapshotCalls
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.statistics import ends_round
from anabranch.region.engine.steps import Steps

# Approximate number of entries hashed for one heartbeat. While more remain to be hashed, heartbeats
# carry no digest.
DIGEST_ENTRIES_MAX: Final = 2000


class PeerCalls:
    """The engine as the hub uses it. `links` and `snapshots` have the calls for these."""

    def __init__(
        self, state: EngineState, steps: Steps, links: LinkCalls, snapshots: SnapshotCalls
    ) -> None:
        self.state: Final = state
        self.links: Final = links
        self.snapshots: Final = snapshots
        self._steps: Final = steps

    @property
    def clock_ms(self) -> int:
        """The highest time that counts here (S10.2)."""
        return self.state.clock.now_ms

    @property
    def holds_all_own(self) -> bool:
        """Whether no other region can hold effects of this region that it lacks (S13.6)."""
        return self.state.lifecycle.holds_all_own

    # -- statements

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

    def want_commit(self) -> None:
        """Requests a commit of everything done up to now."""
        self.state.schedule.commit_wanted = True

    def compare_digest(self, vector: Vector, digest: bytes) -> None:
        """Compares the digest of a heartbeat if the vectors are equal (S13.9).

        Unequal digests raise the alarm crdt_divergence.
        """
        keyspace = self.state.keyspace
        if not digest or vector != keyspace.vector or not keyspace.hash_some(DIGEST_ENTRIES_MAX):
            return
        if keyspace.digest() != digest:
            self.state.replication.divergences += 1

    @property
    def rebuilds_from(self) -> int:
        """The peer whose snapshot is joined before anything else is merged; 0: none (S13.7)."""
        return self.state.rebuilds_from

    # -- blocks

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
        if self.state.is_taken_from(source):
            try:
                merging.merge_blocks(self.state, blocks, source)
            finally:
                self._steps.after_merge()

    def acknowledged(self, peer: int, vector: Vector, now_ms: int) -> None:
        """A receiving peer reports the vector on its disk (S13.7)."""
        self.state.clock.read(now_ms)
        self.state.check_held_by_peer(vector)
        self._steps.note_lifecycle()
        status = self.state.peers.by_id[peer]
        status.traffic.sent_rounds += ends_round(status.acknowledged, vector, peer)
        status.acknowledged = vector
        if self.state.waiting.waiters:
            rounds.answer_waiters(self.state)

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
        self._steps.note_lifecycle()

    def peer_holds(self, peer: int, vector: Vector, now_ms: int) -> None:
        """Takes the vector that a peer with matching chains reports in a handshake (S13.7)."""
        self.state.clock.read(now_ms)
        if peer in self.state.members.by_id:
            self.state.check_held_by_peer(vector)
            self._steps.note_lifecycle()

    def start_question(self) -> Optional[StartQuestion]:
        """The question to send to every other member; None once the start is over (S13.6)."""
        return self.state.lifecycle.start_question()

    def start_answered(self, peer: int, answer: StartAnswer, now_ms: int) -> None:
        """Takes a member's answer to a question of this start (S13.6).

        The answer must have come on a connection opened since the start.
        """
        state = self.state
        state.clock.read(now_ms)
        if peer in state.members.by_id:
            state.hear_clock(peer, answer.read_ms, {})
            state.raise_id_floor(answer.clock_ms)
            state.check_held_by_peer(answer.vector)
            state.check_collected_by_peer(answer.collected)
            state.hear_life(peer, answer.life)
            gossiping.hear_lives(state, answer.lives)
            state.lifecycle.start_answered(peer, answer, state.members.others())
            self._steps.note_lifecycle()

    def gossip(self) -> Gossip:
        """The gossip to send (S6.2, S13.7). This region's own part describes its disk."""
        return gossiping.compose(self.state)

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        """Takes gossip from a peer."""
        self.state.clock.read(now_ms)
        gossiping.hear(self.state, gossip)
        self.state.stability.count(self.state.keyspace.vector)
        self._steps.note_lifecycle()

    def called_lost(self, peer: int) -> None:
        """A member refuses this region as lost (S13.8).

        The word of a member that is lost here does not count, nor of one that has not said who it
        is: `peer` is 0 then.
        """
        state = self.state
        member = state.members.by_id.get(peer)
        if member is not None and not member.lost and state.lifecycle.call_lost([peer]):
            state.note_called_lost()
