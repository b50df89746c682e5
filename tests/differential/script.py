"""Case files: commands to run on both sides, as text.

    # title             begins a case with two empty sides
    XADD s 1-1 a 1      a command; a prefix `b> ` chooses connection b
    XLEN s
    ! reason            the reply to the last command differs from that of Redis on purpose
    ? reason            it may differ, because that of Redis varies
    = :2                the reply of this region, as `replies.show` prints it; … matches anything

Words are separated by spaces; quotes and backslashes are as in Python.
"""

from __future__ import annotations

import ast
import fnmatch
import re
from pathlib import Path

from tests.differential.replies import show
from tests.differential.settled import settle
from tests.differential.sides import Pair

CASES = Path(__file__).parent / "cases"
_WORD = re.compile(r'"(?:\\.|[^"\\])*"|\S+')


class Line:
    """One command of a case file.

    If this region's reply differs from that of Redis on purpose, `expected` holds it, and `reason`
    the reason. With `may_be_equal` both may also be equal.
    """

    def __init__(self, number: int, connection: str, words: list[bytes]) -> None:
        self.number = number
        self.connection = connection
        self.words = words
        self.reason = ""
        self.expected = ""
        self.may_be_equal = False


class Case:
    """The commands under one title."""

    def __init__(self, file: str, title: str) -> None:
        self.file = file
        self.title = title
        self.lines: list[Line] = []

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"


def split(text: str) -> list[bytes]:
    """The words of a command."""
    words: list[bytes] = []
    for word in _WORD.findall(text):
        words.append(ast.literal_eval(f"b{word}") if word.startswith('"') else word.encode())
    return words


def cases() -> list[Case]:
    """All cases of all files."""
    found: list[Case] = []
    for path in sorted(CASES.glob("*.txt")):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            line = text.strip()
            if line.startswith("# "):
                found.append(Case(path.stem, line[2:]))
            elif line.startswith(("! ", "? ")):
                found[-1].lines[-1].reason = line[2:]
                found[-1].lines[-1].may_be_equal = line[0] == "?"
            elif line.startswith("= "):
                found[-1].lines[-1].expected = line[2:]
            elif line:
                connection, _, rest = (
                    line.partition("> ") if re.match(r"[a-z]> ", line) else ("a", "", line)
                )
                found[-1].lines.append(Line(number, connection, split(rest)))
    return found


def play(case: Case, pair: Pair) -> list[str]:
    """Runs a case. Returns one message for each wrong reply."""
    wrong: list[str] = []
    for line in case.lines:
        theirs, own = pair.run(line.words, line.connection)
        where = f"{case.file}.txt:{line.number} {b' '.join(line.words).decode('latin-1')}"
        if line.expected:
            if not fnmatch.fnmatchcase(
                show(own), line.expected.replace("[", "[[]").replace("…", "*")
            ):
                wrong.append(f"{where}\n    expected {line.expected}\n    ours     {own}")
            elif theirs == own and not line.may_be_equal:
                wrong.append(f"{where}\n    should differ ({line.reason}), but both answer {own}")
            continue
        their_rest, own_rest = settle(line.words, theirs, own)
        if their_rest != own_rest:
            wrong.append(f"{where}\n    redis {their_rest}\n    ours  {own_rest}")
    return wrong
