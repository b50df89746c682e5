"""The engine: a deterministic state machine around the keyspace (DESIGN; etcd-io/raft's `Ready`).

Commands, blocks, gossip and ticks come in. Replies, commits and what to say to peers come out as
values. The engine has no clock of its own and calls nobody back: every step is given the time, and
afterwards the driver takes what there is (`take_replies`, `take_commit`, `take_link_requests` and
so on).
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.state import SnapshotCut
from anabranch.crdt.vector import Vector
from anabranch.region.engine import dispatch, gossiping, idempotency, merging, rounds
from anabranch.region.engine.lifecycle import RECOVERY, SERVING
from anabranch.region.engine.members import Member
from anabranch.region.engine.outbox import LateReply, LinkRequest
from anabranch.region.engine.replies import NULL_ARRAY, REPLY_LATER, ErrorReply, Reply, ReplyLater
from anabranch.region.engine.rounds import Attestation
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command
from anabranch.region.engine.upkeep import Upkeep
from anabranch.region.engine.writer import NotYet

# About how many entries one heartbeat may hash. It goes without a digest while there are more to do.
DIGEST_ENTRIES_MAX: Final = 2000


class Engine:
    """One region's decisions. See docs/architecture.md for the doors."""

    def __init__(self, state: EngineState) -> None:
        self.state: Final = state
        self.upkeep: Final = Upkeep()
        self._next_session_id = 1
        self._was_serving = False
        self._life_noted = (0, 0)  # life and recovery as last given to the disk
        for stream in state.keyspace.keys.values():
            self.upkeep.note(state, stream)
            for name in stream.groups:
                state.keyspace.acknowledgeable[(stream.key, name)] = None
        state.lifecycle.tick(state.members.others(), state.disk.vector)
        self._note_lifecycle()

    # -- who and what

    @property
    def cluster(self) -> str:
        return self.state.members.cluster

    @property
    def region_id(self) -> int:
        return self.state.members.region_id

    @property
    def name(self) -> str:
        return self.state.members.name

    @property
    def members(self) -> dict[int, Member]:
        """The members by region_id."""
        return self.state.members.by_id

    @property
    def settings(self) -> Settings:
        return self.state.settings

    @property
    def keyspace(self) -> Keyspace:
        return self.state.keyspace

    @property
    def life(self) -> int:
        """The number of this region's life (S1.3)."""
        return self.state.lifecycle.life

    @property
    def vector(self) -> Vector:
        """What is applied here, committed or not."""
        return self.state.keyspace.vector

    @property
    def disk_vector(self) -> Vector:
        """What is on disk here."""
        return self.state.disk.vector

    @property
    def disk_chains(self) -> dict[int, bytes]:
        """The chain values at `disk_vector` (S13.5)."""
        return self.state.disk.chains

    @property
    def collected(self) -> Vector:
        """What was on every member's disk when this region last collected for that (S6.2)."""
        return self.state.keyspace.collected

    @property
    def committed_position(self) -> int:
        """The position of the last row on disk."""
        return self.state.disk.position

    # -- clients

    def connect(self, address: str, local_address: str, now_ms: int) -> Session:
        """A client has connected."""
        state = self.state
        state.clock.read(now_ms)
        session = Session(self._next_session_id, address, local_address, state.clock.now_ms)
        self._next_session_id += 1
        session.authenticated = state.settings.text("requirepass") == ""
        state.sessions[session.session_id] = session
        state.statistics.connections += 1
        return session

    def disconnect(self, session: Session) -> None:
        """A client is gone; nothing waits for it any more."""
        self.state.sessions.pop(session.session_id, None)
        self.state.waiting.forget(session)
        self.state.outbox.forget(session)

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> Reply:
        """Runs one command; client mistakes are error replies. REPLY_LATER: the answer comes through `take_replies`."""
        state = self.state
        if now_ms != state.clock.read_ms:
            state.clock.read(now_ms)
        if state.settings.changes != state.cached.seen:
            state.refresh_settings()
        session.active_ms = state.clock.now_ms
        mode = session.reply_mode
        reply = self._dispatch(session, argv)
        if isinstance(reply, ErrorReply):
            state.statistics.count_error(reply)
        if mode != "on":
            reply = dispatch.silenced(session, mode, reply)
        return reply

    def _dispatch(self, session: Session, argv: list[bytes]) -> Reply:
        """Runs a command as a unit, unless dispatch has its reply already."""
        state = self.state
        admitted = dispatch.admit(state, session, argv)
        if not isinstance(admitted, Command):
            return admitted
        issued = state.journal.effects_issued
        try:
            reply = dispatch.run(state, admitted, session, argv)
        except NotYet:
            session.waiting = True
            state.waiting.for_start.append((session, argv))
            return REPLY_LATER
        if state.journal.effects_issued != issued:
            session.write_counter = state.keyspace.vector.get(self.region_id, 0)
            state.journal.end_unit()
        self._settle()
        return reply

    def reply_position(self) -> int:
        """What must be on disk before the replies given up to now may leave; 0: they may at once (S13.2)."""
        state = self.state
        if not state.cached.is_always:
            return 0
        position = state.journal.next_position()
        return position if position > state.disk.position else 0

    # -- what to hand out

    def take_replies(self) -> list[LateReply]:
        """The replies that came later than their commands, in order."""
        return self.state.outbox.take_replies()

    def take_sessions_to_close(self) -> list[int]:
        """Sessions that are to be disconnected."""
        return self.state.outbox.take_sessions_to_close()

    def take_link_requests(self) -> list[LinkRequest]:
        """What CRDT.LINK asked for since the last call."""
        return self.state.outbox.take_link_requests()

    def take_sleep_ms(self) -> int:
        """DEBUG SLEEP: for how long everything is to stop."""
        return self.state.outbox.take_sleep_ms()

    def shutdown_requested(self) -> bool:
        """Whether a client said SHUTDOWN."""
        return self.state.outbox.shutdown_requested

    def needs_turn(self) -> bool:
        """Whether something is to be done before the next tick. It is asked after every batch, so it is cheap."""
        state = self.state
        schedule = state.schedule
        return bool(
            state.outbox.is_urgent()
            or state.cached.is_always
            or schedule.commit_wanted
            or schedule.sync_requested
            or state.disk.meta_changes
            or (state.peers.receiver_count and rounds.is_round_due(state))
            or state.journal.pending_bytes() >= state.journal.block_max_bytes
        )

    # -- after every step

    def _settle(self) -> None:
        """Follows up what a step changed: conflicts (S9.2), lists that time works off, readers that may wake."""
        state = self.state
        changes = state.keyspace.changes
        if changes.pairs:
            idempotency.remove_losers(state)
        if changes.changed_keys:
            for key in changes.changed_keys:
                stream = state.keyspace.keys.get(key)
                if stream is not None:
                    self.upkeep.note(state, stream)
                else:
                    self.upkeep.forget(key)
            changes.changed_keys.clear()
        if state.waiting.reads.by_key:
            gone = [key for key, _ in changes.gone_groups]
            self._wake([*changes.added_keys, *gone, *changes.deadlines])
        changes.added_keys.clear()
        changes.gone_groups.clear()
        changes.deadlines.clear()

    def _wake(self, keys: list[bytes]) -> None:
        """Runs the reads again that wait for these keys, first come first served."""
        state = self.state
        reads = state.waiting.reads
        for key in dict.fromkeys(keys):
            for blocked in reads.waiting_for(key):
                session = blocked.session
                command = dispatch.find_command(state, blocked.argv)
                if command is None or session.session_id not in reads.by_session:
                    continue
                reply = dispatch.run(state, command, session, blocked.argv)
                if isinstance(reply, ReplyLater):
                    continue
                reads.remove(session.session_id)
                if isinstance(reply, ErrorReply):
                    state.statistics.count_error(reply)
                state.outbox.answer(session, reply)

    def _note_lifecycle(self) -> None:
        """Follows a change of the lifecycle: what was owed is issued first, then what waited runs (S9.2, S13.7)."""
        state = self.state
        lifecycle = state.lifecycle
        if self._life_noted != (lifecycle.life, lifecycle.recovery):
            # Durable, whichever state it was entered from: a recovery may begin while the start is
            # not over yet (S13.6, S13.7).
            self._life_noted = (lifecycle.life, lifecycle.recovery)
            state.note_life()
        serving = lifecycle.state == SERVING
        if serving == self._was_serving:
            return
        self._was_serving = serving
        if not serving:
            return
        idempotency.remove_all_losers(state)
        state.keyspace.changes.pairs = []
        state.journal.end_unit()
        self._run_waiting()

    def _run_waiting(self) -> None:
        """Runs the commands that waited until effects may be issued, or until it is clear that they may not."""
        for session, argv in self.state.waiting.take_for_start():
            session.waiting = False
            reply = self._dispatch(session, argv)
            if isinstance(reply, ErrorReply):
                self.state.statistics.count_error(reply)
            if not isinstance(reply, ReplyLater):
                self.state.outbox.answer(session, reply)

    # -- time

    def tick(self, now_ms: int) -> None:
        """Time-outs, deadlines, start, recovery, collection."""
        state = self.state
        state.clock.read(now_ms)
        for blocked in state.waiting.reads.timed_out(state.clock.steady_ms):
            state.waiting.reads.remove(blocked.session.session_id)
            state.outbox.answer(blocked.session, NULL_ARRAY)
        lifecycle = state.lifecycle
        lifecycle.tick(state.members.others(), state.disk.vector)
        self._note_lifecycle()
        if lifecycle.state == RECOVERY and state.waiting.for_start:
            self._run_waiting()
        state.stability.count(state.keyspace.vector)
        hidden = self.upkeep.hide(state)
        if state.writer.may_issue():
            self.upkeep.work(state)
        state.journal.end_unit()
        if state.waiting.waiters:
            rounds.judge_waiters(state)
        self._settle()
        if hidden and state.waiting.reads.by_key:
            self._wake(hidden)

    # -- commits

    def want_commit(self) -> None:
        """Somebody waits for what was done up to now to be on disk."""
        self.state.schedule.commit_wanted = True

    def is_all_in_commits(self) -> bool:
        """Whether everything done is in commits that ended."""
        state = self.state
        return (
            state.disk.in_flight is None
            and not state.disk.meta_changes
            and state.journal.is_empty()
        )

    def wants_commit(self, now_ms: int) -> bool:
        """Whether a commit should begin now; never while one is under way."""
        self.state.clock.read(now_ms)
        return self.state.disk.in_flight is None and rounds.wants_commit(self.state)

    def take_commit(self, now_ms: int) -> Optional[Commit]:
        """What to write in one transaction; None when there is nothing. The driver reports `committed` or `commit_failed`."""
        state = self.state
        state.clock.read(now_ms)
        commit = rounds.take_commit(state)
        if commit is None and state.disk.meta_changes:
            vector, chains = dict(state.keyspace.vector), dict(state.keyspace.chains)
            commit = Commit(state.journal.position, [], vector, chains, state.disk.clock_ms)
        if commit is not None:
            state.disk.begin(commit)
        return commit

    def committed(self, now_ms: int) -> None:
        """The commit under way is on disk."""
        state = self.state
        state.clock.read(now_ms)
        state.disk.committed()
        gossiping.answer_from_disk(state)
        state.outbox.release(state.disk.position)
        if state.waiting.waiters:
            rounds.judge_waiters(state)

    def commit_failed(self, error: str) -> None:
        """The commit under way failed: no more writes until it succeeds; clients that wait for it are disconnected (S13.4)."""
        self.state.disk.error = error
        self.state.outbox.drop_held()

    def cut_block(self) -> None:
        """Closes the open block, so that everything done is in rows."""
        self.state.journal.cut_block()

    def checkpointed(self, position: int) -> None:
        """A checkpoint on disk reflects everything up to a position."""
        self.state.disk.checkpoint_position = position
        self.state.disk.checkpoint_ms = self.state.clock.now_ms

    def tell_process_facts(self, facts: dict[str, str]) -> None:
        """What only the process knows, by the names of INFO's fields."""
        self.state.process_facts = facts

    # -- peers

    def attest(self, with_digest: bool, now_ms: int) -> Attestation:
        """Vector, and if asked for digest, in one step; to be spoken of once its position is on disk (S2.4)."""
        self.state.clock.read(now_ms)
        return rounds.attest(self.state, DIGEST_ENTRIES_MAX if with_digest else 0)

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        """Applies blocks that a peer sent.

        Blocks that are covered are ignored, and so is everything of a peer whose link is DOWN or
        that is said to be lost. Raises `SyncGap`, `ChainForked` or `NotAMember`.
        """
        self.state.clock.read(now_ms)
        if self._is_taken_from(source):
            try:
                merging.merge_blocks(self.state, blocks, source)
            finally:
                self._after_merge()

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        """Joins a whole staged snapshot in one step (S11); PeerError when it is malformed."""
        self.state.clock.read(now_ms)
        if self._is_taken_from(source):
            try:
                merging.join_snapshot(self.state, chunks, source)
            finally:
                self._after_merge()

    def _is_taken_from(self, source: int) -> bool:
        status = self.state.peers.by_id.get(source)
        return status is None or not (status.is_down or self.members[source].lost)

    def _after_merge(self) -> None:
        self._note_lifecycle()
        self.state.stability.count(self.state.keyspace.vector)
        self._settle()
        self.state.journal.end_unit()

    def snapshot_cut(self) -> SnapshotCut:
        """A consistent cut of everything applied; it may be sent once its position is on disk (S11.2)."""
        state = self.state
        state.journal.cut_block()
        if state.journal.position > state.disk.position:
            state.schedule.commit_wanted = True
        state.replication.snapshots_cut += 1
        return SnapshotCut(state.keyspace, state.journal.position)

    def newest_life(self, peer: int) -> int:
        """The newest life heard of a peer, 0 for none (S1.3)."""
        return self.state.lifecycle.lives.get(peer, 0)

    def hear_lives(self, lives: dict[int, int], now_ms: int) -> None:
        """A peer names lives, in a handshake or in a question (S1.3, S13.6)."""
        self.state.clock.read(now_ms)
        gossiping.hear_lives(self.state, lives)
        self._note_lifecycle()

    def peer_holds(self, peer: int, vector: Vector, now_ms: int) -> None:
        """What a peer with the same past has on its disk, as said in a handshake (S13.7)."""
        self.state.clock.read(now_ms)
        if peer in self.members:
            self.state.look_for_loss(vector)
            self._note_lifecycle()

    def start_question(self) -> Optional[StartQuestion]:
        """What every other member is to be asked now; None once the start is over (S13.6)."""
        return self.state.lifecycle.start_question()

    def start_answered(self, peer: int, answer: StartAnswer, now_ms: int) -> None:
        """A member answers a question of this start, on a connection opened since (S13.6)."""
        state = self.state
        state.clock.read(now_ms)
        if peer in self.members:
            state.look_for_loss(answer.vector)
            state.look_for_forgotten(answer.collected)
            state.lifecycle.start_answered(peer, answer, state.members.others())
            self._note_lifecycle()

    def gossip(self) -> Gossip:
        """What to pass on (S6.2, S13.7); this region's own part speaks of its disk."""
        return gossiping.compose(self.state)

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        """Takes in what a peer passes on."""
        self.state.clock.read(now_ms)
        gossiping.hear(self.state, gossip)
        self.state.stability.count(self.state.keyspace.vector)
        self._note_lifecycle()

    def receiver_opened(self, peer: int) -> None:
        """A peer receives from here."""
        self.state.peers.receives(peer, True)

    def receiver_closed(self, peer: int) -> None:
        """A peer no longer receives from here."""
        self.state.peers.receives(peer, False)

    def acknowledged(self, peer: int, vector: Vector, now_ms: int) -> None:
        """A receiver has this on its disk."""
        self.state.clock.read(now_ms)
        self.state.peers.by_id[peer].acknowledged = vector
        if self.state.waiting.waiters:
            rounds.judge_waiters(self.state)

    def link_state(self, peer: int, state: str, detail: str) -> None:
        """What CRDT.PEERS shows of the link that receives from `peer`."""
        status = self.state.peers.by_id[peer]
        status.state = state
        status.detail = detail

    def compare_digest(self, peer: int, vector: Vector, digest: bytes) -> None:
        """Compares a heartbeat's digest where the vectors are equal; unequal ones raise the alarm crdt_divergence (S13.9)."""
        keyspace = self.state.keyspace
        if not digest or vector != keyspace.vector or not keyspace.hash_some(DIGEST_ENTRIES_MAX):
            return
        if keyspace.digest() != digest:
            self.state.replication.divergences += 1
