"""Runs one seed, from the first start to the verdict.

The phases of a run: a safety phase with load and faults, healing, convergence within a bound, and
the judges' last look.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Optional

from anabranch.sim.checkers import ALL
from anabranch.sim.draw import draw_plan
from anabranch.sim.history import Checker, End, Violation
from anabranch.sim.plan import Plan
from anabranch.sim.twin.judge import Twin
from anabranch.sim.world import faults, inside, quiet
from anabranch.sim.world.draining import drain
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.region import SimulatedRegion
from anabranch.sim.world.rereading import difference, needless_rows
from anabranch.sim.world.watchers import JudgeFailed, described
from anabranch.sim.world.world import World

_BOUND_MS: Final = 20_000
# A line of regions with a window of one block passes the blocks on one by one.
_BOUND_MS_PER_COMMAND: Final = 60
_LOOK_MS: Final = 25
_QUIET_LOOKS: Final = 4
# One run of this number reads the files of a region at its end.
_REREAD_ONE_OF: Final = 4
# One run of this number has a quiet spell.
_QUIET_ONE_OF: Final = 2


@dataclass
class Result:
    """The result of a run.

    `counters`: how often each event happened; `virtual_ms`: the length of the run in virtual time.
    """

    seed: int
    violations: list[Violation]
    trace_hash: str
    virtual_ms: int
    counters: dict[str, int] = field(default_factory=dict)


def bound_ms(plan: Plan) -> int:
    """Virtual time, in ms, within which all regions must be level after healing."""
    return _BOUND_MS + _BOUND_MS_PER_COMMAND * len(plan.intents())


def run_seed(seed: int, regions: int, ops: int) -> Result:
    """Draws the seed's plan and runs it with all judges."""
    return run_plan(draw_plan(seed, regions, ops))


def run_plan(
    plan: Plan,
    judges: Sequence[type[Checker]] = ALL,
    tell: Optional[Callable[[tuple[Any, ...]], None]] = None,
) -> Result:
    """Runs a plan.

    An exception of the code under test is a violation like any other. `tell` receives each line of
    the trace.
    """
    return run_world(new_world(plan, judges, tell))


def run_world(world: World) -> Result:
    """Runs a world that has not begun, and closes the world."""
    try:
        world.begin()
        world.scheduler.run_until(EPOCH_MS + world.plan.load_ms)
        conclude(world)
    except (Exception, JudgeFailed) as raised:
        world.fault_found(described(raised))
        world.note(0, "exception", traceback.format_exc())
    violations = world.found + [
        violation for judge in world.judges for violation in judge.violations
    ]
    violations.sort(key=lambda violation: violation.at_ms)
    trace_hash = world.trace.digest()
    world.close()
    world.environment.counts.conclude()
    return Result(
        world.plan.seed,
        violations,
        trace_hash,
        world.scheduler.now_ms - EPOCH_MS,
        dict(world.counters),
    )


def conclude(world: World) -> None:
    """Ends a run: heals, waits for convergence, reads groups to their ends, asks the judges.

    In every second run a quiet spell follows.

    At last it looks for links on which blocks were missing, and in one of four runs compares the
    files of one region with the region (`_reread`). The seed chooses the run and the region,
    because reading all files would make each run slower.
    """
    world.note(0, "heals")
    faults.heal(world)
    world.end_load()
    for judge in world.judges:
        judge.healed(world.scheduler.now_ms)
    converged_ms = _converge(world)
    if converged_ms is not None:
        drain(world)
        if _converge(world) is None:
            converged_ms = None
    if converged_ms is not None and world.plan.seed % _QUIET_ONE_OF == 0:
        for text in quiet.wrong(world):
            world.fault_found(f"in a quiet spell {text}")
    why = "" if converged_ms is not None else world.why_not_level()
    world.note(0, "ends", converged_ms, why)
    end = End(converged_ms, bound_ms(world.plan), world.scheduler.now_ms, world.shown(), why)
    for judge in world.judges:
        judge.finish(end)
    _count_converged(world, end)
    gaps = world.gaps()
    if gaps:
        world.fault_found(f"links were closed {gaps} times because blocks were missing (S2.2)")
    running = [region for region in world.remaining() if region.running]
    if running and world.plan.seed % _REREAD_ONE_OF == 0:
        _reread(world, running[world.plan.seed // _REREAD_ONE_OF % len(running)])


def _count_converged(world: World, end: End) -> None:
    """Counts the rules that the regions and their twins show together."""
    twins = [judge for judge in world.judges if isinstance(judge, Twin)]
    held = {one: twin.state for judge in twins for one, twin in judge.regions.items()}
    engines = {one: world.regions[one].engine for one in sorted(end.shown)}
    gone = {one.region_id: one.engine for one in world.regions.values() if one.is_gone}
    inside.converged(world.environment.counts, engines, held, gone)


def _reread(world: World, region: SimulatedRegion) -> None:
    """Compares the files of a region with it, as they are, and once more after a clean stop.

    The stop ends with a checkpoint of all changes, so the second time the log hides nothing that
    checkpoints left out.
    """
    texts = [difference(region.engine, region.disk)]
    region.stop_cleanly()
    if region.restart.how == "clean":
        texts.append(difference(region.engine, region.disk, region.driver.log.size))
        if needless := needless_rows(region.disk):
            texts.append(f"its checkpoint has {needless} rows that no start needs")
    else:
        texts.append("it does not stop cleanly")
    for text in texts:
        if text:
            world.fault_found(f"region {region.region_id}: {text}")


def _converge(world: World) -> Optional[int]:
    """Lets time pass until all regions are level and stay level.

    Returns how long that took in virtual ms, or None if it took longer than the bound.
    """
    began_ms = world.scheduler.now_ms
    until_ms = began_ms + bound_ms(world.plan)
    quiet = 0
    last: object = None
    while world.scheduler.now_ms < until_ms:
        world.scheduler.run_until(world.scheduler.now_ms + _LOOK_MS)
        vectors = (
            [region.engine.vector for region in world.remaining()] if world.is_level() else None
        )
        shown = [sorted(vector.items()) for vector in vectors] if vectors is not None else None
        quiet = quiet + 1 if shown is not None and shown == last else 0
        last = shown
        if quiet >= _QUIET_LOOKS:
            return world.scheduler.now_ms - began_ms
    return None
