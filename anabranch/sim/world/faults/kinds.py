"""The registry of faults: each kind by its name, and what the kinds share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from anabranch.sim.plan import Fault
from anabranch.sim.world.world import World

Strike = Callable[[World, Fault, Random], None]
KINDS: Final[dict[str, Strike]] = {}


def kind(name: str) -> Callable[[Strike], Strike]:
    """Registers a function by which faults of the kind `name` strike."""

    def register(strike: Strike) -> Strike:
        KINDS[name] = strike
        return strike

    return register


class State:
    """A fault that is a state. A fault that acts repeatedly acts only until `is_over`."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.is_over = False
        self._end = end

    def end(self) -> None:
        """Ends the fault; only the first call does anything."""
        if not self.is_over:
            self.is_over = True
            self._end()


def ends(world: World, fault: Fault, end: Callable[[], None], later_ms: int = 0) -> State:
    """Calls `end` once: `later_ms` after the fault's duration, or when the run heals."""
    state = State(end)
    world.undo.append(state.end)
    world.scheduler.after(fault.duration_ms + later_ms, state.end)
    return state
