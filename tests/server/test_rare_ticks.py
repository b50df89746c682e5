"""When the process of a region ticks rarely."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anabranch.region.live import starting
from anabranch.region.live.database import Database
from anabranch.region.live.process import Region
from anabranch.region.live.system_clock import SystemClock
from tests.storage.region import config_of
from tests.support.loop import until


@pytest.fixture
async def region(tmp_path: Path) -> AsyncIterator[Region]:
    config = config_of("us", {"us": 1}, {"crdt-start-patience-ms": 0}, tmp_path)
    database = Database(tmp_path)
    made = Region(config, await starting.start(config, database, SystemClock()), database)
    await made.start()
    yield made
    await made.stop()


async def test_a_read_with_a_near_deadline_brings_the_ticks_back(region: Region) -> None:
    await until(lambda: region._ticker.is_slow)
    reader, writer = await asyncio.open_connection("127.0.0.1", region.server.port)
    writer.write(b"XREAD BLOCK 15 STREAMS s $\r\n")
    await until(lambda: not region._ticker.is_slow)
    assert await reader.readline() == b"*-1\r\n"
    await until(lambda: region._ticker.is_slow)
    writer.close()


async def test_a_region_that_ended_ticks_no_more(region: Region) -> None:
    await until(lambda: region._ticker.is_slow)
    await region.stop()
    timer = region._ticker._timer
    assert not region._ticker.is_slow
    assert timer is not None and timer.cancelled()
