"""A busy stream is looked at less often, a single change at once."""

from __future__ import annotations

import pytest

from anabranch.console.pace import PAUSE_MAX_S, RUSH_EFFECTS, RUSH_SHARE, SAVED_MAX_S, SHARE, Pace

LOOK_CPU_S = 0.02


class Clocks:
    """Steady time and CPU time that a test moves."""

    def __init__(self) -> None:
        self.steady_s = 100.0
        self.cpu_s = 0.0
        self.pace = Pace(lambda: self.steady_s, lambda: self.cpu_s)

    def look(self, cpu_s: float = LOOK_CPU_S, effects: int = 1) -> None:
        """A look that takes so much CPU time, and as much time."""
        began = self.pace.begin(effects)
        self.cpu_s += cpu_s
        self.steady_s += cpu_s
        self.pace.end(began)


def test_changes_one_after_another_are_seen_at_once() -> None:
    """A person types commands, three a second for some seconds."""
    clocks = Clocks()
    for _ in range(20):
        assert clocks.pace.pause_s() == 0.0
        clocks.look()
        clocks.steady_s += 0.3


def test_a_rush_takes_a_small_share_of_the_time_from_its_beginning() -> None:
    """A program writes, and nothing that was saved is spent on it."""
    clocks = Clocks()
    until_s = clocks.steady_s + 60
    looks = 0
    while clocks.steady_s < until_s:
        clocks.look(0.008, RUSH_EFFECTS + 1)
        looks += 1
        clocks.steady_s += clocks.pace.pause_s()
    assert looks * 0.008 == pytest.approx(60 * RUSH_SHARE, abs=0.02)
    # The rush is over: single changes are seen at once again.
    for _ in range(20):
        clocks.look()
        clocks.steady_s += 1.0
        assert clocks.pace.pause_s() == 0.0


def test_steady_changes_take_a_share_of_the_time() -> None:
    """Looks follow each other as fast as they may, for a minute."""
    clocks = Clocks()
    until_s = clocks.steady_s + 60
    while clocks.steady_s < until_s:
        clocks.steady_s += clocks.pace.pause_s()
        clocks.look()
    assert clocks.cpu_s == pytest.approx(60 * SHARE + SAVED_MAX_S, abs=2 * LOOK_CPU_S)
    # After it, the next change is seen within the longest pause, and others at once again.
    assert clocks.pace.pause_s() <= PAUSE_MAX_S
    clocks.steady_s += 10
    assert clocks.pace.pause_s() == 0.0


def test_one_long_look_does_not_stop_the_page() -> None:
    clocks = Clocks()
    clocks.look(30.0)
    assert clocks.pace.pause_s() == pytest.approx(PAUSE_MAX_S)
