"""The engine: a deterministic state machine around the keyspace.

Its inputs are commands, blocks, gossip and ticks. Its outputs are values: replies, commits and
messages to peers (the idea is `Ready` of etcd-io/raft). The engine has no clock and makes no
callbacks: every call that needs the time gets it as an argument, and after each call the driver
takes the outputs (`take_replies`, `take_commit`, `take_link_requests` and so on).
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.region.engine import dispatch, gossiping, rounds
from anabranch.region.engine.batch import Batch
from anabranch.region.engine.contents import KEYS_PER_TICK
from anabranch.region.engine.lifecycle import LOST, RECOVERY, SERVING
from anabranch.region.engine.outbox import LateReply, LinkRequest
from anabranch.region.engine.peer_calls import PeerCalls
from anabranch.region.engine.replies import NULL_ARRAY, ErrorReply, Reply
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.session import Session
from anabranch.region.engine.slow_log import shown_arguments
from anabranch.region.engine.state import EngineState


class Engine(PeerCalls):
    """The engine of one region. docs/architecture.md shows how its callers use it."""

    def __init__(self, state: EngineState) -> None:
        super().__init__(state)
        # Names, as `Session.last_command` has them, of the commands whose replies show no data.
        self._without_data: Final = frozenset(
            one.shown
            for command in state.commands.values()
            for one in (command, *command.subcommands.values())
            if not command.shows_data
        )
        # The shapes of batches by the first word of their commands, as clients write it.
        self.shapes: Final = {
            name: [kind.shape for kind in command.many]
            for command in state.commands.values()
            if command.many
            for name in (command.key, command.key.lower())
        }
        self._next_session_id = 1

    # -- clients

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

    def execute_batch(self, session: Session, batch: Batch, now_ms: int) -> tuple[list[Reply], int]:
        """Runs the first command of a batch, and as many of those after it as go with it.

        Returns the replies, in order, and how many commands it has taken, the first one at least.
        The caller gives the others again. Client errors are error replies. The only reply that
        stands for several commands is `AddedIds`. For REPLY_LATER, which comes alone, the reply
        comes through `take_replies`.
        """
        state = self.state
        if now_ms != state.clock.read_ms:
            state.clock.read(now_ms)
        if state.settings.changes != state.cached.seen:
            state.refresh_settings()
        session.active_ms = state.clock.now_ms
        mode = session.reply_mode
        if mode == "skip":
            session.reply_mode = "skipping"  # The command itself may set another mode.
        replies, taken = self._dispatch(session, batch)
        for reply in replies:
            if isinstance(reply, ErrorReply):
                state.statistics.count_error(reply)
        if mode != "on":
            replies = [dispatch.silenced(session, reply) for reply in replies]
        return replies, taken

    def note_slow(
        self,
        session: Session,
        argv: list[bytes],
        queued: Optional[list[list[bytes]]],
        calls: int,
        time_us: int,
        now_ms: int,
    ) -> None:
        """The last command of the session was slow: puts it into the slow log.

        `queued` is what MULTI had queued before it. `calls` equal commands, this one among them,
        took `time_us` together. A command that was refused before its execution is no entry, so
        clients without the password make none.
        """
        command = dispatch.find_command(self.state, argv)
        if command is None or not command.takes(len(argv)):
            return
        if command.needs_password and not session.authenticated:
            return
        transaction = queued if command.name == "exec" else None
        arguments = shown_arguments(argv, transaction, calls - 1)
        log = self.state.statistics.slow_log
        log.add(now_ms // 1000, time_us, arguments, session.address, session.name)

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

    def may_lose(self) -> bool:
        """Whether a client sent SHUTDOWN NOSAVE or FORCE: what cannot be written may be lost."""
        return self.state.outbox.shutdown_may_lose

    def has_urgent_output(self) -> bool:
        """Whether to take an output before the next tick. Cheap: it runs after each event."""
        return self.state.outbox.is_urgent()

    # -- time

    def tick(self, now_ms: int) -> None:
        """Handles time: time-outs of reads, deadlines of keys, start, recovery, collection."""
        state = self.state
        state.clock.read(now_ms)
        for blocked in state.waiting.reads.take_timed_out(state.clock.steady_ms):
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

    def is_quiet(self, within_ms: int) -> bool:
        """Whether a tick in `within_ms` does the same as one at once, as far as others notice.

        That is so if everything is on disk, and no work waits for ticks that continue it.
        """
        state = self.state
        waiting = state.waiting
        keyspace = state.keyspace
        return (
            state.lifecycle.state == SERVING
            and self.is_all_in_commits()
            and not waiting.waiters
            and not waiting.reads.has_deadline(state.clock.steady_ms + within_ms)
            and not (keyspace.acknowledgeable and state.peers.receiver_count)
            and not keyspace.unseen.uncounted
            and not keyspace.is_freeing()
        )

    # -- commits

    def want_commit(self) -> None:
        """Requests a commit of everything done up to now."""
        self.state.schedule.commit_wanted = True

    def want_clock_commit(self) -> None:
        """Requests a commit, which brings only the clock to disk if there is nothing else."""
        self.state.schedule.clock_wanted = True

    def is_all_in_commits(self) -> bool:
        """Whether everything done is in commits that are on disk."""
        state = self.state
        return (
            state.disk.in_flight is None
            and not state.disk.meta_changes
            and state.journal.is_empty()
        )

    def unwritten(self) -> str:
        """What a process that ends now has not on disk, with the cause; empty if nothing."""
        state = self.state
        if state.journal.next_position() <= state.disk.position:
            return ""
        own = state.members.region_id
        effects = state.keyspace.vector.get(own, 0) - state.disk.vector.get(own, 0)
        return (
            f"its last changes could not be written: {state.disk.error}."
            f" The effects of this region that are lost: {effects}"
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
        gossiping.answer_waiting(state)
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
        """Takes the facts that only the process knows.

        Those that INFO shows have the names of its fields. `tcp_bind` and `data_dir` are shown by
        CONFIG GET.
        """
        self.state.process_facts = facts
