"""Files that are not those of the last process: backups put back, said or not, and none at all."""

from __future__ import annotations

from random import Random
from typing import Final

from anabranch.sim.asked_faults import EMPTIED_DIRECTORY, FORGOTTEN_RESTORE
from anabranch.sim.plan import Fault
from anabranch.sim.world.faults.kinds import KINDS, ends, kind
from anabranch.sim.world.world import World

# The patience of a start that must hear of its restore from the others.
PATIENCE_MS: Final = "60000"


@kind("old backup")
def _old_backup(world: World, fault: Fault, draw: Random) -> None:
    """A backup is taken now and restored after the fault's duration, with or without `--restored`.

    A forgotten restore is detected if the start hears of it from all other members, and waits long
    enough for that (S13.6). A start that waits less, or that never talks to some member, can fork;
    that is documented, and no invariant holds then. So the start after a forgotten restore has
    enough patience, and in a network that is no mesh the region is always told.
    """
    is_mesh = len(world.plan.links) == len(world.regions) * (len(world.regions) - 1)
    _restore(world, fault, draw, draw.random() < 0.5 or not is_mesh)


@kind(FORGOTTEN_RESTORE)
def _forgotten_restore(world: World, fault: Fault, draw: Random) -> None:
    """A backup is restored without `--restored`."""
    _restore(world, fault, draw, False)


@kind(EMPTIED_DIRECTORY)
def _emptied_directory(world: World, fault: Fault, draw: Random) -> None:
    """A region loses its files, and starts without any, and without `--first-start` (S13.6).

    However short its patience, and whatever links are cut, it must not issue an effect before it
    has what the others hold of it.
    """
    region = world.regions[fault.regions[0]]
    if not region.running or region.disk.is_dead():
        return
    region.restores += 1
    region.stop("backup")
    region.disk.restore({})
    region.restart.how = "backup"
    region.restart.is_first_start = False
    region.down_for += 1

    def start() -> None:
        region.down_for = max(0, region.down_for - 1)
        region.start_if_stopped()
        if draw.random() < 0.5:  # the region starts before its network is up
            KINDS["isolation"](
                world, Fault(0, "isolation", fault.regions, draw.randint(100, 800), 0), draw
            )

    ends(world, fault, start)


def _restore(world: World, fault: Fault, draw: Random, says: bool) -> None:
    region = world.regions[fault.regions[0]]
    if not region.running or region.disk.is_dead():
        return
    backup = region.disk.backup()
    restores = region.restores
    machine = Random(fault.draw ^ 0xC10C)

    def put_back() -> None:
        # Backups taken after a restored one must not be used later (S13.7).
        if region.restores != restores:
            return
        region.restores += 1
        region.stop("backup")
        region.disk.restore(backup)
        region.restart.how = "backup"
        region.restart.is_restored = says
        region.restart.patience_ms = "" if says else PATIENCE_MS
        if machine.random() < 0.3:  # the new machine's clock is behind
            region.clock.offset_ms -= machine.choice([50, 1000, 20_000])
        region.start_if_stopped()
        if draw.random() < 0.3:  # the region starts before its network is up
            KINDS["isolation"](
                world, Fault(0, "isolation", fault.regions, draw.randint(100, 800), 0), draw
            )

    ends(world, fault, put_back)
