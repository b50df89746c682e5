"""The calls of the engine for clients: connections, commands, replies."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.region.engine import dispatch
from anabranch.region.engine.batch import Batch
from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.replies import ErrorReply, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.slow_log import shown_arguments
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.statistics import CommandStatistics
from anabranch.region.engine.steps import Steps


class ClientCalls:
    """The engine as client connections use it.

    `shapes` are the shapes of batches by the first word of their commands, as clients write it.
    """

    def __init__(self, state: EngineState, steps: Steps) -> None:
        self.state: Final = state
        self._steps: Final = steps
        # Names, as `Session.last_command` has them, of the commands whose replies show no data.
        self._without_data: Final = frozenset(
            one.shown
            for command in state.commands.values()
            for one in (command, *command.subcommands.values())
            if not command.shows_data
        )
        self.shapes: Final = {
            name: [kind.shape for kind in command.many]
            for command in state.commands.values()
            if command.many
            for name in (command.key, command.key.lower())
        }
        self._next_session_id = 1

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
        session.active_ms = state.clock.now_ms
        mode = session.reply_mode
        if mode == "skip":
            session.reply_mode = "skipping"  # The command itself may set another mode.
        replies, taken = self._steps.dispatch(session, batch)
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
        return session.write_counter > self.state.disk.vector.get(self.state.members.region_id, 0)

    def reply_position(self) -> int:
        """The position that must be on disk before the replies made up to now may leave (S13.2).

        0 if they may leave at once. Replies made before a change from `always` to another setting
        still wait, and so do those behind them.
        """
        state = self.state
        position = state.schedule.promised_position
        if state.cached.is_always:
            position = state.journal.next_position()
        return position if position > state.disk.position else 0

    def take_replies(self) -> list[LateReply]:
        """The replies of commands that had waited, in order."""
        return self.state.outbox.take_replies()

    def take_sessions_to_close(self) -> list[int]:
        """The ids of the sessions to disconnect."""
        return self.state.outbox.take_sessions_to_close()
