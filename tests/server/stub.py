"""Stubs of an engine with a few commands, and of a region that commits when a test asks for it."""

from __future__ import annotations

import asyncio

from anabranch.region.driver.client_connection import ClientConnection
from anabranch.region.driver.clients import Clients
from anabranch.region.engine.batch import Batch, Shape
from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.replies import (
    NO_REPLY,
    OK,
    PONG,
    REPLY_LATER,
    ErrorReply,
    MapReply,
    Reply,
)
from anabranch.region.engine.session import Session
from anabranch.region.engine.setting import Value
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.statistics import CommandStatistics
from anabranch.region.live.server import Server
from anabranch.region.live.system_clock import SystemClock


class StubEngine:
    """An engine with PING, ECHO x, BIG n, BLOCK, QUIET, QUIT, HELLO 3, AUTH, FAIL and WRITE.

    BIG replies n bytes. AUTH takes any password but `wrong`. The reply of WRITE waits for a
    commit. FAIL raises an exception.
    """

    def __init__(self) -> None:
        self.committed_position = 0
        self.last_position = 0
        self.sessions: list[Session] = []
        self.left: list[Session] = []
        self.executed = 0
        self.password_needed = False
        self.statistics = CommandStatistics()
        self.shapes: dict[bytes, list[Shape]] = {}
        # The session_id of each executed command, in order.
        self.served: list[int] = []

    def connect(self, address: str, local_address: str, now_ms: int) -> Session:
        session = Session(len(self.sessions) + 1, address, local_address, now_ms)
        session.authenticated = not self.password_needed
        self.sessions.append(session)
        return session

    def disconnect(self, session: Session) -> None:
        assert session not in self.left
        self.left.append(session)

    def reflects(self, session: Session, reply: Reply) -> bool:
        return not (isinstance(reply, ErrorReply) and reply.reflects_nothing)

    def note_slow(
        self,
        session: Session,
        argv: list[bytes],
        queued: list[list[bytes]] | None,
        calls: int,
        time_us: int,
        now_ms: int,
    ) -> None:
        raise AssertionError("the slow log of the stub is off")

    def reply_position(self) -> int:
        return self.last_position if self.last_position > self.committed_position else 0

    def execute_batch(self, session: Session, batch: Batch, now_ms: int) -> tuple[list[Reply], int]:
        assert batch.packed is None
        return [self._execute(session, batch.first)], 1

    def _execute(self, session: Session, argv: list[bytes]) -> Reply:
        assert not session.waiting and not session.closing and session not in self.left
        self.executed += 1
        self.served.append(session.session_id)
        name = argv[0].upper()
        if name == b"PING":
            return PONG
        if name == b"ECHO":
            return argv[1]
        if name == b"BIG":
            return b"x" * int(argv[1])
        if name == b"BLOCK":
            session.waiting = True
            return REPLY_LATER
        if name == b"QUIET":
            return NO_REPLY
        if name == b"QUIT":
            session.closing = True
            return OK
        if name == b"HELLO":
            session.protocol = int(argv[1])
            return MapReply([b"proto", session.protocol])
        if name == b"AUTH" and argv[-1] == b"wrong":
            self.statistics.wrong_passwords += 1
            return ErrorReply("WRONGPASS")
        if name == b"AUTH":
            session.authenticated = True
            return OK
        if name == b"WRITE":
            self.last_position += 1
            return self.last_position
        if name == b"FAIL":
            raise RuntimeError("a fault in the engine")
        return ErrorReply(f"ERR unknown command '{argv[0].decode()}'")


class StubRegion:
    """A region that counts steps. `answer`, `commit` and others act as a driver's step."""

    def __init__(self, values: dict[str, Value] | None = None) -> None:
        self.engine = StubEngine()
        self.settings = Settings(values)
        self.steps = 0
        self.failures: list[BaseException] = []
        self.clients = Clients(self.engine, SystemClock(), self.settings)
        self.server = Server(self)

    def connect(self, address: str, local_address: str) -> ClientConnection:
        return self.clients.connect(address, local_address)

    def connection(self, session: Session) -> ClientConnection:
        """The connection of an open session."""
        return next(one for one in self.server.transports if one.session is session)

    def stepped(self) -> None:
        self.steps += 1

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)

    def perform(self) -> None:
        self.server.perform(self.clients.take_touched())

    def answer(self, session: Session, reply: Reply) -> None:
        session.waiting = False
        self.clients.answer(LateReply(session, reply))
        self.perform()

    def commit(self, position: int) -> None:
        self.engine.committed_position = position
        self.clients.released(position)
        self.perform()

    def commit_failed(self) -> None:
        self.clients.commit_failed()
        self.perform()

    def close_session(self, session_id: int) -> bool:
        closed = self.clients.close_session(session_id)
        self.perform()
        return closed

    def finish_all(self) -> None:
        self.clients.finish_all()
        self.perform()

    async def tick(self) -> None:
        """Ticks every 10 ms until it is cancelled."""
        while True:
            self.clients.tick()
            self.perform()
            await asyncio.sleep(0.01)
