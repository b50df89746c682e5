"""What clients cost together: lines of the log, and the memory of replies that they do not read."""

from __future__ import annotations

import logging

import pytest

from anabranch.region.driver.client_pressure import LINES_MAX, WINDOW_MS, LineLimit, UnsentOutput
from tests.resp.streams import multibulk
from tests.server.client import connect
from tests.server.conftest import Play
from tests.server.stub import StubRegion


def test_lines_of_one_cause_are_few_and_the_next_one_tells_how_many_were_left_out() -> None:
    limit = LineLimit()
    shown = [limit.line("slow", now_ms) for now_ms in range(100)]
    assert shown == [""] * LINES_MAX + [None] * (100 - LINES_MAX)
    assert limit.line("other", 100) == ""
    assert limit.line("slow", WINDOW_MS) == f" ({100 - LINES_MAX} such lines were left out)"
    assert limit.line("slow", WINDOW_MS + 1) == ""


def test_a_flood_of_requests_that_are_too_long_is_few_lines(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    """Each client that was disconnected for its buffers was a line of the log."""

    async def story(region: StubRegion) -> None:
        for _ in range(3 * LINES_MAX):
            client = await connect(region)
            client.send(multibulk([b"ECHO", b"x" * 4000])[:3000])
            await client.expect_end()

    with caplog.at_level(logging.WARNING):
        play(story, {"client-query-buffer-limit": 1024})
    lines = [one for one in caplog.messages if "exceeds client-query-buffer-limit" in one]
    assert len(lines) == LINES_MAX


def test_freed_output_is_told_once_a_burst_is_over() -> None:
    """The memory of replies to clients that never read stayed with the process."""
    unsent = UnsentOutput()
    for _ in range(50):
        unsent.change(0, 8)
    assert unsent.take_fall() == 0
    for _ in range(37):
        unsent.change(8, 0)
    assert unsent.take_fall() == 0, "a quarter or more is still unsent"
    unsent.change(8, 0)
    assert unsent.take_fall() == 38 * 8
    assert unsent.take_fall() == 0
