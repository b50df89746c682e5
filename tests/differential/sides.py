"""The sides of a comparison: a real redis-server over sockets, and an engine in this process."""

from __future__ import annotations

import socket
import time
from collections import deque

from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import NoReply, Reply, ReplyLater
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.resp.encoder import encode
from anabranch.region.resp.request import command
from tests.differential.replies import Incomplete, Typed, read
from tests.support.engines import execute, single

PATIENCE_S = 10.0
REGION_ID = 1


def clock_ms() -> int:
    """The time of this machine, which is also that of the real server."""
    return time.time_ns() // 1_000_000


class RedisConnection:
    """One connection to the real server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.buffer = b""

    def send(self, *commands: list[bytes]) -> None:
        self.socket.sendall(b"".join(command(*words) for words in commands))

    def receive(self, patience_s: float = PATIENCE_S) -> Typed | None:
        """The next reply; None if none arrives within `patience_s` seconds."""
        deadline_s = time.monotonic() + patience_s
        while True:
            try:
                reply, after = read(self.buffer)
                self.buffer = self.buffer[after:]
                return reply
            except Incomplete:
                self.socket.settimeout(max(deadline_s - time.monotonic(), 0.001))
                try:
                    data = self.socket.recv(1 << 16)
                except TimeoutError:
                    return None
                if not data:
                    return None
                self.buffer += data


class Redis:
    """The real server, with connections by name."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections: dict[str, RedisConnection] = {}
        self.control = RedisConnection(port)

    def connection(self, name: str) -> RedisConnection:
        if name not in self.connections:
            self.connections[name] = RedisConnection(self.port)
        return self.connections[name]

    def ask(self, *words: bytes) -> Typed:
        """The reply to a command that is not part of the comparison."""
        self.control.send(list(words))
        reply = self.control.receive()
        assert reply is not None, f"redis-server does not answer {words!r}"
        return reply

    def blocked(self) -> int:
        """The number of blocked clients."""
        text = self.ask(b"INFO", b"clients").value
        assert isinstance(text, bytes)
        return int(text.split(b"blocked_clients:")[1].split(b"\r\n")[0])

    def close(self) -> None:
        for connection in [*self.connections.values(), self.control]:
            connection.socket.close()


class Ours:
    """An engine, with sessions by name. Every step is committed at once, as on an instant disk.

    `standing_ms`: the time at which its clock stands; 0: the clock is that of this machine.
    """

    def __init__(self, settings: Settings | None = None, standing_ms: int = 0) -> None:
        self.standing_ms = standing_ms
        self.engine: Engine = single(
            REGION_ID,
            self.now_ms(),
            settings or Settings({"crdt-xadd-id-uniqueness-mode": "liberal"}),
        )
        self.sessions: dict[str, Session] = {}
        self.replies: dict[str, deque[Typed]] = {}

    def now_ms(self) -> int:
        return self.standing_ms or clock_ms()

    def session(self, name: str) -> Session:
        if name not in self.sessions:
            number = 50000 + len(self.sessions)
            self.sessions[name] = self.engine.clients.connect(
                f"127.0.0.1:{number}", "127.0.0.1:7001", self.now_ms()
            )
            self.replies[name] = deque()
        return self.sessions[name]

    def send(self, name: str, words: list[bytes]) -> None:
        """Executes a command in the session of that name."""
        session = self.session(name)
        assert not session.waiting, "the server feeds a waiting session no commands"
        self._take(session, execute(self.engine, session, words, self.now_ms()))
        self.step()

    def step(self) -> None:
        """Does the work of the process after commands: clock, commit, replies, killed clients."""
        self.engine.tick(self.now_ms())
        commit = self.engine.disk.take_commit(self.now_ms())
        if commit is not None:
            self.engine.disk.committed(self.now_ms())
        for answer in self.engine.clients.take_replies():
            self._take(answer.session, answer.reply)
        for session_id in self.engine.clients.take_sessions_to_close():
            for session in self.sessions.values():
                if session.session_id == session_id:
                    session.closing = True

    def _take(self, session: Session, reply: Reply) -> None:
        if isinstance(reply, ReplyLater | NoReply):
            return
        out: list[bytes] = []
        encode(reply, session.protocol, out)
        data = b"".join(out)
        typed, after = read(data)
        assert after == len(data), "the engine encoded more than one reply"
        self.replies[next(name for name, one in self.sessions.items() if one is session)].append(
            typed
        )

    def receive(self, name: str, patience_s: float = PATIENCE_S) -> Typed | None:
        """The next reply of a connection; None if none arrives within `patience_s` seconds."""
        self.session(name)
        deadline_s = time.monotonic() + patience_s
        while not self.replies[name]:
            if time.monotonic() > deadline_s:
                return None
            time.sleep(0.005)
            self.step()
        return self.replies[name].popleft()


class Pair:
    """Both sides. `send` sends a command to both, `receive` returns the replies of both."""

    def __init__(self, port: int, protocol: int = 2) -> None:
        self.redis = Redis(port)
        self.redis.ask(b"FLUSHALL")
        self.ours = Ours()
        self.protocol = protocol
        self._greeted: set[str] = set()

    def _greet(self, name: str) -> None:
        if name not in self._greeted:
            self._greeted.add(name)
            if self.protocol == 3:
                self.run([b"HELLO", b"3"], name)

    def send(self, words: list[bytes], name: str = "a") -> None:
        """Sends a command to both sides, on the connection of that name."""
        self._greet(name)
        self.redis.connection(name).send(words)
        self.ours.send(name, words)

    def receive(
        self, name: str = "a", patience_s: float = PATIENCE_S
    ) -> tuple[Typed | None, Typed | None]:
        """(Redis's reply, ours)."""
        return self.redis.connection(name).receive(patience_s), self.ours.receive(name, patience_s)

    def run(self, words: list[bytes], name: str = "a") -> tuple[Typed, Typed]:
        """Both replies to a command that does not block."""
        self.send(words, name)
        theirs, own = self.receive(name)
        assert theirs is not None, f"redis-server does not answer {words!r}"
        assert own is not None, f"the engine does not answer {words!r}"
        return theirs, own

    def await_blocked(self, count: int) -> None:
        """Waits until `count` clients are blocked on both sides."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self.redis.blocked() != count:
            assert time.monotonic() < deadline_s, (
                f"redis-server has {self.redis.blocked()} blocked clients, not {count}"
            )
            time.sleep(0.002)
        waiting = sum(1 for session in self.ours.sessions.values() if session.waiting)
        assert waiting == count, f"the engine has {waiting} blocked clients, not {count}"

    def close(self) -> None:
        self.redis.close()
