"""The shrinker: ddmin on known predicates, and plans and scripts whose failure is planted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from anabranch.sim.draw import draw_plan
from anabranch.sim.history import Checker, Operation, Violation
from anabranch.sim.plan import ClientPlan, Fault, Intent, Plan
from anabranch.sim.run import run_plan
from anabranch.sim.script import Command, Script, is_failure, record, run_script, shrink_script
from anabranch.sim.shrink import Budget, ddmin, failure, shrink, trials_of
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.trace import plain


@pytest.mark.parametrize(
    "wanted", [[0], [99], [3, 4], [0, 50, 99], [10, 20, 30, 40, 50, 60], list(range(0, 100, 9))]
)
def test_ddmin_finds_exactly_what_is_needed(wanted: list[int]) -> None:
    assert ddmin(range(100), lambda part: set(wanted) <= set(part)) == wanted


def test_ddmin_leaves_nothing_that_can_go_alone() -> None:
    # There are two ways to fail; exactly one of them is left, complete.
    def fails(part: Sequence[int]) -> bool:
        return {5, 50} <= set(part) or {6, 7, 8} <= set(part)

    left = ddmin(range(60), fails)
    assert fails(left)
    assert not any(fails([each for each in left if each != one]) for one in left)


def test_ddmin_of_what_fails_always_is_nothing() -> None:
    assert ddmin([1, 2, 3], lambda part: True) == []
    assert ddmin([], lambda part: False) == []


def test_ddmin_tries_the_same_each_time() -> None:
    def tried() -> list[list[int]]:
        parts: list[list[int]] = []

        def fails(part: list[int]) -> bool:
            parts.append(part)
            return {7, 31} <= set(part)

        ddmin(range(40), fails)
        return parts

    assert tried() == tried()


def test_a_budget_ends_the_search() -> None:
    budget = Budget(attempts_max=3)
    assert [budget.take() for _ in range(5)] == [True, True, True, False, False]
    assert not Budget(seconds_max=0).take()


def test_failures_of_a_judge_are_alike_and_exceptions_are_by_kind() -> None:
    assert failure(Violation("digests", 5, 1, "one")) == failure(Violation("digests", 9, 2, "two"))
    assert failure(Violation("world", 5, 0, "KeyError: 17 (put, line 3)")) == failure(
        Violation("world", 5, 0, "KeyError: 4 (get, line 9)")
    )
    assert failure(Violation("world", 5, 0, "KeyError: 17 (put, line 3)")) != failure(
        Violation("world", 5, 0, "ValueError: 17")
    )
    one, other = (
        Violation("world", 5, 0, f"region {n} cannot start from its disk: torn") for n in (1, 2)
    )
    assert failure(one) == failure(other)


class NoDeleteAfterKill(Checker):
    """A planted judge: rejects a DEL that removes a key in a region that was killed before."""

    name = "no_delete_after_kill"

    def executed(self, operation: Operation) -> None:
        """Judges DEL."""
        if operation.argv[0] == b"DEL" and operation.reply == 1 and operation.start > 1:
            self.fail(operation.at_ms, operation.region, "a DEL after a kill")


class Never(Checker):
    """A judge that never fails."""

    name = "never"


@cache
def failing() -> tuple[Plan, list[Violation]]:
    """The plan and the violations of the first seed that the planted judge rejects."""
    for seed in range(500):
        plan = draw_plan(seed, 3, 100, ["kill"])
        if not plan.faults() or not any(client.kind == "deleter" for client in plan.clients):
            continue
        violations = run_plan(plan, [NoDeleteAfterKill]).violations
        if violations:
            return plan, violations
    raise AssertionError("no seed deletes after a kill")


def test_a_plan_becomes_small_and_still_fails_so() -> None:
    plan, violations = failing()
    small = shrink(plan, violations, [Never, NoDeleteAfterKill])
    assert is_failure(run_plan(small, [NoDeleteAfterKill]).violations, "no_delete_after_kill")
    assert [fault.kind for fault in small.faults()] == ["kill"]
    assert len(small.intents()) <= 6
    assert len(small.clients) <= 2
    assert len(small.regions) == 2
    assert all(not values for values in small.settings.values())
    assert small == shrink(plan, violations, [Never, NoDeleteAfterKill])


class Clumsy(Checker):
    """A judge that raises an exception at the first command."""

    name = "clumsy"

    def executed(self, operation: Operation) -> None:
        """Raises."""
        raise ZeroDivisionError("oops")


def test_an_exception_of_a_judge_ends_the_run_and_can_be_shrunk() -> None:
    """The client connection that runs the command must not take it for an error of the command."""
    plan = draw_plan(1, 2, 20, [])
    (violation,) = run_plan(plan, [Clumsy]).violations
    assert violation.checker == "world"
    assert violation.text.startswith("ZeroDivisionError: oops (executed, line ")
    small = shrink(plan, [violation], [Clumsy])
    assert len(small.intents()) == 1
    (violation,) = run_plan(small, [Clumsy]).violations
    assert failure(violation) == "world: ZeroDivisionError"


class LateDelete(Checker):
    """A planted judge: rejects a DEL that waited for the end of a start."""

    name = "late_delete"

    def executed(self, operation: Operation) -> None:
        """Judges DEL."""
        if operation.argv[0] == b"DEL" and operation.waited:
            self.fail(operation.at_ms, operation.region, "a DEL that waited")


def test_a_command_of_the_safety_phase_that_runs_after_healing_is_shrunk() -> None:
    """The violation has the time of the command, before healing; a run up to healing lacks it."""
    settings = {one: {"crdt-start-patience-ms": "60000"} for one in (1, 2)}
    faults = (Fault(60, "kill", (1, 2), 5, 0), Fault(60, "cut", (1, 2), 5000, 0))
    exists = Command(70, 2, 2, ((b"EXISTS", b"k"),))
    add = Command(10, 1, 1, ((b"XADD", b"k", b"*", b"t", b"1"),))
    commands = (add, exists, Command(100, 1, 1, ((b"DEL", b"k"),)))
    script = world(commands, faults)
    script = replace(script, plan=replace(script.plan, settings=settings))
    (violation,) = run_script(script, [LateDelete]).violations
    assert violation.at_ms == EPOCH_MS + 100
    trials = trials_of(violation, script.plan.load_ms, [Never, LateDelete])
    assert [trial.before_healing for trial in trials] == [True, True, False, False]
    assert [len(trial.judges) for trial in trials] == [1, 2, 1, 2]
    small = shrink_script(script, violation, [Never, LateDelete], Budget())
    assert exists not in small.commands
    assert is_failure(run_script(small, [LateDelete]).violations, "late_delete")


def test_a_violation_after_the_load_is_looked_for_after_healing() -> None:
    late = Violation("late_delete", EPOCH_MS + 500, 1, "late")
    trials = trials_of(late, 500, [Never, LateDelete])
    assert [trial.before_healing for trial in trials] == [False, False]


def test_a_script_does_what_the_plan_did_and_becomes_two_commands() -> None:
    plan, _ = failing()
    script, result = record(plan, [NoDeleteAfterKill])
    assert run_script(script, [NoDeleteAfterKill]).violations == result.violations
    small = shrink_script(script, result.violations[0], [NoDeleteAfterKill], Budget())
    assert [command.commands[0][0] for command in small.commands] == [
        b"XADD",
        b"DEL",
    ] or small.size() <= 3
    assert [fault.kind for fault in small.plan.faults()] == ["kill"]


@pytest.mark.parametrize("seed", range(10))
def test_a_recorded_run_is_the_run(seed: int) -> None:
    """With all faults and clients: the commands at their times give the replies of the plan."""
    plan = draw_plan(seed, 3, 150)
    told: list[list[tuple[object, ...]]] = []

    class Listener(Checker):
        """Notes the executed commands."""

        def executed(self, operation: Operation) -> None:
            """Notes a command and its reply."""
            told[-1].append(
                (
                    operation.at_ms,
                    operation.client,
                    operation.region,
                    operation.argv,
                    plain(operation.reply),
                )
            )

    told.append([])
    script, _ = record(plan, [Listener])
    told.append([])
    run_script(script, [Listener])
    assert len(told[0]) > 30
    assert (
        next(((one, other) for one, other in zip(*told, strict=False) if one != other), None)
        is None
    )
    assert len(told[0]) == len(told[1])


def world(commands: tuple[Command, ...], faults: tuple[Fault, ...] = ()) -> Script:
    clients = tuple(ClientPlan(number, "producer", 1, (b"k",), number) for number in (1, 2))
    plan = Plan(
        1,
        (1, 2),
        {1: {}, 2: {}},
        clients,
        faults,
        ((1, 2), (2, 1)),
        500,
        10,
        (0, 0),
        0.0,
        {},
        frozenset(),
    )
    return Script(plan, commands)


class Seen(Checker):
    """Notes (client, argv, reply) of each command."""

    log: list[tuple[int, tuple[bytes, ...], object]]

    def executed(self, operation: Operation) -> None:
        """Notes a command."""
        Seen.log.append((operation.client, operation.argv, operation.reply))


def test_a_command_names_the_id_that_the_same_add_has_made_now() -> None:
    add = (b"XADD", b"k", b"*", b"t", b"1")
    commands = (
        Command(10, 1, 1, (add,)),
        Command(20, 2, 1, ((b"XRANGE", b"k", b"5-1", b"5-1"),)),
        Command(30, 2, 1, ((b"XRANGE", b"k", b"(5-1", b"+"),)),
    )
    Seen.log = []
    run_script(replace(world(commands), made={b"1": [b"5-1"]}), [Seen])
    made = Seen.log[0][2]
    assert isinstance(made, bytes) and made != b"5-1"
    assert Seen.log[1][1] == (b"XRANGE", b"k", made, made)
    assert Seen.log[2][1] == (b"XRANGE", b"k", b"(" + made, b"+")


def test_a_client_that_gave_up_waits_no_more() -> None:
    blocked = (b"XREAD", b"BLOCK", b"0", b"STREAMS", b"k", b"$")
    commands = (
        Command(10, 1, 1, (blocked,)),
        Command(20, 1, 1, ((b"EXISTS", b"k"),)),
        Command(30, 1, 1, ((b"TYPE", b"k"),), anew=True),
    )
    Seen.log = []
    run_script(world(commands), [Seen])
    # EXISTS stood behind the blocked read.
    assert [argv[0] for client, argv, _ in Seen.log if client == 1] == [b"TYPE"]


def test_acts_are_in_the_order_of_plans() -> None:
    kill = Fault(20, "kill", (1, 2), 5, 0)
    commands = (Command(10, 1, 1, ((b"EXISTS", b"k"),)), Command(20, 1, 1, ((b"EXISTS", b"k"),)))
    script = world(commands, (kill,))
    assert script.acts() == [commands[0], commands[1], kill]
    assert script.with_acts([kill]).acts() == [kill]
    assert isinstance(draw_plan(1).steps[0], (Intent, Fault))
