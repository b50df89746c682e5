"""Replies of the command line: RESP3 as typed values, and as the text that redis-cli prints.

redis-py gives simple strings and bulk strings the same type, and redis-cli prints them differently.
So the command line decodes its replies itself.
"""

from __future__ import annotations

from typing import Final, Union

from anabranch.escapes import harmless
from anabranch.region.resp.decoder import Maker


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


MAKERS: Final[dict[bytes, Maker]] = {
    b"+": Status,
    b"-": Failure,
    b"=": Verbatim,
    b"%": Pairs,
    b"~": Members,
    b",": lambda digits: Number(digits.decode("ascii", "replace"), "double"),
    b"(": lambda digits: Number(digits.decode("ascii", "replace"), "big number"),
}
"""The makers of these classes, for a `ReplyDecoder`."""


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
