"""Faults of processes and whole regions: deaths, restarts, pauses, losses for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from anabranch.sim.asked_faults import ERROR_IN_A_START, ERROR_IN_A_STEP, ERROR_IN_A_STOP
from anabranch.sim.plan import Fault
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.faults.kinds import ends, kind
from anabranch.sim.world.planted_error import PARTS, PARTS_OF_STARTS, Plant
from anabranch.sim.world.region import SimulatedRegion
from anabranch.sim.world.world import World

# By how much later than the first region another one may be told that a region is lost.
_TOLD_LATER_MS: Final = (0, 0, 20, 200)


def _down(world: World, region: SimulatedRegion, fault: Fault) -> None:
    """Keeps a region that has just stopped from starting, for the duration of the fault."""
    region.down_for += 1

    def end() -> None:
        region.down_for = max(0, region.down_for - 1)
        region.start_if_stopped()

    ends(world, fault, end)


@kind("kill")
@kind("long absence")
def _kill(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running:
        region.stop("kill")
        _down(world, region, fault)


@kind("kill in a write")
def _kill_in_write(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running:
        region.cut_disk(draw.randrange(40), "kill", fault.duration_ms, None)


def _power(draw: Random) -> Callable[[Disk], None]:
    survival = draw.choice([0.0, 0.0, 0.5, 0.9])
    return lambda disk: disk.power_cut(draw, survival)


@kind("power cut")
def _power_cut(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running:
        region.stop("power", silently=True, power=_power(draw))
        _down(world, region, fault)


@kind("power cut in a write")
def _power_cut_in_write(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running:
        region.cut_disk(draw.randrange(40), "power", fault.duration_ms, _power(draw))


@kind("death in a checkpoint")
def _death_in_checkpoint(world: World, fault: Fault, draw: Random) -> None:
    """The region dies right after a part of a checkpoint has been written, or its machine does."""
    region = world.regions[fault.regions[0]]
    if region.running:
        how, power = draw.choice([("kill", None), ("power", _power(draw))])
        region.cut_checkpoint(draw.randrange(6), how, fault.duration_ms, power)


@kind(ERROR_IN_A_STEP)
def _error_in_a_step(world: World, fault: Fault, draw: Random) -> None:
    """An error breaks off one of the next steps. The process ends and is started again (S13.10)."""
    region = world.regions[fault.regions[0]]
    if region.running:
        region.plant(_planted(draw, PARTS), fault.duration_ms)


def _planted(draw: Random, parts: Sequence[str]) -> Plant:
    calls_max = draw.choice([10, 100, 1000, 10_000])
    return Plant(draw.choice(parts), draw.randrange(calls_max))


@kind(ERROR_IN_A_START)
def _error_in_a_start(world: World, fault: Fault, draw: Random) -> None:
    """The region is killed. Errors break off its next starts, or the first steps after one."""
    region = world.regions[fault.regions[0]]
    if region.running:
        region.stop("kill")
        plants = [_planted(draw, PARTS_OF_STARTS) for _ in range(draw.choice([1, 1, 3]))]
        region.plant_in_starts(plants, fault.duration_ms)
        _down(world, region, fault)


@kind(ERROR_IN_A_STOP)
def _error_in_a_stop(world: World, fault: Fault, draw: Random) -> None:
    """An error breaks off the last steps of a region that is stopped, or it stops cleanly."""
    region = world.regions[fault.regions[0]]
    if region.running and not region.paused:
        region.stop_cleanly(_planted(draw, PARTS))
        _down(world, region, fault)


@kind("blackout")
def _blackout(world: World, fault: Fault, draw: Random) -> None:
    """Every region loses power at once."""
    for region in world.regions.values():
        if region.running:
            region.stop("power", silently=True, power=_power(draw))
            _down(world, region, fault)


@kind("clean restart")
def _clean_restart(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if region.running and not region.paused:
        region.stop_cleanly()
        _down(world, region, fault)


@kind("gone for good")
def _gone(world: World, fault: Fault, draw: Random) -> None:
    """A region is lost with all effects that only it held.

    After the fault's duration every other region is told (S13.8), some of them later than others.
    A region is told again if it lost that in a restore.
    """
    region = world.regions[fault.regions[0]]
    if not region.running or world.gone or not world.is_connected_without(region.region_id):
        return
    region.is_gone = True
    region.stop("gone", silently=draw.random() < 0.5)
    for other in world.regions.values():
        if other is not region:
            later_ms = draw.choice(_TOLD_LATER_MS)
            ends(world, fault, partial(give_up, world, region, other), later_ms)


def give_up(world: World, region: SimulatedRegion, other: SimulatedRegion) -> None:
    """Tells `other` that the region is lost. Their messages on the way are dropped before."""
    for pipe in world.network.between(region.region_id, other.region_id):
        for end in (0, 1):
            world.network.closed(pipe, end, "gone for good")
    world.gone.append((region, other))
    world.say_lost()


@kind("pause")
def _pause(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    if not region.running or region.paused:
        return
    start = region.starts
    region.pause(True)

    def end() -> None:
        if region.is_running(start):
            region.pause(False)
            world.network.resume()

    ends(world, fault, end)
