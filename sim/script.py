"""A run as fixed commands: what clients sent, when, to whom, with no client that reacts. From a plan by recording it; made small like one.

An ID that a region generated is another one as soon as anything before it has changed. So commands that name one, name the XADD whose
answer it was: what they send is what that XADD has returned in the run at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Optional, Union

from sim.history import Checker, Operation, Violation, Words
from sim.load.client import Client
from sim.plan import ClientPlan, Fault, Plan
from sim.run import Result, run_plan, run_world
from sim.shrink import Budget, ddmin, failure
from sim.world.draining import FIRST_NUMBER
from sim.world.world import EPOCH_MS, World


@dataclass(frozen=True)
class Command:
    """What a client sends at `at_ms`: one command, or a whole transaction. `made`: the ID that an XADD with `*` returned when recorded."""

    at_ms: int
    client: int
    region: int
    commands: tuple[Words, ...]
    made: Optional[bytes] = None


Act = Union[Command, Fault]


@dataclass(frozen=True)
class Script:
    """`plan` has the world and the faults; its clients do nothing by themselves."""

    plan: Plan
    commands: tuple[Command, ...]

    def acts(self) -> list[Act]:
        """Commands and faults by time, faults first where it is the same."""
        return sorted([*self.plan.faults(), *self.commands], key=lambda act: act.at_ms)

    def with_acts(self, acts: Sequence[Act]) -> Script:
        """The same world with these commands and faults."""
        faults = tuple(act for act in acts if isinstance(act, Fault))
        return Script(self.plan.with_steps(faults), tuple(act for act in acts if isinstance(act, Command)))

    def size(self) -> int:
        """How many commands it has; those of a transaction count each."""
        return sum(len(command.commands) for command in self.commands)


def record(plan: Plan, judges: Sequence[type[Checker]]) -> tuple[Script, Result]:
    """Runs a plan and notes what its clients send."""
    found: dict[int, Command] = {}

    class Recorder(Checker):
        """Notes each operation once: when it was executed, or when it was lost before that."""

        name = "recorder"

        def executed(self, operation: Operation) -> None:
            note(operation)

        def lost(self, operation: Operation) -> None:
            note(operation)

    def note(operation: Operation) -> None:
        if operation.number not in found and operation.client < FIRST_NUMBER:
            found[operation.number] = _command(operation)

    result = run_plan(plan, [*judges, Recorder])
    commands = tuple(found[number] for number in sorted(found))
    return Script(plan.with_steps(tuple(plan.faults())), commands), result


def run_script(script: Script, judges: Sequence[type[Checker]]) -> Result:
    """Runs a script, healing, convergence and verdict included."""
    world = World(script.plan, list(judges))
    _prepare(world, script)
    return run_world(world)


def shrink_script(script: Script, wanted: str, judges: Sequence[type[Checker]], budget: Budget) -> Script:
    """The smallest script found that fails in the same way (`sim.shrink.failure`). The script fails so itself."""

    def fails(acts: Sequence[Act]) -> bool:
        return budget.take() and is_failure(run_script(script.with_acts(acts), judges).violations, wanted)

    acts = script.acts()
    commands: list[Act] = [act for act in acts if isinstance(act, Command)]
    faults: list[Act] = [act for act in acts if isinstance(act, Fault)]
    faults = ddmin(faults, lambda some: fails([*some, *commands]))
    commands = ddmin(commands, lambda some: fails([*faults, *some]))
    acts = ddmin(script.with_acts([*faults, *commands]).acts(), fails)
    return _plain_words(script.with_acts(acts), wanted, judges, budget)


def is_failure(violations: Sequence[Violation], wanted: str) -> bool:
    """Whether one of them is of this kind."""
    return any(failure(violation) == wanted for violation in violations)


def _plain_words(script: Script, wanted: str, judges: Sequence[type[Checker]], budget: Budget) -> Script:
    """Commands shorter where that changes nothing: a transaction of fewer commands, an entry of one field."""
    for place, command in enumerate(script.commands):
        for shorter in _shorter(command):
            smaller = replace(script, commands=(*script.commands[:place], shorter, *script.commands[place + 1 :]))
            if budget.take() and is_failure(run_script(smaller, judges).violations, wanted):
                script = smaller
                break
    return script


def _shorter(command: Command) -> list[Command]:
    """Simpler forms of a command, the simplest first."""
    if len(command.commands) > 2:  # MULTI … EXEC
        inside = command.commands[1:-1]
        alone = [replace(command, commands=(words,)) for words in inside]
        return alone if len(inside) > 1 else alone[:1]
    words = command.commands[0]
    for place, word in enumerate(words[2:], 2):
        if words[0].upper() == b"XADD" and word == b"t" and len(words) > place + 2:
            return [replace(command, commands=(words[: place + 2],))]
    return []


def _command(operation: Operation) -> Command:
    commands = operation.commands()
    if operation.queued:
        commands = ((b"MULTI",), *commands, (b"EXEC",))
    made = operation.reply if isinstance(operation.reply, bytes) and _generates(operation.argv) else None
    return Command(operation.at_ms - EPOCH_MS, operation.client, operation.region, commands, made)


def _generates(argv: Words) -> bool:
    return argv[0].upper() == b"XADD" and b"*" in argv[2:]


class _Scripted(Client):
    """Sends what it is told. `made`: recorded ID → the ID that the same XADD has returned now, for all clients together."""

    def __init__(self, plan: ClientPlan, made: dict[bytes, bytes], recorded: dict[Words, bytes]) -> None:
        super().__init__(plan, (plan.home,), lambda _: "strict")
        self.made = made
        self.recorded = recorded

    def answered(self, operation: Operation) -> None:
        """Learns an ID. Every add has a token of its own, so its words say which it was."""
        recorded = self.recorded.get(operation.argv)
        if recorded is not None and isinstance(operation.reply, bytes):
            self.made[recorded] = operation.reply

    def lost(self, operation: Operation) -> None:
        """Nothing to do."""

    def refused(self, now_ms: int) -> None:
        """Nothing to do."""

    def crash(self) -> None:
        """Nothing to forget."""


def _prepare(world: World, script: Script) -> None:
    """Puts scripted clients in the place of those that the plan made."""
    made: dict[bytes, bytes] = {}
    recorded = {words: command.made for command in script.commands if command.made is not None for words in command.commands}
    plans = {one.number: one for one in script.plan.clients}
    for command in script.commands:
        plan = plans.get(command.client, ClientPlan(command.client, "scripted", command.region, world.keys, 0))
        client = world.clients.get(command.client)
        if not isinstance(client, _Scripted):
            world.clients[command.client] = _Scripted(plan, made, recorded)
    for place, command in enumerate(script.commands):
        before = script.commands[place - 1] if place else None
        if before is not None and (before.at_ms, before.client, before.region) == (command.at_ms, command.client, command.region):
            continue  # goes with the one before, in one pipeline
        pipeline = [command]
        for after in script.commands[place + 1 :]:
            if (after.at_ms, after.client, after.region) != (command.at_ms, command.client, command.region):
                break
            pipeline.append(after)
        words = [each for one in pipeline for each in one.commands]
        world.scheduler.at(EPOCH_MS + command.at_ms, _send, world, command.client, command.region, words, made)


def _send(world: World, number: int, region: int, commands: list[Words], made: dict[bytes, bytes]) -> None:
    """A client that still waits for something gives up first, as all do."""
    client = world.clients[number]
    client.region = region
    if world.unanswered(client):
        world.break_line(number)
    world.send(client, [tuple(_now(word, made) for word in words) for words in commands])


def _now(word: bytes, made: dict[bytes, bytes]) -> bytes:
    if word[:1] == b"(":
        return b"(" + made.get(word[1:], word[1:])
    return made.get(word, word)
