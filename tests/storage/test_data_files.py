"""A start notices database files that were put back without being told (S13.6).

Each test treats the files of a stopped region as an operator would, and starts the region again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.lifecycle import RECOVERY
from anabranch.region.live import starting
from anabranch.region.live.data_files import MARK_NAME, DataFiles
from anabranch.region.live.database import FILE_NAME, Database
from anabranch.region.live.process import Region
from anabranch.region.live.system_clock import SystemClock
from tests.storage.region import config_of
from tests.storage.test_failing import connect

MEMBERS = {"us": 1, "eu": 2}


async def run_once(
    directory: Path,
    adds: int = 3,
    moved: bool = False,
    cleanly: bool = True,
    members: dict[str, int] = MEMBERS,
) -> tuple[str, str]:
    """Starts the region, adds entries if it serves, and stops it. Returns state and cause."""
    config = config_of("us", members, {"crdt-start-patience-ms": 0}, directory, moved=moved)
    database = Database(directory, files=DataFiles(directory / FILE_NAME))
    try:
        driver = await starting.start(config, database, SystemClock())
    except StorageError:
        await database.close()
        raise
    lifecycle = driver.engine.state.lifecycle
    found = lifecycle.state, lifecycle.recovery_cause
    region = Region(config, driver, database)
    await region.start()
    try:
        if found[0] != RECOVERY:
            client = await connect(region)
            for _ in range(adds):
                assert not (await client.say("XADD s * f v")).startswith(b"-")
            client.writer.close()
            while driver.engine.disk_vector != driver.engine.keyspace.vector:
                await asyncio.sleep(0.01)
    finally:
        if not cleanly:
            region.failure = RuntimeError("killed")  # A stop after a failure writes nothing.
        await region.stop()
    return found


async def serves(directory: Path, moved: bool = False) -> bool:
    return (await run_once(directory, moved=moved))[0] != RECOVERY


async def test_a_plain_start_is_no_restore(tmp_path: Path) -> None:
    """The same files, as after a container was recreated on its volume."""
    data = tmp_path / "us"
    for cleanly in (True, False, True):
        state, cause = await run_once(data, cleanly=cleanly)
        assert state != RECOVERY, cause


async def test_a_directory_that_was_renamed_is_no_restore(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "us", tmp_path / "elsewhere"
    await run_once(data)
    data.rename(elsewhere)
    assert await serves(elsewhere)


def by_cp(data: Path, copy: Path) -> None:
    """``cp -r`` of the directory, taken away and put back."""
    shutil.rmtree(data)
    shutil.copytree(copy, data)


def by_cp_of_times(data: Path, copy: Path) -> None:
    """``cp -a``: with the times of the files."""
    shutil.rmtree(data)
    shutil.copytree(copy, data, copy_function=shutil.copy2)


def by_rsync(data: Path, copy: Path) -> None:
    """rsync writes beside the file and renames."""
    for file in copy.iterdir():
        fresh = data / f".{file.name}.x"
        shutil.copy2(file, fresh)
        os.replace(fresh, data / file.name)


def by_tar(data: Path, copy: Path) -> None:
    """tar removes the file and makes it anew."""
    archive = copy.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        tar.add(copy, arcname=".")
    for file in data.iterdir():
        file.unlink()
    with tarfile.open(archive) as tar:
        tar.extractall(data, filter="data")


def by_cp_of_the_database(data: Path, copy: Path) -> None:
    """``cp`` of the one file onto the other: the inode stays, but the file ends earlier."""
    for file in copy.glob(FILE_NAME + "*"):
        shutil.copyfile(file, data / file.name)


@pytest.mark.parametrize(
    "put_back", [by_cp, by_cp_of_times, by_rsync, by_tar, by_cp_of_the_database]
)
async def test_files_that_were_put_back_count_as_restored(
    tmp_path: Path, put_back: Callable[[Path, Path], None]
) -> None:
    data, copy = tmp_path / "us", tmp_path / "copy"
    await run_once(data)
    shutil.copytree(data, copy)
    await run_once(data)
    put_back(data, copy)
    state, cause = await run_once(data)
    assert state == RECOVERY
    assert "not the file of the last start" in cause or "was once on disk" in cause


async def test_a_volume_that_was_copied_counts_as_restored_unless_it_was_moved(
    tmp_path: Path,
) -> None:
    data, copy = tmp_path / "us", tmp_path / "copy"
    await run_once(data)
    shutil.copytree(data, copy)
    assert await serves(copy, moved=True)
    assert await serves(copy), "the identity of the moved file was stored"
    shutil.copytree(data, tmp_path / "third")
    assert not await serves(tmp_path / "third")


async def test_moved_does_not_excuse_a_file_that_is_older(tmp_path: Path) -> None:
    """--moved vouches for the identity; a log that ends too early is old nevertheless."""
    data, copy = tmp_path / "us", tmp_path / "copy"
    await run_once(data)
    shutil.copytree(data, copy)
    await run_once(data)
    by_cp_of_the_database(data, copy)
    state, cause = await run_once(data, moved=True)
    assert state == RECOVERY and "was once on disk" in cause, cause


async def test_a_database_that_is_gone_counts_as_restored(tmp_path: Path) -> None:
    """Only the mark is left: the region had data, and must ask for it before it writes."""
    data = tmp_path / "us"
    await run_once(data)
    for file in data.glob(FILE_NAME + "*"):
        file.unlink()
    assert not await serves(data)


async def test_a_mark_that_cannot_be_read_or_written_is_no_mark(tmp_path: Path) -> None:
    data = tmp_path / "us"
    await run_once(data)
    mark = data / MARK_NAME
    digits, check = mark.read_bytes().split()
    assert int(digits) > 0
    mark.write_bytes(b"9" + digits[1:] + b" " + check + b"\n")
    assert await serves(data)
    mark.unlink()
    mark.mkdir()
    assert await serves(data)
