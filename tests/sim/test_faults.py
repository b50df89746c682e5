"""Faults that act repeatedly or later end when the run heals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.sim.draw import draw_plan
from anabranch.sim.plan import Fault
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import heal, new_world
from anabranch.sim.world.world import World

BEGIN_MS = 10
HEAL_MS = 150
LONG_MS = 3000


@pytest.fixture
def world() -> Iterator[World]:
    """A small world without faults."""
    world = new_world(draw_plan(1, 2, 60, faults=()), [])
    world.begin()
    world.scheduler.run_until(EPOCH_MS + BEGIN_MS)
    yield world
    world.close()


@pytest.mark.parametrize("draw", range(5))
def test_a_flapping_link_is_not_cut_after_healing(world: World, draw: int) -> None:
    world.strike(Fault(BEGIN_MS, "flapping", (1, 2), LONG_MS, draw))
    world.scheduler.run_until(EPOCH_MS + HEAL_MS)
    assert world.network.cuts[(1, 2)] == 1
    heal(world)
    for at_ms in range(HEAL_MS, 2 * LONG_MS, 10):
        world.scheduler.run_until(EPOCH_MS + at_ms)
        assert not any(world.network.cuts.values())


@pytest.mark.parametrize("draw", range(5))
def test_a_strobing_clock_stands_still_after_healing(world: World, draw: int) -> None:
    """What other faults did to the clock meanwhile stays."""
    clock = world.regions[1].clock
    before_ms = clock.offset_ms
    world.strike(Fault(BEGIN_MS, "strobing clock", (1, 2), LONG_MS, draw))
    world.scheduler.run_until(EPOCH_MS + HEAL_MS // 2)
    strobed_ms = clock.offset_ms
    world.strike(Fault(HEAL_MS // 2, "clock back", (1, 2), 0, draw))
    moved_ms = clock.offset_ms - strobed_ms
    assert strobed_ms != before_ms and moved_ms < 0
    world.scheduler.run_until(EPOCH_MS + HEAL_MS)
    heal(world)
    for at_ms in range(HEAL_MS, 2 * LONG_MS, 10):
        world.scheduler.run_until(EPOCH_MS + at_ms)
        assert clock.offset_ms == before_ms + moved_ms


def test_a_region_dies_right_after_a_part_of_a_checkpoint(world: World) -> None:
    region = world.regions[1]
    region.cut_checkpoint(0, "kill", 20, None)
    world.scheduler.run_until(EPOCH_MS + LONG_MS)
    assert region.starts == 2 and region.running


def test_a_region_does_not_die_in_a_checkpoint_after_healing(world: World) -> None:
    world.strike(Fault(BEGIN_MS, "death in a checkpoint", (1, 2), 20, 5))
    heal(world)
    world.scheduler.run_until(EPOCH_MS + LONG_MS)
    assert world.regions[1].starts == 1


def test_a_log_that_cannot_be_read(world: World) -> None:
    """Reads fail and writes succeed, and the region serves until that is over."""
    world.strike(Fault(BEGIN_MS, "read errors", (1, 2), LONG_MS, 0))
    world.scheduler.run_until(EPOCH_MS + HEAL_MS)
    assert world.counters["read failed"] > 0 and world.counters["write failed"] == 0
    heal(world)
    failed = world.counters["read failed"]
    world.scheduler.run_until(EPOCH_MS + LONG_MS)
    assert world.counters["read failed"] == failed
    assert world.regions[1].running and not world.found
