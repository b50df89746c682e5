"""Replies of the command line: RESP3 as typed values, and as the text that redis-cli prints.

redis-py gives simple strings and bulk strings the same type, and redis-cli prints them differently.
So the command line reads its replies itself. The decoder is sans-IO: bytes in, values out.
"""

from __future__ import annotations

from typing import Final, Union

from anabranch.escapes import harmless


class Status:
    """A simple string."""

    def __init__(self, text: bytes) -> None:
        self.text: Final = text


class Failure:
    """An error."""

    def __init__(self, text: bytes) -> None:
        self.text: Final = text


class Verbatim:
    """A text that is shown as it is, such as INFO."""

    def __init__(self, text: bytes) -> None:
        self.text: Final = text


class Pairs:
    """A map: keys and values in turn."""

    def __init__(self, items: list[Reply]) -> None:
        self.items: Final = items


class Members:
    """A set."""

    def __init__(self, items: list[Reply]) -> None:
        self.items: Final = items


class Number:
    """A double or a big number, in the digits that the region sent."""

    def __init__(self, digits: str, kind: str) -> None:
        self.digits: Final = digits
        self.kind: Final = kind


Reply = Union[
    None, bool, int, bytes, Status, Failure, Verbatim, Number, Pairs, Members, "list[Reply]"
]


class WrongProtocol(Exception):
    """Bytes that are no RESP3."""


# Kinds of replies with a size: strings, and those that have members.
_AGGREGATES: Final = b"*>%~|"
_SIZED: Final = b"$!=" + _AGGREGATES
# Those whose size counts pairs of members.
_OF_PAIRS: Final = b"%|"


class Decoder:
    """Collects bytes, and takes replies out of them.

    A long reply comes in many parts. Each part is looked at once: `_seen` is the offset up to which
    the reply is known to be whole, and `_missing` counts the values that are still to come.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self._seen = 0
        self._missing = 1

    def feed(self, data: bytes) -> None:
        """Takes the next bytes."""
        self._buffer += data

    @property
    def held_bytes(self) -> int:
        """The bytes of a reply that is not whole yet."""
        return len(self._buffer)

    def take(self) -> tuple[Reply] | None:
        """The next reply as the only member of a tuple; None if it is not whole yet."""
        if not self._is_whole():
            return None
        self._at = 0
        reply = self._reply()
        del self._buffer[: self._at]
        self._seen, self._missing = 0, 1
        return (reply,)

    def _is_whole(self) -> bool:
        """Whether all values of the next reply are in the buffer."""
        while self._missing:
            end = self._buffer.find(b"\r\n", self._seen)
            if end < 0:
                return False
            line = bytes(self._buffer[self._seen : end])
            after, members = end + 2, 0
            kind = line[:1]
            size = _size(line) if kind in _SIZED and kind else -1
            if size >= 0 and kind in _AGGREGATES:
                # Attributes belong to the reply that follows them.
                members = (2 * size if kind in _OF_PAIRS else size) + int(kind == b"|")
            elif size >= 0:
                after += size + 2
                if len(self._buffer) < after:
                    return False
            self._seen = after
            self._missing += members - 1
        return True

    def _line(self) -> bytes:
        end = self._buffer.index(b"\r\n", self._at)
        line = bytes(self._buffer[self._at : end])
        self._at = end + 2
        return line

    def _bytes(self, size: int) -> bytes:
        end = self._at + size
        data = bytes(self._buffer[self._at : end])
        self._at = end + 2
        return data

    def _reply(self) -> Reply:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind in _SIZED and kind:
            return self._sized(kind, _size(line))
        if kind == b"+":
            return Status(rest)
        if kind == b"-":
            return Failure(rest)
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind in (b",", b"("):
            name = "double" if kind == b"," else "big number"
            return Number(rest.decode("ascii", "replace"), name)
        raise WrongProtocol(f"no reply begins with {line[:40]!r}")

    def _sized(self, kind: bytes, size: int) -> Reply:
        if size < 0:
            return None
        if kind == b"$":
            return self._bytes(size)
        if kind == b"!":
            return Failure(self._bytes(size))
        if kind == b"=":
            return Verbatim(self._bytes(size)[4:])
        items = [self._reply() for _ in range(2 * size if kind in _OF_PAIRS else size)]
        if kind == b"|":
            return self._reply()  # Attributes belong to the reply that follows them.
        if kind == b"%":
            return Pairs(items)
        return Members(items) if kind == b"~" else items


def _size(line: bytes) -> int:
    """The size that a line tells. WrongProtocol if it is no number."""
    try:
        return int(line[1:])
    except ValueError:
        raise WrongProtocol(f"a size is no number: {line[:40]!r}") from None


def encode(words: list[bytes]) -> bytes:
    """A command for a region."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


# -- as redis-cli -3 prints it

_SHORT: Final = {
    0x5C: "\\\\",
    0x22: '\\"',
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\\t",
    0x07: "\\a",
    0x08: "\\b",
}


def quoted(data: bytes) -> str:
    """A string as redis-cli quotes it: bytes outside of ASCII are escapes."""
    made = [
        _SHORT.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in data
    ]
    return f'"{"".join(made)}"'


def lines(reply: Reply, prefix: str = "") -> list[str]:
    """The lines that redis-cli -3 prints. `prefix` indents all but the first one."""
    if reply is None:
        return ["(nil)"]
    if isinstance(reply, bool):
        return ["(true)" if reply else "(false)"]
    if isinstance(reply, int):
        return [f"(integer) {reply}"]
    if isinstance(reply, bytes):
        return [quoted(reply)]
    if isinstance(reply, Status):
        return [_plain(reply.text)]
    if isinstance(reply, Failure):
        return [f"(error) {_plain(reply.text)}"]
    if isinstance(reply, Verbatim):
        return _plain(reply.text.replace(b"\r\n", b"\n")).split("\n")
    if isinstance(reply, Number):
        return [f"({reply.kind}) {reply.digits}"]
    if isinstance(reply, Pairs):
        return _map(reply, prefix)
    if isinstance(reply, Members):
        return _listed(reply.items, prefix, "~", "(empty set)")
    return _listed(reply, prefix, ")", "(empty array)")


def _listed(items: list[Reply], prefix: str, mark: str, empty: str) -> list[str]:
    if not items:
        return [empty]
    width = len(str(len(items)))
    inner = prefix + " " * (width + 2)
    made: list[str] = []
    for number, item in enumerate(items, 1):
        first, *rest = lines(item, inner)
        made.append(f"{prefix if made else ''}{number:>{width}}{mark} {first}")
        made += rest
    return made


def _map(reply: Pairs, prefix: str) -> list[str]:
    if not reply.items:
        return ["(empty hash)"]
    count = len(reply.items) // 2
    width = len(str(count))
    inner = prefix + " " * (width + 2)
    made: list[str] = []
    for number in range(count):
        key = lines(reply.items[2 * number], inner)
        value = reply.items[2 * number + 1]
        first, *rest = lines(value, inner)
        made.append(f"{prefix if made else ''}{number + 1:>{width}}# {key[0]}")
        made += key[1:]
        # A list of several lines begins on a line of its own.
        made[-1] += " => "
        if rest and isinstance(value, (Pairs, Members, list)):
            made.append(inner + first)
        else:
            made[-1] += first
        made += rest
    return made


def _plain(text: bytes) -> str:
    return harmless(text.decode("utf-8", "surrogateescape"))
