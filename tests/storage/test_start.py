"""Starts on damaged or foreign files, and the life that a start begins (S1.3, S13.6, S13.7).

A start never finds a wrong state: it raises `StorageError` with a text that names the damage.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh3_64_digest

from anabranch.crdt.encoding import put_vector
from anabranch.crdt.gossip import Gossip, Heard
from anabranch.crdt.state import put_local
from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.lifecycle import RECOVERY, SERVING, STARTING
from anabranch.region.engine.replies import ErrorReply
from anabranch.region.live import starting
from anabranch.region.live.database import Database
from anabranch.region.option_values import ConfigError
from anabranch.region.storage.schema import SCHEMA_VERSION
from anabranch.sim.world.vfs import run
from tests.crdt.support import trimmed_of
from tests.storage import dump
from tests.storage.direct import DirectDatabase, copy_of
from tests.storage.histories import Cluster
from tests.storage.region import Clock, Found, Region, config_of
from tests.support.engines import execute

ALONE = {"us": 1}
PAIR = {"us": 1, "eu": 2}


def used_region() -> Region:
    """A region with rows in every table on its disk.

    The disk holds a checkpoint and a later log with a joined snapshot and local records.
    """
    cluster = Cluster(5, regions=2, looks=0.0, values={"crdt-log-max-bytes": 1 << 20})
    us, eu = cluster.regions
    for number in range(6):
        us.say("XADD", "k1", "*", "f", b"v%d" % number)
        eu.say("XADD", "k2", "IDMP", "p", number, "*", "f", b"v%d" % number)
    us.say("XGROUP", "CREATE", "k1", "g", "0")
    us.say("XREADGROUP", "GROUP", "g", "anna", "COUNT", 2, "STREAMS", "k1", ">")
    us.commit_all()
    us.checkpoint()
    eu.commit_all()
    us.engine.peers.snapshots.join(
        list(eu.engine.peers.snapshots.cut().chunks(100)), 2, cluster.clock.wall_ms
    )
    us.say("XREADGROUP", "GROUP", "g", "anna", "COUNT", 2, "STREAMS", "k1", ">")
    us.say("XADD", "k3", "*", "f", "v")
    us.commit_all()
    us.look()
    return us


def start(region: Region, disk: sqlite3.Connection) -> dump.Plain:
    return Found(region.config(), disk, 1000).state


COLUMNS = [
    ("log", "body"),
    ("log", "chain"),
    ("staged", "body"),
    ("part", "body"),
    ("node", "body"),
]


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_bit_that_changed_is_noticed(table: str, column: str) -> None:
    """A start notices a changed bit in every row that it reads, and reports the damage.

    The test changes bits in about 12 bytes of each row, one at a time.
    """
    region = used_region()
    whole = start(region, copy_of(region.disk))
    disk = copy_of(region.disk)
    key = {
        "log": "position",
        "staged": "position, part",
        "part": "number, cut, part",
        "node": "number, region, node, cut",
    }[table]
    where = " AND ".join(f"{name} = ?" for name in key.split(", "))
    replay_from = region.engine.state.disk.checkpoint_position
    noticed = 0
    for *place, value in disk.execute(f"SELECT {key}, {column} FROM {table}").fetchall():
        if table == "log" and place[0] <= replay_from:
            # Only peers read this row, and they check its chain value.
            continue
        for index in range(0, len(value), max(1, len(value) // 12)):
            damaged = bytearray(value)
            damaged[index] ^= 1 << index % 8
            disk.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (bytes(damaged), *place))
            with pytest.raises(StorageError, match="is damaged"):
                start(region, copy_of(disk))
            noticed += 1
        disk.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value, *place))
    assert noticed
    assert start(region, disk) == whole


def test_a_stream_that_was_trimmed_to_nothing_is_loaded() -> None:
    """Its log has no node, and yet a mark up to where it was trimmed.

    Once, a region with such a stream in a checkpoint could not start.
    """
    region = used_region()
    region.say("XTRIM", "k1", "MAXLEN", "0")
    region.commit_all()
    region.checkpoint()
    marks = trimmed_of(region.engine.keyspace.keys[b"k1"])
    whole = start(region, copy_of(region.disk))
    region.crash()
    assert start(region, copy_of(region.disk)) == whole
    assert trimmed_of(region.engine.keyspace.keys[b"k1"]) == marks != {}
    region.say("XADD", "k1", "*", "f", "v")
    region.commit_all()
    region.checkpoint()
    start(region, copy_of(region.disk))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_checkpoint_of_a_release_before_is_read(version: int) -> None:
    """A start reads the state of a key in former versions.

    Version 1 has no list of retired pairs: its release kept only pairs that answer retries. It and
    version 2 lack the counters up to which logs were trimmed, and all lack where logs began.
    """
    region = used_region()
    for iid in "ab":
        region.say("XADD", "k1", "IDMP", "p", iid, "*", "f", "v")
    region.commit_all()
    stream = region.engine.keyspace.keys[b"k1"]
    marks, begins = bytearray(), bytearray()
    put_vector(marks, trimmed_of(stream))
    put_vector(begins, {region_id: log.began for region_id, log in stream.logs.items()})
    local = bytearray()
    put_local(local, region.engine.keyspace.keys[b"k1"])
    region.checkpoint()
    whole = start(region, copy_of(region.disk))
    (number,) = region.disk.execute(
        "SELECT number FROM key_state WHERE key = ?", (b"k1",)
    ).fetchone()
    parts = region.disk.execute("SELECT body FROM part WHERE number = ? ORDER BY part", (number,))
    body = b"".join(part for (part,) in parts)
    state = body[8:]
    assert state[0] == 4 and state[-2:] == bytes([0, 8]), "no retired pairs, then 8 entries"
    assert state.endswith(bytes(marks + begins + local + b"\x08"))
    left_out = begins + local if version == 3 else marks + begins + local
    former = bytes([version]) + state[1 : -len(left_out) - 1]
    former += bytes(local[:-1] if version == 1 else local) + state[-1:]
    former = xxh3_64_digest(former) + former
    region.disk.execute("UPDATE part SET body = x'', sum = NULL WHERE number = ?", (number,))
    region.disk.execute("UPDATE part SET body = ? WHERE number = ? AND part = 0", (former, number))
    assert start(region, copy_of(region.disk)) == whole
    region.crash()
    pairs = region.engine.keyspace.keys[b"k1"].pairs
    assert [(pair.iid, pair.is_retired) for pair in pairs.everything()] == [
        (b"a", False),
        (b"b", False),
    ]
    region.say("XADD", "k1", "IDMP", "p", "c", "*", "f", "v")
    assert [pair.iid for pair in pairs.everything() if pair.is_retired] == [b"a"]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (
            "DELETE FROM log WHERE position = (SELECT MAX(position) - 1 FROM log)",
            "of the log is missing",
        ),
        ("DELETE FROM staged", "is damaged"),
        ("DELETE FROM part", "the checkpoint of key k1 is damaged"),
        (
            "DELETE FROM node WHERE node = 1",
            "the checkpoint of key k1 is damaged: it has 4 entries instead of 6",
        ),
        (
            "UPDATE meta SET value = x'00' WHERE name = 'region_state'",
            "the region's state is damaged",
        ),
        ("UPDATE meta SET value = 'x' WHERE name = 'life'", "life in the database is damaged"),
        (
            "UPDATE meta SET value = x'ff' WHERE name = 'cluster'",
            "the identity of the region in the database is damaged",
        ),
        (
            "DELETE FROM meta WHERE name = 'name'",
            "the identity of the region in the database is damaged",
        ),
        ("DELETE FROM meta WHERE name = 'members'", "the members on disk are damaged"),
        ("UPDATE meta SET value = 'us' WHERE name = 'members'", "the members on disk are damaged"),
        (
            "UPDATE meta SET value = x'05' WHERE name = 'log_floor'",
            "log_floor in the database is damaged",
        ),
        (
            f"UPDATE meta SET value = '{SCHEMA_VERSION + 1}' WHERE name = 'schema'",
            f"schema version {SCHEMA_VERSION + 1}, this release reads",
        ),
        (
            "UPDATE meta SET value = 'other' WHERE name = 'cluster'",
            "belongs to region us (1) of cluster other, not to us (1) of tiny",
        ),
        (
            "UPDATE meta SET value = 'eu' WHERE name = 'name'",
            "belongs to region eu (1) of cluster tiny",
        ),
        ("UPDATE meta SET value = '2' WHERE name = 'region_id'", "belongs to region us (2)"),
        (
            "UPDATE meta SET value = 'eu=2' WHERE name = 'members'",
            "region 1 is none of the members on disk",
        ),
    ],
)
def test_what_is_wrong_is_said(statement: str, text: str) -> None:
    region = used_region()
    if "log_floor" in statement:
        region.disk.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('log_floor', x'00')")
    statement = re.sub(r"value = '([^']*)'", r"value = CAST('\1' AS BLOB)", statement)
    assert region.disk.execute(statement).rowcount > 0
    with pytest.raises(StorageError) as error:
        start(region, region.disk)
    assert text in str(error.value)


async def _start_on(directory: Path) -> Any:
    database = Database(directory)
    try:
        return await starting.start(config_of("us", ALONE, {}, directory), database, Clock(1000))
    finally:
        await database.close()


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "region.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(StorageError, match=r"cannot open .*region\.sqlite: file is not a database"):
        await _start_on(tmp_path)


async def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot open"):
        await _start_on(tmp_path / "file")


async def test_pages_of_the_file_are_damaged(tmp_path: Path) -> None:
    database = Database(tmp_path)
    driver = await starting.start(
        config_of("us", ALONE, {"crdt-start-patience-ms": 0}, tmp_path), database, Clock(1000)
    )
    engine = driver.engine
    engine.tick(1000)
    session = engine.clients.connect("", "", 1000)
    for number in range(200):
        execute(engine, session, [b"XADD", b"k", b"*", b"f", b"x" * 300], 1000 + number)
        engine.disk.want_commit()
        transaction = driver.step().transaction
        assert transaction is not None and transaction.commit is not None
        await database.write(transaction.statements)
        driver.written(transaction)
    await database.close()
    path = tmp_path / "region.sqlite"
    data = bytearray(path.read_bytes())
    for offset in range(4096 * 6, len(data) - 4096, 4096):
        data[offset : offset + 200] = b"\xff" * 200
    path.write_bytes(bytes(data))
    with pytest.raises(StorageError):
        await _start_on(tmp_path)


# -- the life


def fresh(
    members: dict[str, int], disk: sqlite3.Connection, now_ms: int, restored: bool = False
) -> Found:
    return Found(
        config_of("us", members, {"crdt-start-patience-ms": 500}, restored=restored), disk, now_ms
    )


def life_on(disk: sqlite3.Connection) -> tuple[int, int]:
    facts = dict(
        disk.execute("SELECT name, value FROM meta WHERE name IN ('life', 'recovery')").fetchall()
    )
    return int(facts["life"]), int(facts["recovery"])


def commit(found: Found) -> None:
    found.engine.disk.want_commit()
    transaction = found.driver.step().transaction
    if transaction is not None:
        run(found.database.write(transaction.statements))
        found.driver.written(transaction)


def test_every_life_is_higher_than_the_ones_before_and_on_disk_before_it_is_spoken() -> None:
    disk = Region(Cluster(1, regions=1, looks=0.0), "us").disk
    disk.execute("DELETE FROM meta")
    lives = []
    for now_ms in (1000, 1000, 900, 5000, 10):
        found = fresh(ALONE, disk, now_ms)
        lives.append(found.engine.life)
        # The life is on disk before a client or a peer can ask for it.
        assert life_on(disk) == (found.engine.life, 0)
        assert found.engine.peers.gossip().heard[0].life == found.engine.life
    assert lives == sorted(set(lives)) and lives[0] == 1000 and lives[3] >= 5000


def test_two_starts_from_one_backup_have_two_lives() -> None:
    """The clock was ahead when the backup was made, and is right now (S1.3).

    A life took its number from the clock of the last commit, so both starts had the same one.
    Nothing then told the second life's connections from those of the first, and what the first had
    sent, unread, was applied after the answer to the second start's question: a fork.
    """
    region = Region(Cluster(1, regions=1, looks=0.0), "us")
    disk = region.disk
    found = fresh(ALONE, disk, 1000)
    found.engine.tick(90_000)
    found.engine.disk.want_clock_commit()
    commit(found)
    lives = []
    for now_ms in (20_000, 30_000):
        found = fresh(ALONE, copy_of(disk), now_ms)
        assert found.engine.state.clock.now_ms == 90_000
        lives.append(found.engine.life)
    assert lives == [20_000, 30_000]


def test_a_leap_of_the_clock_is_no_patience() -> None:
    """The system clock is set after boot, while a start waits for answers (S13.6).

    The leap ended the patience: a region that had been put back to a backup served at once.
    """
    disk = Region(Cluster(1, regions=2, looks=0.0), "us").disk
    clock = Clock(1000)
    found = Found(config_of("us", PAIR, {"crdt-start-patience-ms": 500}), disk, 0, clock)
    for wall_ms, elapsed_ms, state in (
        (1010, 10, STARTING),
        (1020 + 3_600_000, 20, STARTING),
        (500, 499, STARTING),
        (501, 500, SERVING),
    ):
        clock.wall_ms, clock.elapsed_ms = wall_ms, elapsed_ms
        found.driver.tick()
        assert found.engine.state.lifecycle.state == state, wall_ms


def test_a_start_that_cannot_write_its_life_is_none() -> None:
    disk = Region(Cluster(1, regions=1, looks=0.0), "us").disk
    disk.execute("PRAGMA query_only=ON")
    database = DirectDatabase(disk)
    with pytest.raises(StorageError, match="readonly"):
        run(starting.start(config_of("us", ALONE, {}), database, Clock(1000)))


def test_a_higher_life_that_is_heard_of_is_outdone_for_good() -> None:
    disk = Region(Cluster(1, regions=2, looks=0.0), "us").disk
    found = fresh(PAIR, disk, 1000)
    found.engine.peers.hear(Gossip([Heard(1, 90000, True, {}, 1)], [], []), 1000)
    assert found.engine.life > 90000
    commit(found)
    assert fresh(PAIR, disk, 1000).engine.life > 90000 + 1


def test_a_recovery_lasts_over_starts() -> None:
    """A recovery continues, with its number, after a restart (S13.7).

    It begins because a peer holds more of this region's effects than the region itself.
    """
    cluster = Cluster(1, regions=2, looks=0.0)
    us = cluster.regions[0]
    found = fresh(PAIR, us.disk, 1000)
    assert found.engine.state.lifecycle.state == STARTING
    found.engine.peers.peer_holds(2, {1: 7}, 1000)
    assert found.engine.state.lifecycle.state == RECOVERY
    commit(found)
    again = fresh(PAIR, us.disk, 1000)
    assert again.engine.state.lifecycle.state == RECOVERY
    assert again.engine.state.lifecycle.recovery == found.engine.state.lifecycle.recovery
    assert again.engine.life > found.engine.life


def test_restored_begins_a_recovery_at_once() -> None:
    disk = Region(Cluster(1, regions=2, looks=0.0), "us").disk
    found = fresh(PAIR, disk, 7000, restored=True)
    assert found.engine.state.lifecycle.state == RECOVERY
    assert life_on(disk) == (found.engine.life, found.engine.life)
    assert (
        fresh(PAIR, disk, 7000).engine.state.lifecycle.recovery
        == found.engine.state.lifecycle.recovery
    )
    session = found.engine.clients.connect("", "", 7000)
    reply = execute(found.engine, session, [b"XADD", b"k", b"*", b"f", b"v"], 7000)
    assert isinstance(reply, ErrorReply) and reply.message.startswith("READONLY ")


def test_the_members_are_those_of_the_first_start() -> None:
    disk = Region(Cluster(1, regions=2, looks=0.0), "us").disk
    before = list(disk.iterdump())
    with pytest.raises(
        ConfigError, match="the members given are us=1, eu=2, ap=3, but .* us=1, eu=2"
    ):
        fresh({"us": 1, "eu": 2, "ap": 3}, disk, 1000)
    assert list(disk.iterdump()) == before
    assert sorted(fresh(PAIR, disk, 1000).engine.members) == [1, 2]
    disk.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('lost', x'32')")
    assert [member.lost for member in fresh(PAIR, disk, 1000).engine.members.values()] == [
        False,
        True,
    ]
