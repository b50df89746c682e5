"""Prints a run for people: one line for each event, with virtual ms since the beginning.

Most lines come from the trace. A judge that reports no violations adds the events of clients:
commands sent, answers received, answers lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Optional

from rich.console import Console
from rich.text import Text

from anabranch.plural import counted
from anabranch.sim.history import Checker, Operation
from anabranch.sim.plan import Plan
from anabranch.sim.replay_words import (
    name_of,
    relative,
    sentence,
    short,
    shown_command,
    shown_reply,
)
from anabranch.sim.run import Result, run_plan, run_world
from anabranch.sim.timeline.recorder import Recorder
from anabranch.sim.world.draining import FIRST_NUMBER
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.trace import plain

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
        words = sentence(what, details)
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
