"""Turns the bytes of a server into replies, for clients of any kind.

Strings are bytes, integers are ints, arrays are lists, and all nulls are None. A user may give
makers for the other kinds: functions from the content of a reply to its value. The content is
bytes, or for maps, sets and pushes a list; in that of a map, keys and values take turns. Without a
maker the content is the value, except that an error is an `ErrorText`. Attributes are left out.

Theory of operation
-------------------
The decoder looks at each byte once, for every division into chunks. It takes all whole replies out
of a chunk together, because that costs less than taking them one by one.

1. **Aggregates that are not whole** (arrays, maps, sets, pushes) lie on a stack: `_items` is the
   innermost one, and `_above` has those around it. A value joins the innermost aggregate, and if
   that is whole now, it joins the one around it. The outermost list is `_ready`, never whole.
2. **A string that is not whole** stays in the parts in which it comes. They are joined once, and
   then the string (`_string`) is a value like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Optional, Union

Maker = Callable[[Any], Any]


@dataclass(frozen=True)
class ErrorText:
    """An error reply, code included, without the leading ``-``."""

    text: str


DecodedReply = Union[None, int, bytes, ErrorText, list["DecodedReply"]]
"""A reply of a decoder without makers: of RESP2, or of RESP3 with maps as flat arrays."""


class Incomplete:
    """The type of `INCOMPLETE`."""


INCOMPLETE: Final = Incomplete()
"""No reply is whole yet."""


class WrongProtocol(Exception):
    """The bytes are no RESP; the text shows those that are wrong."""


# Kinds of replies, by their first byte.
_STRING: Final = 36  # $
_VERBATIM: Final = 61  # =
_LONG_ERROR: Final = 33  # !
_ARRAY: Final = 42  # *
_ATTRIBUTES: Final = 124  # |
_NULL: Final = 95  # _
_BOOLEAN: Final = 35  # #
# The kinds whose members come in pairs.
_OF_PAIRS: Final = b"%|"
# The forms of replies.
_LINE: Final = 1
_INTEGER: Final = 2
_SIZED: Final = 3
_AGGREGATE: Final = 4
_FORMS: Final = {b"+-_#,(": _LINE, b":": _INTEGER, b"$!=": _SIZED, b"*%~>|": _AGGREGATE}
# The form by the first byte of a reply; 0: no reply begins with it.
_FORM_OF: Final = bytes(
    next((form for kinds, form in _FORMS.items() if byte in kinds), 0) for byte in range(256)
)
# Most numbers are small, and a table is faster than `int`.
_NUMBERS: Final[dict[bytes, int]] = {b"%d" % number: number for number in range(-1, 1025)}


class ReplyDecoder:
    """Takes bytes in any division, and gives replies in their order.

    `makers`: functions that make the value of a reply, by the first byte of its kind, such as
    ``{b"+": Status}``. Errors of both forms have the maker of ``b"-"``. A maker must not raise.
    """

    def __init__(self, makers: Optional[Mapping[bytes, Maker]] = None) -> None:
        made = {b"-": _error, **(makers or {})}
        self._makers: Final = {kind[0]: maker for kind, maker in made.items()}
        self._makers[_LONG_ERROR] = made[b"-"]
        # The newest bytes, of which the first `_at` were looked at.
        self._buffer = b""
        self._at = 0
        # Of a string that is not whole: its kind, its parts, and the number of bytes that are still
        # to come, with the line break after it.
        self._kind = 0
        self._parts: list[bytes] = []
        self._awaited = 0
        # A string that came in parts and is whole.
        self._string: Optional[bytes] = None
        # Whole replies, the last one first.
        self._ready: Final[list[Any]] = []
        # The innermost aggregate that is not whole, the number of members that it lacks, its kind.
        self._items = self._ready
        self._missing = -1
        self._opened = 0
        self._above: Final[list[tuple[list[Any], int, int]]] = []
        # What follows the whole replies, if it is no RESP.
        self._problem: Optional[WrongProtocol] = None
        # Of all bytes: how many were fed, and how many come before the reply that is not whole.
        self._fed = 0
        self._begun = 0

    @property
    def held_bytes(self) -> int:
        """The number of bytes of a reply that is not whole yet."""
        return self._fed - self._begun

    @property
    def has_bytes(self) -> bool:
        """Whether it has bytes of replies, whole or not, that `next` has not given."""
        return bool(self._ready) or self.held_bytes > 0

    def feed(self, data: bytes) -> None:
        """Takes the next bytes."""
        self._fed += len(data)
        awaited = self._awaited
        if awaited > len(data):
            self._parts.append(data)
            self._awaited = awaited - len(data)
        elif awaited > 0:
            self._parts.append(data[: max(awaited - 2, 0)])
            string = b"".join(self._parts)
            # If one byte was awaited, the first byte of the line break is in the parts.
            self._string = string if awaited > 1 else string[:-1]
            self._parts = []
            self._awaited = 0
            self._buffer, self._at = data, awaited
        elif self._at == len(self._buffer):
            self._buffer, self._at = data, 0
        else:
            self._buffer, self._at = self._buffer[self._at :] + data, 0

    def next(self) -> Any:
        """The next reply; `INCOMPLETE` if more bytes are needed.

        Raises `WrongProtocol` after the last whole reply, and whenever it is called again.
        """
        if not self._ready:
            if self._problem is None and self._awaited == 0:
                try:
                    self._decode()
                except WrongProtocol as problem:
                    self._problem = problem
                self._ready.reverse()
            if not self._ready:
                if self._problem is not None:
                    raise self._problem
                return INCOMPLETE
        return self._ready.pop()

    def _decode(self) -> None:
        """Moves all whole replies from the buffer to `_ready`."""
        buffer, at, length = self._buffer, self._at, len(self._buffer)
        items, missing, opened, above = self._items, self._missing, self._opened, self._above
        string, self._string = self._string, None
        begun = -1
        value: Any
        while True:
            while missing == 0:
                value, kind = items, opened
                items, missing, opened = above.pop()
                if kind != _ATTRIBUTES:
                    items.append(value if kind == _ARRAY else self._made(kind, value))
                    missing -= 1
            if string is not None:
                value, string = self._made(self._kind, string), None
            else:
                if not above:
                    begun = at
                end = buffer.find(b"\r\n", at)
                if end <= at:
                    if end == at:
                        raise WrongProtocol("no reply is an empty line")
                    break
                kind, content = buffer[at], buffer[at + 1 : end]
                form = _FORM_OF[kind]
                size = 0
                if form > _LINE:
                    number = _NUMBERS.get(content)
                    size = _number(kind, content) if number is None else number
                at = end + 2
                if form == _SIZED and size >= 0:
                    end = at + size
                    if end + 2 > length:
                        self._kind, self._parts = kind, [buffer[at:]]
                        self._awaited = end + 2 - length
                        buffer, at = b"", 0
                        break
                    value = buffer[at:end]
                    if kind != _STRING:
                        value = self._made(kind, value)
                    at = end + 2
                elif form == _AGGREGATE and size >= 0:
                    above.append((items, missing, opened))
                    items, missing, opened = [], 2 * size if kind in _OF_PAIRS else size, kind
                    continue
                elif form == _INTEGER:
                    value = size
                else:
                    value = None if form > _LINE else self._line(kind, content)
            items.append(value)
            missing -= 1
        if begun >= 0:
            self._begun = self._fed - length + begun
        self._buffer, self._at = buffer, at
        self._items, self._missing, self._opened = items, missing, opened

    def _line(self, kind: int, content: bytes) -> Any:
        """The value of a reply that is one line."""
        if _FORM_OF[kind] != _LINE:
            raise WrongProtocol(f"no reply begins with {bytes([kind]) + content[:40]!r}")
        if kind == _NULL:
            return None
        return content == b"t" if kind == _BOOLEAN else self._made(kind, content)

    def _made(self, kind: int, content: Any) -> Any:
        """The value of a reply: the maker's, or the content."""
        if kind == _VERBATIM:
            # Three letters and a colon tell the format of the text.
            content = content[4:]
        maker = self._makers.get(kind)
        return content if maker is None else maker(content)


def _error(text: bytes) -> ErrorText:
    return ErrorText(text.decode("utf-8", "replace"))


def _number(kind: int, digits: bytes) -> int:
    try:
        return int(digits)
    except ValueError:
        line = bytes([kind]) + digits[:40]
        raise WrongProtocol(f"a number is expected, not {line!r}") from None
