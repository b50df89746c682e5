"""Nothing grows while the same load goes on: whatever a region keeps reaches a level, and stays.

The quiet spell of a run judges what is left when traffic ends. A region that only tidies up in such
a pause would pass there, and grow under the load of a user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Final

import pytest

from anabranch.sim.draw import draw_plan
from anabranch.sim.history import Words
from anabranch.sim.replies import figures_of
from anabranch.sim.world.draining import Drainer
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.region import SimulatedRegion
from anabranch.sim.world.world import World

STEP_MS: Final = 20
SPELL_STEPS: Final = 250
SPELLS: Final = 4
_READER: Final = 960
_TABLES: Final = ("log", "log_keys", "log_ids", "salvage", "staged", "key_state", "part", "node")
# Figures of INFO that tell of things that are kept.
_KEPT: Final = (
    *("crdt_entries", "crdt_groups", "crdt_pending_entries", "crdt_idmp_pairs"),
    *("crdt_idmp_retired", "crdt_tombstones", "crdt_clears", "crdt_absent_keys"),
    *("crdt_log_bytes", "crdt_log_rows", "crdt_log_tail_bytes", "crdt_uncommitted_bytes"),
    *("connected_clients", "blocked_clients"),
)
_SETTINGS: Final = {
    "crdt-log-max-effects": "300",
    "crdt-checkpoint-interval-ms": "100",
    "crdt-collect-interval-ms": "50",
    "crdt-uncommitted-max-bytes": "1000000",
    "crdt-expiry-grace-ms": "20",
    "stream-idmp-duration": "1",
    "stream-idmp-maxsize": "20",
    "appendfsync": "everysec",
}
# A FLUSHALL hides what leaks within a key, so the load has them only in one of the tests.
_FLUSH_EVERY: Final = 60


def steps(n: int, flush_every: int) -> list[Words]:
    """The commands of one step: each adds something that another of them, or time, removes."""
    if flush_every and n % flush_every == 0:
        return [(b"FLUSHALL",)]
    short = b"short%d" % (n % 7)
    producer = b"p%d" % (n % 5)
    return [
        (b"XADD", b"s", b"MAXLEN", b"~", b"40", b"*", b"f", b"%d" % n),
        (b"XGROUP", b"CREATE", b"s", b"g%d" % (n % 9), b"0", b"MKSTREAM"),
        (b"XGROUP", b"DESTROY", b"s", b"g%d" % ((n + 4) % 9)),
        (b"XGROUP", b"CREATE", b"jobs", b"g", b"$", b"MKSTREAM"),
        (b"XADD", b"jobs", b"MAXLEN", b"60", b"*", b"f", b"%d" % n),
        (b"XADD", b"once", b"IDMP", producer, b"%d" % n, b"MAXLEN", b"50", b"*", b"f", b"v"),
        (b"XADD", short, b"*", b"f", b"%d" % n),
        (b"PEXPIRE", short, b"90"),
        (b"XADD", b"gone%d" % n, b"*", b"f", b"v"),
        (b"DEL", b"gone%d" % n),
    ]


def consume(world: World, region_id: int) -> None:
    """Reads what is new for a group, and acknowledges it."""
    read = (b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"jobs", b">")
    reply = world.ask(region_id, read)
    if not isinstance(reply, list):
        return
    assert isinstance(reply[0], list) and isinstance(reply[0][1], list)
    ids = [entry[0] for entry in reply[0][1] if isinstance(entry, list)]
    world.ask(region_id, (b"XACK", b"jobs", b"g", *(one for one in ids if isinstance(one, bytes))))


class Spell:
    """How much a region kept of each thing, at most, in one spell."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()

    def look(self, world: World, region: SimulatedRegion) -> None:
        figures = figures_of(world.ask(region.region_id, (b"INFO",)))
        found = {name: int(figures[name.encode()]) for name in _KEPT}
        process = region.process
        assert process is not None
        connection = process.files.opener._connection
        assert connection is not None
        for table in _TABLES:
            ((rows,),) = connection.plain.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
            assert isinstance(rows, int)
            found[table] = rows
        found["bytes on disk"] = sum(len(file.seen) for file in region.disk.files.values())
        found["reads by key"] = sum(
            len(reads) for reads in region.engine.state.waiting.reads.by_key.values()
        )
        self.most |= Counter(found)


@pytest.fixture
def world() -> Iterator[World]:
    plan = replace(draw_plan(7, 3, 10), steps=(), tick_ms=5, clock_offsets_ms={})
    for settings in plan.settings.values():
        settings.update(_SETTINGS)
    made = new_world(plan, [], None, (b"s", b"jobs", b"once"))
    made.begin()
    made.scheduler.run_until(made.scheduler.now_ms + 3000)
    yield made
    made.close()


@pytest.mark.parametrize("flush_every", [0, _FLUSH_EVERY])
def test_what_is_kept_does_not_grow_while_the_load_goes_on(world: World, flush_every: int) -> None:
    reader = Drainer(_READER, 1)
    world.clients[reader.number] = reader
    numbers = count(1)
    spells = [[Spell() for _ in world.regions] for _ in range(SPELLS)]
    for spell in spells:
        for _ in range(SPELL_STEPS):
            n = next(numbers)
            for region_id in world.regions:
                for words in steps(n, flush_every):
                    world.ask(region_id, words)
                consume(world, region_id)
            world.send(reader, [(b"XREAD", b"BLOCK", b"15", b"STREAMS", b"none%d" % n, b"$")])
            world.scheduler.run_until(world.scheduler.now_ms + STEP_MS)
            for seen, region in zip(spell, world.regions.values(), strict=True):
                seen.look(world, region)
    for before, after in zip(spells[1], spells[-1], strict=True):
        for name, most in after.most.items():
            assert most <= 1.3 * before.most[name] + 5, (name, before.most[name], most)
