"""Text for the terminal: harmless values, words for a shell, counts with nouns, columns.

Names of keys, groups and consumers are any bytes. A control character among them could move the
cursor, change colours or forge lines, so no command prints it as it is.
"""

from __future__ import annotations

import io
import shlex
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# Controls, surrogates, and separators of lines and paragraphs.
_ESCAPED: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Characters that change the direction of the text after them.
_DIRECTIONS: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
# `surrogateescape` decodes a byte above 127 that is not UTF-8 to this code plus the byte.
_SURROGATES: Final = 0xDC00
# `Output` leaves these characters as they are.
_LAYOUT: Final = frozenset("\n\t")


def _is_harmful(character: str) -> bool:
    return unicodedata.category(character) in _ESCAPED or character in _DIRECTIONS


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code < 0x80:
        return f"\\x{code:02x}"
    if _SURROGATES + 0x80 <= code <= _SURROGATES + 0xFF:
        return f"\\x{code - _SURROGATES:02x}"
    return f"\\u{code:04x}"


def shown(value: bytes | str) -> str:
    """A value with escapes for backslashes, control characters and bytes that are not UTF-8.

    Different values have different texts. In a `str`, the bytes that are not UTF-8 are surrogates
    (``surrogateescape``), as in ``sys.argv``.
    """
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        _escape(character) if character == "\\" or _is_harmful(character) else character
        for character in text
    )


def harmless(text: str) -> str:
    """Lines of output with escapes for control characters; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        _escape(character) if character not in _LAYOUT and _is_harmful(character) else character
        for character in text
    )


def shell_word(value: bytes) -> str:
    """A value as a word that can be pasted into a shell (bash, zsh)."""
    text = value.decode("utf-8", "surrogateescape")
    if not any(_is_harmful(character) for character in text):
        return shlex.quote(text)
    body = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in value
    )
    return f"$'{body}'"


def columns(rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Lines with aligned cells. `right` are the columns that are aligned to the right."""
    table = [list(row) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if n in right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def table(
    heads: list[str], rows: list[list[str]], right: frozenset[int], width: int | None
) -> list[str]:
    """Lines with aligned columns, or with one value each if they are wider than `width`.

    `right` are the columns that are aligned to the right. A `width` of None is any.
    """
    lines = columns([heads, *rows], right)
    if width is None or max(map(len, lines)) <= width:
        return lines
    made: list[str] = []
    for row in rows:
        made += ["", *columns(zip([f"{head}:" for head in heads], row, strict=True))]
    return made[1:]


class Output(io.TextIOWrapper):
    """A text stream that writes no control characters, except newlines and tabs."""

    def write(self, text: str, /) -> int:
        super().write(harmless(text))
        return len(text)


def guard_streams() -> None:
    """Makes stdout and stderr write no control characters.

    Reports, errors and logs repeat names of keys and arguments of the command line. A command with
    colours of its own writes to `coloured`, and escapes its values itself.
    """
    sys.stdout = _guarded(sys.stdout)
    sys.stderr = _guarded(sys.stderr, line_buffering=True)


def _guarded(stream: TextIO, line_buffering: bool = False) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream, Output):
        return stream
    stream.flush()
    return Output(
        stream.buffer,
        stream.encoding,
        "backslashreplace",
        line_buffering=line_buffering or stream.line_buffering,
    )


def coloured() -> Console:
    """A console that writes colours to stdout, if that is a terminal."""
    # Imported here: the import takes long, and few commands need it.
    from rich.console import Console

    return Console(file=sys.__stdout__)
