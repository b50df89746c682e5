"""Errors that break off steps of simulated regions (S13.10)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from anabranch import build
from anabranch.region.driver.driver import Driver
from anabranch.region.live import starting
from anabranch.sim.asked_faults import ERROR_IN_A_STEP, ERRORS
from anabranch.sim.draw import FAULTS, draw_plan
from anabranch.sim.run import run_plan

SEEDS = range(6)


def test_only_errors_differ_from_the_plan_without_them() -> None:
    """Seeds that were drawn before keep their runs."""
    assert not FAULTS.keys() & set(ERRORS)
    kept = []
    for seed in range(100):
        plain, plan = draw_plan(seed), draw_plan(seed, errors=True)
        errors = [fault for fault in plan.faults() if fault.kind in ERRORS]
        in_steps = [fault for fault in errors if fault.kind == ERROR_IN_A_STEP]
        others = tuple(step for step in plan.steps if step not in errors)
        assert 1 <= len(in_steps) <= 4 and len(errors) <= len(in_steps) + 2
        assert all(one.at_ms < plan.load_ms for one in errors)
        assert plan.with_steps(()) == plain.with_steps(())
        assert others in (plain.steps, tuple(plain.intents()))
        kept.append(others == plain.steps)
    assert 0.5 < sum(kept) / len(kept) < 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_a_region_comes_back_equal_to_its_log(seed: int) -> None:
    result = run_plan(draw_plan(seed, 3, 100, errors=True))
    assert not result.violations


def violations(seeds: int, ops: int) -> list[str]:
    """The violations in runs with errors, of the seeds from 0 on."""
    plans = (draw_plan(seed, 3, ops, errors=True) for seed in range(seeds))
    return [str(violation) for plan in plans for violation in run_plan(plan).violations]


# In the compiled build only calls at the border of a step are seen.
interpreted = pytest.mark.skipif(
    build.kind() == "compiled", reason="it counts calls of Python; `make test-pure` runs it"
)


@interpreted
def test_errors_strike() -> None:
    counted: Counter[str] = Counter()
    for seed in SEEDS:
        counted.update(run_plan(draw_plan(seed, 3, 100, errors=True)).counters)
    assert counted["died of an error in a step"] > 0


@interpreted
def test_a_step_that_catches_an_error_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it was: each command was run in `try`, and the region went on after an error."""
    real = Driver.step

    # A call counts if product code makes it, or a function that passes a call of its name on.
    def step(driver: Driver) -> object:
        try:
            return real(driver)
        except MemoryError:
            return real(driver)

    monkeypatch.setattr(Driver, "step", step)
    found = violations(20, 100)
    assert any("caught an error in a step" in text for text in found)


@interpreted
def test_errors_strike_in_starts_and_stops() -> None:
    counted: Counter[str] = Counter()
    for seed in range(30):
        counted.update(run_plan(draw_plan(seed, 3, 60, errors=True)).counters)
    assert counted["died of an error in a start"] > 0
    assert counted["died of an error in a stop"] > 0


@interpreted
def test_a_start_that_catches_an_error_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    real = starting.start

    async def start(*arguments: Any) -> Driver:
        try:
            return await real(*arguments)
        except MemoryError:
            return await real(*arguments)

    monkeypatch.setattr(starting, "start", start)
    found = violations(30, 60)
    assert any("caught an error in its start" in text for text in found)
