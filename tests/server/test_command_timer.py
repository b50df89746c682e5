"""The times of commands: few readings of the clock, and each run under the right name."""

from __future__ import annotations

from typing import Optional

from anabranch.region.driver.command_timer import CommandTimer
from anabranch.region.engine.session import Session
from tests.server.stub import StubEngine

# Calls and their time (µs), by command.
Times = dict[bytes, tuple[int, int]]


class SteppingClock:
    """A clock that advances by 10 µs with each reading."""

    def __init__(self) -> None:
        self.readings = 0

    def now_ms(self) -> int:
        return 0

    def steady_ms(self) -> int:
        return 0

    def steady_ns(self) -> int:
        self.readings += 1
        return 10_000 * self.readings


def run(words: list[str], queued: Optional[list[list[bytes]]] = None) -> tuple[Times, int]:
    """A turn of these commands (``xgroup|create``: a subcommand): times, readings of the clock.

    `queued`: the commands that MULTI has queued; None outside a transaction.
    """
    engine, clock = StubEngine(), SteppingClock()
    timer, session = CommandTimer(engine, clock), Session(1, "", "", 0)
    session.transaction.queued = queued
    timer.begin()
    for word in words:
        timer.before(session, [word.split("|")[0].encode()])
        session.last_command = word.encode()
    timer.end(session)
    times = {name: (taken.count, taken.sum_us) for name, taken in engine.statistics.times.items()}
    return times, clock.readings


def test_a_pipeline_of_adds_needs_two_readings() -> None:
    assert run(["xadd"] * 1000) == ({b"xadd": (1000, 10)}, 2)


def test_each_run_has_its_name() -> None:
    assert run(["xadd", "xadd", "xlen", "xadd"]) == ({b"xadd": (3, 20), b"xlen": (1, 10)}, 4)
    assert run(["xgroup|create", "xgroup|setid", "xgroup|setid"])[0] == {
        b"xgroup|create": (1, 10),
        b"xgroup|setid": (2, 20),
    }
    assert run([]) == ({}, 1)


def test_queued_and_unknown_commands_are_not_timed() -> None:
    """EXEC takes the time of the commands that MULTI has queued."""
    assert run(["xadd", "xadd"], queued=[]) == ({}, 2)
    assert run(["", "xadd"])[0] == {b"xadd": (1, 10)}
