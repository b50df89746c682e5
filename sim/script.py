"""A run as fixed commands: what clients sent, when, to whom, with no client that reacts. From a plan by recording it; made small like one.

An ID that a region generated is another one as soon as anything before it has changed. So commands that name one, name the XADD whose
answer it was: what they send is what that XADD has returned in the run at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Optional, Union

from region.engine.replies import ErrorReply
from sim.history import Checker, Operation, Violation, Words
from sim.load.client import Client
from sim.plan import ClientPlan, Fault, Plan
from sim.run import Result, run_plan, run_world
from sim.shrink import Budget, ddmin, failure, settings_to_drop, simpler_worlds, without_settings
from sim.world.draining import FIRST_NUMBER
from sim.world.world import EPOCH_MS, World


@dataclass(frozen=True)
class Command:
    """What a client sends at `at_ms`: one command, or a whole transaction.

    `anew`: on a new connection, for it has given up the former one. `made`: the ID that an XADD with `*` returned when recorded.
    """

    at_ms: int
    client: int
    region: int
    commands: tuple[Words, ...]
    anew: bool = False
    made: Optional[bytes] = None


Act = Union[Command, Fault]

_DISCARDED: Final = ((b"MULTI",), (b"DISCARD",))
"""What is left of a transaction that was given up, or held a wrong command: it ends a WATCH."""


@dataclass(frozen=True)
class Script:
    """`plan` has the world and the faults; its clients do nothing by themselves."""

    plan: Plan
    commands: tuple[Command, ...]

    def acts(self) -> list[Act]:
        """Commands and faults by time, commands first where it is the same, as in plans."""
        return sorted([*self.commands, *self.plan.faults()], key=lambda act: act.at_ms)

    def with_acts(self, acts: Sequence[Act]) -> Script:
        """The same world with these commands and faults."""
        faults = tuple(act for act in acts if isinstance(act, Fault))
        return Script(self.plan.with_steps(faults), tuple(act for act in acts if isinstance(act, Command)))

    def size(self) -> int:
        """How many commands it has; those of a transaction count each."""
        return sum(len(command.commands) for command in self.commands)


def record(plan: Plan, judges: Sequence[type[Checker]]) -> tuple[Script, Result]:
    """Runs a plan and notes what its clients send."""
    found: dict[int, Operation] = {}

    class Recorder(Checker):
        """Notes each operation once: when it was executed, or when it was lost before that."""

        name = "recorder"

        def executed(self, operation: Operation) -> None:
            found[operation.number] = operation

        def lost(self, operation: Operation) -> None:
            found[operation.number] = operation

    def framed(line: tuple[Any, ...]) -> None:
        if line[2] == "frames" and line[4][0].upper() == b"DISCARD":
            discarded.append((max(found, default=0), Command(line[0], line[3], line[1], _DISCARDED)))

    discarded: list[tuple[int, Command]] = []  # after which operation, and what
    result = run_plan(plan, [*judges, Recorder], framed)
    last: dict[int, Operation] = {}  # by client
    commands: list[tuple[int, Command]] = []
    for number in sorted(found):
        operation = found[number]
        if operation.client < FIRST_NUMBER:
            before = last.get(operation.client)
            commands.append((number, _command(operation, before is not None and before.lost)))
            last[operation.client] = operation
    commands = sorted([*commands, *discarded], key=lambda pair: pair[0])
    return Script(plan.with_steps(tuple(plan.faults())), tuple(command for _, command in commands)), result


def run_script(script: Script, judges: Sequence[type[Checker]]) -> Result:
    """Runs a script, healing, convergence and verdict included."""
    world = World(script.plan.with_steps(()), list(judges))
    _prepare(world, script)
    return run_world(world)


def shrink_script(script: Script, wanted: str, judges: Sequence[type[Checker]], budget: Budget) -> Script:
    """The smallest script found that fails in the same way (`sim.shrink.failure`). The script fails so itself."""

    def is_smaller(smaller: Script) -> bool:
        nonlocal script
        if not budget.take() or not is_failure(run_script(smaller, judges).violations, wanted):
            return False
        script = smaller
        return True

    def fails(acts: Sequence[Act]) -> bool:
        return is_smaller(script.with_acts(acts))

    commands = list(script.commands)
    ddmin(script.plan.faults(), lambda some: fails([*some, *commands]))
    faults = script.plan.faults()
    ddmin(commands, lambda some: fails([*faults, *some]))
    ddmin(script.acts(), fails)
    for place in range(len(script.commands)):
        while any(is_smaller(_with_command(script, place, shorter)) for shorter in _shorter(script.commands[place])):
            pass
    for simpler in simpler_worlds(script.plan):
        is_smaller(replace(script, plan=simpler(script.plan)))
    names = settings_to_drop(script.plan, wanted)
    ddmin(names, lambda left: is_smaller(replace(script, plan=without_settings(script.plan, set(names) - set(left)))))
    return script


def _with_command(script: Script, place: int, command: Command) -> Script:
    return replace(script, commands=(*script.commands[:place], command, *script.commands[place + 1 :]))


def is_failure(violations: Sequence[Violation], wanted: str) -> bool:
    """Whether one of them is of this kind."""
    return any(failure(violation) == wanted for violation in violations)


def _shorter(command: Command) -> list[Command]:
    """Simpler forms of a command, the simplest first."""
    if len(command.commands) > 1:  # MULTI … EXEC, or MULTI and DISCARD
        inside = command.commands[1:-1]
        alone = [replace(command, commands=(words,)) for words in inside]
        return alone if len(inside) > 1 else alone[:1]
    words = command.commands[0]
    for place, word in enumerate(words[2:], 2):
        if words[0].upper() == b"XADD" and word == b"t" and len(words) > place + 2:
            return [replace(command, commands=(words[: place + 2],))]
    return []


def _command(operation: Operation, anew: bool) -> Command:
    commands = operation.commands()
    if operation.queued:
        commands = ((b"MULTI",), *commands, (b"EXEC",))
    if isinstance(operation.reply, ErrorReply) and operation.reply.message.startswith("EXECABORT"):
        commands = _DISCARDED
    made = operation.reply if isinstance(operation.reply, bytes) and _generates(operation.argv) else None
    return Command(operation.at_ms - EPOCH_MS, operation.client, operation.region, commands, anew, made)


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
    """Puts scripted clients in the place of those that the plan made, and their commands and the faults into the schedule."""
    made: dict[bytes, bytes] = {}
    recorded = {words: command.made for command in script.commands if command.made is not None for words in command.commands}
    for plan in script.plan.clients:
        world.clients[plan.number] = _Scripted(plan, made, recorded)
    world.scheduler.at(EPOCH_MS, _schedule, world, script, made)


def _schedule(world: World, script: Script, made: dict[bytes, bytes]) -> None:
    """Called when the regions have been started, so that steps stand where a plan's steps do among what happens at the same time."""
    pipelines: list[list[Command]] = []
    for act in script.acts():
        if isinstance(act, Fault):
            world.scheduler.at(EPOCH_MS + act.at_ms, world.strike, act)
            continue
        before = pipelines[-1][-1] if pipelines else None
        if before is not None and not act.anew and (before.at_ms, before.client, before.region) == (act.at_ms, act.client, act.region):
            pipelines[-1].append(act)
            continue
        pipelines.append([act])
        world.scheduler.at(EPOCH_MS + act.at_ms, _send, world, pipelines[-1], made)


def _send(world: World, pipeline: list[Command], made: dict[bytes, bytes]) -> None:
    """One client sends what it sends at one moment."""
    first = pipeline[0]
    client = world.clients[first.client]
    client.region = first.region
    if first.anew:
        world.break_line(first.client)
    world.send(client, [tuple(_now(word, made) for word in words) for one in pipeline for words in one.commands])


def _now(word: bytes, made: dict[bytes, bytes]) -> bytes:
    if word[:1] == b"(":
        return b"(" + made.get(word[1:], word[1:])
    return made.get(word, word)
