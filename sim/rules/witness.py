"""The observer that counts rules and conflicts.

It receives the history as a judge does, but reports no violations; its counts go into the run's
counters.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt import effects as fx
from anabranch.sim.history import (
    Began,
    Checker,
    Committed,
    End,
    Moved,
    Operation,
    Setup,
    Shown,
    Stopped,
    Vector,
)
from anabranch.sim.logged import decoded
from anabranch.sim.rules.causal_past import CausalPast
from anabranch.sim.rules.commands import Commands
from anabranch.sim.rules.conflicts import Conflicts
from anabranch.sim.rules.internals import Internals
from anabranch.sim.rules.table import FROM_COUNTERS
from anabranch.sim.world.world import World

# `shown` is called often; the engines are looked into at every eighth call.
_LOOK_EVERY: Final = 8


class Witness(Checker):
    """`counters`: `rule:…` and `conflict:…` → how often.

    Without a world (`watch`) it sees only the history, as judges do.
    """

    name = "rules"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.counters: dict[str, int] = {}
        self.past = CausalPast(setup.regions)
        self.commands = Commands(setup.ask, self.count)
        self.inside = Internals(self.count)
        self.world: World | None = None
        # region_id → the highest counter that its steps have issued, on disk or not.
        self._issued = dict.fromkeys(setup.regions, 0)
        self._looks = 0

    def watch(self, world: World) -> None:
        """Gives the observer a world whose engines it may read."""
        self.world = world

    def count(self, name: str) -> None:
        self.counters[name] = self.counters.get(name, 0) + 1

    # -- processes

    def began(self, event: Began) -> None:
        own = event.vector.get(event.region, 0)
        if event.how != "backup" and own < self._issued[event.region]:
            self.count("rule:S13.3")
        self._issued[event.region] = own
        self.commands.began(event.region)
        if self.world is not None:
            region = self.world.regions[event.region]
            self.inside.began(event, region.engine, region.now_ms())

    def stopped(self, event: Stopped) -> None:
        if event.how == "gone":
            self.inside.gone[event.region] = event.on_disk
        if self.world is not None:
            engine = self.world.regions[event.region].engine
            self.inside.lived(event.region, engine)
            if engine.keyspace.late.arrivals:
                self.count("rule:S7.2")

    # -- steps

    def executed(self, operation: Operation) -> None:
        if not operation.waited:
            first, last = operation.effects()
            if last >= first:
                self.past.steps[operation.region].add(first, last, operation.before, False)
                self._issued[operation.region] = last
        self.commands.executed(operation)

    def answered(self, operation: Operation) -> None:
        self.commands.answered(operation)

    def moved(self, event: Moved) -> None:
        region = event.region
        first, last = event.before.get(region, 0) + 1, event.after.get(region, 0)
        if last >= first:
            self._issued[region] = max(self._issued[region], last)
            known = self.past.steps[region].last
            if not known or known[-1] < last or event.how in ("tick", "waited"):
                # Otherwise the region's own effects came back from peers.
                self.past.steps[region].add(first, last, event.after, event.how != "waited")
        if self.world is not None:
            self.inside.moved(event, self.world.regions[region].engine)

    def committed(self, event: Committed) -> None:
        kinds: set[bool] = set()
        for block, effects in decoded(event) if event.blocks else ():
            self.past.take(event.region, block.first, effects)
            for effect in effects:
                announces = isinstance(effect, fx.Acknowledge)
                kinds.add(announces)
                if isinstance(effect, fx.Acknowledge):
                    self.commands.announced(event.region, effect)
                elif isinstance(effect, fx.RemoveEntries) and self.world is not None:
                    self.inside.removed(effect, self.world.regions[event.region].engine)
        if len(kinds) > 1:
            self.count("rule:S2.5")
        if self.world is not None:
            self.inside.lived(event.region, self.world.regions[event.region].engine)

    def shown(self, shown: dict[int, Shown]) -> None:
        seen: dict[tuple[tuple[int, int], ...], bytes] = {}
        for one in shown.values():
            key = tuple(sorted(one.vector.items()))
            if key in seen and any(one.digest):
                self.count("rule:S13.9")
            seen[key] = one.digest
        self._looks += 1
        if self.world is not None and self._looks % _LOOK_EVERY == 0:
            for region in shown:
                self.inside.look(self.world.regions[region].engine)

    # -- the end

    def finish(self, end: End) -> None:
        """Counts the rules that need all effects and the final vector."""
        final: Vector = {}
        for one in end.shown.values():
            for region, counter in one.vector.items():
                final[region] = max(final.get(region, 0), counter)
        self.past.index(final)
        Conflicts(self.past, self.commands.renames, self.count).look()
        self.commands.conclude(self.past, final)
        if self.world is not None and end.shown:
            self.inside.conclude(
                self.past,
                {region: self.world.regions[region].engine for region in sorted(end.shown)},
            )

    def counted(self, counters: dict[str, int]) -> dict[str, int]:
        """`counters`, and the rules whose witness is a counter of the world."""
        result = dict(self.counters)
        for rule, names in FROM_COUNTERS.items():
            times = sum(counters.get(name, 0) for name in names)
            if times:
                result[f"rule:{rule}"] = times
        return result
