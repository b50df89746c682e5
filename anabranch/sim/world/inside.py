"""Rules that show only inside a region's engine: nodes, collection, checkpoints, and lives.

These functions read engines without changing them, and count by `Counts` (`sim.rules`).
"""

from __future__ import annotations

from itertools import pairwise

from anabranch.crdt import effects as fx
from anabranch.crdt.region_log import RegionLog
from anabranch.region.engine.engine import Engine
from anabranch.sim.calls import Call
from anabranch.sim.rules import Counts
from anabranch.sim.twin.state import State
from anabranch.sim.twin.vectors import has_more


def began(counts: Counts, engine: Engine, clock_ms: int) -> None:
    """A process has loaded its disk."""
    if engine.life > clock_ms:
        counts.rule("S1.3")
    if 0 < engine.state.disk.checkpoint_position < engine.state.journal.position:
        counts.rule("S13.1")


def called(counts: Counts, engine: Engine, call: Call) -> None:
    """A call has returned: looks at the nodes from which it removed entries (S12.2)."""
    for _, effect in call.issued:
        if isinstance(effect, fx.RemoveEntries):
            stream = engine.keyspace.keys.get(effect.key)
            logs = {} if stream is None else stream.logs
            if any(_was_rewritten(logs[one], at) for one, at in effect.dots if one in logs):
                counts.rule("S12.2")


def ended(counts: Counts, engine: Engine, first_life: int) -> None:
    """A process ends, which began with the life `first_life`."""
    if engine.life != first_life:
        counts.rule("S1.3")
    for stream in engine.keyspace.keys.values():
        if any(len(log.node_map.nodes) > 1 for log in stream.logs.values()):
            counts.rule("S12.1")


def converged(
    counts: Counts, engines: dict[int, Engine], held: dict[int, State], gone: dict[int, Engine]
) -> None:
    """The run is over. `held`: the states of their twins. `gone`: the regions gone for good."""
    for region, engine in engines.items():
        if region in held:
            _collected(counts, engine, held[region])
        stable = engine.state.stable_vector()
        for lost, former in gone.items():
            if engine.members[lost].lost and has_more(stable, former.disk_vector):
                counts.rule("S1.1")
    for one, other in pairwise(engines.values()):
        _alike(counts, one, other)


def _collected(counts: Counts, engine: Engine, held: State) -> None:
    """Counts keys with a group tombstone that the engine has no more (S6.2)."""
    for key in held.keys.values():
        stream = engine.keyspace.keys.get(key.name)
        for group, (region, counter) in key.tombstones:
            kept = {} if stream is None or group is None else stream.tombstones.get(group, {})
            if group is not None and kept.get(region, 0) < counter:
                counts.rule("S6.2")
                break


def _alike(counts: Counts, engine: Engine, other: Engine) -> None:
    """Counts equal bytes in two regions' nodes (S12.3) and unequal statistics (S3.4)."""
    for name, stream in engine.keyspace.keys.items():
        twin = other.keyspace.keys.get(name)
        if twin is None:
            continue
        if stream.entries_added != twin.entries_added:
            counts.rule("S3.4")
        for origin, log in stream.logs.items():
            if origin in twin.logs and _share_bytes(log, twin.logs[origin]):
                counts.rule("S12.3")


def _was_rewritten(log: RegionLog, counter: int) -> bool:
    """Whether a node spans a removed entry's counter but does not even hold its mark."""
    index = log.node_map.index_by_counter(counter)
    if index < 0 or log.node_map.nodes[index].last_counter < counter:
        return False
    scan = log.node_map.nodes[index].scan()
    while scan.step():
        if scan.counter == counter:
            return False
    return True


def _share_bytes(log: RegionLog, twin: RegionLog) -> bool:
    """Whether two logs share a node of several entries, byte for byte."""
    nodes = {node.base_counter: node.data for node in log.node_map.nodes if node.count > 1}
    return any(nodes.get(node.base_counter) == node.data for node in twin.node_map.nodes)
