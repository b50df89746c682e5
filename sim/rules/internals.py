"""The rules that show only inside a region's engine: nodes, collection, starts, and lives."""

from __future__ import annotations

from itertools import pairwise

from anabranch.crdt import effects as fx
from anabranch.crdt.node import PackedNode
from anabranch.crdt.region_log import RegionLog
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.lifecycle import RECOVERY, SERVING
from anabranch.region.engine.rows import BlockRow, SnapshotRow
from anabranch.sim.history import Began, Moved, Vector
from anabranch.sim.rules import causal_past as p
from anabranch.sim.rules.causal_past import CausalPast
from anabranch.sim.rules.conflicts import Count


class Internals:
    """Reads engines without changing them."""

    def __init__(self, count: Count) -> None:
        self.count = count
        # region_id → the life in which its process began, or the last one seen since.
        self._lives: dict[int, int] = {}
        self._recovering: set[int] = set()
        self._relayed = False
        # Region lost for good → the vector on its disk.
        self.gone: dict[int, Vector] = {}

    # -- during the run

    def began(self, event: Began, engine: Engine, clock_ms: int) -> None:
        """A process has loaded its disk."""
        self._lives[event.region] = event.life
        if event.life > clock_ms:
            self.count("rule:S1.3")
        if 0 < engine.state.disk.checkpoint_position < engine.state.journal.position:
            self.count("rule:S13.1")

    def lived(self, region: int, engine: Engine) -> None:
        """Counts a change of the region's life (S1.3) and the end of a recovery (S13.7)."""
        lifecycle = engine.state.lifecycle
        if lifecycle.life != self._lives.get(region, lifecycle.life):
            self._lives[region] = lifecycle.life
            self.count("rule:S1.3")
        if lifecycle.state == RECOVERY:
            self._recovering.add(region)
        elif region in self._recovering and lifecycle.state == SERVING:
            self._recovering.discard(region)
            self.count("rule:S13.7")

    def moved(self, event: Moved, engine: Engine) -> None:
        """Blocks or a snapshot came; their rows wait for a commit in the journal."""
        if event.how == "join":
            self.count("rule:S11.2")
            for row in reversed(engine.state.journal.rows):
                if isinstance(row, SnapshotRow):
                    if _differ(row.vector, event.before):
                        self.count("rule:S11.3")
                    break
        elif not self._relayed and event.how == "merge":
            for row in engine.state.journal.rows:
                if isinstance(row, BlockRow) and row.source not in (0, row.block.origin):
                    self._relayed = True
                    self.count("rule:S2.1")
                    break

    def removed(self, effect: fx.RemoveEntries, engine: Engine) -> None:
        """A commit holds this removal of entries."""
        stream = engine.keyspace.keys.get(effect.key)
        for region, counter in effect.dots if stream is not None else ():
            log = stream.logs.get(region) if stream is not None else None
            if log is not None and _was_rewritten(log, counter):
                self.count("rule:S12.2")

    def look(self, engine: Engine) -> None:
        """Counts keys that exist without entries (S3.1); called now and then."""
        for key in sorted(engine.keyspace.keys):
            stream = engine.keyspace.keys[key]
            if (
                stream.header
                and not stream.length()
                and stream.exists_at(engine.state.clock.now_ms)
            ):
                self.count("rule:S3.1")

    # -- at the end

    def conclude(self, past: CausalPast, engines: dict[int, Engine]) -> None:
        """Counts the rules that the final state of the regions shows."""
        for region in sorted(engines):
            self._nodes(engines[region])
            self._collected(past, engines[region])
            self._goes_on_without(engines[region])
        self._alike(engines)

    def _nodes(self, engine: Engine) -> None:
        for stream in engine.keyspace.keys.values():
            if any(len(log.rax.nodes) > 1 for log in stream.logs.values()):
                self.count("rule:S12.1")

    def _collected(self, past: CausalPast, engine: Engine) -> None:
        """Counts tombstones that were issued and are collected by now (S6.2)."""
        vector: Vector = engine.vector
        for key in past.by_key:
            stream = engine.keyspace.keys.get(key)
            newest: dict[tuple[int, bytes], int] = {}
            for dot in past.dots(key, p.DESTROY):
                effect = past.at(dot)
                assert isinstance(effect, fx.DestroyGroup)
                newest[(dot[0], effect.group)] = dot[1]
            for (region, group), counter in newest.items():
                kept = {} if stream is None else stream.tombstones.get(group, {})
                if kept.get(region, 0) < counter <= vector.get(region, 0):
                    self.count("rule:S6.2")

    def _goes_on_without(self, engine: Engine) -> None:
        """Counts effects that count as stable although a lost region never had them (S1.1)."""
        for lost, had in self.gone.items():
            if engine.members[lost].lost and any(
                counter > had.get(region, 0)
                for region, counter in engine.state.stable_vector().items()
            ):
                self.count("rule:S1.1")

    def _alike(self, engines: dict[int, Engine]) -> None:
        """Counts equal bytes in two regions' nodes (S12.3) and unequal statistics (S3.4)."""
        regions = sorted(engines)
        for one, other in pairwise(regions):
            keys = engines[other].keyspace.keys
            for key, stream in engines[one].keyspace.keys.items():
                twin = keys.get(key)
                if twin is None:
                    continue
                if stream.entries_added != twin.entries_added:
                    self.count("rule:S3.4")
                for origin, log in stream.logs.items():
                    if origin in twin.logs and _share_bytes(log, twin.logs[origin]):
                        self.count("rule:S12.3")


def _differ(one: Vector, other: Vector) -> bool:
    """Whether each vector covers an effect that the other lacks."""
    ahead = any(counter > other.get(region, 0) for region, counter in one.items())
    return ahead and any(counter > one.get(region, 0) for region, counter in other.items())


def _was_rewritten(log: RegionLog, counter: int) -> bool:
    """Whether a node spans a removed entry's counter but does not even hold its mark (S12.2)."""
    index = log.rax.index_by_counter(counter)
    if index < 0 or log.rax.nodes[index].last_counter < counter:
        return False
    scan = log.rax.nodes[index].scan()
    while scan.step():
        if scan.counter == counter:
            return False
    return True


def _share_bytes(log: RegionLog, twin: RegionLog) -> bool:
    nodes: dict[int, PackedNode] = {node.base_counter: node for node in log.rax.nodes}
    for node in twin.rax.nodes:
        same = nodes.get(node.base_counter)
        if same is not None and same.count == node.count > 1 and same.data == node.data:
            return True
    return False
