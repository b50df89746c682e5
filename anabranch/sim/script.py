"""A run as fixed commands: which client sends which command when, to which region.

No client reacts. A script is recorded from a plan and reduced like a plan.

An ID that a region generates changes as soon as anything before it has changed. So a command that
contains such an ID refers to the XADD that returned it, and is sent with the ID that this XADD has
returned in the present run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional, Union

from anabranch.sim.history import Checker, Operation, Violation, Words
from anabranch.sim.load.client import Client
from anabranch.sim.plan import ClientPlan, Fault, Plan
from anabranch.sim.run import Result, run_plan, run_world
from anabranch.sim.shrink import (
    ROLLS,
    SMALL,
    Budget,
    Trial,
    ddmin,
    failure,
    settings_to_drop,
    simpler_worlds,
    trials_of,
    without_settings,
)
from anabranch.sim.world.draining import FIRST_NUMBER
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.world import World


@dataclass(frozen=True)
class Command:
    """One command, or a whole transaction, that a client sends at `at_ms` (ms since the beginning).

    `post`: commands of one client with the same number go in one pipeline. `anew`: on a new
    connection, because the client has given up the former one.
    """

    at_ms: int
    client: int
    region: int
    commands: tuple[Words, ...]
    post: int = 0
    anew: bool = False


Act = Union[Command, Fault]


@dataclass(frozen=True)
class Script:
    """A world and its fixed commands.

    `plan` has the world and the faults; its clients do nothing by themselves. `made`: token of an
    XADD → the IDs that it returned, one for each execution.
    """

    plan: Plan
    commands: tuple[Command, ...]
    made: dict[bytes, list[bytes]] = field(default_factory=dict)

    def acts(self) -> list[Act]:
        """Commands and faults by time; at equal times commands come first, as in plans."""
        return sorted([*self.commands, *self.plan.faults()], key=lambda act: act.at_ms)

    def with_acts(self, acts: Sequence[Act]) -> Script:
        """The same world with these commands and faults."""
        faults = tuple(act for act in acts if isinstance(act, Fault))
        return Script(
            self.plan.with_steps(faults),
            tuple(act for act in acts if isinstance(act, Command)),
            self.made,
        )

    def size(self) -> int:
        """The number of commands; those of a transaction count each."""
        return sum(len(command.commands) for command in self.commands)


def record(plan: Plan, judges: Sequence[type[Checker]]) -> tuple[Script, Result]:
    """Runs a plan; records what its clients send, and the IDs that regions generate for them."""
    commands: list[Command] = []
    made: dict[bytes, list[bytes]] = {}
    gave_up: set[int] = set()  # client numbers, until they send again
    posts = 0

    class Recorder(Checker):
        """Records the generated IDs."""

        name = "recorder"

        def executed(self, operation: Operation) -> None:
            for token, entry_id in ids_made(operation).items():
                made.setdefault(token, []).append(entry_id)

    def told(line: tuple[Any, ...]) -> None:
        nonlocal posts
        at_ms, region, what, *details = line
        if what == "gives up":
            gave_up.add(details[0])
        elif what == "posts" and details[0] < FIRST_NUMBER:
            client, words = details
            posts += 1
            for unit in _units(words):
                commands.append(Command(at_ms, client, region, unit, posts, client in gave_up))
                gave_up.discard(client)

    result = run_plan(plan, [*judges, Recorder], told)
    return Script(plan.with_steps(tuple(plan.faults())), tuple(commands), made), result


def _units(pipeline: Sequence[Words]) -> list[tuple[Words, ...]]:
    """The units of a pipeline: each command alone, each transaction whole."""
    units: list[tuple[Words, ...]] = []
    begun: list[Words] = []
    for words in pipeline:
        name = words[0].upper()
        if begun or name == b"MULTI":
            begun.append(words)
            if name in (b"EXEC", b"DISCARD"):
                units.append(tuple(begun))
                begun = []
        else:
            units.append((words,))
    return [*units, tuple(begun)] if begun else units


def ids_made(operation: Operation) -> dict[bytes, bytes]:
    """token → ID that the region generated, for a command or for the commands of a transaction."""
    replies = (
        operation.reply
        if operation.queued and isinstance(operation.reply, list)
        else [operation.reply]
    )
    found: dict[bytes, bytes] = {}
    for words, reply in zip(operation.commands(), replies, strict=False):
        token = token_of(words)
        if token is not None and isinstance(reply, bytes):
            found[token] = reply
    return found


def token_of(words: Words) -> Optional[bytes]:
    """The token of an XADD whose ID the region generates; None for any other command.

    The token is the value of field t, another one in each XADD of `sim.load`.
    """
    if words[0].upper() != b"XADD" or b"*" not in words[2:] or b"t" not in words[:-1]:
        return None
    return words[words.index(b"t") + 1]


def run_script(
    script: Script,
    judges: Sequence[type[Checker]],
    tell: Optional[Callable[[tuple[Any, ...]], None]] = None,
) -> Result:
    """Runs a script, healing, convergence and verdict included. `tell`: see `sim.run.run_plan`."""
    return run_world(world_of(script, judges, tell))


def world_of(
    script: Script,
    judges: Sequence[type[Checker]],
    tell: Optional[Callable[[tuple[Any, ...]], None]] = None,
) -> World:
    """A world that has not begun, with the script in its schedule."""
    ids = _Ids(script.made)

    class Reader(Checker):
        """Learns each ID as soon as a region has generated it."""

        name = "reader"

        def executed(self, operation: Operation) -> None:
            ids.learn(operation)

    world = new_world(script.plan.with_steps(()), [Reader, *judges], tell)
    _prepare(world, script, ids)
    return world


def shrink_script(
    script: Script, violation: Violation, judges: Sequence[type[Checker]], budget: Budget
) -> Script:
    """The smallest script found that fails like `violation`, a violation of `script` itself."""
    wanted = failure(violation)
    trial = _trial(script, violation, judges)
    rolls = 0

    def is_smaller(smaller: Script) -> bool:
        nonlocal script
        for roll in range(1 + rolls):
            rolled = replace(smaller, plan=replace(smaller.plan, seed=smaller.plan.seed + roll))
            if not budget.take():
                return False
            if trial.fails(
                lambda judges, rolled=rolled: world_of(rolled, judges)  # type: ignore[misc]
            ):
                script = rolled
                return True
        return False

    def fails(acts: Sequence[Act]) -> bool:
        return is_smaller(script.with_acts(acts))

    commands = list(script.commands)
    ddmin(script.plan.faults(), lambda some: fails([*some, *commands]))
    faults = script.plan.faults()
    ddmin(commands, lambda some: fails([*faults, *some]))
    ddmin(script.acts(), fails)
    if script.size() > SMALL:
        rolls = ROLLS
        ddmin(script.acts(), fails)
        rolls = 0
    for place in range(len(script.commands)):
        while any(
            is_smaller(_with_command(script, place, shorter))
            for shorter in _shorter(script.commands[place])
        ):
            pass
    speakers = {command.client for command in script.commands}
    is_smaller(
        replace(
            script,
            plan=replace(
                script.plan,
                clients=tuple(one for one in script.plan.clients if one.number in speakers),
            ),
        )
    )
    for simpler in simpler_worlds(script.plan):
        is_smaller(replace(script, plan=simpler(script.plan)))
    names = settings_to_drop(script.plan, wanted)
    ddmin(
        names,
        lambda left: is_smaller(
            replace(script, plan=without_settings(script.plan, set(names) - set(left)))
        ),
    )
    return script


def _trial(script: Script, violation: Violation, judges: Sequence[type[Checker]]) -> Trial:
    """The trial in which the script fails; see `sim.shrink.trials_of`."""
    load_ms = script.plan.load_ms
    for trial in trials_of(violation, load_ms, judges):
        if trial.fails(lambda judges: world_of(script, judges)):
            break
    return trial


def _with_command(script: Script, place: int, command: Command) -> Script:
    return replace(
        script, commands=(*script.commands[:place], command, *script.commands[place + 1 :])
    )


def is_failure(violations: Sequence[Violation], wanted: str) -> bool:
    """Whether one of the violations is of the kind `wanted`."""
    return any(failure(violation) == wanted for violation in violations)


def _shorter(command: Command) -> list[Command]:
    """Simpler forms of a command, the simplest first."""
    if len(command.commands) > 1:
        inside = command.commands[1:-1]
        fewer = [
            (command.commands[0], *inside[:place], *inside[place + 1 :], command.commands[-1])
            for place in range(len(inside))
        ]
        return [
            replace(command, commands=some)
            for some in [*((words,) for words in inside), *(fewer if len(inside) > 1 else [])]
        ]
    words = command.commands[0]
    token = token_of(words)
    if token is not None and words[-1] != token:
        return [replace(command, commands=(words[: words.index(token) + 1],))]
    return []


class _Ids:
    """Maps recorded IDs to the IDs of the present run, for all clients together."""

    def __init__(self, made: dict[bytes, list[bytes]]) -> None:
        self._to_come = {token: list(reversed(ids)) for token, ids in made.items()}
        self._now: dict[bytes, bytes] = {}

    def learn(self, operation: Operation) -> None:
        """Call it when an XADD has returned its ID."""
        for token, entry_id in ids_made(operation).items():
            if self._to_come.get(token):
                self._now[self._to_come[token].pop()] = entry_id

    def now(self, word: bytes) -> bytes:
        """The word of a command to send for this recorded word."""
        if word[:1] == b"(":
            return b"(" + self._now.get(word[1:], word[1:])
        return self._now.get(word, word)


class _Scripted(Client):
    """A client that sends only the commands of the script."""

    def __init__(self, plan: ClientPlan) -> None:
        super().__init__(plan, (plan.home,), lambda _: "strict")

    def answered(self, operation: Operation) -> None:
        """Nothing to learn."""

    def lost(self, operation: Operation) -> None:
        """Nothing to do."""

    def refused(self, now_ms: int) -> None:
        """Nothing to do."""

    def crash(self) -> None:
        """Nothing to forget."""


def _prepare(world: World, script: Script, ids: _Ids) -> None:
    """Replaces the plan's clients by scripted ones, and schedules the acts of the script."""
    for plan in script.plan.clients:
        world.clients[plan.number] = _Scripted(plan)
    world.scheduler.at(EPOCH_MS, _schedule, world, script, ids)


def _schedule(world: World, script: Script, ids: _Ids) -> None:
    """Schedules the acts of the script.

    It runs after the regions have been started, so that acts have the same order among events of
    one moment as the steps of a plan.
    """
    pipelines: list[list[Command]] = []
    for act in script.acts():
        if isinstance(act, Fault):
            world.scheduler.at(EPOCH_MS + act.at_ms, world.strike, act)
        elif act.post and pipelines and pipelines[-1][-1].post == act.post:
            pipelines[-1].append(act)
        else:
            pipelines.append([act])
            world.scheduler.at(EPOCH_MS + act.at_ms, _send, world, pipelines[-1], ids)


def _send(world: World, pipeline: list[Command], ids: _Ids) -> None:
    """Sends the commands that one client sends at one moment."""
    first = pipeline[0]
    client = world.clients[first.client]
    client.region = first.region
    if first.anew:
        world.break_line(first.client)
    world.send(
        client,
        [tuple(ids.now(word) for word in words) for one in pipeline for words in one.commands],
    )
