"""A disk that fails for a while (S13.4), under the real process.

Clients connect by sockets, and the real `Database` runs in its threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from anabranch.cli.addresses import RegionAddress
from anabranch.cli.client import RegionClient
from anabranch.cli.errors import Unreachable
from anabranch.cli.facts import ask
from anabranch.cli.problems import problems
from anabranch.region.driver.work import DiskTransaction, LogQuestion
from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.replies import ErrorReply
from anabranch.region.live import process, process_facts, starting
from anabranch.region.live.data_files import DataFiles
from anabranch.region.live.database import FILE_NAME, Database, Written
from anabranch.region.live.failed_ends import RegionFailed
from anabranch.region.live.process import Region
from anabranch.region.live.serving import run
from anabranch.region.live.sql_connections import LiveConnector
from anabranch.region.live.sql_thread import SqlThread
from anabranch.region.live.system_clock import SystemClock
from anabranch.region.storage.log import ReadOldest
from anabranch.region.storage.schema import Statement
from anabranch.sim.world.vfs import run as run_sync
from tests.storage import dump
from tests.storage.histories import Cluster
from tests.storage.region import Region as SteppedRegion
from tests.storage.region import config_of
from tests.support.engines import execute
from tests.support.loop import until

ALONE = {"us": 1}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class FailingDatabase(Database):
    """A database whose writes fail.

    All writes fail while `fails` is set; each fails with probability `chance`. `breaks` raises an
    error that only a bug in the program raises, not a failure of the disk.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.fails = False
        self.breaks = False
        self.chance = 0.0
        self.rng = Random(1)
        self.failed = 0

    def begin_write(self, statements: Sequence[Statement], done: Written) -> None:
        if self.fails or self.rng.random() < self.chance:
            self.failed += 1
            done(StorageError("the disk is full"))
        elif self.breaks:
            done(TypeError("a bug"))
        else:
            super().begin_write(statements, done)


class UnreadableDatabase(FailingDatabase):
    """A database whose first read of the oldest rows fails."""

    async def answer(self, request: LogQuestion) -> Any:
        if isinstance(request, ReadOldest) and not self.failed:
            self.failed += 1
            raise StorageError("input/output error")
        return await super().answer(request)


class UncheckpointedDatabase(FailingDatabase):
    """A database to which no slice of a checkpoint can be written; commits succeed."""

    def begin_write(self, statements: Sequence[Statement], done: Written) -> None:
        tables = (" key_state ", " part ", " node ")
        self.fails = any(table in sql for sql, _ in statements for table in tables)
        super().begin_write(statements, done)


class Client:
    """Sends inline commands and reads one line of each reply; `b""` if disconnected."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, text: str) -> bytes:
        self.writer.write(text.encode() + b"\r\n")
        with contextlib.suppress(ConnectionError):
            line = await self.reader.readline()
            if line.startswith(b"$"):
                line = await self.reader.readline()
            return line.strip()
        return b""


async def connect(region: Region) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", region.server.port))


async def begin(database: FailingDatabase, directory: Path, **values: int | str) -> Region:
    named: dict[str, int | str] = {name.replace("_", "-"): value for name, value in values.items()}
    config = config_of("us", ALONE, {"crdt-start-patience-ms": 0, **named}, directory)
    driver = await starting.start(config, database, SystemClock())
    region = Region(config, driver, database)
    await region.start()
    return region


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[FailingDatabase]:
    made = FailingDatabase(tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def unreadable(tmp_path: Path) -> AsyncIterator[UnreadableDatabase]:
    made = UnreadableDatabase(tmp_path)
    yield made
    await made.close()


async def state_on(directory: Path) -> dump.Plain:
    database = Database(directory)
    config = config_of("us", ALONE, {"crdt-start-patience-ms": 0}, directory)
    driver = await starting.start(config, database, SystemClock())
    await database.close()
    return dump.of_keyspace(driver.engine.keyspace)


async def all_committed(region: Region) -> None:
    """Waits until everything done so far is on the disk."""
    region.driver.engine.disk.want_commit()
    region.stepped()
    await until(region.driver.engine.disk.is_all_in_commits)


async def test_a_commit_that_fails_is_retried_and_nobody_is_told_that_it_failed(
    database: FailingDatabase, tmp_path: Path
) -> None:
    region = await begin(
        database, tmp_path, appendfsync="always", crdt_checkpoint_interval_ms=3600000
    )
    one = await connect(region)
    assert b"-" in await one.say("XADD k * f v")
    database.fails = True
    # The region disconnects the client instead of replying that the write failed.
    assert await one.say("XADD k * f unanswered") == b""
    assert database.failed and region.health()[0] == "failed"
    # The region also disconnects clients whose replies would report state that is not on the disk.
    # It refuses all further writes.
    assert await (await connect(region)).say("XLEN k") == b""
    session = region.driver.engine.clients.connect("", "", now_ms())
    refused = execute(
        region.driver.engine, session, [b"XADD", b"k", b"*", b"f", b"refused"], now_ms()
    )
    assert (
        isinstance(refused, ErrorReply)
        and refused.message.startswith("MISCONF")
        and "the disk is full" in refused.message
    )
    database.fails = False
    await until(lambda: not region.driver.engine.state.disk.error)
    other = await connect(region)
    assert b"-" in await other.say("XADD k * f later")
    assert region.health()[0] == "serving"
    await all_committed(region)
    expected = dump.of_keyspace(region.driver.engine.keyspace)
    assert region.driver.log.tail.position == region.driver.engine.committed_position
    positions = [
        row
        for (row,) in await region.database._read("SELECT position FROM log ORDER BY position", ())
    ]
    assert positions == list(range(1, len(positions) + 1))
    await region.stop()
    assert (await state_on(tmp_path)) == expected
    values = [fields[1] for _, _, fields in expected["keys"][b"k"]["logs"][1]]
    # A write that was not acknowledged may be found.
    assert values == [b"v", b"unanswered", b"later"]


async def test_a_region_that_cannot_write_still_shows_itself(
    database: FailingDatabase, tmp_path: Path
) -> None:
    """Under `always`, a reply that shows the region and no data does not wait for the commit.

    Every reply used to wait, and the clients were disconnected, so an operator could not ask the
    region what was wrong, and `anabranch status` called it unreachable. A reply still never
    overtakes one that waits, and a connection's own writes.
    """
    region = await begin(
        database, tmp_path, appendfsync="always", crdt_checkpoint_interval_ms=3600000
    )
    assert b"-" in await (await connect(region)).say("XADD k * f v")
    database.fails = True
    assert await (await connect(region)).say("XADD k * f unanswered") == b""
    client = await connect(region)
    for command, begins in [
        ("PING", b"+PONG"),
        ("CONFIG GET appendfsync", b"*2"),
        ("XADD k * f refused", b"-MISCONF"),
    ]:
        assert (await client.say(command)).startswith(begins), command
        client = await connect(region)
    for command in ("CLIENT ID", "ECHO x", "TIME", "COMMAND COUNT", "HELLO 2", "CRDT.PEERS"):
        assert await (await connect(region)).say(command) != b"", command
    for command in ("XLEN k", "EXISTS k", "DBSIZE", "KEYS *", "CRDT.DIGEST", "CRDT.VECTOR", "XYZ"):
        assert await (await connect(region)).say(command) == b"", command
    assert await (await connect(region)).say("XLEN k\r\nPING") == b"", "PING overtakes nothing"
    info = await asyncio.to_thread(
        ask, RegionAddress("us", 1, f"127.0.0.1:{region.server.port}"), None
    )
    assert (info.state, info.error, info.vector) == ("failed", "", {1: 1})
    assert "the disk is full" in problems([info])[0]

    def compare() -> None:
        """The error said that the region was unreachable, because it ended the connection."""
        with RegionClient(f"127.0.0.1:{region.server.port}", "us") as other:
            other.digest()

    with pytest.raises(Unreachable, match="us at .* cannot write to its disk, .*: the disk is f"):
        await asyncio.to_thread(compare)
    database.fails = False
    await until(lambda: not region.driver.engine.state.disk.error)
    info = await asyncio.to_thread(
        ask, RegionAddress("us", 1, f"127.0.0.1:{region.server.port}"), None
    )
    assert (info.state, info.vector) == ("serving", {1: 2}) and len(info.digest) == 32
    await region.stop()


async def test_no_reply_overtakes_the_own_writes_of_a_connection(
    database: FailingDatabase, tmp_path: Path
) -> None:
    """CLIENT REPLY SKIP suppresses the reply of a write; the PING after it waits for the commit."""
    region = await begin(
        database, tmp_path, appendfsync="always", crdt_checkpoint_interval_ms=3600000
    )
    client = await connect(region)
    database.fails = True
    assert await client.say("CLIENT REPLY SKIP\r\nXADD k * f v\r\nPING") == b""
    assert database.failed
    database.fails = False
    await until(lambda: not region.driver.engine.state.disk.error)
    client = await connect(region)
    said = await client.say("CLIENT REPLY SKIP\r\nXADD k * f v\r\nPING")
    assert said == b"+PONG" and region.driver.engine.disk_vector == {1: 2}
    await region.stop()


async def test_under_everysec_the_region_says_that_it_takes_no_writes(
    database: FailingDatabase, tmp_path: Path
) -> None:
    region = await begin(
        database, tmp_path, appendfsync="everysec", crdt_checkpoint_interval_ms=3600000
    )
    client = await connect(region)
    assert b"-" in await client.say("XADD k * f v")
    database.fails = True
    # A heartbeat that is due wants a commit, too.
    region.driver.engine.disk.want_commit()
    region.stepped()
    await until(lambda: bool(region.driver.engine.state.disk.error))
    assert (await client.say("XADD k * f refused")).startswith(b"-MISCONF")
    assert (await client.say("XLEN k")) == b":1"
    database.fails = False
    await until(lambda: not region.driver.engine.state.disk.error)
    assert b"-" in await client.say("XADD k * f later")
    await region.stop()
    assert len((await state_on(tmp_path))["keys"][b"k"]["logs"][1]) == 2


async def test_what_was_acknowledged_under_always_is_there(
    database: FailingDatabase, tmp_path: Path
) -> None:
    """A start finds every acknowledged write, whichever write of the database failed.

    Commits, slices, ends of checkpoints and truncations of the log fail at random.
    """
    region = await begin(
        database,
        tmp_path,
        appendfsync="always",
        crdt_checkpoint_interval_ms=1,
        crdt_slice_max_bytes=100,
        crdt_log_max_bytes=2000,
    )
    database.chance = 0.2
    acknowledged: list[bytes] = []
    client = await connect(region)
    for number in range(60):
        answer = await client.say(f"XADD k{number % 3} * f {number}")
        if answer == b"":
            client = await connect(region)
        elif not answer.startswith(b"-"):
            acknowledged.append(b"%d" % number)
        elif database.chance and number % 10 == 9:
            await asyncio.sleep(0.2)
    assert database.failed and acknowledged
    database.chance = 0.0
    await until(lambda: not region.driver.engine.state.disk.error)
    expected = dump.of_keyspace(region.driver.engine.keyspace)
    await region.stop()
    found = await state_on(tmp_path)
    assert found == expected
    there = {fields[1] for one in found["keys"].values() for _, _, fields in one["logs"][1]}
    assert there >= set(acknowledged)


async def test_a_disk_that_is_really_full(database: FailingDatabase, tmp_path: Path) -> None:
    region = await begin(
        database, tmp_path, appendfsync="always", crdt_checkpoint_interval_ms=3600000
    )
    client = await connect(region)
    assert b"-" in await client.say("XADD k * f v")
    writer = database._writer
    assert writer is not None
    ((pages,),) = await writer.execute_fetchall("PRAGMA page_count")
    await writer.execute_fetchall(f"PRAGMA max_page_count={pages + 2}")
    answers = [b"-"]
    while answers[-1]:
        answers.append(await client.say("XADD k * f " + "x" * 3000))
    assert "full" in region.driver.engine.state.disk.error
    await writer.execute_fetchall("PRAGMA max_page_count=1000000")
    await until(lambda: not region.driver.engine.state.disk.error)
    expected = dump.of_keyspace(region.driver.engine.keyspace)
    await region.stop()
    assert await state_on(tmp_path) == expected


def test_a_region_that_is_never_idle_is_checkpointed() -> None:
    """A checkpoint ends although new effects arrive all the time.

    A checkpoint used to wait until all effects were on disk, instead of only the effects that it
    had captured. In a region with constant writes no checkpoint ended, the log grew without bound,
    and a start replayed all of it.
    """
    region = Cluster(1, regions=1, looks=0.0, values={"appendfsync": "always"}).regions[0]
    for number in range(5):
        region.say("XADD", b"k%d" % number, "*", "f", "v")
    region.begin_checkpoint()
    writes = 0
    while region.is_checkpointing() and writes < 500:
        region.say("XADD", "k", "MAXLEN", "10", "*", "f", "v")
        region.step()
        region.say("XADD", "k", "MAXLEN", "10", "*", "f", "v")
        region.write()
        writes += 1
    assert writes < 500
    assert region.engine.state.disk.checkpoint_position > 0


def test_a_checkpoint_of_nothing_but_flushall_waits_for_it() -> None:
    """A checkpoint without keys to capture still waits for the commit of a FLUSHALL.

    FLUSHALL over no keys leaves no key to capture, so the checkpoint did not wait. It wrote the
    region's state, including the vector, before the commit of the FLUSHALL. If the process stopped
    between the two writes, the start read a vector that counted an effect which no region had. The
    effect's counter and its position in the log were then used twice.
    """
    region = Cluster(1, regions=1, values={"appendfsync": "no"}).regions[0]
    region.commit_all()
    region.say("FLUSHALL")
    assert region.engine.keyspace.is_dirty and not region.engine.keyspace.dirty
    region.begin_checkpoint()
    region.step()
    assert region.transaction is not None and region.transaction.commit is not None
    region.write()
    region.checkpoint()
    disk = region.engine.state.disk
    assert region.engine.committed_position >= disk.checkpoint_position > 0
    region.crash()
    assert region.expected["vector"] == {1: 1} and region.expected["flush_tombstone"] == {1: 1}


async def test_a_stop_while_the_disk_fails(database: FailingDatabase, tmp_path: Path) -> None:
    """A start after a stop while the disk fails finds the last commit that succeeded.

    Acknowledged writes are kept; a write that was not acknowledged may be lost.
    """
    region = await begin(database, tmp_path, appendfsync="always", crdt_checkpoint_interval_ms=1)
    client = await connect(region)
    for number in range(5):
        assert b"-" in await client.say(f"XADD k * f {number}")
    database.fails = True
    assert await client.say("XADD k * f lost") == b""
    await region.stop()
    found = await state_on(tmp_path)
    assert [fields[1] for _, _, fields in found["keys"][b"k"]["logs"][1]] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
    ]
    assert found["vector"] == {1: 5}


def test_a_stop_commits_everything_although_the_log_cannot_be_read() -> None:
    """A failed read of a stop gives up its checkpoint, and nothing else (S13.2).

    The stop ended at once, as after a failed write: what came after the commit under way was in no
    commit, although it had been acknowledged under everysec and the disk could be written.
    """
    values: dict[str, int | str] = {"appendfsync": "everysec", "crdt-log-max-effects": 1}
    region = Cluster(1, regions=1, looks=0.0, values=values).regions[0]
    driver = region.driver
    for number in range(5):
        region.say("XADD", f"k{number}", "*", "f", "v")
    region.commit_all()
    region.begin_checkpoint()
    work = driver.step()
    while not work.reads:
        if work.transaction is not None:
            run_sync(region.database.write(work.transaction.statements))
            driver.written(work.transaction)
        work = driver.step()
    (read,) = work.reads
    region.say("XADD", "k", "*", "f", "in the commit under way")
    region.engine.disk.want_commit()
    work = driver.step()
    assert work.transaction is not None
    region.say("XADD", "k", "*", "f", "after it")
    driver.stop()
    driver.cannot_read(read, "input/output error")
    commits = 0
    while work.transaction is not None:
        assert not work.has_stopped
        driver.written(work.transaction)
        commits += 1
        work = driver.step()
    assert work.has_stopped and commits == 2
    assert region.engine.disk.is_all_in_commits()


def stop_in_a_checkpoint() -> tuple[SteppedRegion, DiskTransaction]:
    """A region under everysec whose stop began while a slice of a checkpoint is written.

    What it acknowledged meanwhile is in no commit.
    """
    values: dict[str, int | str] = {"appendfsync": "everysec"}
    region = Cluster(1, regions=1, looks=0.0, values=values).regions[0]
    region.say("XADD", "k", "*", "f", "in the checkpoint")
    region.commit_all()
    region.begin_checkpoint()
    region.step()
    assert region.transaction is not None and region.transaction.commit is None
    region.say("XADD", "k", "*", "f", "after it")
    region.driver.stop()
    return region, region.transaction


def test_a_stop_commits_everything_although_its_checkpoint_cannot_be_written() -> None:
    """A failed write of a checkpoint during a stop gives up the checkpoint, and nothing else.

    The stop ended at once, as after a failed commit: effects that had been acknowledged under
    everysec and that waited for the next commit were lost, although the disk could be written
    again.
    """
    region, piece = stop_in_a_checkpoint()
    driver = region.driver
    driver.failed(piece, "the disk is full")
    work = driver.step()
    commits = 0
    while work.transaction is not None:
        assert work.transaction.commit is not None and not work.has_stopped
        driver.written(work.transaction)
        commits += 1
        work = driver.step()
    assert work.has_stopped and commits == 1
    assert region.engine.disk.is_all_in_commits()


def test_a_stop_ends_if_neither_a_checkpoint_nor_a_commit_can_be_written() -> None:
    region, piece = stop_in_a_checkpoint()
    driver = region.driver
    driver.failed(piece, "the disk is full")
    work = driver.step()
    assert work.transaction is not None and work.transaction.commit is not None
    driver.failed(work.transaction, "the disk is full")
    work = driver.step()
    assert work.has_stopped and not region.engine.disk.is_all_in_commits()
    assert work.transaction is None, "nobody waits for another attempt"
    lost = "its last changes could not be written: the disk is full. "
    assert region.engine.disk.unwritten() == lost + "The effects of this region that are lost: 1"


async def test_a_stop_whose_checkpoints_all_fail_keeps_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    """Its last checkpoint begins after the last commit, and is not tried again."""
    database = UncheckpointedDatabase(tmp_path)
    # The first checkpoint is due at once on a machine that has run for longer than this.
    region = await begin(
        database, tmp_path, appendfsync="everysec", crdt_checkpoint_interval_ms=1 << 40
    )
    client = await connect(region)
    for number in range(3):
        assert b"-" in await client.say(f"XADD k{number} * f v")
    async with asyncio.timeout(20):
        await region.stop()
    assert database.failed == 1
    found = await state_on(tmp_path)
    assert found == dump.of_keyspace(region.driver.engine.keyspace)
    assert set(found["keys"]) == {b"k0", b"k1", b"k2"}


async def test_after_a_failed_read_of_the_oldest_rows_the_log_is_shortened(
    unreadable: UnreadableDatabase, tmp_path: Path
) -> None:
    """A checkpoint that cannot read the rows to drop is given up, and a later one is made (S14).

    If it waited for that read for ever, no checkpoint would be made any more. The log would grow
    beyond its limit, and a stop would never end.
    """
    region = await begin(
        unreadable,
        tmp_path,
        appendfsync="always",
        crdt_checkpoint_interval_ms=1,
        crdt_log_max_effects=1,
    )
    client = await connect(region)
    for number in range(5):
        assert b"-" in await client.say(f"XADD k * f {number}")
    await until(lambda: unreadable.failed == 1)
    assert b"-" in await client.say("XADD k * f later")
    await until(lambda: region.driver.log.size.effects <= 1)
    await asyncio.wait_for(region.stop(), 10)


async def test_an_error_of_its_own_ends_the_region(
    database: FailingDatabase, tmp_path: Path
) -> None:
    """An error other than a failure of the disk ends the process, because a retry cannot help.

    Such an error used to end the task of the commit. No further commit was made, and clients that
    waited for a commit waited for ever. Now the process ends, and all acknowledged writes are on
    the disk, as after a kill.
    """
    region = await begin(database, tmp_path, appendfsync="always")
    client = await connect(region)
    assert b"-" in await client.say("XADD k * f v")
    database.breaks = True
    writing = asyncio.create_task(client.say("XADD k * f unanswered"))
    await asyncio.wait_for(region.stop_wanted.wait(), 10)
    assert isinstance(region.failure, TypeError)
    await asyncio.wait_for(region.stop(), 10)
    assert await writing == b""
    assert len((await state_on(tmp_path))["keys"][b"k"]["logs"][1]) == 1


async def test_a_region_whose_time_stands_still_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick that fails ends the process.

    After one failure the tick used not to be scheduled again. Deadlines, gossip and checkpoints
    stopped.
    """
    facts = process_facts.changing

    def changing() -> dict[str, str]:
        calls.append(None)
        if len(calls) > 1:
            raise ZeroDivisionError("an hour of no minutes")
        return facts()

    calls: list[None] = []
    monkeypatch.setattr(process_facts, "changing", changing)
    monkeypatch.setattr(process, "_FACTS_S", 0.01)
    config = config_of("us", ALONE, {"crdt-start-patience-ms": 0}, tmp_path)
    thresholds = gc.get_threshold()
    try:
        with pytest.raises(RegionFailed, match="an hour of no minutes"):
            await asyncio.wait_for(run(config), 10)
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


class StubbornConnection(SqlThread):
    """A connection that frees no memory."""

    async def execute_fetchall(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        if "shrink_memory" in sql:
            raise sqlite3.OperationalError("disk I/O error")
        return await super().execute_fetchall(sql, parameters)


async def test_a_region_serves_although_its_caches_cannot_be_dropped(tmp_path: Path) -> None:
    tried = 0

    class Stubborn(LiveConnector):
        async def writer(self, path: Path) -> SqlThread:
            nonlocal tried
            tried += 1
            connection = StubbornConnection()
            await connection.open(str(path))
            return connection

    database = Database(tmp_path, Stubborn(), DataFiles(tmp_path / FILE_NAME))
    config = config_of("us", ALONE, {"crdt-start-patience-ms": 0}, tmp_path)
    region = Region(config, await starting.start(config, database, SystemClock()), database)
    await region.start()
    await asyncio.sleep(0.05)  # the start has given back what it can
    client = await connect(region)
    assert tried == 1 and await client.say("PING") == b"+PONG"
    assert region.failure is None
    await region.stop()
