"""Commands drawn from the command table: their syntax, filled with usual and with hostile words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from anabranch.region.engine import registry
from anabranch.region.engine.settings import ALL

KEYS: Final = (b"s", b"t", b"u", b"v", b"w")
GROUPS: Final = (b"g", b"h")

_NUMBERS: Final = (
    *(
        b"-1",
        b"00",
        b"01",
        b"-0",
        b"+1",
        b"1.0",
        b"1e3",
        b"1e400",
        b"nan",
        b"inf",
        b"-inf",
        b"0x10",
    ),
    *(b"", b" 1", b"1 ", b"1_0", "٣".encode(), b"1\0", b"9" * 5000, b"1" + b"0" * 30),
    *(
        b"%d" % (sign * (1 << bits) + more)
        for sign in (1, -1)
        for bits in (31, 32, 53, 63, 64)
        for more in (-1, 0, 1)
    ),
)
_IDS: Final = (
    *(
        b"-",
        b"+",
        b"$",
        b">",
        b"*",
        b"0",
        b"0-0",
        b"0-1",
        b"(1-1",
        b"(",
        b"(-",
        b"(+",
        b"((1",
        b"1-",
    ),
    *(b"-1", b"-1-1", b"1--1", b"1-1-1", b"1-*", b"0-*", b"*-1", b"1-+", "٣-٣".encode(), b"1-1\0"),
    *(
        b"%d-%d" % (ms, seq)
        for ms in (0, 1, (1 << 63), (1 << 64) - 1, 1 << 64)
        for seq in (0, (1 << 63) - 1, (1 << 64) - 1, 1 << 64)
    ),
    *(b"9" * 5000, b"1-" + b"9" * 5000, b"281474976710655-5", b"281474976710656-5"),
)
_TEXTS: Final = (
    *(
        b"",
        b"\0",
        b"a\0b",
        b"\r\n",
        b"a\r\nb",
        b"\xff",
        b"\xc3\x28",
        "é".encode(),
        b" ",
        b"'",
        b'"',
    ),
    *(b"x" * 300, b"x" * 70_000, b"\\", b"*", b"[", b"[a", b"[^", b"[z-a]", b"a*" * 30, b"?" * 40),
    *(b"$5\r\nhello\r\n", b"*1\r\n", b"-ERR", b"%s%n", b"{}", b"\x1b[31m"),
)
HOSTILE: Final = (*_NUMBERS, *_IDS, *_TEXTS)

# The words that usually fill a place of the syntax, by its name.
_USUAL: Final[dict[str, Sequence[bytes]]] = {
    "key": KEYS,
    "newkey": KEYS,
    "group": GROUPS,
    "consumer": (b"c", b"d"),
    "field": (b"f", b"g", b"h"),
    "value": (b"1", b"x", b"y" * 100),
    "pid": (b"p", b"q"),
    "iid": (b"1", b"2", b"3", b"4"),
    "count": (b"0", b"1", b"2", b"100"),
    "region": (b"1", b"2", b"us", b"eu"),
    "peer": (b"eu", b"us"),
    "name": (b"eu", b"us", b"string", b"read", b"x"),
    "type": (b"stream", b"string", b"normal"),
    "command": (b"XADD", b"XREAD", b"XREADGROUP", b"XGROUP", b"EXEC", b"xinfo"),
    "command-name": (b"xadd", b"xgroup", b"xgroup|create", b"get"),
    "setting": tuple(one.name.encode() for one in ALL),
    "pattern": (b"*", b"s*", b"crdt-*", b"[st]"),
    "section": (b"all", b"server", b"crdt", b"everything", b"keyspace"),
    "category": (b"read", b"stream"),
    "start": (b"-", b"0", b"0-0"),
    "end": (b"+", b"-", b"5"),
    "milliseconds": (b"1", b"0", b"50", b"3000"),
    "timeout-ms": (b"1", b"0", b"100"),
    "timeout": (b"1", b"0", b"100"),
    "client-id": (b"1", b"2", b"3"),
    "ip:port": (b"test", b"127.0.0.1:1"),
    "username": (b"default", b"me"),
}
_SMALL: Final = (b"0", b"1", b"2", b"3", b"5", b"10", b"1000")
_WORD: Final = re.compile(r"\[|\]|\||\.\.\.|[^\s\[\]|]+")
# How often a command comes; others of streams 4 times, and all others twice.
_TIMES: Final = {
    "xadd": 30,
    "xgroup|create": 12,
    "xreadgroup": 12,
    "flushall": 1,
    "flushdb": 1,
    "config|set": 6,
    "multi": 4,
    "exec": 6,
}
# Never drawn: they end or stop the process.
_LEFT_OUT: Final = frozenset({"shutdown", "debug"})

Item = Any
"""A word, or a list of choices in brackets, each a list of items; `MORE` repeats what is before."""
MORE: Final = "..."


def parsed(syntax: str) -> list[Item]:
    """The syntax of a command as items: each is a list of choices, with None for a missing one."""
    words = _WORD.findall(syntax)
    items, at = _sequence(words, 0)
    assert at == len(words), syntax
    return items


def _sequence(words: list[str], at: int) -> tuple[list[Item], int]:
    """Items up to a closing bracket."""
    items: list[Item] = []
    while at < len(words) and words[at] != "]":
        word = words[at]
        if word == "[":
            inner, at = _bracket(words, at + 1)
            items.append(inner)
        elif word == "|":
            # Outside brackets it separates two words.
            other: Item = words[at + 1]
            at += 2
            if other == "[":
                other, at = _bracket(words, at)
            items[-1] = ("either", [[items[-1]], [other]])
        else:
            items.append(word)
            at += 1
    return items, at


def _bracket(words: list[str], at: int) -> tuple[Item, int]:
    """What stands in brackets: choices, each a sequence."""
    choices: list[list[Item]] = [[]]
    while words[at] != "]":
        if words[at] == "|":
            choices.append([])
            at += 1
        elif words[at] == "[":
            inner, at = _bracket(words, at + 1)
            choices[-1].append(inner)
        else:
            choices[-1].append(words[at])
            at += 1
    return ("perhaps", choices), at + 1


class DrawnCommands:
    """Draws commands. `ids` are IDs that streams hold, which the caller adds."""

    def __init__(self, draw: Random) -> None:
        self.ids: list[bytes] = [b"1-1"]
        self._draw = draw
        self._syntax: list[tuple[list[bytes], list[Item]]] = []
        for command in registry.commands().values():
            if command.name in _LEFT_OUT:
                continue
            for one in command.subcommands.values() or (command,):
                names = [name.encode() for name in one.name.split("|")]
                times = _TIMES.get(one.name, 4 if one.docs.group == "stream" else 2)
                self._syntax += [(names, parsed(one.docs.syntax))] * times

    def next(self) -> list[bytes]:
        """A command: often as its syntax says, and else with faults."""
        draw = self._draw
        names, items = draw.choice(self._syntax)
        words = [*names, *self._filled(items)]
        if draw.random() < 0.3:
            for _ in range(draw.choice([1, 1, 2, 4])):
                words = self._with_fault(words)
        return words

    def _filled(self, items: list[Item]) -> list[bytes]:
        words: list[bytes] = []
        for item in items:
            if isinstance(item, str):
                if item == MORE:
                    continue
                words += [self._word(item)]
                continue
            kind, choices = item
            if kind == "perhaps":
                is_more = any(MORE in one for one in choices)
                for _ in range(self._draw.choice([0, 1, 1, 3] if is_more else [0, 1])):
                    words += self._filled(self._draw.choice(choices))
            else:
                words += self._filled(self._draw.choice(choices))
        return words

    def _word(self, name: str) -> bytes:
        draw = self._draw
        if name.upper() == name and name not in ("id",):
            word = name.encode()
            return word.lower() if draw.random() < 0.1 else word
        if draw.random() < 0.15:
            return draw.choice(HOSTILE)
        if name in ("id", "last-id", "lastid", "max-deleted-id", "threshold"):
            return draw.choice([*self.ids[-20:], b"1-1", b"5", b"0"])
        return draw.choice(_USUAL.get(name, _SMALL))

    def _with_fault(self, words: list[bytes]) -> list[bytes]:
        """The words with one fault."""
        draw = self._draw
        at = draw.randrange(len(words))
        fault = draw.randrange(8)
        if fault == 0:
            return words[:at] + words[at + 1 :] or [b""]
        if fault == 1:
            return [*words[:at], draw.choice(HOSTILE), *words[at:]]
        if fault == 2:
            return [*words[:at], words[at], *words[at:]]
        if fault == 3:
            other = draw.randrange(len(words))
            return [*words[:at], words[other], *words[at + 1 :]]
        if fault == 4:
            return words[: at + 1]
        if fault == 5:
            return [*words, *self.next()[:3]]
        if fault == 6:
            return [*words, *words[1:] * draw.choice([1, 20])]
        return [*words[:at], draw.choice(HOSTILE), *words[at + 1 :]]
