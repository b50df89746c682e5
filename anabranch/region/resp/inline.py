"""Splits inline commands, which a person types into telnet, by Redis's rules for quotes."""

from __future__ import annotations

from typing import Final, Optional

_SPACE: Final = b" \t\n\x0b\x0c\r"
# Bytes that end an unquoted argument. A vertical tab or form feed in an argument is part of it.
_SEPARATORS: Final = b" \t\n\r"
# The letter after a backslash (n, r, t, b, a) and the byte that the pair stands for.
_ESCAPES: Final[dict[int, int]] = {110: 10, 114: 13, 116: 9, 98: 8, 97: 7}
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"
_DOUBLE: Final = 34
_SINGLE: Final = 39
_BACKSLASH: Final = 92


def split_inline(line: bytes) -> Optional[list[bytes]]:
    r"""Splits `line`, which contains no newline, into arguments.

    Returns None if the quotes are not balanced. In ``"…"``, ``\xHH``, ``\n``, ``\r``, ``\t``,
    ``\b`` and ``\a`` are escapes, and any other byte after a backslash stands for itself. In
    ``'…'``, only ``\'`` is an escape. White space or the end of the line must follow a closing
    quote. An opening quote may stand inside an argument: ``ab"c d"`` is one argument.
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
    """Appends the text in double quotes from `offset` on to `argument`.

    Returns the offset after the closing quote, or -1 if the quotes are not balanced.
    """
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
