"""The entries that each region holds after each of its steps, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.vector import Dot, Vector
from anabranch.sim.logged import Add, Logged
from anabranch.sim.timeline.effects import removes
from anabranch.sim.world.world import World
from anabranch.study.diagram.model import Fate, LastState

Held = dict[Dot, int]
"""dot → entry ID"""


@dataclass(frozen=True)
class Leaving:
    """Entries that left a region in one step, with the vectors before and after that step."""

    region: int
    ms: int
    key: bytes
    dots: tuple[Dot, ...]
    before: Vector
    after: Vector


class Entries:
    """The entries of some keys in all regions."""

    def __init__(self, world: World, keys: tuple[bytes, ...]) -> None:
        self._world = world
        self.keys = keys
        self._held: dict[tuple[int, bytes], Held] = {}
        self.arrivals: dict[Dot, dict[int, int]] = {}
        self.leavings: list[Leaving] = []

    def moved(self, region: int, ms: int, before: Vector, after: Vector) -> None:
        """A step has moved the vector of a region."""
        for key in self.keys:
            former, now = self._held.get((region, key), {}), self._look(region, key)
            for dot in now:
                if dot not in former:
                    self.arrivals.setdefault(dot, {}).setdefault(region, ms)
            gone = tuple(dot for dot in former if dot not in now)
            if gone:
                self.leavings.append(Leaving(region, ms, key, gone, before, after))
            self._held[region, key] = now

    def started(self, region: int) -> None:
        """A process has started: what it lacks now was lost, not removed."""
        for key in self.keys:
            self._held[region, key] = self._look(region, key)

    def _look(self, region: int, key: bytes) -> Held:
        stream = self._world.regions[region].engine.keyspace.get(key)
        held: Held = {}
        for origin, log in stream.logs.items() if stream is not None else ():
            cursor = LogCursor(log)
            cursor.seek_counter(0)
            while cursor.valid:
                held[origin, cursor.counter] = cursor.id()
                cursor.step()
        return held

    def last_states(self) -> list[LastState]:
        """The state of each key in each region that runs."""
        return [
            self._last_state(region, key)
            for key in self.keys
            for region in self._world.regions
            if self._world.regions[region].running
        ]

    def _last_state(self, region: int, key: bytes) -> LastState:
        engine = self._world.regions[region].engine
        stream = engine.keyspace.get(key)
        if stream is None:
            return LastState(region, key, False)
        clock_ms = engine.state.clock.now_ms
        held = self._look(region, key)
        return LastState(
            region,
            key,
            stream.exists_at(clock_ms),
            stream.is_hidden(clock_ms),
            tuple(sorted(held, key=lambda dot: (held[dot], dot[0]))),
            tuple(
                (name, tuple(sorted(stream.groups[name].creates)))
                for name in sorted(stream.groups)
                if stream.groups[name].creates
            ),
        )

    def fates(self, effects: dict[Dot, Logged]) -> dict[Dot, Fate]:
        """The fate of each entry that any region held, by dot."""
        removals: dict[Dot, list[tuple[int, int, Optional[Dot]]]] = {}
        for leaving in self.leavings:
            for dot in leaving.dots:
                by = remover(leaving, dot, effects)
                removals.setdefault(dot, []).append((leaving.region, leaving.ms, by))
        found = {}
        for dot in sorted(self.arrivals):
            add = effects.get(dot)
            if isinstance(add, Add):
                found[dot] = Fate(
                    dot,
                    add.key,
                    add.shown_id.decode(),
                    tuple(add.fields),
                    tuple(self.arrivals[dot].items()),
                    tuple(removals.get(dot, [])),
                )
        return found


def remover(leaving: Leaving, dot: Dot, effects: dict[Dot, Logged]) -> Optional[Dot]:
    """The effect of the step that removed the entry; None if its content is not known."""
    for origin in sorted(leaving.after):
        for counter in range(leaving.before.get(origin, 0) + 1, leaving.after[origin] + 1):
            effect = effects.get((origin, counter))
            if effect is not None and removes(effect, leaving.key, dot):
                return origin, counter
    return None
