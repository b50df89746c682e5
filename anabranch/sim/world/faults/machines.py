"""Faults of disks, clocks and clients."""

from __future__ import annotations

from random import Random
from typing import Final

from anabranch.sim.asked_faults import CLOCK_LEAP
from anabranch.sim.plan import Fault
from anabranch.sim.world.faults.kinds import ends, kind
from anabranch.sim.world.world import World

_LEAP_MAX_MS: Final = 30 * 365 * 24 * 3600 * 1000
# Leaps are multiples of this, and as much more as tells their region.
_STEP_MS: Final = 1000 * 3**6


# -- disks


def _failing(world: World, fault: Fault, how: str) -> None:
    disk = world.regions[fault.regions[0]].disk
    disk.failing = how

    def end() -> None:
        disk.failing = ""

    ends(world, fault, end)


@kind("I/O errors")
def _io_errors(world: World, fault: Fault, draw: Random) -> None:
    _failing(world, fault, "io")


@kind("full disk")
def _full_disk(world: World, fault: Fault, draw: Random) -> None:
    _failing(world, fault, "full")


@kind("read errors")
def _read_errors(world: World, fault: Fault, draw: Random) -> None:
    """The database cannot be read; writes succeed."""
    _failing(world, fault, "reads")


@kind("slow disk")
def _slow_disk(world: World, fault: Fault, draw: Random) -> None:
    region = world.regions[fault.regions[0]]
    region.writes_take(draw.choice([(10, 30), (50, 150)]))

    def end() -> None:
        region.writes_take((0, 3))

    ends(world, fault, end)


# -- clocks


@kind("clock back")
def _clock_back(world: World, fault: Fault, draw: Random) -> None:
    world.regions[fault.regions[0]].clock.offset_ms -= draw.choice([1, 50, 1000, 20_000])


@kind("clock forward")
def _clock_forward(world: World, fault: Fault, draw: Random) -> None:
    world.regions[fault.regions[0]].clock.offset_ms += draw.choice([1, 50, 500])


@kind(CLOCK_LEAP)
def _clock_leap(world: World, fault: Fault, draw: Random) -> None:
    """The clock leaps by seconds to 30 years, for a time. The region may start meanwhile.

    No two clocks that leapt agree, not even after two leaps each: nothing could tell that most
    clocks are wrong.
    """
    region = world.regions[fault.regions[0]]
    longest_ms = min(_LEAP_MAX_MS, region.now_ms() // 2)
    steps = int(10 ** draw.uniform(0.0, 9.0)) % (longest_ms // _STEP_MS)
    by_ms = draw.choice([-1, 1, 1]) * (steps * _STEP_MS + 1000 * 3**region.region_id)
    region.clock.offset_ms += by_ms
    if draw.random() < 0.4 and region.running:
        region.stop("kill")
        region.start_if_stopped()

    def end() -> None:
        region.clock.offset_ms -= by_ms

    ends(world, fault, end)


@kind("strobing clock")
def _strobe(world: World, fault: Fault, draw: Random) -> None:
    clock = world.regions[fault.regions[0]].clock
    apart_ms = draw.choice([3, 100, 400])
    deviation_ms = 0

    def deviate(by_ms: int) -> None:
        # Other faults may move the clock meanwhile, so only the own deviation is replaced.
        nonlocal deviation_ms
        clock.offset_ms += by_ms - deviation_ms
        deviation_ms = by_ms

    state = ends(world, fault, lambda: deviate(0))

    def strobe() -> None:
        if not state.is_over:
            deviate(draw.randint(-apart_ms, apart_ms))

    for beat in range(0, fault.duration_ms, max(20, fault.duration_ms // 20)):
        world.scheduler.after(beat, strobe)


# -- clients


@kind("client crash")
def _client_crash(world: World, fault: Fault, draw: Random) -> None:
    number = draw.choice(list(world.clients))
    world.break_line(number)
    world.clients[number].crash()


@kind("clients cut off")
def _clients_cut_off(world: World, fault: Fault, draw: Random) -> None:
    """All clients of a region lose their connections, and the answers on their way."""
    region = world.regions[fault.regions[0]]
    if region.process is not None:
        for line in list(region.lines.by_session.values()):
            region.lines.disconnect(line)
