"""Expected replies, and their comparison with what the region replied.

An expected reply is a reply, or contains `ANY` where the specification leaves a value to the
region. `Expected` stands for a reply of which only a property is required.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anabranch.crdt.ids import format_id
from anabranch.region.engine.replies import (
    ErrorReply,
    MapReply,
    NoReply,
    NullArray,
    Reply,
    ReplyLater,
    SetReply,
    SimpleString,
    VerbatimText,
)
from anabranch.sim.twin.state import Entry

ANY: Final = VerbatimText(b"(any value)")


class Mismatch(Exception):
    """The region did something else than its twin. The text tells what."""


class Expected(Exception):
    """A reply that must have a property. `text` names it.

    It is an exception, so that a rule deep inside a command can end the command with it.
    """

    def __init__(self, text: str, holds: Callable[[Reply], bool]) -> None:
        super().__init__(text)
        self.text: Final = text
        self.holds: Final = holds


def error_with(prefix: str) -> Expected:
    """An error whose text begins so; what follows is the region's choice."""
    return Expected(
        f"an error {prefix} …",
        lambda reply: isinstance(reply, ErrorReply) and reply.message.startswith(prefix),
    )


def entry_reply(entry: Entry) -> Reply:
    """[ID, fields]"""
    fields: list[Reply] = list(entry.fields)
    return [format_id(entry.entry_id), fields]


def in_words(argv: tuple[bytes, ...]) -> str:
    """A command as a violation names it."""
    return b" ".join(argv).decode("ascii", "backslashreplace")


def shown(reply: object) -> object:
    """A reply as plain values that can be compared and printed."""
    if isinstance(reply, list):
        return [shown(one) for one in reply]
    if isinstance(reply, MapReply):
        return [shown(one) for one in reply.flat]
    if isinstance(reply, SetReply):
        return [shown(one) for one in reply.items]
    if isinstance(reply, ErrorReply):
        return "-" + reply.message
    if isinstance(reply, SimpleString):
        return "+" + reply.text.decode()
    if isinstance(reply, NullArray):
        return "(null array)"
    if isinstance(reply, ReplyLater):
        return "(waits)"
    if isinstance(reply, NoReply):
        return "(no reply)"
    return reply


def difference(expected: object, actual: object) -> str:
    """The first difference of two replies as text; empty if the reply is the expected one."""
    if expected is ANY:
        return ""
    if not isinstance(expected, list) or not isinstance(actual, list):
        is_same = type(expected) is type(actual) and expected == actual
        return "" if is_same else f"replied {_text(actual)}; expected {_text(expected)}"
    for place, (one, other) in enumerate(zip(expected, actual, strict=False)):
        text = difference(one, other)
        if text:
            name = (
                expected[place - 1] if place % 2 and isinstance(expected[place - 1], bytes) else b""
            )
            where = name.decode("ascii", "backslashreplace") or str(place)
            return f"{where}: {text}"
    if len(expected) != len(actual):
        return f"replied {_text(actual)}; expected {_text(expected)}"
    return ""


def check(expected: object, actual: Reply) -> None:
    """Raises `Mismatch` if the region's reply is not the expected one."""
    if isinstance(expected, Expected):
        if not expected.holds(actual):
            raise Mismatch(f"replied {_text(shown(actual))}; expected {expected.text}")
        return
    if isinstance(expected, list) and expected == actual:
        return  # This is faster, and holds for nearly every list.
    text = difference(shown(expected), shown(actual))
    if text:
        raise Mismatch(text)


def _text(value: object) -> str:
    text = repr(value).replace(repr(ANY), "*")
    return text if len(text) <= 1500 else text[:1500] + "…"
