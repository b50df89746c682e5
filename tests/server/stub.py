"""A stub of what the server talks to: an engine with a handful of commands, and a region whose commits happen when a test says so."""

from __future__ import annotations

import time

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
from anabranch.region.engine.settings import Settings, Value
from anabranch.region.server import Server


class StubEngine:
    """PING, ECHO x, BIG n, BLOCK, QUIET, QUIT, HELLO 3, AUTH, FAIL, and WRITE: a write that must be committed."""

    def __init__(self) -> None:
        self.committed_position = 0
        self.last_position = 0
        self.sessions: list[Session] = []
        self.left: list[Session] = []
        self.executed = 0
        self.password_needed = False
        # Sessions of the commands executed, in order: who was served when.
        self.served: list[int] = []

    def connect(self, address: str, local_address: str, now_ms: int) -> Session:
        session = Session(len(self.sessions) + 1, address, local_address, now_ms)
        session.authenticated = not self.password_needed
        self.sessions.append(session)
        return session

    def disconnect(self, session: Session) -> None:
        assert session not in self.left
        self.left.append(session)

    def reply_position(self) -> int:
        return self.last_position

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> Reply:
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
    """Counts steps; `answer` and `commit` do what the process does."""

    def __init__(self, values: dict[str, Value] | None = None) -> None:
        self.engine = StubEngine()
        self.settings = Settings(values)
        self.steps = 0
        self.server = Server(self)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def stepped(self) -> None:
        self.steps += 1

    def answer(self, session: Session, reply: Reply) -> None:
        session.waiting = False
        self.server.deliver(session, reply)

    def commit(self, position: int) -> None:
        self.engine.committed_position = position
        self.server.released(position)
