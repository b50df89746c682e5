"""The connections of simulated clients to one region: what `region.server` and `region.connection` do live, without bytes.

Replies leave in order, and under ``appendfsync always`` not before what they reflect is on disk (`region.held`, S13.2).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Optional

from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.replies import ErrorReply, Reply, SimpleString, Waiting
from anabranch.region.engine.session import Session
from anabranch.region.held import HeldReplies, must_wait
from anabranch.sim.history import Operation, Words
from anabranch.sim.world.trace import plain

if TYPE_CHECKING:
    from anabranch.sim.load.client import Client
    from anabranch.sim.world.region import SimulatedRegion

# Commands of which no operation is made: they only frame a transaction.
_FRAMES = (b"MULTI", b"DISCARD")
# Commands outside of transactions after which the connection watches nothing any more.
_UNWATCHING = (b"UNWATCH", b"RESET")


class Line:
    """One client's connection."""

    def __init__(self, client: Client, session: Session) -> None:
        self.client = client
        self.session = session
        self.to_run: deque[Words] = deque()
        self.running: Optional[Operation] = None  # waits inside the engine
        self.held = 0
        self.unanswered: list[Operation] = []  # in order
        self.transaction: Optional[list[Words]] = None
        self.watching: list[
            int
        ] = []  # WATCHes that no EXEC, DISCARD or UNWATCH has ended yet, by their operations' numbers

    def is_idle(self) -> bool:
        return not self.unanswered and not self.to_run


class Clients:
    """All of them, of one region's process."""

    def __init__(self, region: SimulatedRegion) -> None:
        self.region = region
        self.lines: dict[int, Line] = {}  # by session
        self.held: HeldReplies[Line, Operation] = HeldReplies()

    def begin(self) -> None:
        """A process has started: it has no clients yet."""
        self.lines = {}
        self.held = HeldReplies()

    def end(self) -> None:
        """The process is dead: whoever waits will never know."""
        lines, self.lines = self.lines, {}
        for line in lines.values():
            self._break(line)

    def connect(self, client: Client) -> Line:
        region = self.region
        session = region.engine.connect(f"client-{client.number}", "", region.now_ms())
        line = Line(client, session)
        self.lines[session.session_id] = line
        return line

    def disconnect(self, line: Line) -> None:
        """The client closes its connection, or it breaks."""
        if self.lines.pop(line.session.session_id, None) is not None:
            self.region.engine.disconnect(line.session)
            self._break(line)

    def close(self, session_id: int) -> None:
        """The region closes one."""
        line = self.lines.get(session_id)
        if line is not None:
            self.disconnect(line)

    def _break(self, line: Line) -> None:
        unanswered, line.unanswered = line.unanswered, []
        line.to_run.clear()
        for operation in unanswered:
            self.region.world.lost(line, operation)
        self.region.world.disconnected(line)

    # -- commands ----------------------------------------------------------------------------------------------------

    def send(self, line: Line, commands: list[Words]) -> None:
        """The client sends commands in one pipeline."""
        line.to_run.extend(commands)
        self._go_on(line)

    def _go_on(self, line: Line) -> None:
        session = line.session
        while line.to_run and not session.waiting and session.session_id in self.lines:
            self._execute(line, line.to_run.popleft())

    def _execute(self, line: Line, argv: Words) -> None:
        region = self.region
        world = region.world
        engine, session, now_ms = region.engine, line.session, region.now_ms()
        before = region.vector
        name = argv[0].upper()
        reply = engine.execute(session, list(argv), now_ms)
        if session.transaction.queued is not None and not isinstance(
            reply, Waiting
        ):  # in a transaction: one operation at its EXEC
            if name == b"MULTI" and isinstance(reply, SimpleString):
                line.transaction = []
            elif line.transaction is not None and isinstance(reply, SimpleString):
                line.transaction.append(argv)
            self._framed(line, argv, reply)
            return
        transaction, line.transaction = line.transaction, None
        watched = line.watching
        if transaction is not None or name in _UNWATCHING:
            line.watching = []
        if name in _FRAMES:
            self._framed(line, argv, reply)
            return
        queued = tuple(transaction) if transaction is not None and name == b"EXEC" else ()
        operation = world.operation(line.client.number, region, argv, queued, before, now_ms)
        if transaction is not None:
            operation.watched = tuple(watched)
        elif name == b"WATCH" and isinstance(reply, SimpleString):
            line.watching.append(operation.number)
        line.unanswered.append(operation)
        if isinstance(reply, Waiting):
            line.running = operation
            world.note(region.region_id, "waits", operation.number, *argv)
            return
        region.vector = dict(engine.vector)
        self._replied(line, operation, reply, before)

    def _framed(self, line: Line, argv: Words, reply: Reply) -> None:
        """A command of which no operation is made has been answered."""
        line.client.framed(argv, reply)
        if self.region.world.trace.is_told:
            self.region.world.aside(
                self.region.region_id, "frames", line.client.number, argv, reply
            )

    def _replied(
        self, line: Line, operation: Operation, reply: Reply, before: dict[int, int]
    ) -> None:
        region = self.region
        world, engine = region.world, region.engine
        operation.before = before
        operation.after = region.vector
        operation.clock_ms = engine.state.clock.now_ms
        operation.reply = reply
        operation.has_reply = True
        world.note(region.region_id, "runs", operation.number, *operation.argv, plain(reply))
        world.judge_executed(operation)
        if isinstance(reply, ErrorReply):
            world.counters["error:" + reply.message.split(" ", 1)[0]] += 1
        position = engine.reply_position()
        if must_wait(position, engine.committed_position, line.held):
            line.held += 1
            self.held.hold(position, line, operation)
        else:
            self._deliver(line, operation)

    def have_waited(self, answers: list[LateReply]) -> bool:
        """Whether one of them is to a command that had waited for the end of the start: it may have issued effects."""
        for answer in answers:
            line = self.lines.get(answer.session.session_id)
            if (
                line is not None
                and line.running is not None
                and line.running.argv[0].upper() not in _BLOCKING
            ):
                return True
        return False

    def answer(self, session: Session, reply: Reply) -> None:
        """The answer to a command that had waited; those behind it go on."""
        line = self.lines.get(session.session_id)
        if line is None or line.running is None:
            return
        operation, line.running = line.running, None
        operation.waited = True
        self._replied(line, operation, reply, self.region.vector)
        self._go_on(line)

    def released(self, position: int) -> None:
        """Rows up to a position are on disk."""
        for line, operation in self.held.released(position):
            line.held -= 1
            if line.session.session_id in self.lines:
                self._deliver(line, operation)

    def commit_failed(self) -> None:
        """Whoever waits for the commit is disconnected, and never told that it failed (S13.4)."""
        for line in self.held.dropped():
            if line.session.session_id in self.lines:
                self.disconnect(line)

    def _deliver(self, line: Line, operation: Operation) -> None:
        if operation in line.unanswered:
            line.unanswered.remove(operation)
        self.region.world.answered(line, operation)


_BLOCKING = (
    b"XREAD",
    b"XREADGROUP",
    b"WAIT",
    b"CRDT.WAIT",
    b"CRDT.SYNC",
    b"CRDT.VECTOR",
    b"CRDT.DIGEST",
)
