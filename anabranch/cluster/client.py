"""A small blocking client of a region (RESP2).

It returns replies exactly as they come, with the error codes that client libraries hide.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from typing import Any, Final, Self

from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.region.resp.decoder import (
    INCOMPLETE,
    DecodedReply,
    ErrorText,
    ReplyDecoder,
    WrongProtocol,
)
from anabranch.region.resp.request import Word, command

_RECEIVE_BYTES: Final = 1 << 18


class RespClient:
    """One connection. `timeout_s` bounds each wait for a reply.

    With `password`, it logs in first. Every method raises ConnectionFailed, which a wrong password
    is, too.
    """

    def __init__(
        self, host: str, port: int, timeout_s: float = 30.0, password: str | None = None
    ) -> None:
        self.address: Final = f"{host}:{port}"
        self._decoder: Final = ReplyDecoder()
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise ConnectionFailed(f"{self.address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if password is not None:
            reply = self.call("AUTH", password)
            if isinstance(reply, ErrorText):
                self.close()
                raise ConnectionFailed(f"{self.address}: {reply.text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def send(self, *words: Word) -> None:
        """Sends one command."""
        self._send(command(*words))

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionFailed(f"{self.address}: {error}") from error

    def call(self, *words: Word) -> DecodedReply:
        """Sends a command and returns its reply."""
        self.send(*words)
        return self.read()

    def ask(self, *words: Word) -> Any:
        """Sends a command and returns its reply; ClusterError if that is an error."""
        return self.ask_all([words])[0]

    def ask_all(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """Sends commands together and returns their replies; ClusterError if one is an error."""
        self._send(b"".join(command(*words) for words in commands))
        replies = [self.read() for _ in commands]
        for words, reply in zip(commands, replies, strict=True):
            if isinstance(reply, ErrorText):
                raise ClusterError(f"{self.address}: the answer to {words[0]!s} is: {reply.text}")
        return replies

    def readable(self, patience_s: float) -> bool:
        """Whether bytes of a reply arrive within `patience_s`."""
        return self._decoder.has_bytes or bool(select.select([self._socket], [], [], patience_s)[0])

    def read(self) -> DecodedReply:
        """Waits for the next reply."""
        try:
            while (reply := self._decoder.next()) is INCOMPLETE:
                data = self._socket.recv(_RECEIVE_BYTES)
                if not data:
                    raise ConnectionFailed(f"{self.address}: closed by the region")
                self._decoder.feed(data)
        except (OSError, WrongProtocol) as error:
            raise ConnectionFailed(f"{self.address}: {error}") from error
        whole: DecodedReply = reply
        return whole
