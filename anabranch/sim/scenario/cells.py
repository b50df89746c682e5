"""The text of one cell as tokens.

A cell holds commands in backticks, arrows, labels of clients, faults, and the directives Sync, Cut,
Heal and wait. It is scanned once, left to right, into `Token`s; any other text is an error that
shows the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.sim.scenario.expectation import (
    Anything,
    Between,
    ErrorPrefix,
    Expectation,
    Items,
    Nil,
    Word,
)
from anabranch.sim.scenario.fault_cells import CellFault, fault_of
from anabranch.sim.scenario.model import CLIENT_MAX

_DIRECTIVE = re.compile(
    r"(?:[—–-]\s*)?(sync|cut|heal)\b\s*[—–-]?\s*[,:;]?\s*(.*)", re.IGNORECASE | re.DOTALL
)
_WAIT = re.compile(r"(?:[—–-]\s*)?wait\s+(\d+)\s*(ms|s)\s*[—–-]?", re.IGNORECASE)
_HANG_UP = re.compile(r"(?:[—–-]\s*)?hang up\b\s*[—–-]?", re.IGNORECASE)
_LABEL = re.compile(r"(\d+):\s*")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_EMPHASIS = re.compile(r"\*\*|(?<![\w*])[_*](?=[—–-])|(?<=[—–-])[_*](?!\w)")
_EFFECT = re.compile(r"([\w-]+)\s*=\s*(\d+)")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


@dataclass(frozen=True)
class Command:
    """A command to the cell's region."""

    argv: tuple[bytes, ...]


@dataclass(frozen=True)
class Arrow:
    """The expected reply; None for ``(blocked)``: the command must not answer yet."""

    expected: Expectation | None


@dataclass(frozen=True)
class Directive:
    """``sync``, ``cut`` or ``heal``; `effects` by the names that the cell uses."""

    kind: str
    effects: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Pause:
    """``wait 300 ms``"""

    duration_ms: int


@dataclass(frozen=True)
class Label:
    """``3:``: the client that sends what follows, up to the next label or the cell's end.

    Client 0 is the region's own client.
    """

    client: int


@dataclass(frozen=True)
class Leave:
    """``hang up``"""


Token = Command | Arrow | Directive | Pause | Label | Leave | CellFault


def tokens_of(cell: str) -> list[Token]:
    """The tokens of a cell, in order; ValueError says what is wrong with the text."""
    bare = _EMPHASIS.sub("", cell).strip("*_ ")
    directive = _DIRECTIVE.fullmatch(bare)
    if directive is not None:
        return [Directive(directive[1].lower(), _effects(directive[1].lower(), directive[2]))]
    fault = fault_of(bare)
    if fault is not None:
        return [fault]
    found: list[Token] = []
    rest = cell.strip()
    while rest:
        token, rest = _next(rest)
        if token is not None:
            found.append(token)
    return found


def _next(rest: str) -> tuple[Token | None, str]:
    """The first token (None for a line break or emphasis), and the text behind it."""
    for skipped in (_BREAK.match(rest), re.match(r"[\s*_]+|[.;,]\s", rest)):
        if skipped is not None:
            return None, rest[skipped.end() :]
    if rest[0] == "`":
        end = rest.find("`", 1)
        if end < 0:
            raise ValueError(f"a backtick is not closed: {rest}")
        return Command(words_of(rest[1:end])), rest[end + 1 :]
    if rest[0] == "→":
        return _arrow(rest[1:].lstrip(" *_"))
    pause = _WAIT.match(rest)
    if pause is not None:
        return Pause(int(pause[1]) * (1000 if pause[2].lower() == "s" else 1)), rest[pause.end() :]
    label = _LABEL.match(rest)
    if label is not None:
        if int(label[1]) > CLIENT_MAX:
            raise ValueError(f"a client's label is a number up to {CLIENT_MAX}, not {label[1]}")
        return Label(int(label[1])), rest[label.end() :]
    leave = _HANG_UP.match(rest)
    if leave is not None:
        return Leave(), rest[leave.end() :]
    raise ValueError(
        "text outside backticks that is neither an arrow, a label, Sync, Cut, Heal, wait, hang up"
        f" nor a fault: '{rest}'"
    )


def _arrow(rest: str) -> tuple[Token, str]:
    if rest.startswith("`"):
        end = rest.find("`", 1)
        written, rest = (rest[1:end], rest[end + 1 :]) if end > 0 else ("", "")
    else:
        ends = re.search(r"`|→|<br\s*/?>|(?<=\s)\d+:\s*(?=[`→h])", rest, re.IGNORECASE)
        stop = ends.start() if ends else len(rest)
        written, rest = rest[:stop], rest[stop:]
    written = written.strip().removesuffix("**").strip()
    if not written:
        raise ValueError("an arrow without an expected reply")
    return Arrow(None if written == "(blocked)" else expectation_of(written)), rest


def _effects(kind: str, written: str) -> tuple[tuple[str, int], ...]:
    if not written:
        return ()
    if kind != "sync" or not re.fullmatch(r"effects(?:\s+[\w-]+\s*=\s*\d+,?)+", written.strip()):
        raise ValueError(
            f"after {kind.capitalize()} may only stand `effects NAME=NUMBER …`, not '{written}'"
        )
    return tuple((name, int(number)) for name, number in _EFFECT.findall(written))


def words_of(line: str) -> tuple[bytes, ...]:
    """Splits a command line as redis-cli does.

    Double quotes take ``\\n``, ``\\"`` and ``\\xHH``, single quotes only ``\\'``.
    """
    words: list[bytes] = []
    at = 0
    while True:
        while at < len(line) and line[at].isspace():
            at += 1
        if at == len(line):
            break
        word, at = _word(line, at)
        words.append(word)
    if not words or not re.fullmatch(rb"[A-Za-z][\w.-]*", words[0]):
        raise ValueError(f"no command: `{line}`")
    return tuple(words)


def _word(line: str, at: int) -> tuple[bytes, int]:
    if line[at] not in "\"'":
        end = at
        while end < len(line) and not line[end].isspace():
            end += 1
        return line[at:end].encode("utf-8", "surrogateescape"), end
    quote, at = line[at], at + 1
    word = bytearray()
    while at < len(line) and line[at] != quote:
        if line[at] == "\\" and at + 1 < len(line):
            escaped, at = _escaped(line, at + 1, quote)
            word += escaped
        else:
            word += line[at].encode("utf-8", "surrogateescape")
            at += 1
    if at == len(line):
        raise ValueError(f"a quote is not closed: `{line}`")
    if at + 1 < len(line) and not line[at + 1].isspace():
        raise ValueError(f"a closing quote is followed by no space: `{line}`")
    return bytes(word), at + 1


def _escaped(line: str, at: int, quote: str) -> tuple[bytes, int]:
    code = re.compile(r"x([0-9a-fA-F]{2})").match(line, at)
    if quote == '"' and code is not None:
        return bytes([int(code[1], 16)]), code.end()
    if quote == '"' and line[at] in _ESCAPES:
        return _ESCAPES[line[at]].encode(), at + 1
    return (line[at] if line[at] in ('"', "'", "\\") else "\\" + line[at]).encode(), at + 1


def expectation_of(written: str) -> Expectation:
    """The expected reply behind an arrow; ValueError says what is wrong with the text."""
    expected, rest = _expectation(written, "")
    if rest.strip():
        raise ValueError(f"'{rest.strip()}' follows the expected reply in '{written}'")
    return expected


def _expectation(written: str, ends: str) -> tuple[Expectation, str]:
    """One expected reply, up to a character of `ends`, and the text behind it."""
    written = written.lstrip()
    if written[:1] in ("[", "{"):
        return _items(written)
    if written.startswith('"'):
        end = re.compile(r'"((?:[^"\\]|\\.)*)"').match(written)
        if end is None:
            raise ValueError(f"a quote is not closed in '{written}'")
        return Word(re.sub(r"\\(.)", r"\1", end[1])), written[end.end() :]
    stop = next((n for n, letter in enumerate(written) if letter in ends), len(written))
    return _scalar(written[:stop].strip()), written[stop:]


def _items(written: str) -> tuple[Expectation, str]:
    close = "]" if written[0] == "[" else "}"
    items: list[Expectation] = []
    rest = written[1:].lstrip()
    while not rest.startswith(close):
        item, rest = _expectation(rest, "," + close)
        items.append(item)
        rest = rest.lstrip()
        if rest.startswith(","):
            rest = rest[1:].lstrip()
        elif not rest.startswith(close):
            raise ValueError(f"'{close}' is missing in '{written}'")
    return Items(_map_fields(items), ordered=close == "]"), rest[1:]


def _map_fields(items: Sequence[Expectation]) -> tuple[Expectation, ...]:
    """Joins fields of a map, such as ``[length=1, groups=0]``, into one row without a name."""
    nameless = [item for item in items if isinstance(item, Word) and not item.text and item.fields]
    if nameless and len(nameless) == len(items):
        return (Word("", tuple(pair for item in nameless for pair in item.fields)),)
    return tuple(items)


def _scalar(written: str) -> Expectation:
    if not written:
        raise ValueError("an empty item in the expected reply")
    if written in ("…", "..."):
        return Anything()
    if written in ("nil", "(nil)"):
        return Nil()
    if written.startswith("(error)"):
        return ErrorPrefix(written.removeprefix("(error)").strip())
    number = re.fullmatch(r"(?:\(integer\)\s*)?(-?\d+)(?:\.\.(-?\d+))?", written)
    if number is not None:
        return Between(int(number[1]), int(number[2] or number[1]))
    first, *others = written.split()
    if all(re.fullmatch(r"[\w-]+=\S+", other) for other in others) and (others or "=" in first):
        named = "" if re.fullmatch(r"[\w-]+=\S+", first) else first
        pairs = others if named else [first, *others]
        return Word(
            named, tuple((pair.partition("=")[0], pair.partition("=")[2]) for pair in pairs)
        )
    return Word(written)
