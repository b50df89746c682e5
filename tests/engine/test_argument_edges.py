"""Single arguments of commands at their limits, which no longer history meets."""

from __future__ import annotations

import pytest

from anabranch.region.resp.encoder import encode
from tests.differential.script import split
from tests.engine.recording import Player
from tests.support.engines import execute


def said(*lines: str) -> str:
    """What the last of these commands is answered."""
    player = Player(2)
    answers: list[str] = [""]
    for line in lines:
        answers = player.command("a", split(line))
    return " | ".join(answers)


@pytest.mark.parametrize("seconds", ["61", "123456789", "12345678.5"])
def test_sleep_is_bounded(seconds: str) -> None:
    assert "takes at most 60 seconds" in said(f"DEBUG SLEEP {seconds}")


@pytest.mark.parametrize("seconds", ["1234567890", "", ".", "-1", "1e3", "1.x"])
def test_sleep_takes_a_number(seconds: str) -> None:
    assert "not a valid float" in said(f"DEBUG SLEEP '{seconds}'")


def test_options_of_a_new_group_come_in_any_order() -> None:
    made = '"entries-read", :7,'
    for options in ("ENTRIESREAD 7 MKSTREAM", "MKSTREAM ENTRIESREAD 7"):
        assert made in said(f"XGROUP CREATE s g 0 {options}", "XINFO GROUPS s")
    assert "wrong number of arguments" in said("XGROUP CREATE s g 0 MKSTREAM ENTRIESREAD")


@pytest.mark.parametrize("limit", [0, 1])
def test_a_limit_needs_a_strategy(limit: int) -> None:
    assert "without specifying a trimming strategy" in said(f"XADD s LIMIT {limit} 1-1 f v")


def test_what_was_delivered_just_now_is_pending() -> None:
    player = Player(2)
    for line in ("XADD s 1-1 f v", "XGROUP CREATE s g 0"):
        player.command("a", split(line))
    session = player.session("a")
    execute(player.engine, session, split("XREADGROUP GROUP g c STREAMS s >"), player.now_ms)
    out: list[bytes] = []
    encode(execute(player.engine, session, split("XPENDING s g - + 10"), player.now_ms), 2, out)
    assert b"".join(out).startswith(b"*1\r\n"), "idle for 0 ms"
