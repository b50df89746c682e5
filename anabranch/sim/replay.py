"""Prints a run for people: one line for each event, with virtual ms since the beginning.

Most lines come from the trace. A judge that reports no violations adds the events of clients:
commands sent, answers received, answers lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Optional

from rich.console import Console
from rich.text import Text

from anabranch.crdt.block import Block
from anabranch.plural import counted
from anabranch.sim.history import Checker, Operation, Vector
from anabranch.sim.plan import REGION_NAMES, Plan, struck_by
from anabranch.sim.run import Result, run_plan, run_world
from anabranch.sim.timeline.recorder import Recorder
from anabranch.sim.world.draining import FIRST_NUMBER
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.trace import plain
from anabranch.sync.session.messages import (
    Batch,
    Body,
    BodyRequest,
    Header,
    Heartbeat,
    Hello,
    HoldingBack,
    Part,
    SnapshotBegin,
    VectorAcknowledgement,
    Welcome,
)

COLOURS: Final = (
    "cyan",
    "green",
    "magenta",
    "blue",
    "yellow",
    "red",
    "bright_cyan",
    "bright_green",
)
SHOWN_MAX: Final = 300
"""Characters of a reply that are shown."""

Line = tuple[int, int, str]
"""(virtual ms, region_id or 0, what happened)."""


def replay(
    plan: Plan,
    judges: Sequence[type[Checker]],
    tell: Callable[[Line], None],
    recorder: Optional[Recorder] = None,
) -> Result:
    """Runs a plan and passes each line to `tell` as the event happens; returns the result.

    `recorder` records the run for a drawing.
    """
    narrator = _Narrator(tell)

    class Listener(Checker):
        """Passes the events of clients to the narrator."""

        name = "listener"

        def executed(self, operation: Operation) -> None:
            narrator.executed(operation)

        def answered(self, operation: Operation) -> None:
            narrator.answered(operation)

        def lost(self, operation: Operation) -> None:
            narrator.lost(operation)

    if recorder is None:
        return run_plan(plan, [*judges, Listener], narrator.line)

    def line(line: tuple[Any, ...]) -> None:
        narrator.line(line)
        recorder.tell(line)

    world = new_world(plan, [*judges, Listener, recorder.judge], line)
    recorder.watch(world)
    return run_world(world)


def label_of(client: int) -> Optional[int]:
    """The label of a client of the plan; None for those that read the groups to their ends."""
    return client if client < FIRST_NUMBER else None


def describe(plan: Plan) -> list[str]:
    """The decisions of a plan, one line each."""
    scale = (
        f"{len(plan.regions)} regions, {counted(len(plan.intents()), 'act')}"
        f" of {counted(len(plan.clients), 'client')} and {counted(len(plan.faults()), 'fault')}"
    )
    lines = [
        (
            f"seed {plan.seed}: {scale} in {plan.load_ms} ms;"
            f" messages take {plan.delay_ms[0]} to {plan.delay_ms[1]} ms"
        ),
        "links: "
        + ", ".join(f"{name_of(one)} hears {name_of(other)}" for one, other in plan.links),
    ]
    lines += [
        f"client {one.number}: {one.kind} at {name_of(one.home)},"
        f" keys {' '.join(key.decode() for key in one.keys)}"
        for one in plan.clients
    ]
    names = sorted({name for values in plan.settings.values() for name in values})
    for name in names:
        values = {region: plan.settings[region].get(name, "") for region in plan.regions}
        if len(set(values.values())) == 1:
            lines.append(f"{name} {values[plan.regions[0]]}")
        else:
            lines.append(
                f"{name} "
                + ", ".join(
                    f"{name_of(region)} {value or '(default)'}" for region, value in values.items()
                )
            )
    apart = {region: offset for region, offset in plan.clock_offsets_ms.items() if offset}
    if apart:
        lines.append(
            "clocks: "
            + ", ".join(f"{name_of(region)} {offset:+} ms" for region, offset in apart.items())
        )
    return lines


def show(
    plan: Plan,
    judges: Sequence[type[Checker]],
    console: Console,
    recorder: Optional[Recorder] = None,
) -> Result:
    """Prints the plan, the run and its verdict. `recorder` records the run for a drawing."""
    for line in describe(plan):
        console.print(Text(line, style="dim"), soft_wrap=True)
    result = replay(
        plan, judges, lambda line: console.print(as_text(line), soft_wrap=True), recorder
    )
    for violation in result.violations:
        console.print(
            Text(f"VIOLATION {relative(str(violation))}", style="bold red"), soft_wrap=True
        )
    found = counted(len(result.violations), "violation")
    verdict = found if result.violations else "no violation"
    console.print(
        f"{verdict} in {result.virtual_ms} virtual ms; trace {result.trace_hash}", highlight=False
    )
    return result


def as_text(line: Line) -> Text:
    """A line as coloured text; each region has its colour."""
    at_ms, region, words = line
    text = Text(f"{at_ms:>7} ", style="dim")
    if not region:
        return text.append(words, style="bold")
    return text.append(f"{name_of(region):<3}", style=COLOURS[(region - 1) % len(COLOURS)]).append(
        words, style=""
    )


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


class _Narrator:
    """Turns lines of the trace into sentences."""

    def __init__(self, tell: Callable[[Line], None]) -> None:
        self._tell = tell
        self._at_ms = 0
        self._executed_ms: dict[int, int] = {}  # operation number → ms, while it has no answer

    def line(self, line: tuple[Any, ...]) -> None:
        """Tells a line of the trace."""
        at_ms, region, what, *details = line
        self._at_ms = at_ms
        words = _words(what, details)
        if words:
            self._tell((at_ms, region, words))

    def executed(self, operation: Operation) -> None:
        """Tells which client sent the command, and the reply that the region computed."""
        self._executed_ms[operation.number] = self._at_ms
        first, last = operation.effects()
        issued = (
            ""
            if first > last
            else f"  issues {first}"
            if first == last
            else f"  issues {first}…{last}"
        )
        reply = shown_reply(plain(operation.reply))
        self._tell(
            (
                self._at_ms,
                operation.region,
                f"client {operation.client}: {shown_command(operation)} → {reply}{issued}",
            )
        )

    def answered(self, operation: Operation) -> None:
        """Tells of an answer only if it came later than the execution: it waited for the disk."""
        began_ms = self._executed_ms.pop(operation.number, self._at_ms)
        now_ms = (operation.answered_ms or 0) - EPOCH_MS
        if now_ms > began_ms:
            self._tell(
                (
                    now_ms,
                    operation.region,
                    f"client {operation.client} has the answer to {short(operation)} of {began_ms}",
                )
            )

    def lost(self, operation: Operation) -> None:
        """Tells that the client will never have the answer."""
        known = "" if operation.number in self._executed_ms else ", which was not executed"
        self._executed_ms.pop(operation.number, None)
        self._tell(
            (
                self._at_ms,
                operation.region,
                (
                    f"client {operation.client} will never have the answer to"
                    f" {short(operation)}{known}"
                ),
            )
        )


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
    return " ".join(_word(word) for word in argv)


def _word(word: bytes) -> str:
    text = word.decode("utf-8", "backslashreplace")
    if text and text.isprintable() and not any(mark in text for mark in " '\""):
        return text if len(text) <= 40 else f"{text[:20]}…({len(word)} bytes)"
    return (
        '"'
        + "".join(
            chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}"
            for byte in word[:40]
        )
        + '"'
    )


def shown_reply(reply: Any) -> str:
    """A plain reply as text; lists in brackets."""
    text = _reply(reply)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _reply(reply: Any) -> str:
    if reply is None:
        return "nil"
    if isinstance(reply, bytes):
        return _word(reply)
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


def _words(what: str, details: list[Any]) -> str:
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
    if isinstance(message, (Part, Body)):
        return f"{name} {_item(message if isinstance(message, Part) else message.block)}"
    if isinstance(message, BodyRequest):
        return f"{name} " + ", ".join(
            f"{name_of(origin)} {counter}" for origin, counter in message.dots
        )
    return name


def _item(item: Block | Header | Part) -> str:
    """The effects of a block, a header or a part of a block: region name and counters."""
    span = f"{item.first}" if item.first == item.last else f"{item.first}…{item.last}"
    return f"{name_of(item.origin)} {span}" + (" (header)" if isinstance(item, Header) else "")
