"""The files of a running region are removed or replaced.

SQLite went on writing into the open files, replies said that everything was on disk, and at the
end of the process everything was lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from anabranch.region.live import process, starting
from anabranch.region.live.data_files import DataFiles
from anabranch.region.live.database import FILE_NAME, Database
from anabranch.region.live.process import Region
from anabranch.region.live.system_clock import SystemClock
from tests.storage.region import config_of
from tests.storage.test_failing import ALONE, Client, connect

WAL_NAME = f"{FILE_NAME}-wal"


@asynccontextmanager
async def running(directory: Path, *, moved: bool = False) -> AsyncIterator[Region]:
    """A region that has one entry more than it had before, on disk."""
    values: dict[str, int | str] = {"crdt-start-patience-ms": 0, "appendfsync": "always"}
    config = config_of("us", ALONE, values, directory, moved=moved)
    database = Database(directory, files=DataFiles(directory / FILE_NAME))
    region = Region(config, await starting.start(config, database, SystemClock()), database)
    await region.start()
    try:
        client = await connect(region)
        assert not (await client.say("XADD s * f v")).startswith(b"-")
        client.writer.close()
        yield region
    finally:
        await region.stop()
        # A commit that fails is tried again as long as the event loop runs.
        region.failure = RuntimeError("stopped")


async def becomes(region: Region, state: str) -> None:
    """Waits until /health says so. The clock of an idle region goes to disk every 10 s only."""
    async with asyncio.timeout(5):
        while region.health()[0] != state:
            await asyncio.sleep(0.01)


async def refusal(client: Client) -> str:
    return (await client.say("XADD s * f v")).decode()


def removes_all(data: Path) -> str:
    shutil.rmtree(data)
    return f"{data / FILE_NAME} was removed"


def removes_the_log(data: Path) -> str:
    """A "temporary file" that somebody tidies away. It holds the newest commits."""
    (data / WAL_NAME).unlink()
    return f"{data / WAL_NAME} was removed"


def restores_a_copy(data: Path) -> str:
    shutil.copy2(data / FILE_NAME, data / "copy")
    os.replace(data / "copy", data / FILE_NAME)
    return f"{data / FILE_NAME} was replaced by another file"


@pytest.mark.parametrize("loses", [removes_all, removes_the_log, restores_a_copy])
async def test_an_idle_region_tells_it_within_seconds_and_takes_no_writes(
    loses: Callable[[Path], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "us"
    with caplog.at_level(logging.ERROR):
        async with running(data) as region:
            assert region.health()[0] == "serving"
            told = loses(data)
            await becomes(region, "failed")
            assert told in region.health()[1]["commit_error"]
            client = await connect(region)
            text = await refusal(client)
            assert text.startswith("-MISCONF") and told in text
            assert await client.say("XLEN s") == b":1", "the state can be read"
            client.writer.close()
    (line,) = (one.getMessage() for one in caplog.records if "commit_failed" in one.getMessage())
    assert told in line


async def test_a_directory_that_comes_back_ends_it(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "us", tmp_path / "elsewhere"
    async with running(data) as region:
        data.rename(elsewhere)
        await becomes(region, "failed")
        elsewhere.rename(data)
        await becomes(region, "serving")
        client = await connect(region)
        assert not (await refusal(client)).startswith("-")
        client.writer.close()


async def test_the_removed_files_can_be_had_back_while_the_region_runs(tmp_path: Path) -> None:
    """As docs/operations-repair.md tells it, with the open files of the process."""
    data, saved = tmp_path / "us", tmp_path / "saved"
    async with running(data) as region:
        shutil.rmtree(data)
        await becomes(region, "failed")
        saved.mkdir()
        for link in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # the one of this walk
                name = Path(os.readlink(link).removesuffix(" (deleted)"))
                if name in (data / FILE_NAME, data / WAL_NAME):
                    shutil.copyfile(link, saved / name.name)
    async with running(saved, moved=True) as region:
        client = await connect(region)
        assert await client.say("XLEN s") == b":2"
        client.writer.close()


async def test_files_that_cannot_be_looked_at_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(process, "_FACTS_S", 0.01)
    async with running(tmp_path) as region:
        with monkeypatch.context() as patched:
            patched.setattr("anabranch.region.live.data_files._inode", denied)
            await asyncio.sleep(0.1)
            assert not region.database.has_lost_files()
        assert region.health()[0] == "serving"
