"""The words in which a run is told: commands, replies, and lines of the trace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from anabranch.crdt.block import Block
from anabranch.crdt.vector import Vector
from anabranch.sim.history import Operation
from anabranch.sim.plan import REGION_NAMES, struck_by
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.trace import plain
from anabranch.study.diagram.texts import cut, word
from anabranch.sync.session.messages import (
    Batch,
    BlockPart,
    Body,
    BodyRequest,
    Header,
    Heartbeat,
    Hello,
    HoldingBack,
    SnapshotBegin,
    VectorAcknowledgement,
    Welcome,
)

WORD_MAX: Final = 40
"""Columns of a word that are shown."""
SHOWN_MAX: Final = 300
"""Characters of a reply that are shown."""


def name_of(region: int) -> str:
    """A region's name in the simulated cluster."""
    return REGION_NAMES[region - 1]


def relative(text: str) -> str:
    """A violation's text with its time counted from the beginning of the run."""
    return re.sub(
        r" at (\d{13}) ms", lambda found: f" at {int(found[1]) - EPOCH_MS} ms", text, count=1
    )


def counters(vector: Vector) -> str:
    """A vector as text, such as ``{us:3 eu:1}``."""
    return "{" + " ".join(f"{name_of(region)}:{vector[region]}" for region in sorted(vector)) + "}"


def shown_command(operation: Operation) -> str:
    """The command, or all commands of a transaction."""
    if operation.queued:
        return "MULTI; " + "; ".join(words(argv) for argv in operation.queued) + "; EXEC"
    return words(operation.argv)


def short(operation: Operation) -> str:
    """The command's name and key."""
    return words(operation.argv[:2])


def words(argv: Sequence[bytes]) -> str:
    """Words as a person would type them."""
    return " ".join(cut(word(one), WORD_MAX) for one in argv)


def shown_reply(reply: Any) -> str:
    """A plain reply as text; lists in brackets."""
    text = _reply(reply)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _reply(reply: Any) -> str:
    if reply is None:
        return "nil"
    if isinstance(reply, bytes):
        return cut(word(reply), WORD_MAX)
    if isinstance(reply, list):
        return "[" + ", ".join(_reply(item) for item in reply) + "]"
    if isinstance(reply, str) and reply.startswith("-"):
        return f"(error) {reply[1:]}"
    return str(reply)


_ENDS: Final = {
    "kill": "is killed",
    "power": "loses power",
    "clean": "stops cleanly",
    "backup": "stops, to start from an old backup",
    "gone": "is gone for good",
    "end": "",
}


_MOVES: Final = {
    "merge": "merges",
    "join": "joins a snapshot:",
    "tick": "issues by itself",
    "waited": "commands that waited issue",
}


def sentence(what: str, details: list[Any]) -> str:
    """A line of the trace as a sentence; "" for lines that the narrator tells in another way."""
    if what in _MOVES:
        return f"{_MOVES[what]} {_moved(details[0], details[1])}"
    if what == "stops":
        return _ENDS.get(details[0], f"stops: {details[0]}")
    if what == "starts":
        how, life, vector = details
        return (
            f"starts ({'the first time' if how == 'first' else f'after: {how}'}), life {life},"
            f" with {counters(vector)} on its disk"
        )
    if what == "commits":
        return f"commits up to row {details[0]}: {counters(details[1])} is on its disk"
    if what in ("connects", "disconnected", "sends", "hears", "never hears"):
        return _traffic(what, details)
    if what == "fault":
        kind, regions, duration_ms = details
        struck = struck_by(kind, tuple(regions))
        where = ": " + ", ".join(name_of(region) for region in struck) if struck else ""
        return f"FAULT {kind}{where}{f' for {duration_ms} ms' if duration_ms else ''}"
    if what == "frames":
        return f"client {details[0]}: {words(details[1])} → {shown_reply(plain(details[2]))}"
    if what == "waits":
        return f"{words(details[1:])} waits"
    if what == "heals":
        return "HEALED: no more faults, no more load"
    if what == "ends":
        return (
            f"LEVEL after {details[0]} ms" if details[0] is not None else f"NOT LEVEL: {details[1]}"
        )
    if what == "gives up":
        return f"client {details[0]} waits no longer and hangs up"
    if what in ("runs", "posts"):
        return ""
    return " ".join([what, *(str(detail) for detail in details)])


def _moved(before: Vector, after: Vector) -> str:
    steps = []
    for region in sorted(after):
        old, new = before.get(region, 0), after[region]
        if new != old:
            steps.append(
                f"{name_of(region)} {old + 1}"
                if new == old + 1
                else f"{name_of(region)} {old + 1}…{new}"
            )
    return ", ".join(steps)


def _traffic(what: str, details: list[Any]) -> str:
    peer = name_of(details[0])
    if what == "connects":
        return f"connects to {peer}"
    if what == "disconnected":
        return f"is disconnected from {peer}: {details[1]}"
    if what == "hears":  # the line of the sender has shown the whole message
        return f"hears {details[1]} from {peer}"
    if details[1] is None:
        return ""
    return (
        f"sends {peer} {_message(details[1])}"
        if what == "sends"
        else f"never hears {_message(details[1])} from {peer}: it is lost"
    )


def _message(message: Any) -> str:
    """A message's name and its main contents."""
    name = type(message).__name__
    if isinstance(message, bytes):
        return "a message"
    if isinstance(message, (Hello, Welcome)):
        return f"{name} (life {message.life}) {counters(message.vector)}"
    if isinstance(message, (VectorAcknowledgement, Heartbeat, HoldingBack, SnapshotBegin)):
        return f"{name} {counters(message.vector)}"
    if isinstance(message, Batch):
        return "Batch " + ", ".join(_item(item) for item in message.items)
    if isinstance(message, (BlockPart, Body)):
        return f"{name} {_item(message if isinstance(message, BlockPart) else message.block)}"
    if isinstance(message, BodyRequest):
        return f"{name} " + ", ".join(
            f"{name_of(origin)} {counter}" for origin, counter in message.dots
        )
    return name


def _item(item: Block | Header | BlockPart) -> str:
    """The effects of a block, a header or a part of a block: region name and counters."""
    span = f"{item.first}" if item.first == item.last else f"{item.first}…{item.last}"
    return f"{name_of(item.origin)} {span}" + (" (header)" if isinstance(item, Header) else "")
