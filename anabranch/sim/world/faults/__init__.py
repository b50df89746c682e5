"""The faults: for each kind its name, its effect when it strikes, and its end.

`sim.draw` decides when a fault strikes, and which regions. A fault that is a state ends after its
duration, or when the run heals.

Reading order:

- `kinds`: the registry of kinds, and faults that are states.
- `network`: the links between regions.
- `processes`: deaths, restarts, pauses and losses for good.
- `backups`: restores, said or forgotten.
- `machines`: disks, clocks and clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Optional

from anabranch.sim.history import Checker
from anabranch.sim.plan import Fault, Plan
from anabranch.sim.world.faults import backups, machines, network, processes
from anabranch.sim.world.faults.backups import PATIENCE_MS
from anabranch.sim.world.faults.kinds import KINDS
from anabranch.sim.world.world import World

__all__ = [
    "KINDS",
    "PATIENCE_MS",
    "backups",
    "heal",
    "machines",
    "network",
    "new_world",
    "processes",
    "strike",
]


def new_world(
    plan: Plan,
    judges: Sequence[type[Checker]],
    tell: Optional[Callable[[tuple[Any, ...]], None]] = None,
    keys: tuple[bytes, ...] = (),
) -> World:
    """A world in which the faults of this module strike. For the arguments see `World`."""
    return World(plan, judges, strike, tell, keys)


def strike(world: World, fault: Fault) -> None:
    """Lets a fault happen now."""
    KINDS[fault.kind](world, fault, Random(fault.draw))


def heal(world: World) -> None:
    """Ends all faults, and starts all regions that do not run and are not gone for good."""
    for region in world.regions.values():
        region.disk.failing = ""
        region.call_off()
    undo, world.undo = world.undo, []
    for end in undo:
        end()
    if "leaps" in world.plan.traits:
        for region_id, region in world.regions.items():
            region.clock.offset_ms = world.plan.clock_offsets_ms.get(region_id, 0)
    for region in world.regions.values():
        if not region.running and not region.is_gone:
            region.down_for = 0
            region.start_if_stopped()
    world.network.cuts.clear()
    world.network.slow_ms.clear()
    world.network.resume()
