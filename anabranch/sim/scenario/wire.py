"""A small blocking RESP2 client.

It returns replies exactly as they are on the wire, with the error codes that client libraries hide.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence

from anabranch.sim.scenario.expectation import ErrorText
from anabranch.sim.scenario.shape import Reply


class WireError(Exception):
    """The connection broke or timed out, or the peer sent bytes that are not RESP2."""


class Wire:
    """One connection. `timeout_s` bounds each wait for a reply.

    With `password`, it logs in first; WireError if the password is wrong.
    """

    def __init__(
        self, host: str, port: int, timeout_s: float = 30.0, password: str | None = None
    ) -> None:
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise WireError(f"{self.address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._at = 0
        if password is not None:
            reply = self.call("AUTH", password)
            if isinstance(reply, ErrorText):
                self.close()
                raise WireError(f"{self.address}: {reply.text}")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def send(self, argv: Sequence[bytes | str | int]) -> None:
        """Sends one command."""
        words = [word if isinstance(word, bytes) else str(word).encode() for word in argv]
        parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)]
        try:
            self._socket.sendall(b"".join(parts))
        except OSError as error:
            raise WireError(f"{self.address}: {error}") from error

    def call(self, *argv: bytes | str | int) -> Reply:
        """Sends a command and returns its reply."""
        self.send(argv)
        return self.read()

    def readable(self, patience_s: float) -> bool:
        """Whether bytes of a reply arrive within `patience_s`."""
        if self._at < len(self._buffer):
            return True
        return bool(select.select([self._socket], [], [], patience_s)[0])

    def read(self) -> Reply:
        """Waits for the next reply."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ErrorText(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._take(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        raise WireError(f"{self.address}: no RESP2: {line[:80]!r}")

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n", self._at)) < 0:
            self._fill()
        line, self._at = self._buffer[self._at : end], end + 2
        return line

    def _take(self, count: int) -> bytes:
        while len(self._buffer) - self._at < count:
            self._fill()
        taken, self._at = self._buffer[self._at : self._at + count], self._at + count
        return taken

    def _fill(self) -> None:
        try:
            more = self._socket.recv(1 << 18)
        except OSError as error:
            raise WireError(f"{self.address}: {error}") from error
        if not more:
            raise WireError(f"{self.address}: closed by the region")
        self._buffer, self._at = self._buffer[self._at :] + more, 0
