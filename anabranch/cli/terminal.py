"""Text for the terminal: harmless values, words for a shell, counts with nouns, columns.

No command prints a control character of a value as it is (`escapes.shown`).
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from anabranch.escapes import harmless as harmless
from anabranch.escapes import is_harmful
from anabranch.escapes import shown as shown

if TYPE_CHECKING:
    from rich.console import Console


# The numbers of stdin, stdout and stderr are below.
_STREAMS: Final = 3
# In a narrower terminal, lines are not broken further.
_COLUMNS_LEAST: Final = 40


def shell_word(value: bytes) -> str:
    """A value as a word that can be pasted into a shell (bash, zsh)."""
    text = value.decode("utf-8", "surrogateescape")
    if not any(is_harmful(character) for character in text):
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


def seconds(text: str) -> str:
    """Milliseconds as they are shown: ``0.3 s``; a question mark for anything but digits."""
    return f"{int(text) / 1000:.1f} s" if text.isdigit() else "?"


def width() -> int | None:
    """The columns of the terminal to which the output goes; None if it goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(lines: Iterable[str], columns_max: int | None) -> list[str]:
    """Sentences, broken between words at this width (None: any).

    The rest of a sentence is indented by two more than its first line. A word that is longer than
    the width stays whole, so that it can be copied.
    """
    if columns_max is None:
        return list(lines)
    found: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip(" ")))
        found += textwrap.wrap(
            line,
            max(columns_max, _COLUMNS_LEAST),
            subsequent_indent=indent + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        ) or [line]
    return found


class Output(io.TextIOWrapper):
    """A text stream that writes no control characters, except newlines and tabs."""

    def write(self, text: str, /) -> int:
        super().write(harmless(text))
        return len(text)


def guard_streams() -> None:
    """Makes stdout and stderr write no control characters.

    Reports, errors and logs repeat names of keys and arguments of the command line. A command with
    colours of its own writes to `coloured`, and escapes its values itself.

    A stream that is closed, as some daemons close them, becomes one that drops what is written.
    """
    for number in range(_STREAMS):
        _open_if_closed(number)
    sys.stdout = _dropping(1) if sys.stdout is None else _guarded(sys.stdout)
    sys.stderr = _dropping(2) if sys.stderr is None else _guarded(sys.stderr, line_buffering=True)


def _open_if_closed(number: int) -> None:
    """Gives a closed standard stream a file, so that no other file or socket gets its number.

    The lower ones must be open. Processes that this one starts inherit it.
    """
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, os.O_RDWR)
        os.set_inheritable(number, True)


def _dropping(number: int) -> Output:
    return Output(open(number, "wb", closefd=False), "utf-8", "backslashreplace")


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


class Progress:
    """A line on stderr, which must be a terminal, that shows how far a copy is."""

    def __init__(self, what: str) -> None:
        self._what: Final = harmless(what)
        self._shown = ""

    def tell(self, done: int, total: int) -> None:
        """Shows the bytes that are copied, of about `total`."""
        percent = 100 * done // total if total else 100
        text = f"{self._what}: {done:,} of {total:,} bytes, {percent} %"
        if text != self._shown:
            self._write(f"\r{text.ljust(len(self._shown))}")
            self._shown = text

    def end(self) -> None:
        """Takes the line away."""
        if self._shown:
            self._write(f"\r{' ' * len(self._shown)}\r")
            self._shown = ""

    def _write(self, text: str) -> None:
        # `sys.stderr` writes no control characters.
        if sys.__stderr__ is not None:
            sys.__stderr__.write(text)
            sys.__stderr__.flush()


def coloured() -> Console:
    """A console that writes colours to stdout, if that is a terminal."""
    # Imported here: the import takes long, and few commands need it.
    from rich.console import Console

    return Console(file=sys.__stdout__)
