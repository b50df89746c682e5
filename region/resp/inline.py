"""Inline commands: a line such as a person types into telnet, with quotes (Redis's rules)."""

from __future__ import annotations

from typing import Final, Optional

_SPACE: Final = b" \t\n\x0b\x0c\r"
# These end an unquoted argument; a vertical tab or form feed inside one belongs to it.
_SEPARATORS: Final = b" \t\n\r"
_ESCAPES: Final[dict[int, int]] = {110: 10, 114: 13, 116: 9, 98: 8, 97: 7}  # n r t b a
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"
_DOUBLE: Final = 34
_SINGLE: Final = 39
_BACKSLASH: Final = 92


def split_inline(line: bytes) -> Optional[list[bytes]]:
    r"""The arguments of `line`, which bears no newline; None when its quotes are not balanced.

    ``"…"`` knows ``\xHH``, ``\n \r \t \b \a`` and takes any other byte after a backslash as itself; ``'…'`` knows only ``\'``.
    A closing quote must be followed by white space. An opening one may stand inside an argument: ``ab"c d"`` is one.
    """
    if b'"' not in line and b"'" not in line and b"\x0b" not in line and b"\x0c" not in line:
        return line.split()
    arguments: list[bytes] = []
    offset = 0
    end = len(line)
    while True:
        while offset < end and line[offset] in _SPACE:
            offset += 1
        if offset >= end:
            return arguments
        argument = bytearray()
        while offset < end and line[offset] not in _SEPARATORS:
            byte = line[offset]
            offset += 1
            if byte == _DOUBLE:
                offset = _double_quoted(line, offset, argument)
            elif byte == _SINGLE:
                offset = _single_quoted(line, offset, argument)
            else:
                argument.append(byte)
                continue
            if offset < 0:
                return None
            break
        arguments.append(bytes(argument))


def _double_quoted(line: bytes, offset: int, argument: bytearray) -> int:
    """Appends what stands in double quotes from `offset` on; returns the place after the closing one, or -1."""
    end = len(line)
    while offset < end:
        byte = line[offset]
        offset += 1
        if byte == _DOUBLE:
            return offset if offset == end or line[offset] in _SPACE else -1
        if byte == _BACKSLASH and offset < end:
            byte = line[offset]
            if (
                byte == 120
                and offset + 2 < end
                and line[offset + 1] in _HEX_DIGITS
                and line[offset + 2] in _HEX_DIGITS
            ):
                byte = int(line[offset + 1 : offset + 3], 16)
                offset += 2
            else:
                byte = _ESCAPES.get(byte, byte)
            offset += 1
        argument.append(byte)
    return -1


def _single_quoted(line: bytes, offset: int, argument: bytearray) -> int:
    """As `_double_quoted`, for single quotes."""
    end = len(line)
    while offset < end:
        byte = line[offset]
        offset += 1
        if byte == _SINGLE:
            return offset if offset == end or line[offset] in _SPACE else -1
        if byte == _BACKSLASH and offset < end and line[offset] == _SINGLE:
            byte = _SINGLE
            offset += 1
        argument.append(byte)
    return -1
