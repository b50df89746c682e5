"""The floor of generated IDs and the clock of idle regions on a real database (S4.1, S7.7, S10.2).

A start reads what the driver has written there. Its clock reads 0, as on a host whose clock was set
back.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from anabranch.crdt.gossip import StartAnswer
from anabranch.region.live.database import FILE_NAME
from anabranch.region.live.inspection import set_aside
from anabranch.region.storage import loading, schema
from tests.storage.direct import copy_of
from tests.storage.histories import Cluster
from tests.storage.region import Found, Region


def answered(region: Region, clock_ms: int) -> None:
    """eu answers the start of the region, with this clock on its disk."""
    now_ms = region.cluster.clock.wall_ms
    region.engine.peers.start_answered(2, StartAnswer(1, 7, {}, clock_ms, {}), now_ms)


def found(region: Region) -> Found:
    return Found(region.config(), copy_of(region.disk), 0)


def test_the_floor_is_on_disk_with_the_first_id_that_it_raises() -> None:
    us = Cluster(1, regions=2, looks=0.0).regions[0]
    floor_ms = us.cluster.clock.wall_ms + 60_000
    before = copy_of(us.disk)
    answered(us, floor_ms)
    entry_id = us.say("XADD", "k1", "*", "f", "v")
    assert int(entry_id.split(b"-")[0]) == floor_ms
    us.commit_all()
    assert found(us).engine.state.stability.time.id_floor_ms == floor_ms
    assert Found(us.config(), before, 0).engine.state.stability.time.id_floor_ms == 0, "a backup"


def test_the_floor_survives_checkpoints_and_further_starts() -> None:
    us = Cluster(2, regions=2, looks=0.0).regions[0]
    floor_ms = us.cluster.clock.wall_ms + 60_000
    answered(us, floor_ms)
    us.say("XADD", "k1", "*", "f", "v")
    us.commit_all()
    us.checkpoint()
    us.begin()
    us.say("XADD", "k2", "*", "f", "v")
    us.commit_all()
    us.begin()
    assert us.engine.state.stability.time.id_floor_ms == floor_ms


def test_a_clock_without_rows_is_found_again() -> None:
    us = Cluster(3, regions=2, looks=0.0).regions[0]
    us.say("XADD", "k1", "*", "f", "v")
    us.commit_all()
    us.checkpoint()
    rows = us.driver.log.figures()["crdt_log_rows"]
    us.cluster.clock.passes(20_000)
    us.engine.tick(us.cluster.clock.wall_ms)
    us.step()
    us.write()
    assert us.engine.state.disk.clock_ms == us.cluster.clock.wall_ms
    again = found(us)
    assert again.engine.state.clock.now_ms == us.cluster.clock.wall_ms
    assert again.engine.state.disk.clock_ms == us.cluster.clock.wall_ms
    assert again.driver.log.figures()["crdt_log_rows"] == rows, "clocks fill no log"


def test_a_clock_from_before_a_reset_is_not_found_again() -> None:
    """S10.2: the rows of the log up to the reset bear the clock that was wrong."""
    us = Cluster(4, regions=2, looks=0.0).regions[0]
    right_ms = us.cluster.clock.wall_ms
    us.cluster.clock.wall_ms += 86_400_000
    us.say("XADD", "k1", "*", "f", "v")
    us.commit_all()
    wrong_ms = us.engine.state.clock.now_ms
    us.cluster.clock.wall_ms = right_ms
    us.engine.tick(right_ms)
    us.engine.state.reset_clock()
    us.commit_all()
    assert us.engine.state.clock.now_ms == right_ms < wrong_ms
    assert found(us).engine.state.clock.now_ms == right_ms
    us.cluster.clock.passes(5000)
    us.say("XADD", "k1", "*", "f", "v")
    us.commit_all()
    assert right_ms < found(us).engine.state.clock.now_ms < wrong_ms, "later rows count"


def test_a_rebuilt_database_keeps_the_floor(tmp_path: Path) -> None:
    """`anabranch repair` moves a damaged database away, and keeps the rows that are sound."""
    kept = {"id_floor": b"9000", "patience": b"8000", "lost_at": b"7000"}
    identity = dict.fromkeys(schema.IDENTITY_ROWS, b"1")
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database, database:
        for table in schema.TABLES:
            database.execute(table)
        for name, value in {**identity, **kept, "clock": b"6000"}.items():
            database.execute(*schema.meta(name, value))
    set_aside(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        meta = loading.read_meta(database.execute("SELECT name, value, sum FROM meta"))
    assert {name: meta.get(name) for name in kept} == kept
    assert meta["restored"] == b"1" and "clock" not in meta
