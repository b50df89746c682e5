"""Expected replies, as a table writes them after an arrow, and their comparison with replies.

A written ID that stands for ``*`` is bound at its first use to an ID that a region generated
(`Bindings`). A reply is compared in its *shape* (`sim.scenario.shape`): rows by name, so that a
stream entry is compared by its ID and a group by its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Union

from anabranch.region.resp.decoder import ErrorText

ID = re.compile(r"\d+-\d+")
SEQ_STEP = 1000
"""S4.1: a generated seq is congruent to its region's id modulo this."""


@dataclass(frozen=True)
class ShownRow:
    """An element that a table names: an entry, a pending entry, a group or a consumer.

    A map is a row, too; its name is empty.
    """

    name: str
    fields: tuple[tuple[str, str], ...] = ()


Shape = Union[None, int, str, ErrorText, ShownRow, list["Shape"]]


@dataclass(frozen=True)
class Nil:
    """``nil``"""

    def __str__(self) -> str:
        return "nil"


@dataclass(frozen=True)
class Anything:
    """``…``: any reply."""

    def __str__(self) -> str:
        return "…"


@dataclass(frozen=True)
class ErrorPrefix:
    """``(error) PREFIX``: an error whose text begins with the prefix."""

    prefix: str

    def __str__(self) -> str:
        return f"(error) {self.prefix}".rstrip()


@dataclass(frozen=True)
class Between:
    """``3..5``: an integer in this range, both ends included."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"


@dataclass(frozen=True)
class Word:
    """A simple or bulk string, an ID, or a row's name with those of its fields that are written."""

    text: str
    fields: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return " ".join([self.text, *(f"{name}={value}" for name, value in self.fields)]).strip()


@dataclass(frozen=True)
class Items:
    """``[a, b]`` in this order, or ``{a, b}`` in any."""

    items: tuple[Expectation, ...]
    ordered: bool = True

    def __str__(self) -> str:
        inside = ", ".join(str(item) for item in self.items)
        return f"[{inside}]" if self.ordered else f"{{{inside}}}"


Expectation = Union[Anything, Nil, ErrorPrefix, Between, Word, Items]


class Bindings:
    """Maps each written ID to a generated ID, one to one."""

    def __init__(self) -> None:
        self.generated: set[str] = set()
        self.bound: dict[str, str] = {}

    def generate(self, region: int, entry_id: str) -> Optional[str]:
        """Records the ID that ``XADD … *`` returned in `region`.

        Returns an error text if the ID is new and does not fit the region (S4.1), else None.
        """
        if entry_id in self.generated:
            return None
        self.generated.add(entry_id)
        seq = int(entry_id.partition("-")[2])
        if seq % SEQ_STEP == region:
            return None
        return f"generated {entry_id}, whose seq is not {region} modulo {SEQ_STEP} (S4.1)"

    def same(self, written: str, actual: str) -> bool:
        """Whether `written` stands for `actual`; binds an unbound ID if that is possible."""
        if written in self.bound:
            return self.bound[written] == actual
        if written == actual:
            return True
        if (
            not ID.fullmatch(written)
            or actual not in self.generated
            or actual in self.bound.values()
        ):
            return False
        if int(written.partition("-")[2]) % SEQ_STEP != int(actual.partition("-")[2]) % SEQ_STEP:
            return False
        self.bound[written] = actual
        return True

    def substitute(self, argv: Sequence[bytes]) -> list[bytes]:
        """`argv` with bound IDs in the place of written ones."""
        return [self._substitute_word(word) for word in argv]

    def _substitute_word(self, word: bytes) -> bytes:
        text = word.decode("utf-8", "surrogateescape")
        open_mark = "(" if text.startswith("(") else ""
        found = self.bound.get(text[len(open_mark) :])
        return word if found is None else (open_mark + found).encode()

    def written(self, text: str) -> str:
        """`text` as messages show it: a generated ID with the name that the table gives it."""
        for name, actual in self.bound.items():
            if actual == text:
                return f"{name} (here {actual})" if name != actual else actual
        return text

    def snapshot(self) -> dict[str, str]:
        """The bindings, for `restore` after a comparison that failed half-way."""
        return dict(self.bound)

    def restore(self, bound: dict[str, str]) -> None:
        """Removes the bindings made since `snapshot`."""
        self.bound = dict(bound)


def matches(expected: Expectation, got: Shape, bindings: Bindings) -> bool:
    """Whether a reply is as expected; IDs are bound only if it is."""
    before = bindings.snapshot()
    if _matches(expected, got, bindings):
        return True
    bindings.restore(before)
    return False


def _matches(expected: Expectation, got: Shape, bindings: Bindings) -> bool:
    if isinstance(expected, Anything):
        return True
    if isinstance(expected, Nil):
        return got is None
    if isinstance(expected, ErrorPrefix):
        return isinstance(got, ErrorText) and got.text.startswith(expected.prefix)
    if isinstance(expected, Between):
        return _matches_between(expected, got)
    if isinstance(expected, Word):
        return _matches_word(expected, got, bindings)
    return _matches_items(expected, got, bindings)


def _matches_between(expected: Between, got: Shape) -> bool:
    if isinstance(got, str) and re.fullmatch(r"-?\d+", got):
        got = int(got)
    return isinstance(got, int) and expected.low <= got <= expected.high


def _matches_word(expected: Word, got: Shape, bindings: Bindings) -> bool:
    if isinstance(got, (str, int)):
        return not expected.fields and bindings.same(expected.text, str(got))
    if not isinstance(got, ShownRow) or not bindings.same(expected.text, got.name):
        return False
    have = dict(got.fields)
    return all(name in have and bindings.same(value, have[name]) for name, value in expected.fields)


def _matches_items(expected: Items, got: Shape, bindings: Bindings) -> bool:
    if not expected.items:
        return (
            got is None
            or got == []
            or (isinstance(got, ErrorText) and got.text.startswith("ERR no such key"))
        )
    if not isinstance(got, list) or len(got) != len(expected.items):
        return False
    if expected.ordered:
        return all(
            _matches(item, one, bindings) for item, one in zip(expected.items, got, strict=True)
        )
    rest = list(got)
    for item in expected.items:
        found = next((n for n, one in enumerate(rest) if matches(item, one, bindings)), None)
        if found is None:
            return False
        rest.pop(found)
    return True


def words_in(expected: Expectation) -> set[str]:
    """All words and IDs of an expected reply, names of rows included."""
    if isinstance(expected, Items):
        return {word for item in expected.items for word in words_in(item)}
    return {expected.text} if isinstance(expected, Word) else set()


def render(got: Shape, bindings: Bindings) -> str:
    """A reply as a table would write it."""
    if got is None:
        return "nil"
    if isinstance(got, ErrorText):
        return f"(error) {got.text}"
    if isinstance(got, ShownRow):
        return " ".join(
            [bindings.written(got.name), *(f"{name}={value}" for name, value in got.fields)]
        ).strip()
    if isinstance(got, list):
        return "[" + ", ".join(render(one, bindings) for one in got) + "]"
    return bindings.written(str(got))
