"""Reduces a failing run by delta debugging (Zeller and Hildebrandt, 2002) over the parts of a plan.

A smaller plan counts only if it fails in the same way: the same judge reports a violation, or the
same kind of exception ends the run. The order of the steps follows from the plan, so the result
does, too, as long as the number of attempts and not the time ends the search.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Optional, TypeVar

from anabranch.sim.history import Checker, Violation
from anabranch.sim.plan import ClientPlan, Fault, Intent, Plan, Step
from anabranch.sim.run import run_world
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.watchers import JudgeFailed, cause_of
from anabranch.sim.world.world import World

ATTEMPTS_MAX: Final = 4000
SECONDS_MAX: Final = 120.0
# Judges of deadlines: settings that are times stay unchanged for them, because a slower cluster
# would fail in the same way.
PUNCTUAL: Final = frozenset({"liveness"})
# A failure that depends on the exact order of events is often lost when a step is removed, because
# all later draws come out differently. So each smaller plan is also tried with ROLLS other seeds:
# first while large parts are removed (an eighth or more each: COARSE), and again if more than SMALL
# commands are left.
ROLLS: Final = 4
SMALL: Final = 12
COARSE: Final = 8

T = TypeVar("T")


class Budget:
    """The attempts and the seconds that a search may take."""

    def __init__(self, attempts_max: int = ATTEMPTS_MAX, seconds_max: float = SECONDS_MAX) -> None:
        self.attempts = 0
        self.attempts_max = attempts_max
        self._end_s = time.monotonic() + seconds_max

    def take(self) -> bool:
        """Whether one more attempt may be made; counts it."""
        if self.attempts >= self.attempts_max or time.monotonic() >= self._end_s:
            return False
        self.attempts += 1
        return True


def ddmin(items: Sequence[T], fails: Callable[[list[T]], bool], parts_max: int = 0) -> list[T]:
    """A part of `items` that fails and from which no single item can be removed; keeps the order.

    `items` itself fails. `parts_max`: the search divides into at most so many
    parts; 0: down to single items.
    """
    left = list(items)
    if not left or fails([]):
        return []
    parts = 2
    while len(left) > 1:
        size = -(-len(left) // parts)
        # From the end: the last items are most often irrelevant.
        for start in range((len(left) - 1) // size * size, -1, -size):
            without = left[:start] + left[start + size :]
            if without and fails(without):
                left = without
                parts = max(parts - 1, 2)
                break
        else:
            if size == 1 or (parts_max and 2 * parts > parts_max):
                break
            parts = min(2 * parts, len(left))
    return left


class _Found(BaseException):
    """Ends a run as soon as the failure that the trial looks for has happened."""


class Trial:
    """Tries whether runs fail in the way `wanted` (see `failure`), and stops a run at the failure.

    `before_healing`: the violation belongs to the safety phase, so nothing after that phase is run.
    """

    def __init__(self, wanted: str, judges: Sequence[type[Checker]], before_healing: bool) -> None:
        self.wanted = wanted
        self.before_healing = before_healing
        self.judges = list(judges)

    def fails(self, make: Callable[[list[type[Checker]]], World]) -> bool:
        """Whether the world that `make` returns for these judges fails in the way `wanted`."""
        world = make(self.judges)
        for judge in world.judges:
            if judge.name == self.wanted:
                judge.on_first = _stop
        try:
            if self.before_healing:
                violations = self._safety(world)
            else:
                violations = run_world(world).violations
        except _Found:
            world.close()
            return True
        return any(failure(violation) == self.wanted for violation in violations)

    def fails_plan(self, plan: Plan) -> bool:
        """Whether a plan fails in the way `wanted`."""
        return self.fails(lambda judges: new_world(plan, judges))

    def _safety(self, world: World) -> list[Violation]:
        """Runs the safety phase alone; returns the violations that no judge reports."""
        try:
            world.begin()
            world.scheduler.run_until(EPOCH_MS + world.plan.load_ms)
        except (Exception, JudgeFailed) as raised:
            error = cause_of(raised)
            world.fault_found(f"{type(error).__name__}: {error}")
        found = list(world.found)
        world.close()
        return found


def _stop() -> None:
    raise _Found


def trials_of(violation: Violation, load_ms: int, judges: Sequence[type[Checker]]) -> list[Trial]:
    """The trials in which a run of `load_ms` with that violation may fail, the fastest first.

    The judge that found the violation may need what other judges ask of the regions. A violation
    has the time at which its command came; a command that waits for the end of a start may run
    after healing, although it came before.
    """
    wanted = failure(violation)
    guilty = [judge for judge in judges if judge.name == violation.checker]
    trials = [Trial(wanted, guilty, False), Trial(wanted, judges, False)]
    if violation.at_ms < EPOCH_MS + load_ms:
        trials[:0] = [Trial(wanted, guilty, True), Trial(wanted, judges, True)]
    return trials


def failure(violation: Violation) -> str:
    """The kind of a failure: the judge's name.

    For a violation that no judge reports: the beginning of its text, without numbers.
    """
    if violation.checker != "world":
        return violation.checker
    return "world: " + re.sub(r"\d+", "N", violation.text.partition(":")[0])


def shrink(
    plan: Plan,
    violations: Sequence[Violation],
    judges: Sequence[type[Checker]],
    budget: Optional[Budget] = None,
) -> Plan:
    """The smallest plan found that fails like the first violation of `plan`.

    `violations` are those of `plan`.
    """
    return _Shrinker(plan, violations[0], judges, budget or Budget()).shrink()


class _Shrinker:
    """The search. `plan` is the smallest plan so far."""

    def __init__(
        self, plan: Plan, violation: Violation, judges: Sequence[type[Checker]], budget: Budget
    ) -> None:
        self.plan = plan
        self.violation = violation
        self.failure = failure(violation)
        self.budget = budget
        self.rolls = 0
        for trial in trials_of(violation, plan.load_ms, judges):
            self.trial = trial
            if trial.fails_plan(plan):
                break

    def shrink(self) -> Plan:
        """Reduces the world first, then the steps, then both again until nothing can be removed.

        In a simple world, removing a step changes least.
        """
        self._end_early()
        self.rolls = ROLLS
        self._clients()
        self._faults()
        self._intents(COARSE)
        self.rolls = 0
        before = None
        while self.plan != before:
            before = self.plan
            self._steps()
            if self.plan == before and len(self.plan.intents()) > SMALL and not self.rolls:
                self.rolls = ROLLS
                self._steps()
        self.rolls = 0
        self._end_early()
        self._shorten()
        return self.plan

    def _steps(self) -> None:
        self._clients()
        self._faults()
        self._simplify()
        self._regions()
        self._settings()
        self._intents()

    def _try(self, plan: Plan) -> bool:
        """Keeps a plan if it fails in the same way, with its own seed or another one."""
        for roll in range(1 + self.rolls):
            rolled = replace(plan, seed=plan.seed + roll)
            if not self.budget.take():
                return False
            if self.trial.fails_plan(rolled):
                self.plan = rolled
                return True
        return False

    def _end_early(self) -> None:
        """Removes the steps after the violation, and the time after the last step."""
        steps = tuple(
            step for step in self.plan.steps if step.at_ms <= self.violation.at_ms - EPOCH_MS
        )
        if len(steps) < len(self.plan.steps):
            self._try(self.plan.with_steps(steps))
        last_ms = max((_end_ms(step) for step in self.plan.steps), default=0)
        for spare_ms in (1, 50, 500):
            if last_ms + spare_ms < self.plan.load_ms and self._try(
                replace(self.plan, load_ms=last_ms + spare_ms)
            ):
                return

    def _clients(self) -> None:
        ddmin(self.plan.clients, lambda clients: self._try(_with_clients(self.plan, clients)))

    def _faults(self) -> None:
        intents = self.plan.intents()
        ddmin(
            self.plan.faults(),
            lambda faults: self._try(_with_steps(self.plan, [*intents, *faults])),
        )

    def _intents(self, parts_max: int = 0) -> None:
        faults = self.plan.faults()
        ddmin(
            self.plan.intents(),
            lambda intents: self._try(_with_steps(self.plan, [*intents, *faults])),
            parts_max,
        )

    def _simplify(self) -> None:
        """Makes the world simple in each respect in which it still fails."""
        for simpler in simpler_worlds(self.plan):
            self._try(simpler(self.plan))
        if self.plan.links != _mesh(self.plan.regions):
            self._try(replace(self.plan, links=_mesh(self.plan.regions)))
        keys = sorted({key for client in self.plan.clients for key in client.keys})
        if len(keys) > 1:
            self._try(
                replace(
                    self.plan,
                    clients=tuple(replace(client, keys=(keys[0],)) for client in self.plan.clients),
                )
            )

    def _regions(self) -> None:
        """Removes regions, the last first; their clients are removed or move to another region."""
        for region in sorted(self.plan.regions, reverse=True):
            if len(self.plan.regions) > 2:
                left = tuple(each for each in self.plan.regions if each != region)
                any(self._try(_with_regions(self.plan, left, home)) for home in (0, *left))

    def _settings(self) -> None:
        """Sets settings back to their defaults."""
        names = settings_to_drop(self.plan, self.failure)
        ddmin(names, lambda left: self._try(without_settings(self.plan, set(names) - set(left))))

    def _shorten(self) -> None:
        """Shortens faults."""
        for place, step in enumerate(self.plan.steps):
            while isinstance(step, Fault) and step.duration_ms > 1:
                step = replace(step, duration_ms=step.duration_ms // 2)
                if not self._try(
                    self.plan.with_steps(
                        (*self.plan.steps[:place], step, *self.plan.steps[place + 1 :])
                    )
                ):
                    break


def _end_ms(step: Step) -> int:
    return step.at_ms + (step.duration_ms if isinstance(step, Fault) else 0)


def _with_steps(plan: Plan, steps: Sequence[Step]) -> Plan:
    """The plan with only these steps, in the plan's order."""
    kept = {id(step) for step in steps}
    return plan.with_steps(tuple(step for step in plan.steps if id(step) in kept))


def _with_clients(plan: Plan, clients: Sequence[ClientPlan]) -> Plan:
    """The plan with only these clients and their acts."""
    numbers = {client.number for client in clients}
    steps = tuple(
        step for step in plan.steps if not isinstance(step, Intent) or step.client in numbers
    )
    return replace(plan, clients=tuple(clients), steps=steps)


def _with_regions(plan: Plan, regions: tuple[int, ...], home: int) -> Plan:
    """The plan with fewer regions, in a mesh.

    Clients and faults of removed regions move to `home`, or are removed if `home` is 0.
    """
    clients = [
        client if client.home in regions else replace(client, home=home)
        for client in plan.clients
        if client.home in regions or home
    ]
    steps: list[Step] = []
    for step in plan.steps:
        if isinstance(step, Fault):
            struck = step.regions[0] if step.regions[0] in regions else home
            if not struck:
                continue
            others = [
                region
                for region in (*step.regions[1:], *regions)
                if region in regions and region != struck
            ]
            step = replace(step, regions=(struck, *others[: len(step.regions) - 1]))
        steps.append(step)
    smaller = replace(
        plan,
        regions=regions,
        settings={region: plan.settings[region] for region in regions},
        links=_mesh(regions),
        clock_offsets_ms={
            region: offset for region, offset in plan.clock_offsets_ms.items() if region in regions
        },
        steps=tuple(steps),
    )
    return _with_clients(smaller, clients)


def simpler_worlds(plan: Plan) -> list[Callable[[Plan], Plan]]:
    """Functions that each simplify one property of the plan's world."""
    ways: list[Callable[[Plan], Plan]] = []
    if plan.traits:
        ways.append(lambda one: replace(one, traits=frozenset()))
    if plan.loss:
        ways.append(lambda one: replace(one, loss=0.0))
    if any(plan.clock_offsets_ms.values()):
        ways.append(lambda one: replace(one, clock_offsets_ms={}))
    if plan.delay_ms != (0, 0):
        ways.append(lambda one: replace(one, delay_ms=(0, 0)))
    return ways


def settings_to_drop(plan: Plan, wanted: str) -> list[str]:
    """Names of the settings that may go back to their defaults while a plan fails in this way.

    `wanted`: see `failure`.
    """
    names = sorted({name for values in plan.settings.values() for name in values})
    return [name for name in names if not (wanted in PUNCTUAL and name.endswith("-ms"))]


def without_settings(plan: Plan, names: set[str]) -> Plan:
    """The plan with the named settings at their defaults."""
    left = {
        region: {name: value for name, value in values.items() if name not in names}
        for region, values in plan.settings.items()
    }
    return replace(plan, settings=left)


def _mesh(regions: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple((one, other) for one in regions for other in regions if one != other)
