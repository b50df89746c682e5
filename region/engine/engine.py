"""The engine: a deterministic state machine around the keyspace.

Its inputs are commands, blocks, gossip and ticks. Its outputs are values: replies, commits and
messages to peers (the idea is `Ready` of etcd-io/raft). The engine has no clock and makes no
callbacks: every call that needs the time gets it as an argument, and after each call the driver
takes the outputs (`take_replies`, `take_commit`, `take_link_requests` and so on).
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.snapshot import CUT_WEIGHT, SnapshotCut, SnapshotRecords
from anabranch.crdt.vector import Vector
from anabranch.region.engine import dispatch, gossiping, idempotency, merging, rounds
from anabranch.region.engine.adds import AddedIds
from anabranch.region.engine.commands.adding import add_elsewhere
from anabranch.region.engine.contents import KEYS_PER_TICK
from anabranch.region.engine.lifecycle import LOST, RECOVERY, SERVING
from anabranch.region.engine.members import Member
from anabranch.region.engine.outbox import LateReply, LinkRequest
from anabranch.region.engine.questions import Questions
from anabranch.region.engine.replies import NULL_ARRAY, REPLY_LATER, ErrorReply, Reply, ReplyLater
from anabranch.region.engine.rounds import Attestation
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.statistics import CommandStatistics, ends_round
from anabranch.region.engine.table import Command
from anabranch.region.engine.upkeep import Upkeep
from anabranch.region.engine.writer import NotYet

# Approximate number of entries hashed for one heartbeat. While more remain to be hashed, heartbeats
# carry no digest.
DIGEST_ENTRIES_MAX: Final = 2000


class Engine:
    """The engine of one region. docs/architecture.md shows how its callers use it."""

    def __init__(self, state: EngineState) -> None:
        self.state: Final = state
        self.upkeep: Final = Upkeep()
        # Names, as `Session.last_command` has them, of the commands whose replies show no data.
        self._without_data: Final = frozenset(
            one.shown
            for command in state.commands.values()
            for one in (command, *command.subcommands.values())
            if not command.shows_data
        )
        # The names of commands that `execute_many` executes together.
        self.gathered: Final = frozenset(
            name
            for command in state.commands.values()
            if command.many is not None
            for name in (command.key, command.key.lower())
        )
        # What is made ahead of the next cut, and how much of it in one step: for about as long as
        # it takes to encode so many bytes.
        self._cut_records: Optional[SnapshotRecords] = None
        self._cut_weight = CUT_WEIGHT
        # The snapshot under way.
        self._ahead: Final = merging.ReadAhead(state.keyspace.limits)
        self._next_session_id = 1
        self._was_serving = False
        # Life and recovery as last given to the next commit.
        self._life_noted = (0, 0)
        for stream in state.keyspace.keys.values():
            self.upkeep.note(state, stream)
            for name in stream.group_names():
                state.keyspace.acknowledgeable[(stream.key, name)] = None
        state.lifecycle.tick(state.members.others(), state.disk.vector, state.disk.has_salvage)
        self._note_lifecycle()

    # -- properties

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
        """The vector of all effects applied here, committed or not."""
        return self.state.keyspace.vector

    @property
    def disk_vector(self) -> Vector:
        """The vector of all effects on this region's disk."""
        return self.state.disk.vector

    @property
    def disk_chains(self) -> dict[int, bytes]:
        """The chain values at `disk_vector` (S13.5)."""
        return self.state.disk.chains

    @property
    def collected(self) -> Vector:
        """All that was stable when this region collected, or joined from snapshots (S6.2)."""
        return self.state.keyspace.collected

    @property
    def committed_position(self) -> int:
        """The position of the last row on disk."""
        return self.state.disk.position

    @property
    def questions(self) -> Questions:
        """The questions of clients to the log on disk."""
        return self.state.waiting.questions

    # -- clients

    @property
    def statistics(self) -> CommandStatistics:
        """Counters of commands, and their times."""
        return self.state.statistics

    def connect(self, address: str, local_address: str, now_ms: int) -> Session:
        """Makes the session of a client that has connected."""
        state = self.state
        state.clock.read(now_ms)
        session = Session(self._next_session_id, address, local_address, state.clock.now_ms)
        self._next_session_id += 1
        session.authenticated = state.settings.text("requirepass") == ""
        state.sessions[session.session_id] = session
        state.statistics.connections += 1
        return session

    def disconnect(self, session: Session) -> None:
        """Removes the session of a client that is gone, and everything that waits for it."""
        self.state.sessions.pop(session.session_id, None)
        self.state.waiting.forget(session)
        self.state.outbox.forget(session)

    def _begin(self, session: Session, now_ms: int) -> None:
        """A client sends commands: reads the clock and changed settings, and ends a run of adds."""
        state = self.state
        if now_ms != state.clock.read_ms:
            state.clock.read(now_ms)
        if state.settings.changes != state.cached.seen:
            state.refresh_settings()
        session.active_ms = state.clock.now_ms
        state.writer.run.end()

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> Reply:
        """Runs one command and returns its reply.

        Client errors are error replies. For REPLY_LATER the reply comes through `take_replies`.
        """
        state = self.state
        self._begin(session, now_ms)
        mode = session.reply_mode
        reply = self._dispatch(session, argv)
        if isinstance(reply, ErrorReply):
            state.statistics.count_error(reply)
        if mode != "on":
            reply = dispatch.silenced(session, mode, reply)
        return reply

    def execute_many(
        self, session: Session, argv: list[bytes], last_words: list[bytes], now_ms: int
    ) -> list[Reply]:
        """Runs a command, and those that a client sent after it and that are like it.

        They differ from it in their last word only. Their replies and what they change are those
        that they would have one after the other. Returns the replies of as many as were executed,
        of the first at least.
        """
        state = self.state
        command = state.commands.get(argv[0].upper())
        if (
            command is None
            or command.many is None
            or not session.authenticated
            or session.reply_mode != "on"
            or session.transaction.queued is not None
        ):
            return [self.execute(session, argv, now_ms)]
        self._begin(session, now_ms)
        admitted = dispatch.admit(state, session, argv)
        if isinstance(admitted, Command):
            replies = dispatch.run_many(state, admitted, session, argv, last_words)
            self._settle()
        else:
            replies = [admitted]
        for reply in replies:
            if isinstance(reply, ErrorReply):
                state.statistics.count_error(reply)
        return replies

    def _dispatch(self, session: Session, argv: list[bytes]) -> Reply:
        """Runs a command as a unit (S1.2), unless `dispatch.admit` already returned its reply."""
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

    def adds_may_follow(self, session: Session, input_bytes: int) -> tuple[int, int, int]:
        """How many adds that follow the last command may be issued by `follow` (`RunOfAdds`).

        Also returns the index of their first value in the words of the command, and that of their
        iid. The last is -1 for plain adds, and 0 if the iid is made of the fields; if it is not -1,
        `follow_idempotent` issues the adds.
        """
        run = self.state.writer.run
        count = run.may_follow(session, self.state.waiting.reads, input_bytes)
        return count, run.first_value, run.iid_at

    def follow(self, session: Session, data: bytes, count: int) -> AddedIds:
        """Issues adds that follow the last command of the session, and returns their IDs.

        `data` holds them, encoded as `crdt/adds.py` says. `adds_may_follow` allowed as many.
        """
        added = self.state.writer.run.follow(data, count)
        self._end_run(session, count)
        return added

    def follow_idempotent(
        self, session: Session, data: bytes, ends: list[int], iids: list[bytes]
    ) -> AddedIds:
        """As `follow`, for idempotent adds; the entry of each ends at one of `ends`.

        `iids` is empty if the iids are made of the fields. An add whose pair may be known here is
        not issued, nor are those after it: `AddedIds.count` says how many were.
        """
        added = self.state.writer.run.follow_idempotent(data, ends, iids)
        if added.count:
            self._end_run(session, added.count)
        return added

    def adds_may_go_elsewhere(self, session: Session, input_bytes: int) -> int:
        """Whether `follow_elsewhere` may issue adds like the last command, but to other keys.

        Returns the index of their first value in the words of the command; 0: it may not.
        """
        run = self.state.writer.run
        may = run.may_go_elsewhere(session, self.state.waiting.reads, input_bytes)
        return run.first_value if may else 0

    def follow_elsewhere(
        self, session: Session, keys: list[bytes], data: bytes, ends: list[int]
    ) -> list[bytes]:
        """Issues adds to these keys that follow the last command of the session.

        `data` holds their values, encoded; those of each end at one of `ends`. Returns the replies
        of those that it issued. An add that makes its key is not issued, nor are those after it.
        """
        names = self.state.writer.run.names
        replies = add_elsewhere(self.state, names, keys, data, ends)
        if replies:
            self._end_run(session, len(replies))
        return replies

    def _end_run(self, session: Session, count: int) -> None:
        """So many adds were issued after the last command of the session."""
        state = self.state
        state.statistics.commands += count
        state.statistics.calls["xadd"] += count
        session.write_counter = state.keyspace.vector.get(self.region_id, 0)
        state.journal.end_unit()
        self._settle()

    def reflects(self, session: Session, reply: Reply) -> bool:
        """Whether the reply of the session's last command depends on data (S13.2).

        It does not if the command is refused because the disk fails (S13.4), and, while commits
        fail, if the command shows the region only: its figures tell why. No reply leaves before
        the writes of its own connection are on disk, though CLIENT REPLY may suppress their
        replies.
        """
        if not self.state.disk.error:
            return True
        if isinstance(reply, ErrorReply) and reply.reflects_nothing:
            return False
        if session.last_command not in self._without_data:
            return True
        return session.write_counter > self.state.disk.vector.get(self.region_id, 0)

    def reply_position(self) -> int:
        """The position that must be on disk before the replies made up to now may leave (S13.2).

        0 if they may leave at once.
        """
        state = self.state
        if not state.cached.is_always:
            return 0
        position = state.journal.next_position()
        return position if position > state.disk.position else 0

    # -- outputs

    def take_replies(self) -> list[LateReply]:
        """The replies of commands that had waited, in order."""
        return self.state.outbox.take_replies()

    def take_sessions_to_close(self) -> list[int]:
        """The ids of the sessions to disconnect."""
        return self.state.outbox.take_sessions_to_close()

    def has_link_requests(self) -> bool:
        """Whether `take_link_requests` has requests. Cheap, because it runs for each message."""
        return bool(self.state.outbox.link_requests)

    def take_link_requests(self) -> list[LinkRequest]:
        """The requests of CRDT.LINK since the last call."""
        return self.state.outbox.take_link_requests()

    def take_sleep_ms(self) -> int:
        """DEBUG SLEEP: how long to block the process, in ms; 0 if not requested."""
        return self.state.outbox.take_sleep_ms()

    def shutdown_requested(self) -> bool:
        """Whether a client sent SHUTDOWN."""
        return self.state.outbox.shutdown_requested

    def has_urgent_output(self) -> bool:
        """Whether to take an output before the next tick. Cheap: it runs after each event."""
        return self.state.outbox.is_urgent()

    # -- after every step

    def _settle(self) -> None:
        """Handles the changes of a step: conflicts (S9.2), the lists of upkeep, blocked readers."""
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
                    state.contents.deadlines.forget(key)
            changes.changed_keys.clear()
        if state.waiting.reads.by_key:
            gone = [key for key, _ in changes.dropped_groups]
            self._wake([*changes.added_keys, *gone, *changes.deadlines])
        changes.added_keys.clear()
        changes.dropped_groups.clear()
        changes.deadlines.clear()

    def _wake(self, keys: list[bytes]) -> None:
        """Runs the reads that wait for these keys again, in the order in which they blocked."""
        state = self.state
        reads = state.waiting.reads
        for blocked in reads.waiting_for(keys):
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
        """Handles what was heard of lives, and a change of the lifecycle (S9.2, S13.7).

        When the region begins to serve, it first issues the removals that it owes, then runs the
        commands that waited.
        """
        state = self.state
        lifecycle = state.lifecycle
        # After a member has come back from a backup, less may be known to be stable.
        state.keyspace.pair_limits.stable = {}
        if self._life_noted != (lifecycle.life, lifecycle.recovery):
            # A recovery is stored whatever state preceded it: it may also begin during the start
            # (S13.6, S13.7).
            self._life_noted = (lifecycle.life, lifecycle.recovery)
            state.note_life()
        serving = lifecycle.state == SERVING
        if serving == self._was_serving:
            return
        self._was_serving = serving
        if not serving:
            return
        if lifecycle.ended_by_patience(state.members.others()):
            state.note_ended_by_patience()
        idempotency.remove_all_losers(state)
        state.keyspace.changes.pairs = []
        state.journal.end_unit()
        self._run_waiting()

    def _run_waiting(self) -> None:
        """Runs the commands that waited for the start: they may issue effects, or are refused."""
        for session, argv in self.state.waiting.take_for_start():
            session.waiting = False
            reply = self._dispatch(session, argv)
            if isinstance(reply, ErrorReply):
                self.state.statistics.count_error(reply)
            if not isinstance(reply, ReplyLater):
                self.state.outbox.answer(session, reply)

    # -- time

    def tick(self, now_ms: int) -> None:
        """Handles time: time-outs of reads, deadlines of keys, start, recovery, collection."""
        state = self.state
        state.clock.read(now_ms)
        for blocked in state.waiting.reads.timed_out(state.clock.steady_ms):
            state.waiting.reads.remove(blocked.session.session_id)
            state.outbox.answer(blocked.session, NULL_ARRAY)
        lifecycle = state.lifecycle
        lifecycle.tick(state.members.others(), state.disk.vector, state.disk.has_salvage)
        self._note_lifecycle()
        if lifecycle.state in (RECOVERY, LOST) and state.waiting.for_start:
            self._run_waiting()
        state.stability.count(state.keyspace.vector)
        state.stable_time()
        rounds.keep_clock(state)
        if state.peers.lags.is_due(state.clock.steady_ms):
            state.note_lags()
        hidden = self.upkeep.hide(state)
        if state.writer.may_issue():
            self.upkeep.work(state)
        state.journal.end_unit()
        state.contents.count_some(KEYS_PER_TICK, state.clock.now_ms)
        state.keyspace.free_some(KEYS_PER_TICK)
        if state.waiting.waiters:
            rounds.answer_waiters(state)
        self._settle()
        if hidden and state.waiting.reads.by_key:
            self._wake(hidden)

    # -- commits

    def want_commit(self) -> None:
        """Requests a commit of everything done up to now."""
        self.state.schedule.commit_wanted = True

    def is_all_in_commits(self) -> bool:
        """Whether everything done is in commits that are on disk."""
        state = self.state
        return (
            state.disk.in_flight is None
            and not state.disk.meta_changes
            and state.journal.is_empty()
        )

    def wants_commit(self, now_ms: int) -> bool:
        """Whether to begin a commit now; never while one is under way.

        Cheap: the driver asks after each event.
        """
        self.state.clock.read(now_ms)
        return self.state.disk.in_flight is None and rounds.wants_commit(self.state)

    def take_commit(self, now_ms: int) -> Optional[Commit]:
        """The commit to write in one transaction; None if there is nothing to write.

        The driver then reports `committed` or `commit_failed`.
        """
        state = self.state
        state.clock.read(now_ms)
        wants_clock = state.schedule.clock_wanted
        commit = rounds.take_commit(state)
        if commit is None and (wants_clock or state.disk.meta_changes):
            # Without rows, the clock goes to disk as a meta row. So clocks fill no log.
            clock_ms = state.clock.now_ms
            state.disk.meta_changes["clock"] = b"%d" % clock_ms
            vector, chains = dict(state.keyspace.vector), dict(state.keyspace.chains)
            commit = Commit(state.journal.position, [], vector, chains, clock_ms)
        if commit is not None:
            state.disk.begin(commit)
        return commit

    def committed(self, now_ms: int) -> None:
        """The commit under way is on disk."""
        state = self.state
        state.clock.read(now_ms)
        state.disk.committed()
        state.peers.delays.committed(state.disk.vector, self.region_id, now_ms, state.replication)
        gossiping.answer_from_disk(state)
        state.outbox.release(state.disk.position)
        if state.waiting.waiters:
            rounds.answer_waiters(state)

    def note_damage(self, text: str, meta: dict[str, bytes]) -> None:
        """Damage was met on this region's disk. `meta` are rows for the next commit."""
        self.state.disk.damage = text
        self.state.disk.meta_changes.update(meta)

    def commit_failed(self, error: str) -> None:
        """The commit under way failed.

        The region refuses writes until it succeeds. Clients that wait for it are disconnected
        (S13.4).
        """
        self.state.disk.error = error
        self.state.outbox.drop_held()

    def transaction_took(self, kind: str, time_us: int) -> None:
        """A transaction of this kind (commit, checkpoint) was on disk after this time."""
        self.state.replication.disk_times[kind].observe(time_us)

    def cut_block(self) -> None:
        """Closes the open block, so that everything applied is in rows."""
        self.state.journal.cut_block()

    def checkpointed(self, position: int) -> None:
        """A complete checkpoint on disk reflects all rows up to `position`."""
        self.state.disk.checkpoint_position = position
        self.state.disk.checkpoint_ms = self.state.clock.now_ms

    def set_process_facts(self, facts: dict[str, str]) -> None:
        """Takes the facts that only the process knows, by INFO field name."""
        self.state.process_facts = facts

    # -- peers

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
        return self._new_cut(made)

    def _new_cut(self, made: Optional[SnapshotRecords]) -> SnapshotCut:
        return SnapshotCut(self.state.keyspace, self.state.journal.position, made)

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

    def receiver_opened(self, peer: int) -> None:
        """A peer has begun to receive from this region."""
        self.state.peers.receives(peer, True)

    def receiver_closed(self, peer: int) -> None:
        """A peer no longer receives from this region."""
        self.state.peers.receives(peer, False)

    def acknowledged(self, peer: int, vector: Vector, now_ms: int) -> None:
        """A receiving peer reports the vector on its disk."""
        self.state.clock.read(now_ms)
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

    def compare_digest(self, vector: Vector, digest: bytes) -> None:
        """Compares the digest of a heartbeat if the vectors are equal (S13.9).

        Unequal digests raise the alarm crdt_divergence.
        """
        keyspace = self.state.keyspace
        if not digest or vector != keyspace.vector or not keyspace.hash_some(DIGEST_ENTRIES_MAX):
            return
        if keyspace.digest() != digest:
            self.state.replication.divergences += 1
