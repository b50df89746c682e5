"""Runs a test's coroutine under asyncio's loop and under uvloop's, with the same expectations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from anabranch.region.engine.setting import Value
from tests.server.stub import StubRegion

Story = Callable[[StubRegion], Awaitable[None]]
Play = Callable[..., None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Play:
    """``play(story, {"setting": value})`` runs `story(region)` with a server around a stub.

    A story has 60 s. An exception that reaches the loop's handler fails the test.
    """

    async def run(story: Story, values: dict[str, Value] | None) -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        region = StubRegion(values)
        await region.server.start("127.0.0.1", 0)
        ticks = asyncio.ensure_future(region.tick())
        try:
            await asyncio.wait_for(story(region), 60)
        finally:
            await region.server.close()
            ticks.cancel()
        assert faults == []

    def start(story: Story, values: dict[str, Value] | None = None) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(run(story, values))

    return start
