"""Faults outside the model: regions that lose their files (S13.6), clocks that leap (S10.2)."""

from __future__ import annotations

from collections import Counter

import pytest

from anabranch.sim.asked_faults import CLOCK_LEAP, EMPTIED_DIRECTORY
from anabranch.sim.draw import FAULTS, draw_plan
from anabranch.sim.run import run_plan

SEEDS = range(12)
# In plans with leaps no other fault sets a clock.
CLOCKS = ("clock back", "clock forward", "strobing clock")


def test_only_these_faults_differ_from_the_plan_without_them() -> None:
    """Seeds that were drawn before keep their runs."""
    assert not {EMPTIED_DIRECTORY, CLOCK_LEAP} & set(FAULTS)
    together, kinds = 0, Counter[str]()
    for seed in range(100):
        plain, plan = draw_plan(seed), draw_plan(seed, outside=True)
        added = [one for one in plan.faults() if one.kind in (EMPTIED_DIRECTORY, CLOCK_LEAP)]
        assert added and all(one.at_ms < plan.load_ms for one in added)
        leaps = "leaps" in plan.traits
        kept = [one for one in plain.steps if not (leaps and getattr(one, "kind", "") in CLOCKS)]
        assert [step for step in plan.steps if step not in added] == kept
        assert leaps or plan.with_steps(()) == plain.with_steps(())
        together += len({one.at_ms for one in added}) < len(added)
        kinds.update({one.kind for one in added})
    assert together > 10 and min(kinds.values()) > 30


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_with_faults_outside_the_model(seed: int) -> None:
    assert not run_plan(draw_plan(seed, 3, 100, outside=True)).violations


def test_such_faults_strike() -> None:
    counted: Counter[str] = Counter()
    for seed in SEEDS:
        counted.update(run_plan(draw_plan(seed, 3, 100, outside=True)).counters)
    assert counted["fault:emptied directory"] > 0 and counted["fault:clock leap"] > 0
