"""Damage to the files of a region is noticed, and what is damaged is not used.

The damage of one byte anywhere in the files is tried by `bench/acceptance/damaged_files.py` on live
regions, and here on some bytes of each table and of the write-ahead log.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest
from xxhash import xxh3_64_digest

from anabranch.crdt.encoding import Malformed, put_varint
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.region_log import NodeLimits
from anabranch.region.engine.errors import Damaged
from anabranch.region.live import starting
from anabranch.region.live.data_files import DataFiles
from anabranch.region.live.database import FILE_NAME, Database
from anabranch.region.live.process import Region
from anabranch.region.live.system_clock import SystemClock
from anabranch.region.storage import key_index, loading, sums, wal
from anabranch.region.storage.checkpoint import REGION_STATE_VERSION
from tests.storage import dump
from tests.storage.direct import copy_of
from tests.storage.region import config_of
from tests.storage.test_data_files import run_once
from tests.storage.test_failing import connect
from tests.storage.test_start import start, used_region


def test_every_column_of_every_row_is_covered_by_its_sum() -> None:
    """A change of any column of any row stops the start, or changes nothing that it loads."""
    region = used_region()
    region.commit_all()
    region.checkpoint()
    region.say("XADD", "k1", "*", "after", "it")
    region.commit_all()
    whole = start(region, copy_of(region.disk))
    tried = noticed = 0
    for table in ("log", "key_state", "part", "node"):
        names = [row[1] for row in region.disk.execute(f"PRAGMA table_info({table})")]
        rows = region.disk.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()
        for row in rows:
            for index, name in enumerate(names):
                if row[index] is None:
                    continue
                damaged = list(row)
                value = row[index]
                damaged[index] = (
                    value ^ 1
                    if isinstance(value, int)
                    else bytes([*value[:-1], value[-1] ^ 1])
                    if value
                    else b"x"
                )
                disk = copy_of(region.disk)
                where = " AND ".join(f"{one} IS ?" for one in names)
                disk.execute(f"DELETE FROM {table} WHERE {where}", row)
                marks = ", ".join("?" * len(names))
                disk.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", damaged)
                tried += 1
                try:
                    assert start(region, disk) == whole, (table, name, row)
                except Damaged:
                    noticed += 1
    assert noticed > tried / 2, (noticed, tried)


def test_a_row_without_a_sum_is_one_of_a_former_release() -> None:
    sums.require(None, 5)
    with pytest.raises(Malformed, match="checksum"):
        sums.require(6, 5)


def write_ahead_log(directory: Path, commits: int = 6) -> bytes:
    """The WAL of a database after some commits, while it is open."""
    database = sqlite3.connect(directory / "x.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)")
    for number in range(commits):
        database.execute("INSERT INTO t VALUES (?, ?)", (number, bytes(5000)))
    data = (directory / "x.sqlite-wal").read_bytes()
    database.close()
    return data


def test_a_sound_or_torn_wal_is_not_damaged(tmp_path: Path) -> None:
    """A crash may cut the WAL off anywhere, or leave rubbish or an older run at its end."""
    data = write_ahead_log(tmp_path)
    assert wal.damage(data) == ""
    rng = Random(1)
    for _ in range(30):
        cut = rng.randrange(len(data))
        assert wal.damage(data[:cut]) == ""
        assert wal.damage(data[:cut] + rng.randbytes(9000)) == ""
    assert wal.damage(b"") == wal.damage(bytes(9000)) == ""
    size = 4096 + wal.FRAME_HEADER_BYTES
    other_run = bytearray(data[wal.HEADER_BYTES + 3 * size :])
    for start_of_frame in range(0, len(other_run) - size + 1, size):
        other_run[start_of_frame + 8] ^= 1
    assert wal.damage(data[: wal.HEADER_BYTES + 3 * size] + other_run) == ""


def test_a_flipped_byte_before_a_sound_frame_of_a_wal_is_damage(tmp_path: Path) -> None:
    """SQLite would silently take the prefix before it."""
    data = write_ahead_log(tmp_path)
    last = len(data) - 4096 - wal.FRAME_HEADER_BYTES
    rng = Random(2)
    for place in [*range(24), *(rng.randrange(24, last) for _ in range(60))]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        assert wal.damage(bytes(flipped)), place


def test_checksums_are_those_of_sqlite(tmp_path: Path) -> None:
    data = write_ahead_log(tmp_path)
    is_big = data[3] & 1 == 1
    stored = int.from_bytes(data[24:28], "big"), int.from_bytes(data[28:32], "big")
    assert wal.checksum(data[:24], (0, 0), is_big) == stored


async def test_a_region_alone_refuses_to_start_without_commits_that_it_had(tmp_path: Path) -> None:
    """Nobody else has what is missing, so an older state must not be served as if it were whole."""
    data, copy = tmp_path / "us", tmp_path / "copy"
    await run_once(data, members={"us": 1})
    shutil.copytree(data, copy)
    await run_once(data, members={"us": 1})
    shutil.copyfile(copy / "region.sqlite", data / "region.sqlite")
    with pytest.raises(Damaged, match=r"was once on disk.*--restored"):
        await run_once(data, members={"us": 1})


async def state_in(directory: Path) -> dump.Plain:
    """The state that a start finds in a directory; Damaged if it refuses."""
    database = Database(directory, files=DataFiles(directory / FILE_NAME))
    config = config_of("us", {"us": 1}, {"crdt-start-patience-ms": 0}, directory, moved=True)
    try:
        driver = await starting.start(config, database, SystemClock())
        return dump.of_keyspace(driver.engine.keyspace)
    finally:
        await database.close()


async def killed_directory(directory: Path, adds: int) -> None:
    """The directory of a region that was killed: a database, and a write-ahead log with frames."""
    await run_once(directory / "first", adds=adds, members={"us": 1})
    shutil.copytree(directory / "first", directory / "us")
    database = Database(directory / "us", files=DataFiles(directory / "us" / FILE_NAME))
    config = config_of("us", {"us": 1}, {"crdt-start-patience-ms": 0}, directory / "us", moved=True)
    driver = await starting.start(config, database, SystemClock())
    region = Region(config, driver, database)
    await region.start()
    client = await connect(region)
    for number in range(adds):
        assert not (await client.say(f"XADD k{number % 3} * f {number}")).startswith(b"-")
    assert await client.say("XGROUP CREATE s g 0") == b"+OK"
    assert (await client.say("XREADGROUP GROUP g c COUNT 2 STREAMS s >")).startswith(b"*")
    while driver.engine.disk_vector != driver.engine.keyspace.vector:
        await asyncio.sleep(0.01)
    shutil.copytree(directory / "us", directory / "killed")
    client.writer.close()
    await region.stop()


@pytest.mark.parametrize("seed", range(4))
async def test_a_flipped_or_missing_byte_is_noticed_or_harmless(tmp_path: Path, seed: int) -> None:
    """A start from files with one flipped bit, or a file cut off, finds the same state or refuses.

    It refuses a write-ahead log cut off, too: the mark knows that it was longer.
    """
    await killed_directory(tmp_path, 40)
    whole = await state_in(shutil.copytree(tmp_path / "killed", tmp_path / "whole"))
    rng = Random(seed)
    outcomes = {"same": 0, "refused": 0}
    for number in range(25):
        directory = Path(shutil.copytree(tmp_path / "killed", tmp_path / str(number)))
        files = sorted(file for file in directory.iterdir() if file.stat().st_size)
        file = rng.choice(files)
        content = bytearray(file.read_bytes())
        if number % 5 == 0:
            del content[rng.randrange(len(content)) :]
        else:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
        try:
            found = await state_in(directory)
        except Damaged:
            outcomes["refused"] += 1
        else:
            assert found == whole, (seed, number, file.name)
            outcomes["same"] += 1
        shutil.rmtree(directory)
    assert all(outcomes.values()), outcomes


def test_meta_rows_of_other_types_are_damaged() -> None:
    good = ("cut", b"1", sums.of_meta("cut", b"1"))
    assert loading.read_meta([good]) == {"cut": b"1"}
    for name, value, shown in ((b"x", b"1", "x"), (7, b"1", "7"), ("cut", "1", "cut")):
        with pytest.raises(Damaged, match=f"the row '{shown}' of the table meta is damaged"):
            loading.read_meta([good, (name, value, None)])
    with pytest.raises(Damaged, match="the row 'cut' of the table meta is damaged"):
        loading.read_meta([("cut", b"2", good[2])])


def test_meta_rows_with_other_contents_are_damaged() -> None:
    """Their sums are right, and what they hold is not."""

    def begin(**meta: bytes) -> None:
        loading.begin(meta, 1, NodeLimits(), PairLimits())

    begin()
    with pytest.raises(Damaged, match="the vector `collected` is damaged: its checksum is wrong"):
        begin(collected=bytes(20))
    later = bytearray()
    put_varint(later, REGION_STATE_VERSION + 1)
    with pytest.raises(Damaged, match="region's state is damaged: .* of an unknown version"):
        begin(region_state=xxh3_64_digest(later) + bytes(later))


def test_a_segment_of_the_index_that_is_damaged_excludes_nothing() -> None:
    found = key_index.make_filter([b"k"])
    row = (1, 9, found, sums.of_segment(1, 9, found), "low", b"high", b"others", 0)
    assert key_index.stretches_without(b"k", [row], has_entries=False) == []
