"""A region that is rebuilt from one peer takes the snapshot of that peer before anything else."""

from __future__ import annotations

from anabranch.sync.session.messages import SnapshotBegin
from tests.sync.fakes import FakeEngine, World, mesh


class Rebuilt(FakeEngine):
    """us without data, in a later life, to be rebuilt from ap."""

    def __init__(self, members: dict[int, str]) -> None:
        super().__init__(1, members, life=2)
        self.rebuilds_from = 3
        # What was merged when the snapshot came.
        self.merged_before = -1

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        assert source == self.rebuilds_from
        self.merged_before = len(self.merged)
        super().join(chunks, source, now_ms)
        self.rebuilds_from = 0


def rebuilt(world: World) -> Rebuilt:
    """us starts without data, while its link with ap is cut."""
    world.cut(1, 3)
    world.pipes = [pipe for pipe in world.pipes if 1 not in (pipe.dialler, pipe.acceptor)]
    engine = world.engines[1] = Rebuilt(world.members)
    world.said.clear()
    world.start(1)
    world.until(lambda: engine.states.get(2, ("",))[0] == "up")
    world.run(2000)
    return engine


def filled() -> World:
    """Three regions with effects of each, whose logs reach back to the beginning."""
    world = World(mesh(1, 2, 3))
    world.settle()
    for rid in (1, 2, 3):
        world.engines[rid].write("w", 5)
    world.settle()
    return world


def test_nothing_is_merged_before_the_snapshot_of_the_source() -> None:
    """The logs of eu and ap reach back, so without that both would send all their blocks."""
    world = filled()
    us = rebuilt(world)
    assert us.vector == {} and us.merged == [] and us.joins == 0
    world.heal(1, 3)
    world.until(lambda: us.joins == 1)
    assert us.merged_before == 0
    world.engines[2].write("later")
    world.settle()
    began = [source for source, to, one in world.said if isinstance(one, SnapshotBegin) and to == 1]
    assert began == [3]


def test_a_source_that_is_lost_keeps_nothing_back() -> None:
    """The engine takes back that it waits; the blocks of eu are merged."""
    world = filled()
    us = rebuilt(world)
    us.rebuilds_from = 0
    world.until(lambda: us.vector == world.engines[2].vector)
    assert us.joins == 0


def test_a_source_without_data_is_joined_once() -> None:
    """Its snapshot covers nothing that us lacks. us waited for another one for ever."""
    world = World(mesh(1, 2, 3))
    world.engines[2].write("w")
    world.cut(2, 3)
    us = rebuilt(world)
    world.heal(1, 3)
    world.until(lambda: us.rebuilds_from == 0)
    world.heal(2, 3)
    world.settle()
    assert us.joins == 1
