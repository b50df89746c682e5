"""Plans drawn with `restores`: their faults, runs of some seeds, and lists of failed seeds."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from anabranch.sim import simulate
from anabranch.sim.asked_faults import FORGOTTEN_RESTORE
from anabranch.sim.draw import FAULTS, draw_plan
from anabranch.sim.plan import Fault, Plan
from anabranch.sim.run import run_plan
from anabranch.sim.seeds import FailedSeed, SeedsError, failed
from anabranch.sim.simulate import options_of
from anabranch.sim.sweep import Task
from anabranch.sim.world.faults import PATIENCE_MS, new_world

SEEDS = range(60)
# Restores whose backups are put back within this time of each other count as one group.
GROUP_MS = 500


def restores_of(plan: Plan) -> list[Fault]:
    return [fault for fault in plan.faults() if fault.kind == FORGOTTEN_RESTORE]


# -- plans


@pytest.mark.parametrize("regions", [2, 3, 4])
def test_at_least_every_second_fault_is_an_unsaid_restore(regions: int) -> None:
    for seed in SEEDS:
        plan = draw_plan(seed, regions, restores=True)
        others = [fault for fault in plan.faults() if fault.kind != FORGOTTEN_RESTORE]
        found = restores_of(plan)
        assert len(found) >= max(2, len(others))
        # The last group may exceed the number of the other faults.
        assert len(found) < max(2, len(others)) + regions


@pytest.mark.parametrize("regions", [3, 4])
def test_restores_strike_any_region_during_the_load(regions: int) -> None:
    struck: Counter[int] = Counter()
    for seed in SEEDS:
        plan = draw_plan(seed, regions, restores=True)
        for fault in restores_of(plan):
            region, other = fault.regions
            assert region != other and {region, other} <= set(plan.regions)
            assert 0 <= fault.at_ms < plan.load_ms
            assert fault.duration_ms >= 20
            struck[region] += 1
    assert set(struck) == set(range(1, regions + 1))


@pytest.mark.parametrize("regions", [3, 4])
def test_backups_of_several_regions_are_put_back_together(regions: int) -> None:
    """S13.6: over many seeds, restores strike one, two, and all regions at about one time."""
    together: Counter[int] = Counter()
    for seed in SEEDS:
        found = sorted(restores_of(draw_plan(seed, regions, restores=True)), key=lambda f: f.at_ms)
        for first in found:
            near = [one for one in found if 0 <= one.at_ms - first.at_ms <= GROUP_MS]
            near = [one for one in near if abs(_ends_ms(one) - _ends_ms(first)) <= GROUP_MS]
            together[len({one.regions[0] for one in near})] += 1
    assert set(together) == set(range(1, regions + 1))
    assert together[2] > 20 and together[regions] > 20


def _ends_ms(fault: Fault) -> int:
    return fault.at_ms + fault.duration_ms


@pytest.mark.parametrize("regions", [3, 4])
def test_only_links_restores_and_cuts_differ_from_the_plan_without_them(regions: int) -> None:
    links = {(one, other) for one in range(1, regions + 1) for other in range(1, regions + 1)}
    links -= {(one, one) for one in range(1, regions + 1)}
    for seed in SEEDS:
        usual = draw_plan(seed, regions)
        plan = draw_plan(seed, regions, restores=True)
        more = [step for step in plan.steps if step not in usual.steps]
        assert {fault.kind for fault in more if isinstance(fault, Fault)} <= {
            FORGOTTEN_RESTORE,
            "cut",
        }
        assert all(isinstance(step, Fault) for step in more)
        assert all(step in plan.steps for step in usual.steps)
        assert [step.at_ms for step in plan.steps] == sorted(step.at_ms for step in plan.steps)
        assert set(plan.links) == links and len(plan.links) == len(links)
        assert replace(plan, steps=(), links=()) == replace(usual, steps=(), links=())


def test_no_other_plan_has_unsaid_restores_of_this_kind() -> None:
    assert FORGOTTEN_RESTORE not in FAULTS
    assert not any(restores_of(draw_plan(seed)) for seed in SEEDS)
    with pytest.raises(ValueError, match=f"there is no fault '{FORGOTTEN_RESTORE}'"):
        draw_plan(1, faults=[FORGOTTEN_RESTORE])


def test_the_chosen_faults_stay_chosen() -> None:
    for seed in SEEDS:
        plan = draw_plan(seed, faults=["kill"], restores=True)
        assert {fault.kind for fault in plan.faults()} <= {"kill", FORGOTTEN_RESTORE}
        assert len(restores_of(plan)) >= 2


def test_half_of_the_plans_have_two_overlapping_starts() -> None:
    """S13.6: a region is put back while another one, put back before, asks."""
    overlapping = 0
    for seed in SEEDS:
        usual = draw_plan(seed).faults()
        plan = draw_plan(seed, restores=True)
        cuts = [one for one in plan.faults() if one.kind == "cut" and one not in usual]
        overlapping += bool(cuts)
        assert len(cuts) in (0, 5)
        assert all(one.at_ms < plan.load_ms for one in cuts)
    assert 20 <= overlapping <= 40


# -- runs


def test_an_unsaid_restore_starts_on_the_backup_with_patience() -> None:
    plan = draw_plan(1, 3, 10, [], restores=True)
    fault = Fault(0, FORGOTTEN_RESTORE, (2, 1), 50, 3)
    world = new_world(plan.with_steps(()), [])
    world.begin()
    world.scheduler.run_until(world.scheduler.now_ms + 100)
    world.strike(fault)
    starts = world.regions[2].starts
    world.scheduler.run_until(world.scheduler.now_ms + 49)
    assert world.regions[2].starts == starts, "the backup is put back after the fault's duration"
    world.scheduler.run_until(world.scheduler.now_ms + 1)
    region = world.regions[2]
    assert region.starts == starts + 1 and region.restores == 1
    assert region.restart.how == "backup" and not region.restart.is_restored
    assert region.settings.integer("crdt-start-patience-ms") == int(PATIENCE_MS)
    world.close()


@pytest.mark.parametrize("regions", [3, 4])
def test_runs_with_restores_violate_nothing(regions: int) -> None:
    """A few seeds of each size; in at least one of them, every region is restored."""
    all_struck = False
    restarts = 0
    for seed in range(5):
        plan = draw_plan(seed, regions, 60, restores=True)
        result = run_plan(plan)
        assert result.violations == [], [str(violation) for violation in result.violations]
        restarts += result.counters[f"fault:{FORGOTTEN_RESTORE}"]
        all_struck |= {fault.regions[0] for fault in restores_of(plan)} == set(plan.regions)
    assert all_struck and restarts >= 10


def test_a_task_draws_with_restores() -> None:
    assert Task(4, 20, restores=True).plan(7) == draw_plan(7, 4, 20, restores=True)
    assert Task(4, 20).plan(7) == draw_plan(7, 4, 20)
    assert options_of(Task(restores=True)) == " --restores"
    assert options_of(Task(4, 20, (), True)) == ' --regions 4 --ops 20 --faults "none" --restores'


# -- failed seeds


def test_a_failed_seed_may_have_been_drawn_with_restores(tmp_path: Path) -> None:
    path = tmp_path / "failed.txt"
    path.write_text("17 4 300+restores vectors: two forked\n18 3 300 digests: 300+restores\n")
    assert failed(path) == [
        FailedSeed(17, 4, 300, True, "vectors: two forked"),
        FailedSeed(18, 3, 300, False, "digests: 300+restores"),
    ]


@pytest.mark.parametrize(
    "ops",
    [
        "300+restore",
        "300+Restores",
        "300+restores+restores",
        "300restores",
        "+restores",
        "x+restores",
        "300+",
        "300+ restores",
        "-300+restores",
        "300-restores",
        "3e2+restores",
    ],
)
def test_a_malformed_number_of_operations_is_refused(tmp_path: Path, ops: str) -> None:
    path = tmp_path / "failed.txt"
    path.write_text(f"# seeds\n17 3 {ops} vectors\n")
    with pytest.raises(SeedsError, match=r"failed.txt:2: a line is 'seed regions ops remark'"):
        failed(path)


def test_failed_seeds_run_with_their_restores(tmp_path: Path) -> None:
    path = tmp_path / "failed.txt"
    path.write_text("1 3 10+restores one\n2 3 10 another\n")
    on = Console(file=io.StringIO(), width=160)
    assert simulate.run_failed(simulate.Asked(), on, path) == []
    assert isinstance(on.file, io.StringIO)
    lines = [line for line in on.file.getvalue().splitlines() if "failed once" in line]
    assert lines == [
        "1 seed that failed once, of 3 regions and 10 operations with forgotten restores",
        "1 seed that failed once, of 3 regions and 10 operations",
    ]
