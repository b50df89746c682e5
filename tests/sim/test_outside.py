"""Faults outside the model of the specification: regions that lose their files (S13.6)."""

from __future__ import annotations

from collections import Counter

import pytest

from anabranch.sim.asked_faults import EMPTIED_DIRECTORY
from anabranch.sim.draw import FAULTS, draw_plan
from anabranch.sim.run import run_plan

SEEDS = range(12)


def test_only_these_faults_differ_from_the_plan_without_them() -> None:
    """Seeds that were drawn before keep their runs."""
    assert EMPTIED_DIRECTORY not in FAULTS
    together = 0
    for seed in range(100):
        plain, plan = draw_plan(seed), draw_plan(seed, outside=True)
        emptied = [fault for fault in plan.faults() if fault.kind == EMPTIED_DIRECTORY]
        assert emptied and all(one.at_ms < plan.load_ms for one in emptied)
        assert tuple(step for step in plan.steps if step not in emptied) == plain.steps
        together += len({one.at_ms for one in emptied}) < len(emptied)
    assert together > 10


@pytest.mark.parametrize("seed", SEEDS)
def test_a_region_that_lost_its_files_forks_from_nobody(seed: int) -> None:
    assert not run_plan(draw_plan(seed, 3, 100, outside=True)).violations


def test_emptied_directories_strike() -> None:
    counted: Counter[str] = Counter()
    for seed in SEEDS:
        counted.update(run_plan(draw_plan(seed, 3, 100, outside=True)).counters)
    assert counted["fault:emptied directory"] > 0
