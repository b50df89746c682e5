"""The engine: a deterministic state machine around the keyspace (DESIGN; etcd-io/raft's `Ready`).

Commands, blocks, gossip and ticks come in; replies, commits and what to say to peers come out as values. No clock of its own, no callbacks:
every step is given the time, and afterwards the process takes what there is: `take_answers`, `wants_commit`/`take_commit`, `link_requests`.
"""

from __future__ import annotations

from typing import Optional

from crdt.block import Block
from crdt.keyspace import Keyspace
from crdt.region_log import NodeLimits
from crdt.state import SnapshotCut
from crdt.vector import Vector
from region.engine import merging, registry, rounds
from region.engine.commands.connection import NOAUTH_ALLOWED, NOAUTH_ERROR
from region.engine.core import Answer, Core, Identity, LinkRequest, Member, NotYet
from region.engine.gossip import Answer as RecoveryAnswer
from region.engine.gossip import Gossip, Heard, Question
from region.engine.journal import Commit, Journal
from region.engine.lifecycle import RECOVERY, SERVING, Lifecycle
from region.engine.replies import NO_REPLY, NULL_ARRAY, QUEUED, WAITING, ErrorReply, NoReply, Reply, Waiting
from region.engine.rounds import Attestation
from region.engine.session import Session
from region.engine.settings import Settings
from region.engine.table import Command
from region.engine.upkeep import Upkeep

# About how many entries one heartbeat may hash; it goes without a digest while there are more to do.
DIGEST_ENTRIES_MAX = 2000
# What may be said inside MULTI without being queued.
NOT_QUEUED = frozenset({b"EXEC", b"DISCARD", b"MULTI", b"WATCH", b"QUIT", b"RESET"})


class Engine(Core):
    """One region's decisions. See docs/architecture.md for the doors."""

    def __init__(self, identity: Identity, settings: Settings, keyspace: Keyspace, journal: Journal, lifecycle: Lifecycle) -> None:
        super().__init__(identity, settings, keyspace, journal, lifecycle)
        self.commands = registry.commands()
        self.upkeep = Upkeep()
        self._next_session_id = 1
        self._in_flight: Optional[Commit] = None
        self._was_serving = False
        self._life_noted = (0, 0)  # life and recovery as last given to the disk
        # Questions that this region must answer: (question, what it held, its recovery then, position that must be on disk first)
        self._to_answer: list[tuple[Question, Vector, int, int]] = []
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
            self._count_error(reply)
        if mode != "on":
            reply = _silenced(session, mode, reply)
        return reply

    def _dispatch(self, session: Session, argv: list[bytes]) -> Reply:
        """Finds the command, checks it, queues it inside MULTI, or runs it as a unit."""
        self.statistics.commands += 1
        command = self.commands.get(argv[0])
        if command is None:
            command = self.commands.get(argv[0].upper())
            if command is None:
                return self._refuse(session, _unknown(argv))
        if command.subcommands and len(argv) > 1:
            subcommand = command.subcommands.get(argv[1].upper())
            if subcommand is None:
                shown = argv[1][:128].decode("utf-8", "replace")
                return self._refuse(session, ErrorReply(f"ERR unknown subcommand '{shown}'. Try {command.name.upper()} HELP."))
            command = subcommand
        session.last_command = command.shown
        length = len(argv)
        if length < -command.arity or (command.arity > 0 and length != command.arity):
            return self._refuse(session, ErrorReply(f"ERR wrong number of arguments for '{command.name}' command"), command)
        if not session.authenticated and command.key not in NOAUTH_ALLOWED:
            return self._refuse(session, ErrorReply(NOAUTH_ERROR), command)
        if session.queued is not None and command.key not in NOT_QUEUED:
            return self._queue(session, command, argv)
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

    def _refuse(self, session: Session, error: ErrorReply, command: Optional[Command] = None) -> Reply:
        """An error that comes before the command runs: inside MULTI it spoils the transaction."""
        if session.queued is not None:
            session.queue_failed = True
        if command is not None:
            rejected = self.statistics.rejected
            rejected[command.name] = rejected.get(command.name, 0) + 1
        return error

    def _queue(self, session: Session, command: Command, argv: list[bytes]) -> Reply:
        assert session.queued is not None
        if not command.in_multi:
            return self._refuse(session, ErrorReply("ERR Command not allowed inside a transaction"), command)
        session.queued_bytes += sum(len(word) for word in argv)
        limit = self.settings.integer("crdt-unit-max-bytes")
        if session.queued_bytes > limit:
            self.statistics.unit_max_bytes_refused += 1
            return self._refuse(session, ErrorReply(f"ERR the transaction is larger than crdt-unit-max-bytes ({limit})"), command)
        session.queued.append(argv)
        return QUEUED

    def _count_error(self, reply: ErrorReply) -> None:
        code = reply.message.split(" ", 1)[0]
        statistics = self.statistics
        statistics.error_replies += 1
        if code in statistics.errors or len(statistics.errors) < 128:
            statistics.errors[code] = statistics.errors.get(code, 0) + 1

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
            merging.remove_losers(self)
        if changes.changed_keys:
            for key in changes.changed_keys:
                stream = self.keyspace.keys.get(key)
                if stream is not None:
                    self.upkeep.note(self, stream)
                else:
                    self.upkeep.forget(key)
            changes.changed_keys.clear()
        if self.blocking.by_key:
            self._wake(list(changes.added_keys) + [key for key, _ in changes.gone_groups] + list(changes.deadlines))
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
                    self._count_error(reply)
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
        merging.remove_all_losers(self)
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
                self._count_error(reply)
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
            merging.remove_losers(self)  # first of all: what is collected is no longer compared (S9.2)
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
            commit = Commit(self.journal.position, [], dict(self.keyspace.vector), dict(self.keyspace.chains), self.disk_clock_ms)
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
        still: list[tuple[Question, Vector, int, int]] = []
        for question, vector, recovery, needed in self._to_answer:
            if needed <= position:
                self._answer_question(question, vector, recovery)
            else:
                still.append((question, vector, recovery, needed))
        self._to_answer = still
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
        return Attestation(dict(self.keyspace.vector), clock_ms, digest, position, self.lifecycle.life, counts)

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        """Applies blocks that a peer sent; those covered are ignored, and all of a peer whose link is DOWN."""
        self.read_clock(now_ms)
        link = self.links.get(source)
        if link is not None and link.is_down:
            return
        try:
            merging.merge_blocks(self, blocks, source)
        finally:
            self._after_merge()

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        """Joins a whole staged snapshot in one step (S11)."""
        self.read_clock(now_ms)
        link = self.links.get(source)
        if link is not None and link.is_down:
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
            self.lifecycle.peer_holds(peer, vector, self.keyspace.vector, self.others(), self.steady_ms)
            self._note_state()

    def gossip(self) -> Gossip:
        """What to pass on (S6.2, S13.7); this region's own part speaks of its disk."""
        lifecycle = self.lifecycle
        own = Heard(self.region_id, lifecycle.life, lifecycle.state == SERVING, dict(self.disk_vector), self.disk_clock_ms)
        questions = list(lifecycle.questions.values())
        if lifecycle.state == RECOVERY:
            questions.append(lifecycle.question())
        answers = [answer for by_answerer in lifecycle.answers.values() for answer in by_answerer.values()]
        return Gossip([own, *self.stability.heard.values()], questions, answers)

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        """Takes in what a peer passes on."""
        self.read_clock(now_ms)
        lifecycle = self.lifecycle
        for heard in gossip.heard:
            if heard.region_id not in self.members:
                continue
            if heard.region_id == self.region_id:
                lifecycle.heard_own_life(heard.life, self.clock_ms)
                continue
            self.stability.hear(heard)
            if self._claims_more(heard):
                lifecycle.enter_recovery(self.clock_ms)
            if heard.counts:
                lifecycle.forget_asker(heard.region_id, heard.life)
        for question in gossip.questions:
            if question.asker == self.region_id:
                lifecycle.heard_own_life(question.life, self.clock_ms)
            elif question.asker in self.members and not self._is_over(question) and lifecycle.hear_question(question):
                self._note_question(question)
        for answer in gossip.answers:
            lifecycle.hear_answer(answer)
        self.stability.count(self.keyspace.vector)
        self._note_state()

    def _claims_more(self, heard: Heard) -> bool:
        """Whether a member, in the newest of its lives, says that it holds more of this region's effects than this region (S13.7).

        What a lost one said, or one of a life that is over, is passed on for long: nobody may hold it any more.
        """
        known = self.stability.newest(heard.region_id)
        if self.members[heard.region_id].lost or (known is not None and heard.life < known.life):
            return False
        return heard.vector.get(self.region_id, 0) > self.keyspace.vector.get(self.region_id, 0)

    def _is_over(self, question: Question) -> bool:
        """Whether the asker is known to serve again in the life in which it asked: peers that do not know yet pass its question on."""
        known = self.stability.newest(question.asker)
        return known is not None and known.counts and known.life >= question.life

    def _note_question(self, question: Question) -> None:
        """Whoever answers first commits all it has applied (S13.7)."""
        position = self.journal.next_position()
        vector = dict(self.keyspace.vector)
        recovery = self.lifecycle.recovery
        if position <= self.committed_position:
            self._answer_question(question, vector, recovery)
        else:
            self.attest_wanted = True
            self._to_answer = [waiting for waiting in self._to_answer if waiting[0].asker != question.asker]
            self._to_answer.append((question, vector, recovery, position))

    def _answer_question(self, question: Question, vector: Vector, recovery: int) -> None:
        """`recovery`: the life in which this region's own began, if it was in one when it took the vector; or if it is in one by now."""
        recovery = self.lifecycle.recovery or recovery
        self.lifecycle.hear_answer(RecoveryAnswer(question.asker, question.life, question.number, self.region_id, vector, recovery))

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
        if not digest or vector != self.keyspace.vector or not self.keyspace.hash_some(DIGEST_ENTRIES_MAX):
            return
        if self.keyspace.digest() != digest:
            self.statistics.divergences += 1


def _silenced(session: Session, mode: str, reply: Reply) -> Reply:
    """CLIENT REPLY OFF and SKIP; what waits is silenced when it is answered."""
    if isinstance(reply, Waiting):
        return reply
    if mode == "skip":
        session.reply_mode = "on"
        return NO_REPLY
    return reply if session.reply_mode == "on" or isinstance(reply, NoReply) else NO_REPLY


def _unknown(argv: list[bytes]) -> ErrorReply:
    name = argv[0][:128].decode("utf-8", "replace")
    shown = ""
    for word in argv[1:]:
        if len(shown) >= 128:
            break
        shown += f"'{word[: 128 - len(shown)].decode('utf-8', 'replace')}' "
    return ErrorReply(f"ERR unknown command '{name}', with args beginning with: {shown}")


def single(region_id: int = 1, now_ms: int = 1, settings: Optional[Settings] = None) -> Engine:
    """A region alone in its cluster, with nothing on its disk: for tests and tools."""
    limits = NodeLimits()
    keyspace = Keyspace(region_id, limits)
    journal = Journal(keyspace, 0)
    journal.clock_ms = now_ms
    identity = Identity("single", region_id, "us", [Member(region_id, "us")])
    lifecycle = Lifecycle(region_id, now_ms, 0, now_ms, 0)
    return Engine(identity, settings or Settings(), keyspace, journal, lifecycle)
