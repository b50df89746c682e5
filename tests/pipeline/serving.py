"""A small server that gives an engine a socket, so that the pipeline reads it as it reads a region.

It serves one command at a time, commits after each, and can be told to break off.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import Reply, ReplyLater
from anabranch.region.engine.rows import LogRow
from anabranch.region.engine.session import Session
from anabranch.region.resp.encoder import encode
from anabranch.region.resp.parser import RequestParser
from tests.support.engines import answer_questions, execute

# What a blocked command waits at most: the engine's clock jumps over its time-out.
JUMP_MS = 100_000


def run(server: EngineServer, *lines: str) -> None:
    """Runs commands in the engine, beside the socket."""
    # Connections are served in threads of their own, and an engine takes one command at a time.
    with server.lock:
        session = server.engine.clients.connect("127.0.0.1:9", "127.0.0.1:2", 1)
        for line in lines:
            server.execute(session, line.encode().split())
        server.engine.clients.disconnect(session)


class EngineServer:
    """Serves an engine on a loopback port until the `with` ends.

    `answers_left`: after so many answers to the command `counted` the connection breaks, and new
    ones are refused; None: never. With `loses_last`, the last of these answers is not sent.
    `rows`: the log of the engine.
    """

    def __init__(
        self,
        engine: Engine,
        answers_left: int | None = None,
        counted: str = "CRDT.NODES",
        loses_last: bool = False,
        rows: Sequence[LogRow] = (),
    ) -> None:
        self.engine = engine
        self.answers_left = answers_left
        self._counted = counted.encode()
        self._loses_last = loses_last
        self._rows = list(rows)
        # Every command that came, in order.
        self.commands: list[list[bytes]] = []
        self._now_ms = 10
        self.lock: Final = threading.RLock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        thread = threading.Thread(target=self._accept)
        thread.start()
        self._threads.append(thread)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                # The client has gone in the meantime.
                pass
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            thread.start()
            self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        parser = RequestParser(1 << 20)
        with self.lock:
            session = self.engine.clients.connect("127.0.0.1:1", "127.0.0.1:2", self._now_ms)
        with connection:
            while self.answers_left != 0:
                try:
                    data = connection.recv(1 << 16)
                except OSError:
                    break
                if not data:
                    break
                parser.feed(data)
                while (command := parser.next()) is not None and self.answers_left != 0:
                    self.commands.append(command)
                    if command[0] == self._counted and self.answers_left is not None:
                        self.answers_left -= 1
                    answer = self._answer(session, command)
                    if self.answers_left != 0 or not self._loses_last:
                        connection.sendall(answer)
        self._open.discard(connection)

    def _answer(self, session: Session, command: list[bytes]) -> bytes:
        with self.lock:
            reply = self.execute(session, command)
        out: list[bytes] = []
        encode(reply, session.protocol, out)
        return b"".join(out)

    def execute(self, session: Session, command: list[bytes]) -> Reply:
        """The reply to a command; a command that blocks times out at once."""
        self._now_ms += 1
        reply = execute(self.engine, session, command, self._now_ms)
        for jump in (0, JUMP_MS):
            self._now_ms += jump
            self.engine.tick(self._now_ms)
            commit = self.engine.disk.take_commit(self._now_ms)
            if commit is not None:
                self._rows += commit.rows
                self.engine.disk.committed(self._now_ms)
            answer_questions(self.engine, self._rows)
            late = [
                one.reply for one in self.engine.clients.take_replies() if one.session is session
            ]
            if not isinstance(reply, ReplyLater):
                return reply
            if late:
                return late[0]
        raise AssertionError(f"no reply to {command}")
