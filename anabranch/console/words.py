"""A command line as words, with the quoting of redis-cli.

Words are separated by blanks. ``"…"`` knows the escapes ``\\n \\r \\t \\b \\a \\xHH``, and any
other character after a backslash stands for itself. ``'…'`` knows only ``\\'``. After a closing
quote a blank must follow.
"""

from __future__ import annotations

from typing import Final

_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "b": b"\b", "a": b"\a"}
_BLANKS: Final = " \t\n\r\f\v"
_HEX: Final = "0123456789abcdefABCDEF"
LINE_CHARACTERS_MAX: Final = 1 << 20


class WrongQuoting(Exception):
    """A command line whose quotes do not match."""


def split(line: str) -> list[bytes]:
    """The words of a command line; WrongQuoting if its quotes do not match."""
    words: list[bytes] = []
    at = 0
    while True:
        while at < len(line) and line[at] in _BLANKS:
            at += 1
        if at >= len(line):
            return words
        word, at = _word(line, at)
        words.append(word)


def _word(line: str, at: int) -> tuple[bytes, int]:
    """The word that begins at `at`, and the place after it."""
    made = bytearray()
    while at < len(line) and line[at] not in _BLANKS:
        character = line[at]
        if character not in "\"'":
            made += character.encode("utf-8", "surrogatepass")
            at += 1
            continue
        quoted = _double(line, at + 1) if character == '"' else _single(line, at + 1)
        made += quoted[0]
        at = quoted[1]
        if at < len(line) and line[at] not in _BLANKS:
            raise WrongQuoting(f"after the closing {character} at {at} a blank must follow")
    return bytes(made), at


def _double(line: str, at: int) -> tuple[bytes, int]:
    made = bytearray()
    begin = at - 1
    while at < len(line):
        character = line[at]
        if character == '"':
            return bytes(made), at + 1
        if character == "\\" and at + 1 < len(line):
            digits = line[at + 2 : at + 4]
            if line[at + 1] == "x" and len(digits) == 2 and all(one in _HEX for one in digits):
                made.append(int(digits, 16))
                at += 4
                continue
            escaped = line[at + 1]
            made += _ESCAPES.get(escaped, escaped.encode("utf-8", "surrogatepass"))
            at += 2
            continue
        made += character.encode("utf-8", "surrogatepass")
        at += 1
    raise WrongQuoting(f'the " at {begin + 1} is not closed')


def _single(line: str, at: int) -> tuple[bytes, int]:
    made = bytearray()
    begin = at - 1
    while at < len(line):
        if line.startswith("\\'", at):
            made += b"'"
            at += 2
        elif line[at] == "'":
            return bytes(made), at + 1
        else:
            made += line[at].encode("utf-8", "surrogatepass")
            at += 1
    raise WrongQuoting(f"the ' at {begin + 1} is not closed")
