"""A naive request parser, as an oracle: it reads a whole stream item by item, without any state."""

from __future__ import annotations

import re

LINE_BYTES_MAX = 64 * 1024
ARGUMENTS_MAX = 1024 * 1024
SPACE = b" \t\n\x0b\x0c\r"
ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


# A protocol error; its argument is the text.
class Refused(Exception):
    pass


# The stream ends within a command.
class NeedsMore(Exception):
    pass


def parse_stream(
    stream: bytes, argument_bytes_max: int, authenticated: bool = True
) -> tuple[list[list[bytes]], str | None]:
    """All commands of `stream`, and the protocol error that ends it, or None."""
    commands: list[list[bytes]] = []
    try:
        while stream:
            command, stream = parse_one(stream, argument_bytes_max, authenticated)
            if command:
                commands.append(command)
    except NeedsMore:
        pass
    except Refused as refusal:
        return commands, "Protocol error: " + str(refusal)
    return commands, None


def parse_one(
    stream: bytes, argument_bytes_max: int, authenticated: bool
) -> tuple[list[bytes], bytes]:
    """The first command of `stream`, and the rest of it. Raises Refused or NeedsMore."""
    if not stream.startswith(b"*"):
        line, rest = cut_line(stream, b"\n", 1, "too big inline request")
        return split_line(line), rest
    line, rest = cut_line(stream, b"\r", 2, "too big mbulk count string")
    count = number(line[1:])
    if count is None or count > ARGUMENTS_MAX:
        raise Refused("invalid multibulk length")
    if count > 10 and not authenticated:
        raise Refused("unauthenticated multibulk length")
    command = []
    for _ in range(count):
        line, rest = cut_line(rest, b"\r", 2, "too big bulk count string")
        if not line.startswith(b"$"):
            got = (line[:1] or b" ").decode("utf-8", "surrogateescape")
            raise Refused(f"expected '$', got '{got}'")
        size = number(line[1:])
        if size is None or not 0 <= size <= argument_bytes_max:
            raise Refused("invalid bulk length")
        if size > 16384 and not authenticated:
            raise Refused("unauthenticated bulk length")
        if len(rest) < size + 2:
            raise NeedsMore
        command.append(rest[:size])
        rest = rest[size + 2 :]
    return command, rest


def cut_line(stream: bytes, terminator: bytes, skip: int, too_big: str) -> tuple[bytes, bytes]:
    """A line of `stream`, and the rest after it.

    The line ends before `terminator`; `skip` bytes are skipped from there.
    """
    stop = stream.find(terminator)
    if stop > LINE_BYTES_MAX or (stop < 0 and len(stream) > LINE_BYTES_MAX):
        raise Refused(too_big)
    if stop < 0 or len(stream) < stop + skip:
        raise NeedsMore
    return stream[:stop], stream[stop + skip :]


def number(digits: bytes) -> int | None:
    """The integer that Redis parses from these digits, None if it refuses them."""
    if not re.fullmatch(rb"0|-?[1-9][0-9]*", digits):
        return None
    value = int(digits)
    return value if -(1 << 63) <= value < 1 << 63 else None


def split_line(line: bytes) -> list[bytes]:
    """The arguments of an inline command."""
    arguments = []
    while line := line.lstrip(SPACE):
        argument = b""
        while line and line[:1] not in (b" ", b"\t", b"\r"):
            character, line = line[:1], line[1:]
            if character not in (b'"', b"'"):
                argument += character
                continue
            quoted, line = read_quoted(character, line)
            argument += quoted
            if line and line[:1] not in [bytes([byte]) for byte in SPACE]:
                raise Refused("unbalanced quotes in request")
            break
        arguments.append(argument)
    return arguments


def read_quoted(quote: bytes, line: bytes) -> tuple[bytes, bytes]:
    """The quoted text at the begin of `line`, without quotes, and the rest after it."""
    value = b""
    while line:
        if line.startswith(quote):
            return value, line[1:]
        if quote == b'"' and re.match(rb"\\x[0-9a-fA-F]{2}", line):
            value += bytes.fromhex(line[2:4].decode())
            line = line[4:]
        elif quote == b'"' and line.startswith(b"\\") and len(line) > 1:
            value += ESCAPES.get(line[1:2], line[1:2])
            line = line[2:]
        elif quote == b"'" and line.startswith(b"\\'"):
            value += b"'"
            line = line[2:]
        else:
            value += line[:1]
            line = line[1:]
    raise Refused("unbalanced quotes in request")
