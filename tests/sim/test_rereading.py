"""The last look of a run, at the files of each region (S13.1) and at missing blocks (S2.2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.region.storage.log import ReadOldest
from anabranch.sim.draw import draw_plan
from anabranch.sim.run import _reread
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.rereading import difference, needless_rows
from anabranch.sim.world.vfs import Opener, run
from anabranch.sim.world.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """A small world whose region 1 wrote, checkpointed and stopped cleanly."""
    world = new_world(draw_plan(1, 2, 60, faults=()), [])
    world.begin()
    world.scheduler.run_until(EPOCH_MS + 400)
    world.regions[1].stop_cleanly()
    yield world
    world.close()


def _change(world: World, sql: str) -> None:
    """Runs a statement on the files of region 1."""
    region = world.regions[1]
    region.disk.revive()
    opener = Opener(region.disk)
    connection = run(opener.writer(Path("region.sqlite")))
    run(connection.execute_fetchall(sql))
    opener.close()


def test_files_that_hold_the_state_are_no_violation(world: World) -> None:
    region = world.regions[1]
    assert region.engine.vector
    before = region.disk.backup()
    assert difference(region.engine, region.disk) == ""
    after = region.disk.backup()
    assert {path: bytes(file.seen) for path, file in after.items()} == {
        path: bytes(file.seen) for path, file in before.items()
    }


def test_a_key_whose_checkpoint_was_not_written_is_a_violation(world: World) -> None:
    region = world.regions[1]
    _change(world, "DELETE FROM key_state")
    assert "hold another state" in difference(region.engine, region.disk)


def test_a_node_that_was_not_written_is_a_violation(world: World) -> None:
    region = world.regions[1]
    _change(world, "DELETE FROM node")
    assert "cannot be read" in difference(region.engine, region.disk)


def test_effects_that_are_not_in_the_files_are_a_violation(world: World) -> None:
    region = world.regions[1]
    own = region.engine.disk_vector[1]
    region.engine.state.disk.vector = {1: own + 1}
    assert f"on its disk is {{1: {own + 1}}}" in difference(region.engine, region.disk)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO part SELECT number, cut + 1, part, body, sum FROM part LIMIT 1",
        "INSERT INTO part SELECT 99, cut, part, body, sum FROM part LIMIT 1",
        "INSERT INTO node SELECT 99, region, node, cut, body, sum FROM node LIMIT 1",
        "INSERT INTO node SELECT number, region, 99, cut, NULL, sum FROM node LIMIT 1",
        "INSERT INTO node SELECT number, region, node, cut - 1, body, sum FROM node LIMIT 1",
    ],
)
def test_rows_that_no_start_needs_are_counted(world: World, sql: str) -> None:
    region = world.regions[1]
    assert needless_rows(region.disk) == 0
    _change(world, sql)
    assert needless_rows(region.disk) == 1


def test_a_log_that_is_counted_wrongly_is_a_violation(world: World) -> None:
    region = world.regions[1]
    size = region.driver.log.size
    assert difference(region.engine, region.disk, size) == ""
    size.effects += 1
    text = difference(region.engine, region.disk, size)
    assert "rows, bytes and effects, and it counts" in text


def test_links_on_which_blocks_were_missing_are_counted(world: World) -> None:
    assert world.gaps() == 0
    world.regions[2].driver.engine.state.replication.gaps += 1
    world.counters["figure:gaps"] += 1
    assert world.gaps() == 2


def test_a_stop_that_does_not_end_is_a_violation(world: World) -> None:
    region = world.regions[2]
    schedule = region.driver._disk
    schedule._begin()
    schedule._step, schedule._is_reading = ReadOldest(1, 1), True
    _reread(world, region)
    assert [one.text for one in world.found] == [
        "region 2: its stop does not end",
        "region 2: it does not stop cleanly",
    ]


def test_files_are_compared_again_after_a_clean_stop(world: World) -> None:
    """Keys that a checkpoint leaves out show only then: until then the log tells of them."""
    region = world.regions[2]
    assert region.engine.keyspace.dirty
    region.engine.keyspace.dirty.clear()
    _reread(world, region)
    (found,) = world.found
    assert "hold another state" in found.text
