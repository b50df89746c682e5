"""Random histories in which regions are put back to backups that nobody told them of (S13.6).

Before its first effect each start asks the others, by the real state machine and the real hubs. A
region that finds out about its loss issues no more effects here: other tests leave a recovery.
"""

from __future__ import annotations

import random

import pytest

from anabranch.region.engine.lifecycle import SERVING
from tests.sync.fakes import StartingEngine, World, mesh

REGIONS = (1, 2, 3)


class Backups:
    """Three regions, each with its newest backup: the state of its disk at some commit."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World(mesh(*REGIONS), seed=seed, settings={"crdt-link-silence-ms": 500})
        self.lives = dict.fromkeys(REGIONS, 1)
        self.engines: dict[int, StartingEngine] = {}
        self.disks: dict[int, StartingEngine] = {}
        for rid in REGIONS:
            self._start(rid, StartingEngine(rid, self.world.members, 1))
            self.back_up(rid)

    def _start(self, rid: int, engine: StartingEngine) -> None:
        world = self.world
        world.pipes = [pipe for pipe in world.pipes if rid not in (pipe.dialler, pipe.acceptor)]
        world.engines[rid] = self.engines[rid] = engine
        world.start(rid)

    def back_up(self, rid: int) -> None:
        engine = self.engines[rid]
        if not engine.pending:
            self.disks[rid] = engine.on_disk(0)

    def put_back(self, rid: int) -> None:
        """The process ends, and another begins on the files of the backup, or on its own."""
        # Lives are times: each is higher than that of any process before, a recovery's included.
        self.lives[rid] = max(self.lives[rid], self.engines[rid].life) + 1
        if self.chance.random() < 0.3:
            self.back_up(rid)
        self._start(rid, self.disks[rid].on_disk(self.lives[rid]))

    def lose_what_is_on_its_way(self, rid: int, relay: int) -> None:
        """A third region receives an effect and does not apply it; those that have it are put back.

        The effect comes to that region directly, or by way of `relay`.
        """
        world, chance = self.world, self.chance
        if self.engines[rid].lifecycle.state != SERVING:
            return
        third = next(one for one in REGIONS if one not in (rid, relay))
        self.back_up(rid)
        self.back_up(relay)
        is_relayed = chance.random() < 0.5
        if is_relayed:
            world.cut(rid, third)
            self.engines[third].link(relay, "DELAY", chance.choice([300, 3000]))
        else:
            world.cut(rid, relay)
            self.engines[third].link(rid, "DELAY", chance.choice([300, 3000]))
        self.engines[rid].write(f"{rid}/{self.lives[rid]}/{chance.random()}")
        world.run(chance.choice([20, 50]))
        self.put_back(rid)
        if is_relayed:
            self.put_back(relay)
            if chance.random() < 0.5:
                world.cut_links |= {(relay, third), (third, relay)}
        world.heal(rid, third)
        world.heal(rid, relay)
        world.run(chance.choice([20, 100, 500]))

    def step(self) -> None:
        chance, world = self.chance, self.world
        rid = chance.choice(REGIONS)
        other = chance.choice([one for one in REGIONS if one != rid])
        kind = chance.random()
        if kind < 0.35:
            engine = self.engines[rid]
            if engine.lifecycle.state == SERVING:
                engine.write(f"{rid}/{self.lives[rid]}/{chance.random()}")
        elif kind < 0.38:
            self.back_up(rid)
        elif kind < 0.39:
            self.put_back(rid)
            if chance.random() < 0.5:
                self.put_back(other)
        elif kind < 0.41:
            self.lose_what_is_on_its_way(rid, other)
        elif kind < 0.43:
            world.cut(rid, other)
        elif kind < 0.50:
            world.heal(rid, other)
        elif kind < 0.54:
            self.engines[rid].link(other, "DELAY", chance.choice([0, 0, 100, 1000]))
        elif kind < 0.55:
            world.paused ^= {rid}
        world.step(chance.choice([1, 5, 20, 100]))

    def heal(self) -> None:
        world = self.world
        world.cut_links.clear()
        world.paused.clear()
        for rid in REGIONS:
            for other in REGIONS:
                if rid != other:
                    self.engines[rid].link(other, "DELAY", 0)
        world.settle()


@pytest.mark.parametrize("seed", range(30))
def test_nothing_forks(seed: int) -> None:
    one = Backups(seed)
    for _ in range(80):
        one.step()
    one.heal()
    assert not [note for note in one.world.notes if "fork" in note or "gap" in note]
