"""A start finds on its disk who the region was (S1.3, S10.2, S13.7).

Whatever it says of its clock and its recovery is true of that disk.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from anabranch.region.engine.engine import Engine
from anabranch.region.engine.settings import Settings
from anabranch.region.live import starting
from anabranch.region.live.database import Database


def _config(restored: bool) -> Any:
    members = {"us": 1, "eu": 2}
    return SimpleNamespace(
        cluster="c",
        region_id=1,
        name="us",
        members=members,
        settings=Settings({"crdt-clock-offset-max-ms": 0}),
        restored=restored,
        first_start=True,
        peers={},
    )


class SetClock:
    """A clock that stands where a test sets it."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def steady_ms(self) -> int:
        return self._now_ms

    def steady_ns(self) -> int:
        return 1_000_000 * self._now_ms


async def _start(directory: Path, now_ms: int, restored: bool = False) -> tuple[Engine, Database]:
    database = Database(directory)
    driver = await starting.start(_config(restored), database, SetClock(now_ms))
    return driver.engine, database


async def test_a_backup_taken_in_recovery_begins_another_recovery(tmp_path: Path) -> None:
    """S13.7: a recovery is named by the life in which it began.

    us was in recovery when the backup was taken, and is restored from it with --restored. Other
    regions that had heard of the former recovery must not take answers of this one for answers of
    that, or they leave theirs too early.
    """
    engine, database = await _start(tmp_path, 1000, restored=True)
    former = engine.state.lifecycle.recovery
    await database.close()
    engine, database = await _start(tmp_path, 5000)
    assert engine.state.lifecycle.recovery == former  # a plain start goes on with it
    await database.close()
    engine, database = await _start(tmp_path, 9000, restored=True)
    assert engine.state.lifecycle.recovery == engine.life > former
    await database.close()


async def test_the_clock_of_a_start_is_not_said_before_it_is_on_disk(tmp_path: Path) -> None:
    """S10.2: a heartbeat carries the clock of the commit that its vector speaks of.

    A new start has made no commit yet.
    """
    engine, database = await _start(tmp_path, 1000)
    assert engine.peers.attest(False, 50000).clock_ms <= 1000
    await database.close()
