"""An error in a step ends the region (S13.10), and what comes after such an end."""

from __future__ import annotations

import _thread
import asyncio
import sqlite3
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import pytest

from anabranch import build
from anabranch.crdt.vector import Vector
from anabranch.region.engine import journal
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.rows import SnapshotRow
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command
from anabranch.region.live import failed_ends, inspection, starting
from anabranch.region.live.database import FILE_NAME, Database
from anabranch.region.live.failed_ends import ENDS_MAX, FailedEnds, NotStartedAgain, StepFailed
from anabranch.region.live.process import Region
from anabranch.region.live.serving import run
from anabranch.region.live.sql_connections import LiveConnector, require_thread
from anabranch.region.live.system_clock import SystemClock
from anabranch.region.live.uncaught import Uncaught
from anabranch.region.storage import loading
from anabranch.region.storage.log import Gap, gaps
from tests.storage.region import config_of
from tests.storage.test_failing import ALONE, all_committed, connect, state_on
from tests.support.engines import execute, single

# Compiled modules call each other without a look at their names.
interpreted = pytest.mark.skipif(
    build.kind() == "compiled", reason="it replaces functions; `make test-pure` runs it"
)


def breaks_off(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XBREAK key: adds an entry and then fails, as if memory had run out."""
    state.commands[b"XADD"].handler(state, session, [b"XADD", argv[1], b"*", b"f", b"v"])
    raise MemoryError


XBREAK: Final = Command("xbreak", 2, "write", breaks_off, "Breaks off.", keys=(1, 1, 1))


def with_xbreak(state: EngineState) -> Engine:
    """An engine that has a command which breaks off."""
    state.commands[b"XBREAK"] = XBREAK
    return Engine(state)


async def begin(directory: Path, fsync: str = "always") -> Region:
    config = config_of("us", ALONE, {"crdt-start-patience-ms": 0, "appendfsync": fsync}, directory)
    database = Database(directory)
    driver = await starting.start(config, database, SystemClock(), make_engine=with_xbreak)
    region = Region(config, driver, database)
    await region.start()
    return region


@pytest.mark.parametrize("fsync", ["always", "no"])
async def test_a_command_that_breaks_off_ends_the_region(tmp_path: Path, fsync: str) -> None:
    """The region used to go on, with an effect in memory that the log might never get.

    A peer could not follow any more, and a restart did not help.
    """
    region = await begin(tmp_path, fsync)
    client, other = await connect(region), await connect(region)
    assert not (await client.say("XADD k * f v")).startswith(b"-")
    await all_committed(region)
    assert await client.say("XBREAK bad") == b""
    assert isinstance(region.failure, MemoryError)
    answer = asyncio.create_task(other.say("XADD k * f v"))
    await asyncio.wait_for(region.stop(), 10)
    assert await answer == b"", "nobody is answered from memory that may be wrong"
    assert set((await state_on(tmp_path))["keys"]) == {b"k"}
    assert FailedEnds(tmp_path).total == 1

    region = await begin(tmp_path)
    client = await connect(region)
    assert not (await client.say("XADD k * f v")).startswith(b"-")
    assert region.driver.engine.state.process_facts["internal_errors"] == "1"
    await region.stop()


def test_three_ends_at_one_row_are_enough(tmp_path: Path) -> None:
    """A supervisor would start the region for ever, and peers would see links come and go."""
    for _ in range(ENDS_MAX):
        assert FailedEnds(tmp_path).refusal() == ""
        FailedEnds(tmp_path).note(17, {1: 9}, AssertionError("a bug"))
    refusal = FailedEnds(tmp_path).refusal()
    assert "3 times at row 17 of its log" in refusal and "AssertionError: a bug" in refusal
    config = config_of("us", ALONE, {}, tmp_path)
    with pytest.raises(NotStartedAgain, match="row 17"):
        asyncio.run(run(config))
    assert not (tmp_path / FILE_NAME).exists()


def test_another_place_another_release_or_an_hour_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(vector: Vector) -> str:
        FailedEnds(tmp_path).note(17, vector, MemoryError())
        return FailedEnds(tmp_path).refusal()

    assert [bool(end({1: 9 + n})) for n in range(4)] == [False] * 4
    assert [bool(end({1: 12})) for _ in range(2)] == [False, True]
    with monkeypatch.context() as patch:
        patch.setattr(failed_ends, "_release", lambda: "another:")
        assert FailedEnds(tmp_path).refusal() == ""
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 3601)
    assert end({1: 12}) == "" and FailedEnds(tmp_path).total == 7


def test_an_unreadable_file_of_ends_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / failed_ends.ENDS_NAME).write_text('{"total": []}')
    assert FailedEnds(tmp_path).refusal() == "" and FailedEnds(tmp_path).total == 0


@interpreted
def test_a_start_that_cannot_replay_a_row_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor saw a traceback without a row, and started the region for ever."""

    async def write() -> None:
        region = await begin(tmp_path)
        await (await connect(region)).say("XADD k * f v")
        region.fail(RuntimeError("as a kill"))  # no checkpoint, so the next start replays
        await region.stop()

    def breaks(*_: object) -> None:
        raise MemoryError

    asyncio.run(write())
    (tmp_path / failed_ends.ENDS_NAME).unlink()
    config = config_of("us", ALONE, {}, tmp_path)
    monkeypatch.setattr(loading, "apply_block", breaks)
    for _ in range(ENDS_MAX):
        with pytest.raises(StepFailed, match=r"row \d+ of its log: .*MemoryError"):
            asyncio.run(run(config))
    with pytest.raises(NotStartedAgain, match=r"3 times at row \d+"):
        asyncio.run(run(config))


@interpreted
def test_a_block_stays_open_until_its_row_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that was dropped first left effects in the vector that were in no row (S13.10)."""
    engine = single()
    session = engine.clients.connect("c", "", 1)
    execute(engine, session, [b"XADD", b"k", b"*", b"f", b"v"], 1)
    state = engine.state
    rows, chains = len(state.journal.rows), dict(state.keyspace.chains)

    def breaks(*_: object) -> bytes:
        raise MemoryError

    for name in ("chain_after", "BlockRow"):
        with monkeypatch.context() as patch:
            patch.setattr(journal, name, breaks)
            with pytest.raises(MemoryError):
                state.journal.cut_block()
        assert state.journal.writer is not None
        assert len(state.journal.rows) == rows and state.keyspace.chains == chains
    state.journal.cut_block()
    assert state.journal.writer is None and len(state.journal.rows) == rows + 1


async def test_check_finds_effects_that_are_in_no_row(tmp_path: Path) -> None:
    """`anabranch check` said that such a log is sound."""
    region = await begin(tmp_path)
    client = await connect(region)
    for number in range(1, 5):
        await client.say(f"XADD k * f {number}")
    await region.stop()
    assert (await inspection.inspect(tmp_path)).gaps == []
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database, database:
        database.execute("DELETE FROM log WHERE origin = 1 AND first IN (2, 3)")
    found = await inspection.inspect(tmp_path)
    (text,) = found.gaps
    assert text.startswith("the effects 2 to 3 of us before row ") and not found.findings


def test_what_came_with_a_snapshot_is_no_gap() -> None:
    jumps = [(9, 1, 3, 7), (12, 2, 1, 3)]
    joined = SnapshotRow(8, 0, 2, {1: 6, 2: 1}, [])
    assert gaps(jumps, [joined]) == [Gap(12, 2, 2, 2)]
    assert gaps(jumps, [SnapshotRow(10, 0, 2, {1: 6, 2: 2}, [])]) == [Gap(9, 1, 4, 6)]


@pytest.mark.parametrize("which", ["writer", "reader"])
async def test_a_read_that_broke_off_leaves_no_old_view(tmp_path: Path, which: str) -> None:
    """All later reads of the connection found the log as it was when the read broke off.

    A sender that read on skipped the newer rows, called them a gap, and sent a snapshot
    (`acceptance.out_of_memory --way allocation`, run 1038). Here a text that is none breaks the
    read off, as want of memory did.
    """
    connector = LiveConnector()
    path = tmp_path / "file.sqlite"
    writer, other = await connector.writer(path), await connector.writer(path)
    await writer.execute_fetchall("PRAGMA journal_mode=WAL")
    await writer.execute_fetchall("CREATE TABLE t (v)")
    await writer.transact([("INSERT INTO t VALUES (?)", [(1,), (2,)])])
    connection = writer if which == "writer" else await connector.reader(path)
    with pytest.raises(sqlite3.OperationalError) as broken_off:
        await connection.execute_fetchall("SELECT iif(v = 1, v, CAST(x'ff' AS TEXT)) FROM t")
    await other.transact([("INSERT INTO t VALUES (?)", [(3,)])])
    assert list(await connection.execute_fetchall("SELECT count(*) FROM t")) == [(3,)]
    ((is_busy, _, _),) = await other.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not is_busy, "the write-ahead log could not be emptied, and grew"
    assert broken_off.value is not None  # whoever keeps the error keeps the cursor
    for one in {connection, writer, other}:
        await one.close()


@pytest.mark.parametrize("which", ["writer", "reader"])
async def test_a_thread_of_sqlite_that_has_ended_is_noticed(tmp_path: Path, which: str) -> None:
    connector = LiveConnector()
    path = tmp_path / "file.sqlite"
    writer = await connector.writer(path)
    connection = writer if which == "writer" else await connector.reader(path)
    require_thread(connection)
    await connection.close()
    await writer.close() if which == "reader" else None
    with pytest.raises(RuntimeError, match="of SQLite has ended"):
        for _ in range(1000):
            require_thread(connection)
            await asyncio.sleep(0.01)


async def test_a_region_without_its_thread_of_sqlite_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without memory, a thread ended after a request. The region kept its ports, and said nothing.

    No commit was answered any more, and no read of the log. `acceptance.out_of_memory` found it.
    """

    def lacks(_: Database) -> None:
        raise RuntimeError("the thread sqlite of SQLite has ended")

    region = await begin(tmp_path)
    monkeypatch.setattr(Database, "require_threads", lacks)
    try:
        await asyncio.wait_for(region.stop_wanted.wait(), 20)
        assert "of SQLite has ended" in str(region.failure)
    finally:
        await region.stop()


async def test_an_end_that_cannot_be_told_is_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without memory for the last line, the region stayed: its steps had ended, and it had not."""
    region = await begin(tmp_path)
    ends: list[str] = []

    def breaks(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Region, "_tell_end", breaks)
        patch.setattr(region, "_end_process", lambda: ends.append("end"))
        for _ in range(2):
            with suppress(MemoryError):
                region.fail(ValueError("a bug"))
    assert ends == ["end", "end"], "the process is ended, and if it was not, at the next error"
    region.server.drop()
    region._has_stopped.set()
    await region.stop()


@pytest.fixture
async def uncaught(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """The errors that would end this process."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    found: list[BaseException] = []
    Uncaught(found.append).watch(asyncio.get_running_loop())
    return found


async def test_an_error_that_ends_a_thread_ends_the_process(uncaught: list[BaseException]) -> None:
    """Python prints it, and whoever waits for the thread waits for ever."""

    def breaks() -> None:
        raise ValueError("in a thread")

    thread = threading.Thread(target=breaks)
    thread.start()
    thread.join()
    assert [str(error) for error in uncaught] == ["in a thread"]
    # As if the thread ended before its own code.
    _thread.start_new_thread(breaks, ())
    while len(uncaught) < 2:
        await asyncio.sleep(0.01)
    assert str(uncaught[1]) == "in a thread"


async def test_errors_after_the_stop_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of a library that finds the event loop closed must not change the exit code."""
    for module, name in ((sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    found: list[BaseException] = []
    uncaught = Uncaught(found.append)
    uncaught.watch(asyncio.get_running_loop())
    uncaught.over()
    assert threading.excepthook is threading.__excepthook__
    assert sys.unraisablehook is sys.__unraisablehook__
    assert asyncio.get_running_loop().get_exception_handler() is None and not found


async def test_want_of_memory_anywhere_ends_the_process(uncaught: list[BaseException]) -> None:
    """A callback of the event loop that fails is not called again, so its event is lost."""

    class Breaks:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def __del__(self) -> None:
            raise self.error

    def breaks(error: Exception) -> None:
        raise error

    for error in (ValueError("printed"), MemoryError("of a callback")):
        asyncio.get_running_loop().call_soon(breaks, error)
    await asyncio.sleep(0)
    for error in (ValueError("printed"), MemoryError("of a destructor")):
        Breaks(error)
    assert [str(error) for error in uncaught] == ["of a callback", "of a destructor"]


async def test_a_start_without_memory_ends_the_process_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orderly end starts a thread, and waited for ever for one that had no memory to begin."""

    async def breaks(*_: object, **__: object) -> None:
        raise MemoryError

    for module, name in ((sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(starting, "start", breaks)
    order: list[str] = []

    async def close(_: Database) -> None:
        order.append("close")

    monkeypatch.setattr(Database, "close", close)
    with pytest.raises(StepFailed):
        await run(config_of("us", ALONE, {}, tmp_path), end_process=lambda: order.append("end"))
    # The end of a real process does not return.
    assert order == ["end", "close"]
    assert FailedEnds(tmp_path).total == 1
