"""A small blocking client of one region (RESP2).

Executors use it, so it needs nothing but Python. One request may be sent before the reply to the
former one is read, so that the region works while the client decodes.
"""

from __future__ import annotations

import socket
from typing import Any, Final, Union

from anabranch.pipeline.errors import PipelineError

Reply = Union[None, int, bytes, "list[Reply]"]
Word = Union[str, bytes, int]

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
        self._buffer = b""
        self._at = 0
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

    def call(self, *words: Word) -> Reply:
        """Sends a command and returns its reply."""
        self.send(*words)
        return self.receive()

    def send(self, *words: Word) -> None:
        """Sends a command, whose reply is to be received later."""
        self.send_bytes(command_bytes(*words))

    def send_bytes(self, data: bytes) -> None:
        """Sends commands that `command_bytes` made; each of them has a reply."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise _failure(error) from None

    def receive(self) -> Reply:
        """Returns the next reply."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._bytes(int(rest))
        if kind == b"*":
            return None if rest == b"-1" else self._items(int(rest))
        if kind == b"-":
            text = rest.decode("utf-8", "replace")
            if text == _NO_ROOM:
                raise RegionGone(text)
            raise RefusedCommand(text)
        raise RegionGone("the answer is not RESP: is this the address of a region for clients?")

    def _items(self, count: int) -> list[Reply]:
        """The items of an array; all are read before an error among them is raised."""
        items: list[Reply] = []
        refused: RefusedCommand | None = None
        for _ in range(count):
            try:
                items.append(self.receive())
            except RefusedCommand as error:
                refused = refused or error
        if refused is not None:
            raise refused
        return items

    def _fill(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except OSError as error:
            raise _failure(error) from None
        if not data:
            raise RegionGone("it closed the connection")
        self._buffer = self._buffer[self._at :] + data
        self._at = 0

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n", self._at)) < 0:
            self._fill()
        line = self._buffer[self._at : end]
        self._at = end + 2
        return line

    def _bytes(self, length: int) -> bytes:
        """A bulk string. A long one is received in place, without growing buffers."""
        here = self._buffer[self._at : self._at + length + 2]
        self._at += len(here)
        if len(here) == length + 2:
            return here[:-2]
        whole = bytearray(length + 2)
        whole[: len(here)] = here
        rest = memoryview(whole)[len(here) :]
        try:
            while rest:
                received = self._socket.recv_into(rest)
                if not received:
                    raise RegionGone("it closed the connection")
                rest = rest[received:]
        except OSError as error:
            raise _failure(error) from None
        return bytes(memoryview(whole)[:-2])


def command_bytes(*words: Word) -> bytes:
    """A command as a region reads it."""
    return b"*%d\r\n%b" % (len(words), word_bytes(*words))


def word_bytes(*words: Word) -> bytes:
    """Words of a command, without the number of words that begins it."""
    parts = []
    for word in words:
        data = word if isinstance(word, bytes) else encoded(str(word))
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def words_of(command: bytes) -> list[bytes]:
    """The words of a command that `command_bytes` made."""
    words = []
    at = command.index(b"\r\n") + 2
    while at < len(command):
        end = command.index(b"\r\n", at)
        begin, at = end + 2, end + 4 + int(command[at + 1 : end])
        words.append(command[begin : at - 2])
    return words


def encoded(text: str) -> bytes:
    """The bytes of a text; those that are not UTF-8 are surrogates in it (`shown`)."""
    return text.encode("utf-8", "surrogateescape")


def shown(data: bytes) -> str:
    """Bytes as a text from which `encoded` makes the same bytes."""
    return data.decode("utf-8", "surrogateescape")


def printable(name: str | bytes) -> str:
    """A name as a text in UTF-8; bytes of it that are not UTF-8 become U+FFFD."""
    return (name if isinstance(name, bytes) else encoded(name)).decode("utf-8", "replace")


def named(reply: Reply) -> dict[str, Any]:
    """A flat list of names and values, by which RESP2 tells a map. Raises PipelineError."""
    flat = list_of(reply)
    if len(flat) % 2:
        raise _unexpected(reply)
    return {shown(bytes_of(flat[n])): flat[n + 1] for n in range(0, len(flat), 2)}


def list_of(reply: Reply) -> list[Reply]:
    """A reply that must be an array. Raises PipelineError."""
    if not isinstance(reply, list):
        raise _unexpected(reply)
    return reply


def int_of(reply: Reply) -> int:
    """A reply that must be a number. Raises PipelineError."""
    if not isinstance(reply, int):
        raise _unexpected(reply)
    return reply


def bytes_of(reply: Reply) -> bytes:
    """A reply that must be a string. Raises PipelineError."""
    if not isinstance(reply, bytes):
        raise _unexpected(reply)
    return reply


def _unexpected(reply: Reply) -> PipelineError:
    return PipelineError(f"a region gave an unexpected answer: {reply!r:.100}")


def _failure(error: OSError) -> RegionGone:
    if isinstance(error, TimeoutError):
        return NoAnswer("it did not answer in time")
    return RegionGone((error.strerror or str(error)).lower())
