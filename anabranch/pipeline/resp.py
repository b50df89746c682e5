"""A small blocking client of one region (RESP2).

Executors use it, so it needs nothing but Python. One request may be sent before the reply to the
former one is read, so that the region works while the client decodes.
"""

from __future__ import annotations

import socket
from typing import Any, Final, Union

from anabranch.pipeline.errors import PipelineError
from anabranch.region.resp.decoder import INCOMPLETE, ReplyDecoder, WrongProtocol
from anabranch.region.resp.request import Word, command

ReplyValue = Union[None, int, bytes, "list[ReplyValue]"]

_RECEIVE_BYTES: Final = 1 << 18
# A host that is gone does not refuse a connection. The next region is tried after so long.
_CONNECT_S: Final = 3.0
# What a region says to a client that is one too many, and then closes.
_NO_ROOM: Final = "ERR max number of clients reached"


class RegionGone(Exception):
    """The connection failed or was closed, or no answer came in time."""


class NoAnswer(RegionGone):
    """No answer came in time."""


class RefusedCommand(Exception):
    """The region answered with an error; the text is its own."""

    def is_no_key(self) -> bool:
        """Whether the region has no key of the name that was given, or a deadline hides it."""
        return "no such key" in str(self)


class Connection:
    """One connection. `address` is (host, port); `timeout_s` holds for each step on the socket.

    Raises RegionGone if the region cannot be reached, RefusedCommand if it refuses the password.
    """

    def __init__(
        self, address: tuple[str, int], username: str, password: str, timeout_s: float
    ) -> None:
        self._decoder: Final = ReplyDecoder({b"-": self._refusal})
        # The number of errors in the replies that are decoded and not received yet.
        self._refusals = 0
        try:
            self._socket = socket.create_connection(address, min(timeout_s, _CONNECT_S))
            self._socket.settimeout(timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise _failure(error) from None
        if password:
            try:
                self.call("AUTH", *([username] if username else []), password)
            except Exception:
                self.close()
                raise

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def call(self, *words: Word) -> ReplyValue:
        """Sends a command and returns its reply."""
        self.send(*words)
        return self.receive()

    def send(self, *words: Word) -> None:
        """Sends a command, whose reply is to be received later."""
        self.send_bytes(command(*words))

    def send_bytes(self, data: bytes) -> None:
        """Sends commands that `command` made; each of them has a reply."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise _failure(error) from None

    def receive(self) -> ReplyValue:
        """Returns the next reply; raises RefusedCommand for the first error in it."""
        try:
            while (reply := self._decoder.next()) is INCOMPLETE:
                data = self._socket.recv(_RECEIVE_BYTES)
                if not data:
                    raise RegionGone("it closed the connection")
                self._decoder.feed(data)
        except OSError as error:
            raise _failure(error) from None
        except WrongProtocol:
            raise RegionGone(
                "the answer is not RESP: is this the address of a region for clients?"
            ) from None
        if self._refusals and (refusals := _refusals_in(reply)):
            self._refusals -= len(refusals)
            if str(refusals[0]) == _NO_ROOM:
                raise RegionGone(_NO_ROOM)
            raise refusals[0]
        answer: ReplyValue = reply
        return answer

    def _refusal(self, text: bytes) -> RefusedCommand:
        self._refusals += 1
        return RefusedCommand(text.decode("utf-8", "replace"))


def _refusals_in(reply: Any) -> list[RefusedCommand]:
    """The errors in a reply, which is one itself or has them as items."""
    if isinstance(reply, list):
        return [refusal for item in reply for refusal in _refusals_in(item)]
    return [reply] if isinstance(reply, RefusedCommand) else []


def encoded(text: str) -> bytes:
    """The bytes of a text; those that are not UTF-8 are surrogates in it (`shown`)."""
    return text.encode("utf-8", "surrogateescape")


def shown(data: bytes) -> str:
    """Bytes as a text from which `encoded` makes the same bytes."""
    return data.decode("utf-8", "surrogateescape")


def printable(name: str | bytes) -> str:
    """A name as a text in UTF-8; bytes of it that are not UTF-8 become U+FFFD."""
    return (name if isinstance(name, bytes) else encoded(name)).decode("utf-8", "replace")


def named(reply: ReplyValue) -> dict[str, Any]:
    """A flat list of names and values, by which RESP2 tells a map. Raises PipelineError."""
    flat = list_of(reply)
    if len(flat) % 2:
        raise _unexpected(reply)
    return {shown(bytes_of(flat[n])): flat[n + 1] for n in range(0, len(flat), 2)}


def list_of(reply: ReplyValue) -> list[ReplyValue]:
    """A reply that must be an array. Raises PipelineError."""
    if not isinstance(reply, list):
        raise _unexpected(reply)
    return reply


def int_of(reply: ReplyValue) -> int:
    """A reply that must be a number. Raises PipelineError."""
    if not isinstance(reply, int):
        raise _unexpected(reply)
    return reply


def bytes_of(reply: ReplyValue) -> bytes:
    """A reply that must be a string. Raises PipelineError."""
    if not isinstance(reply, bytes):
        raise _unexpected(reply)
    return reply


def _unexpected(reply: ReplyValue) -> PipelineError:
    return PipelineError(f"a region gave an unexpected answer: {reply!r:.100}")


def _failure(error: OSError) -> RegionGone:
    if isinstance(error, TimeoutError):
        return NoAnswer("it did not answer in time")
    return RegionGone((error.strerror or str(error)).lower())
