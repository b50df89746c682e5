"""The engine: a deterministic state machine around the keyspace (DESIGN; etcd-io/raft's `Ready`).

Commands, blocks, gossip and ticks come in; replies, commits and what to say to peers come out as values. No clock of its own, no callbacks:
every step is given the time, and afterwards the process takes what there is: `take_answers`, `wants_commit`/`take_commit`, `link_requests`.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.block import Block
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.state import SnapshotCut
from anabranch.crdt.vector import Vector
from anabranch.region.engine import dispatch, gossiping, idempotency, merging, registry, rounds
from anabranch.region.engine.core import Answer, Core, Identity, LinkRequest, Member, NotYet
from anabranch.region.engine.gossip import Gossip
from anabranch.region.engine.journal import Commit, Journal
from anabranch.region.engine.lifecycle import RECOVERY, SERVING, Lifecycle
from anabranch.region.engine.replies import NULL_ARRAY, WAITING, ErrorReply, Reply, Waiting
from anabranch.region.engine.rounds import Attestation
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.table import Command
from anabranch.region.engine.upkeep import Upkeep

# About how many entries one heartbeat may hash; it goes without a digest while there are more to do.
DIGEST_ENTRIES_MAX = 2000


class Engine(Core):
    """One region's decisions. See docs/architecture.md for the doors."""

    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        keyspace: Keyspace,
        journal: Journal,
        lifecycle: Lifecycle,
    ) -> None:
        super().__init__(identity, settings, keyspace, journal, lifecycle)
        self.commands = registry.commands()
        self.upkeep = Upkeep()
        self._next_session_id = 1
        self._in_flight: Optional[Commit] = None
        self._was_serving = False
        self._life_noted = (0, 0)  # life and recovery as last given to the disk
        for stream in keyspace.keys.values():
            self.upkeep.note(self, stream)
            for name in stream.groups:
                keyspace.acknowledgeable[(stream.key, name)] = None
        lifecycle.tick(self.others(), self.disk_vector, self.clock_ms)
        self._note_state()

    # -- clients -----------------------------------------------------------------------------------------------------

    def connect(self, address: str, local_address: str, now_ms: int) -> Session:
        """A client has connected."""
        self.read_clock(now_ms)
        session = Session(self._next_session_id, address, local_address, self.clock_ms)
        self._next_session_id += 1
        session.authenticated = self.settings.text("requirepass") == ""
        self.sessions[session.session_id] = session
        self.statistics.connections += 1
        return session

    def disconnect(self, session: Session) -> None:
        """A client is gone; nothing waits for it any more."""
        self.sessions.pop(session.session_id, None)
        self.blocking.remove(session.session_id)
        self.waiters = [waiter for waiter in self.waiters if waiter.session is not session]
        self.held_answers = [held for held in self.held_answers if held[1].session is not session]
        self.not_yet = [waiting for waiting in self.not_yet if waiting[0] is not session]

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> Reply:
        """Runs one command; client mistakes are error replies. WAITING: the answer comes through `take_answers`."""
        if now_ms != self.read_ms:
            self.read_clock(now_ms)
        if self.settings.changes != self.settings_seen:
            self.refresh_settings()
        session.active_ms = self.clock_ms
        mode = session.reply_mode
        reply = self._dispatch(session, argv)
        if isinstance(reply, ErrorReply):
            self.statistics.count_error(reply)
        if mode != "on":
            reply = dispatch.silenced(session, mode, reply)
        return reply

    def _dispatch(self, session: Session, argv: list[bytes]) -> Reply:
        """Runs a command as a unit, unless dispatch has its reply already."""
        admitted = dispatch.admit(self, session, argv)
        if not isinstance(admitted, Command):
            return admitted
        command = admitted
        issued = self.journal.effects_issued
        try:
            reply = self.run(command, session, argv)
        except NotYet:
            session.waiting = True
            self.not_yet.append((session, argv))
            return WAITING
        if self.journal.effects_issued != issued:
            session.write_counter = self.keyspace.vector.get(self.region_id, 0)
            self.journal.end_unit()
        self._settle()
        return reply

    def take_answers(self) -> list[Answer]:
        """The replies that came later than their commands, in order."""
        if not self.answers:
            return []
        answers = self.answers
        self.answers = []
        return answers

    def reply_position(self) -> int:
        """What must be on disk before the replies given up to now may leave; 0: they may at once (S13.2)."""
        if not self.is_always:
            return 0
        position = self.journal.next_position()
        return position if position > self.committed_position else 0

    # -- after every step --------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Follows up what a step changed: conflicts (S9.2), lists that time works off, readers that may wake."""
        changes = self.keyspace.changes
        if changes.pairs:
            idempotency.remove_losers(self)
        if changes.changed_keys:
            for key in changes.changed_keys:
                stream = self.keyspace.keys.get(key)
                if stream is not None:
                    self.upkeep.note(self, stream)
                else:
                    self.upkeep.forget(key)
            changes.changed_keys.clear()
        if self.blocking.by_key:
            self._wake(
                list(changes.added_keys)
                + [key for key, _ in changes.gone_groups]
                + list(changes.deadlines)
            )
        changes.added_keys.clear()
        changes.gone_groups.clear()
        changes.deadlines.clear()

    def _wake(self, keys: list[bytes]) -> None:
        """Runs the reads again that wait for these keys, first come first served."""
        for key in dict.fromkeys(keys):
            for blocked in self.blocking.waiting_for(key):
                session = blocked.session
                command = self.find_command(blocked.argv)
                if command is None or session.session_id not in self.blocking.by_session:
                    continue
                reply = self.run(command, session, blocked.argv)
                if isinstance(reply, Waiting):
                    continue
                self.blocking.remove(session.session_id)
                if isinstance(reply, ErrorReply):
                    self.statistics.count_error(reply)
                self.answer(session, reply)

    def _note_state(self) -> None:
        """Follows a change of the lifecycle: what was owed is issued first, then what waited runs (S9.2, S13.7)."""
        lifecycle = self.lifecycle
        if self._life_noted != (lifecycle.life, lifecycle.recovery):
            # Durable, whichever state it was entered from: a recovery may begin while the start is not over yet (S13.6, S13.7).
            self._life_noted = (lifecycle.life, lifecycle.recovery)
            self.note_life()
        serving = lifecycle.state == SERVING
        if serving == self._was_serving:
            return
        self._was_serving = serving
        if not serving:
            return
        idempotency.remove_all_losers(self)
        self.keyspace.changes.pairs = []
        self.journal.end_unit()
        self._run_waiting()

    def _run_waiting(self) -> None:
        """Runs the commands that waited until effects may be issued, or until it is clear that they may not."""
        waiting = self.not_yet
        self.not_yet = []
        for session, argv in waiting:
            session.waiting = False
            reply = self._dispatch(session, argv)
            if isinstance(reply, ErrorReply):
                self.statistics.count_error(reply)
            if not isinstance(reply, Waiting):
                self.answer(session, reply)

    # -- time --------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Time-outs, deadlines, start, recovery, collection."""
        self.read_clock(now_ms)
        for blocked in self.blocking.timed_out(self.steady_ms):
            self.blocking.remove(blocked.session.session_id)
            self.answer(blocked.session, NULL_ARRAY)
        self.lifecycle.tick(self.others(), self.disk_vector, self.steady_ms)
        self._note_state()
        if self.lifecycle.state == RECOVERY and self.not_yet:
            self._run_waiting()
        self.stability.count(self.keyspace.vector)
        hidden = self.upkeep.hide(self)
        if self.may_issue():
            self.upkeep.work(self)
        self.journal.end_unit()
        if self.waiters:
            rounds.judge_waiters(self)
        self._settle()
        if hidden and self.blocking.by_key:
            self._wake(hidden)

    def needs_turn(self) -> bool:
        """Whether the process has something to do at once; else the next tick is early enough. Cheap: it is asked after every batch."""
        return bool(
            self.answers
            or self.is_always
            or self.attest_wanted
            or self.sync_requested
            or self.meta_changes
            or self.sessions_to_close
            or self.shutdown_requested
            or self.sleep_ms
            or (self.receiver_count and rounds.is_round_due(self))
            or self.journal.pending_bytes() >= self.journal.block_max_bytes
        )

    # -- commits -----------------------------------------------------------------------------------------------------

    def wants_commit(self, now_ms: int) -> bool:
        """Whether a commit should begin now; never while one is under way."""
        self.read_clock(now_ms)
        return self._in_flight is None and rounds.wants_commit(self)

    def take_commit(self, now_ms: int) -> Optional[Commit]:
        """What to write in one transaction; None when there is nothing. The process reports `committed` or `commit_failed`."""
        self.read_clock(now_ms)
        commit = rounds.take_commit(self)
        if commit is None and self.meta_changes:
            commit = Commit(
                self.journal.position,
                [],
                dict(self.keyspace.vector),
                dict(self.keyspace.chains),
                self.disk_clock_ms,
            )
        if commit is not None:
            commit.meta = self.meta_changes
            self.meta_changes = {}
            self._in_flight = commit
        return commit

    def committed(self, position: int, now_ms: int) -> None:
        """The commit under way is on disk."""
        self.read_clock(now_ms)
        commit = self._in_flight
        assert commit is not None and commit.position == position
        self._in_flight = None
        self.commit_error = ""
        self.committed_position = commit.position
        self.disk_vector = commit.vector
        self.disk_chains = commit.chains
        self.disk_clock_ms = commit.clock_ms
        gossiping.answer_what_is_on_disk(self)
        self.release_answers()
        if self.waiters:
            rounds.judge_waiters(self)

    def commit_failed(self, error: str) -> None:
        """The commit under way failed: no more writes until it succeeds; clients that wait for it are disconnected (S13.4)."""
        self.commit_error = error
        for _, answer in self.held_answers:
            self.sessions_to_close.append(answer.session.session_id)
        self.held_answers = []

    @property
    def life(self) -> int:
        """The number of this region's life (S1.3)."""
        return self.lifecycle.life

    @property
    def vector(self) -> Vector:
        """What is applied here, committed or not."""
        return self.keyspace.vector

    # -- peers -------------------------------------------------------------------------------------------------------

    def attest(self, with_digest: bool, now_ms: int) -> Attestation:
        """Vector, and if asked for digest, in one step; to be spoken of once its position is on disk (S2.4)."""
        self.read_clock(now_ms)
        digest = b""
        if with_digest and self.keyspace.hash_some(DIGEST_ENTRIES_MAX):
            digest = self.keyspace.digest()
        position = self.journal.next_position()
        if position > self.committed_position:
            self.attest_wanted = True
        counts = self.lifecycle.state == SERVING
        clock_ms = self.journal.clock_of_next_commit()
        if clock_ms is None:
            clock_ms = self.disk_clock_ms if self._in_flight is None else self._in_flight.clock_ms
        return Attestation(
            dict(self.keyspace.vector), clock_ms, digest, position, self.lifecycle.life, counts
        )

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        """Applies blocks that a peer sent; those covered are ignored, and all of a peer whose link is DOWN or that is said to be lost."""
        self.read_clock(now_ms)
        link = self.links.get(source)
        if link is not None and (link.is_down or self.members[source].lost):
            return
        try:
            merging.merge_blocks(self, blocks, source)
        finally:
            self._after_merge()

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        """Joins a whole staged snapshot in one step (S11)."""
        self.read_clock(now_ms)
        link = self.links.get(source)
        if link is not None and (link.is_down or self.members[source].lost):
            return
        try:
            merging.join_snapshot(self, chunks, source)
        finally:
            self._after_merge()

    def _after_merge(self) -> None:
        self._note_state()
        self.stability.count(self.keyspace.vector)
        self._settle()
        self.journal.end_unit()

    def snapshot_cut(self) -> SnapshotCut:
        """A consistent cut of everything applied; it may be sent once its position is on disk (S11.2)."""
        self.journal.cut_block()
        if self.journal.position > self.committed_position:
            self.attest_wanted = True
        self.statistics.snapshots_cut += 1
        return SnapshotCut(self.keyspace, self.journal.position)

    def peer_holds(self, peer: int, life: int, vector: Vector, now_ms: int) -> None:
        """An attested vector said in the handshake of a connection opened since this start (S13.6)."""
        self.read_clock(now_ms)
        if peer in self.members:
            self.lifecycle.peer_holds(
                peer, vector, self.keyspace.vector, self.others(), self.steady_ms
            )
            self._note_state()

    def gossip(self) -> Gossip:
        """What to pass on (S6.2, S13.7); this region's own part speaks of its disk."""
        return gossiping.compose(self)

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        """Takes in what a peer passes on."""
        self.read_clock(now_ms)
        gossiping.hear(self, gossip)
        self.stability.count(self.keyspace.vector)
        self._note_state()

    def receiver_opened(self, peer: int) -> None:
        """A peer receives from here."""
        link = self.links[peer]
        link.receives_from_here = True
        link.acknowledged = {}
        self.receiver_count = len(self.receivers())

    def receiver_closed(self, peer: int) -> None:
        """A peer no longer receives from here."""
        link = self.links[peer]
        link.receives_from_here = False
        link.acknowledged = {}
        self.receiver_count = len(self.receivers())

    def acknowledged(self, peer: int, vector: Vector, now_ms: int) -> None:
        """A receiver has this on its disk."""
        self.read_clock(now_ms)
        self.links[peer].acknowledged = vector
        if self.waiters:
            rounds.judge_waiters(self)

    def link_state(self, peer: int, state: str, detail: str) -> None:
        """What CRDT.PEERS shows of the link that receives from `peer`."""
        link = self.links[peer]
        link.state = state
        link.detail = detail

    def link_requests(self) -> list[LinkRequest]:
        """What CRDT.LINK asked for since the last call."""
        made = self.link_requests_made
        self.link_requests_made = []
        return made

    def compare_digest(self, peer: int, vector: Vector, digest: bytes) -> None:
        """Compares a heartbeat's digest where the vectors are equal; unequal ones raise the alarm crdt_divergence (S13.9)."""
        if (
            not digest
            or vector != self.keyspace.vector
            or not self.keyspace.hash_some(DIGEST_ENTRIES_MAX)
        ):
            return
        if self.keyspace.digest() != digest:
            self.statistics.divergences += 1


def single(region_id: int = 1, now_ms: int = 1, settings: Optional[Settings] = None) -> Engine:
    """A region alone in its cluster, with nothing on its disk: for tests and tools."""
    limits = NodeLimits()
    keyspace = Keyspace(region_id, limits)
    journal = Journal(keyspace, 0)
    journal.clock_ms = now_ms
    identity = Identity("single", region_id, "us", [Member(region_id, "us")])
    lifecycle = Lifecycle(region_id, now_ms, 0, now_ms, 0)
    return Engine(identity, settings or Settings(), keyspace, journal, lifecycle)
