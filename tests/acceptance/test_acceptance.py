"""Small versions of the acceptance programs: equal histories in seconds, without time limits."""

from __future__ import annotations

import pytest

from anabranch.bench.acceptance import (
    damaged_files,
    held_up,
    malformed_peers,
    many_clients,
    out_of_memory,
    stable_delay,
)

pytestmark = pytest.mark.live

# Numbers of the first of the runs of `acceptance.out_of_memory`. The former code hung in 17.
FIRST_RUNS = {"ulimit": 0, "allocation": 17}


def test_stable_time_is_measured() -> None:
    assert stable_delay.measure(10, 100, 1.0, None).failures == []


@pytest.mark.parametrize("is_alone", [False, True], ids=["peers", "alone"])
def test_damaged_files(is_alone: bool) -> None:
    assert damaged_files.try_all(4, 2, 1, is_alone, entries=300).failures == []


@pytest.mark.parametrize("way", out_of_memory.WAYS)
def test_regions_without_memory(way: str) -> None:
    """Without a thread, or without memory for the line of its end, a region stayed half dead."""
    assert out_of_memory.run_all(2, way, 1, first=FIRST_RUNS[way]).failures == []


def test_malformed_messages_of_peers() -> None:
    assert malformed_peers.attack(400, 1, None).failures == []


def test_idle_and_slow_clients() -> None:
    assert many_clients.run(200, 20, 30, limits=False).failures == []


def test_commands_that_hold_others_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Every case is answered, and the snapshots are joined. A command of too many keys is not."""
    assert held_up.run(100, 1, "", None).failures == []
    assert "join of a snapshot of 100 changed keys" in capsys.readouterr().out
