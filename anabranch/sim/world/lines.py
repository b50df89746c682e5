"""The connections of simulated clients to one process.

They carry bytes to and from the process's `ClientConnection`s, as sockets do in a live region. The
real connection parses, runs, holds back and encodes. The replies of the engine (`tap`) determine
the bytes that must reach the client, and their order; any other byte is a violation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Optional, Protocol

from anabranch.crdt.vector import Vector
from anabranch.region.driver.client_connection import OPEN, ClientConnection
from anabranch.region.driver.driver import Driver
from anabranch.region.engine.replies import ErrorReply, NoReply, Reply, ReplyLater, SimpleString
from anabranch.region.engine.session import Session
from anabranch.region.resp.encoder import encode
from anabranch.sim.calls import EngineFacts
from anabranch.sim.history import BLOCKING, Operation, Words
from anabranch.sim.load.client import Client
from anabranch.sim.world.environment import Environment
from anabranch.sim.world.trace import plain

# Commands that only frame a transaction; they make no operation.
_FRAMES: Final = (b"MULTI", b"DISCARD")

# The headers of short words; a header is made for each word of each command.
_LENGTHS: Final = [b"$%d" % length for length in range(64)]


Guard = Callable[..., object]


def _unguarded(call: Callable[..., object], *arguments: object) -> object:
    return call(*arguments)


class Line:
    """One client's connection."""

    def __init__(self, client: Client, connection: ClientConnection, session: Session) -> None:
        self.client: Final = client
        self.connection: Final = connection
        self.session: Final = session
        # The replies that the client must read next: bytes and operation (None for a frame).
        self.expected: deque[tuple[bytes, Optional[Operation]]] = deque()
        self.unread = b""
        # The operation that waits inside the engine.
        self.running: Optional[Operation] = None
        # Operations without an answer, in order.
        self.unanswered: list[Operation] = []
        self.transaction: Optional[list[Words]] = None
        # Commands that the client has sent and the region has not executed yet. `is_within`: it has
        # executed others of the same pipeline.
        self.sent: deque[Words] = deque()
        self.is_within = False
        # Pieces that have not arrived. Each event that delivers takes the first one, so a piece
        # that waits for a paused process is not overtaken by the next one.
        self.on_the_way: deque[bytes] = deque()

    def is_idle(self) -> bool:
        return not self.unanswered and not self.sent


class ClientEvents(Protocol):
    """Receives the events of clients; the world implements it."""

    def operation(
        self,
        client: int,
        region_id: int,
        argv: Words,
        queued: tuple[Words, ...],
        before: Vector,
        clock_ms: int,
    ) -> Operation:
        """A command ran: returns its operation."""

    def answered(self, line: Line, operation: Operation) -> None:
        """A reply leaves the region."""

    def lost(self, line: Line, operation: Operation) -> None:
        """The client will never have the answer."""

    def disconnected(self, line: Line) -> None:
        """The connection is closed."""


class Lines:
    """All lines of one process. `moved` is called after a connection's turn: a step may be due."""

    def __init__(
        self, environment: Environment, region: int, events: ClientEvents, moved: Callable[[], None]
    ) -> None:
        self.by_session: dict[int, Line] = {}
        self._environment: Final = environment
        self._region: Final = region
        self._events: Final = events
        self._moved: Final = moved
        self._by_connection: dict[ClientConnection, Line] = {}
        self._driver: Driver
        # Makes a call of a connection; an error may end the process in it.
        self.guarded: Guard = _unguarded

    def begin(self, driver: Driver) -> None:
        """The process accepts clients from now on."""
        self._driver = driver

    def end(self) -> None:
        """The process is dead: no client will have an answer that is still open."""
        lines = list(self.by_session.values())
        self.by_session.clear()
        self._by_connection.clear()
        for line in lines:
            self._break(line)

    def connect(self, client: Client) -> Line:
        connection = self._driver.connect(f"127.0.0.1:{client.number}", "")
        session = connection.session
        assert session is not None
        line = Line(client, connection, session)
        self.by_session[session.session_id] = line
        self._by_connection[connection] = line
        return line

    def disconnect(self, line: Line) -> None:
        """The client closes its connection, or the connection breaks."""
        if self._forget(line):
            line.connection.lost()
            self._break(line)

    def _forget(self, line: Line) -> bool:
        self._by_connection.pop(line.connection, None)
        return self.by_session.pop(line.session.session_id, None) is not None

    def _break(self, line: Line) -> None:
        unanswered, line.unanswered = line.unanswered, []
        line.sent.clear()
        line.expected.clear()
        for operation in unanswered:
            self._events.lost(line, operation)
        self._events.disconnected(line)

    # -- bytes

    def send(self, line: Line, commands: list[Words]) -> bytes:
        """The client sends commands in one pipeline: returns the bytes that it sends."""
        line.sent.extend(commands)
        line.is_within = False
        return b"".join([encoded(argv) for argv in commands])

    def received(self, line: Line) -> None:
        """The next piece of a client arrives, if its connection is still open."""
        if line.connection in self._by_connection:
            self.guarded(line.connection.received, line.on_the_way.popleft())
            self.perform([line.connection])

    def count_within(self, event: str) -> None:
        """An event has come: counts the pipelines of which a part is executed."""
        within = sum(line.is_within for line in self.by_session.values())
        if within:
            self._environment.counters[f"pipeline:{event}"] += within

    def perform(self, connections: list[ClientConnection]) -> None:
        """Carries out the requests of connections: output, turns, ends."""
        for connection in connections:
            line = self._by_connection.get(connection)
            if line is not None:
                self._perform(line)

    def _perform(self, line: Line) -> None:
        connection = line.connection
        output = connection.take_output()
        if connection.measures_output:
            connection.unsent(0)
        if connection.wants_turn:
            self._environment.scheduler.after(0, self._turn, line)
        if output or line.expected:
            self._read(line, output)
        if connection.ending != OPEN:
            self.disconnect(line)

    def _turn(self, line: Line) -> None:
        if line.connection in self._by_connection and line.connection.wants_turn:
            self.guarded(line.connection.turn)
            self.perform([line.connection])
            self._moved()

    def _read(self, line: Line, output: bytes) -> None:
        """The client reads the bytes that have come: whole replies, in their order."""
        unread = line.unread + output
        while line.expected and len(unread) >= len(line.expected[0][0]):
            reply, operation = line.expected[0]
            if not unread.startswith(reply):
                break
            line.expected.popleft()
            unread = unread[len(reply) :]
            if operation is not None:
                if operation in line.unanswered:
                    line.unanswered.remove(operation)
                self._events.answered(line, operation)
        line.unread = unread
        if unread and not (line.expected and line.expected[0][0].startswith(unread)):
            if line.connection in self._by_connection:
                awaited = line.expected[0][0] if line.expected else b""
                self._environment.fault_found(
                    f"client {line.client.number} reads {unread[:80]!r} where {awaited[:80]!r} "
                    "must come next"
                )

    # -- events of the engine

    def have_waited(self, late: list[tuple[int, Reply]]) -> bool:
        """Whether one of the replies is to a command that waited for the end of the start.

        Such a command may have issued effects when it ran.
        """
        for session, _ in late:
            line = self.by_session.get(session)
            if line is not None and line.running is not None:
                if line.running.argv[0].upper() not in BLOCKING:
                    return True
        return False

    def executed(
        self,
        session: int,
        argv: Words,
        reply: Reply,
        before: Vector,
        after: Vector,
        now_ms: int,
        facts: EngineFacts,
    ) -> None:
        """A command of one of the clients ran, or began to wait.

        `session`: the number of its connection. `now_ms`: what the region's own clock reads.
        """
        line = self.by_session.get(session)
        if line is None:
            return
        sent = line.sent.popleft() if line.sent else ()
        if sent != argv:
            self._environment.fault_found(
                f"client {line.client.number} sent {sent!r}, and the region executed {argv!r}"
            )
        line.is_within = bool(line.sent)
        name = argv[0].upper()
        is_queued = line.session.transaction.queued is not None
        if is_queued and not isinstance(reply, ReplyLater):
            # A command of a transaction: the EXEC makes the operation.
            if name == b"MULTI" and isinstance(reply, SimpleString):
                line.transaction = []
            elif line.transaction is not None and isinstance(reply, SimpleString):
                line.transaction.append(argv)
            self._framed(line, argv, reply)
            return
        transaction, line.transaction = line.transaction, None
        if name in _FRAMES:
            self._framed(line, argv, reply)
            return
        is_exec = transaction is not None and name == b"EXEC"
        queued = tuple(transaction) if transaction is not None and is_exec else ()
        operation = self._events.operation(
            line.client.number, self._region, argv, queued, before, now_ms
        )
        line.unanswered.append(operation)
        if isinstance(reply, ReplyLater):
            line.running = operation
            self._environment.note(self._region, "waits", operation.number, *argv)
            return
        self._replied(line, operation, reply, before, after, facts)

    def _framed(self, line: Line, argv: Words, reply: Reply) -> None:
        """A command that makes no operation has been answered."""
        line.expected.append((self._bytes(line, reply), None))
        line.client.framed(argv, reply)
        if self._environment.trace.is_told:
            self._environment.aside(self._region, "frames", line.client.number, argv, reply)

    def answered(self, session: int, reply: Reply, facts: EngineFacts) -> None:
        """A command that had waited has its answer; the commands behind it go on."""
        line = self.by_session.get(session)
        if line is None or line.running is None:
            return
        operation, line.running = line.running, None
        operation.waited = True
        self._replied(line, operation, reply, facts.vector, facts.vector, facts)

    def _replied(
        self,
        line: Line,
        operation: Operation,
        reply: Reply,
        before: Vector,
        after: Vector,
        facts: EngineFacts,
    ) -> None:
        environment = self._environment
        operation.before = before
        operation.after = after
        operation.clock_ms = facts.clock_ms
        operation.floor_ms = facts.floor_ms
        operation.reply = reply
        operation.has_reply = True
        environment.note(self._region, "runs", operation.number, *operation.argv, plain(reply))
        environment.events.executed(operation)
        if isinstance(reply, ErrorReply):
            environment.counters["error:" + reply.message.split(" ", 1)[0]] += 1
        line.expected.append((self._bytes(line, reply), operation))

    def _bytes(self, line: Line, reply: Reply) -> bytes:
        out: list[bytes] = []
        if not isinstance(reply, NoReply):
            encode(reply, line.session.protocol, out)
        return b"".join(out)


def encoded(argv: Words) -> bytes:
    """A command as RESP bytes."""
    parts = [b"*%d" % len(argv)]
    for word in argv:
        length = len(word)
        parts.append(_LENGTHS[length] if length < len(_LENGTHS) else b"$%d" % length)
        parts.append(word)
    parts.append(b"")
    return b"\r\n".join(parts)
