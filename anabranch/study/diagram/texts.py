"""Visible text of any bytes, and lines of limited length.

Lengths count columns of a monospaced font: a wide character of East Asian scripts counts two, a
combining mark none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_ESCAPED_BYTE: Final = 0xDC00
CUT: Final = "…"


def visible(value: bytes | str) -> str:
    """A value with escapes for control characters, bytes that are not UTF-8, and backslashes.

    The result holds printable characters only, so it may stand in XML once ``&<>"`` are replaced.
    """
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(one if one.isprintable() and one != "\\" else _escape(one) for one in text)


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if _ESCAPED_BYTE + 0x80 <= code <= _ESCAPED_BYTE + 0xFF:
        return f"\\x{code - _ESCAPED_BYTE:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"


def word(value: bytes) -> str:
    """A word of a command as a person would type it: in quotes if it is empty or has spaces."""
    text = visible(value)
    if text and not any(mark in text for mark in " '\""):
        return text
    return '"' + text.replace('"', '\\"') + '"'


def columns_of(text: str) -> int:
    """The columns that a text takes in a monospaced font."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, columns: int) -> str:
    """The text in at most `columns` columns; a text that was cut ends with an ellipsis."""
    if columns_of(text) <= columns:
        return text
    kept, used = "", 0
    for character in text:
        used += _width(character)
        if used > columns - 1:
            break
        kept += character
    return kept.rstrip() + CUT


def short_time(ms: int) -> str:
    """A time in at most seven columns: ``850 ms``, ``12.34 s``, ``16m 40s``, ``5h 00m``, ``5d 4h``.

    Digits that have no room are left out, not rounded.
    """
    seconds, minutes = ms // 1000, ms // 60_000
    if ms < 10_000:
        return f"{ms} ms"
    if seconds < 100:
        return f"{seconds}.{ms % 1000 // 10:02d} s"
    if minutes < 100:
        return f"{minutes}m {seconds % 60:02d}s"
    if minutes < 6000:
        return f"{minutes // 60}h {minutes % 60:02d}m"
    return f"{minutes // 1440}d {minutes // 60 % 24}h"


class Run(NamedTuple):
    """Text of one style. A `whole` run is not broken over lines."""

    text: str
    style: str
    whole: bool = False


class Piece(NamedTuple):
    """Text of one style in a line, `column` columns from its beginning."""

    column: int
    text: str
    style: str
    is_whole: bool


def flowed(runs: Sequence[Run], columns: int, lines_max: int) -> tuple[list[list[Piece]], bool]:
    """The runs as lines of at most `columns` columns, broken at spaces.

    The second result says whether text was cut: words that are too long for a line, and words
    beyond the last line. Whole runs are never left out; they may need further lines.
    """
    lines: list[list[Piece]] = [[]]
    was_cut = False
    is_full = False
    for run in runs:
        words = [run.text] if run.whole else run.text.split()
        for text in words:
            if is_full and not run.whole:
                continue
            short = cut(text, columns)
            was_cut = was_cut or short != text
            if lines[-1] and _taken(lines[-1]) + 1 + columns_of(short) > columns:
                if len(lines) >= lines_max and not run.whole:
                    is_full = was_cut = True
                    _end(lines[-1], columns, run.style)
                    continue
                lines.append([])
            _put(lines[-1], short, run)
    return lines, was_cut


def _put(line: list[Piece], text: str, run: Run) -> None:
    """Appends a word to a line."""
    if line and not run.whole and line[-1].style == run.style and not line[-1].is_whole:
        last = line.pop()
        line.append(last._replace(text=f"{last.text} {text}"))
    else:
        line.append(Piece(_taken(line) + 1 if line else 0, text, run.style, run.whole))


def _taken(line: list[Piece]) -> int:
    """The columns that a line takes."""
    return line[-1].column + columns_of(line[-1].text) if line else 0


def _end(line: list[Piece], columns: int, style: str) -> None:
    """Puts an ellipsis behind a line whose further words are left out.

    A whole piece at the end of a line that has no room stays as it is.
    """
    last = line[-1]
    if not last.is_whole:
        line[-1] = last._replace(text=cut(f"{last.text} {CUT}", columns - last.column))
    elif _taken(line) + 1 + columns_of(CUT) <= columns:
        line.append(Piece(_taken(line) + 1, CUT, style, False))
