"""Turns the bytes of one client into commands, by the rules of redis-server.

Theory of operation
-------------------
`data` and `offset` are the bytes being parsed; `next` moves `offset` past one command.

1. **Whole commands.** Nearly every command lies whole in `data`. One pass (`_whole`) cuts it out.
   The pass changes nothing unless it reaches the end of the command.
2. **The careful parser** (`_careful`) takes every other input. It keeps the arguments read so far
   (`arguments`, `missing`, `size`), so that no byte of a large command is read again when more
   bytes arrive. Only this parser raises `ProtocolError`.
3. **Stalling.** When the careful parser needs more bytes, the unread bytes move into `pending`, a
   bytearray that grows in place. The parser notes what is missing: a number of bytes (`needed`),
   or the end of a line, to be searched from `searched` on. Until `pending` holds it, `next` looks
   at no byte twice.

Work is therefore linear in the bytes fed, for every division into chunks. Memory is the bytes fed
and not yet consumed, plus one copy of a single large argument. A declared length reserves nothing.

As in Redis, a carriage return ends the line of a length. The byte after it is not examined, nor
are the two bytes that end an argument. In Redis, two more rules depend on how the bytes are divided
into reads. Here they do not: a line above 64 KB is always refused, and NUL is an ordinary byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Optional

from mypy_extensions import i64

from anabranch.crdt.encoding import stands_at
from anabranch.region.engine.batch import Batch, Packed, Shape
from anabranch.region.resp.inline import split_inline
from anabranch.region.resp.like import LikeCommands, after_arguments

LINE_BYTES_MAX: Final = 64 * 1024
ARGUMENTS_MAX: Final = 1024 * 1024
# The limits before authentication: enough for AUTH and HELLO.
UNAUTHENTICATED_ARGUMENTS_MAX: Final = 10
UNAUTHENTICATED_ARGUMENT_BYTES_MAX: Final = 16384

_MINIMUM_INTEGER: Final = -(1 << 63)
_CARRIAGE_RETURN: Final = b"\r"
_NEWLINE: Final = b"\n"


# First words of lines that only an HTTP request has.
_HTTP_WORDS: Final = frozenset({b"post", b"host:"})


class ProtocolError(Exception):
    """A client's input is not RESP.

    The server sends ``-ERR`` and `text`, and closes the connection.
    """

    def __init__(self, text: str) -> None:
        super().__init__("Protocol error: " + text)
        self.text: Final = "Protocol error: " + text


class HttpRequest(ProtocolError):
    """The line is one of an HTTP request: a web page may have a browser send commands in its body.

    Redis closes such a connection, too.
    """


_NO_SHAPES: Final[dict[bytes, list[Shape]]] = {}


class RequestParser:
    """Parses the requests of one client.

    `argument_bytes_max` is the setting ``proto-max-bulk-len``. While `authenticated` is false, the
    limits for unauthenticated clients apply. The server sets `authenticated` between two commands,
    when the session becomes authenticated. `shapes` has the shapes of batches by the first word of
    their commands.
    """

    def __init__(
        self,
        argument_bytes_max: int,
        authenticated: bool = True,
        shapes: Mapping[bytes, Sequence[Shape]] = _NO_SHAPES,
    ) -> None:
        self._shapes: Final = shapes
        self.argument_bytes_max = argument_bytes_max
        self.authenticated = authenticated
        self.data = b""
        self.offset: i64 = 0
        # Where in `data` the last command began; -1 if it did not lie there as a whole, or has too
        # few arguments for a batch.
        self._began: i64 = -1
        # Bytes fed that follow `data`, in order.
        self.pending = bytearray()
        # The number of bytes that `pending` must hold before the parser goes on. -1: it must hold a
        # `terminator`, and has none before the offset `searched`.
        self.needed = 0
        self.terminator = _CARRIAGE_RETURN
        self.searched = 0
        # Arguments of the unfinished command that are still missing; 0: between two commands.
        self.missing = 0
        # The arguments of the unfinished command read so far, and their bytes.
        self.arguments: list[bytes] = []
        self.arguments_bytes = 0
        # Length in bytes of the argument that comes next; -1: its length comes next.
        self.size = -1

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the connection, divided in any way."""
        if self.offset == len(self.data) and not self.pending:
            self.data = data
            self.offset = 0
        else:
            self.pending += data

    def buffered(self) -> int:
        """The number of bytes fed and not yet returned as part of a whole command."""
        return len(self.data) - int(self.offset) + len(self.pending) + self.arguments_bytes

    def next_batch(self, most: int) -> Optional[Batch]:
        """The next command, with up to `most` commands that follow it and are like it.

        None if more bytes are needed. Raises `ProtocolError` as `next` does. A batch has no command
        that is not here as a whole.
        """
        first = self.next()
        if first is None:
            return None
        if most and self._began >= 0 and self.offset < len(self.data):
            return Batch(first, self._packed(first, most))
        return Batch(first)

    def next(self) -> Optional[list[bytes]]:
        """The arguments of the next command, at least one; None if more bytes are needed.

        Empty lines and empty arrays are skipped. Raises `ProtocolError`; the parser must not be
        used after that.
        """
        self._began = -1
        if self.missing == 0 and self.authenticated:
            command = self._whole()
            if command is not None:
                return command
            if self.offset == len(self.data) and not self.pending:
                return None
        return self._careful()

    def _whole(self) -> Optional[list[bytes]]:
        """The command at `offset` if it is complete in `data` and in plain form.

        Otherwise returns None and changes nothing. A plain command has at most 999 arguments.
        """
        data = self.data
        end: i64 = len(data)
        began = self.offset
        missing, offset = self._words_at(data, began)
        if missing == 0:
            return None
        argument_bytes_max: i64 = self.argument_bytes_max
        command: list[bytes] = []
        while offset + 4 <= end and data[offset] == 36:  # $
            first = data[offset + 1] - 48
            second = data[offset + 2]
            if second == 13 and 0 <= first <= 9:
                size = first
                offset += 4
            elif 48 <= second <= 57 and data[offset + 3] == 13 and 1 <= first <= 9:
                size = first * 10 + second - 48
                offset += 5
            elif 1 <= first <= 9:
                size = first
                offset += 2
                while offset + 2 <= end and 48 <= data[offset] <= 57 and size <= argument_bytes_max:
                    size = size * 10 + data[offset] - 48
                    offset += 1
                if offset + 2 > end or data[offset] != 13 or size > argument_bytes_max:
                    return None
                offset += 2
            else:
                return None
            stop = offset + size
            if stop + 2 > end:
                return None
            command.append(data[offset:stop])
            offset = stop + 2
            missing -= 1
            if missing == 0:
                self.offset = offset
                self._began = began if len(command) > 3 else -1
                return command
        return None

    def _words_at(self, data: bytes, offset: i64) -> tuple[i64, i64]:
        """The number of words of the command at an offset, and where the first one begins.

        0 words: the number is not there as a whole, is not in plain form, or is not 1 to 999.
        """
        end: i64 = len(data)
        if offset + 4 > end or data[offset] != 42:  # *
            return 0, offset
        first: i64 = data[offset + 1] - 48
        second: i64 = data[offset + 2]
        if not 1 <= first <= 9:
            return 0, offset
        if second == 13:
            return first, offset + 4
        third: i64 = data[offset + 3]
        if not 48 <= second <= 57:
            return 0, offset
        if third == 13:
            return first * 10 + second - 48, offset + 5
        if 48 <= third <= 57 and offset + 5 < end and data[offset + 4] == 13:
            return first * 100 + (second - 48) * 10 + third - 48, offset + 6
        return 0, offset

    def _packed(self, first: list[bytes], most: int) -> Optional[Packed]:
        """The commands that follow the last one, `first`, and are like it; up to `most`."""
        shapes = self._shapes.get(first[0])
        if shapes is None:
            return None
        data, began, offset = self.data, self._began, self.offset
        # Most commands that follow are others, or have another number of arguments.
        if not stands_at(data, offset, data[began : after_arguments(data, began, 1)]):
            return None
        for shape in shapes:
            places = shape.places(first)
            if places is not None:
                like = LikeCommands(data, began, offset, places, self.argument_bytes_max)
                packed = like.take(shape, min(most, shape.most))
                if packed is not None:
                    self.offset = like.offset
                    return packed
        return None

    def give_back(self, batch: Batch, taken: int) -> None:
        """Goes back to behind the first `taken` commands of the last batch."""
        words = len(batch.first)
        at = self._began
        while taken > 0:
            at = after_arguments(self.data, at, words)
            taken -= 1
        self.offset = at

    def _careful(self) -> Optional[list[bytes]]:
        """As `next`, but reads one item at a time and keeps the items of an unfinished command."""
        while True:
            if self.offset == len(self.data):
                if not self.pending or not self._has_needed():
                    return None
                if self.size < 0 or not self._pending_argument():
                    self.data = bytes(self.pending)
                    self.offset = 0
                    self._clear_pending()
            elif self.missing == 0:
                if self.data[self.offset] == 42:
                    self._count()
                else:
                    line = self._line(_NEWLINE, "too big inline request")
                    command = split_inline(line) if line is not None else []
                    if command is None:
                        raise ProtocolError("unbalanced quotes in request")
                    if command:
                        if command[0].lower() in _HTTP_WORDS:
                            raise HttpRequest("HTTP requests are not taken")
                        return command
            elif self.size < 0:
                self._length()
            else:
                self._argument()
            if self.missing == 0 and self.arguments:
                command = self.arguments
                self.arguments = []
                self.arguments_bytes = 0
                return command

    def _count(self) -> None:
        """Reads a command's number of arguments, or stalls."""
        line = self._line(_CARRIAGE_RETURN, "too big mbulk count string")
        if line is None:
            return
        count = parse_integer(line[1:])
        if count is None or count > ARGUMENTS_MAX:
            raise ProtocolError("invalid multibulk length")
        if count > UNAUTHENTICATED_ARGUMENTS_MAX and not self.authenticated:
            raise ProtocolError("unauthenticated multibulk length")
        self.missing = count if count > 0 else 0

    def _length(self) -> None:
        """Reads the length of the next argument, or stalls."""
        line = self._line(_CARRIAGE_RETURN, "too big bulk count string")
        if line is None:
            return
        if line[:1] != b"$":
            # The line is empty when its first byte was the carriage return itself.
            got = (line[:1] or b" ").decode("utf-8", "surrogateescape")
            raise ProtocolError(f"expected '$', got '{got}'")
        size = parse_length(line[1:])
        if size < 0 or size > self.argument_bytes_max:
            raise ProtocolError("invalid bulk length")
        if size > UNAUTHENTICATED_ARGUMENT_BYTES_MAX and not self.authenticated:
            raise ProtocolError("unauthenticated bulk length")
        self.size = size

    def _argument(self) -> None:
        """Reads the next argument's bytes from `data`, or stalls."""
        stop = int(self.offset) + self.size
        if stop + 2 > len(self.data):
            self._stall(self.size + 2)
            return
        self._take(self.data[self.offset : stop])
        self.offset = stop + 2

    def _pending_argument(self) -> bool:
        """Takes the next argument from `pending`, which saves copying a large argument to `data`.

        Returns False if `pending` does not hold the whole argument.
        """
        if len(self.pending) < self.size + 2:
            return False
        size = self.size
        self._take(bytes(memoryview(self.pending)[:size]))
        self.data = bytes(memoryview(self.pending)[size + 2 :])
        self.offset = 0
        self._clear_pending()
        return True

    def _take(self, argument: bytes) -> None:
        self.arguments.append(argument)
        self.arguments_bytes += self.size
        self.missing -= 1
        self.size = -1

    def _line(self, terminator: bytes, too_big: str) -> Optional[bytes]:
        """Reads up to `terminator`, and skips the byte after a carriage return.

        Returns None after stalling. Raises `ProtocolError` with the text `too_big`.
        """
        start = int(self.offset)
        stop = self.data.find(terminator, start, start + LINE_BYTES_MAX + 1)
        if stop < 0:
            if len(self.data) - start > LINE_BYTES_MAX:
                raise ProtocolError(too_big)
            self.terminator = terminator
            self._stall(-1)
            return None
        if terminator == _NEWLINE:
            self.offset = stop + 1
            return self.data[start:stop]
        if stop + 2 > len(self.data):
            self._stall(stop + 2 - start)
            return None
        self.offset = stop + 2
        return self.data[start:stop]

    def _stall(self, needed: int) -> None:
        """Moves the unread bytes to the front of `pending`, and notes how many must be there."""
        unread = bytearray(memoryview(self.data)[self.offset :])
        self.searched = len(unread)
        unread += self.pending
        self.pending = unread
        self.data = b""
        self.offset = 0
        self.needed = needed

    def _has_needed(self) -> bool:
        """Whether `pending` holds what the parser stalled for.

        Also True if a line is too long, for which `_line` then raises.
        """
        if self.needed >= 0:
            return len(self.pending) >= self.needed
        found = self.pending.find(self.terminator, self.searched)
        self.searched = len(self.pending)
        return found >= 0 or self.searched > LINE_BYTES_MAX

    def _clear_pending(self) -> None:
        self.pending = bytearray()
        self.needed = 0


def parse_length(digits: bytes) -> int:
    """The number in `digits`; -1 unless it has at most 19 digits, in its shortest form."""
    if not digits.isdigit() or len(digits) > 19 or (digits[0] == 48 and len(digits) > 1):
        return -1
    return int(digits)


def parse_integer(digits: bytes) -> Optional[int]:
    """The signed 64-bit number in `digits`; None unless it is in its shortest form."""
    if digits[:1] == b"-":
        size = parse_length(digits[1:])
        return -size if 0 < size <= -_MINIMUM_INTEGER else None
    size = parse_length(digits)
    return size if 0 <= size < -_MINIMUM_INTEGER else None
