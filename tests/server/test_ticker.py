"""How often the periodic work of a region runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.region.live.ticker import Ticker


class Timer:
    """A planned call."""

    def __init__(self, at_ms: int, call: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """An event loop whose time passes only in `run_to`."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.timers: list[Timer] = []

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now_ms + round(1000 * delay_s), call))
        return self.timers[-1]

    def run_to(self, end_ms: int) -> None:
        while True:
            self.timers = [timer for timer in self.timers if not timer.is_cancelled]
            due = [timer for timer in self.timers if timer.at_ms <= end_ms]
            if not due:
                self.now_ms = end_ms
                return
            timer = min(due, key=lambda one: one.at_ms)
            self.timers.remove(timer)
            self.now_ms = timer.at_ms
            timer.call()


class Ticked:
    """Notes the times of ticks. `is_quiet` is what a tick returns."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.is_quiet = False
        self.at_ms: list[int] = []
        loop: Any = self.loop
        self.ticker = Ticker(loop, self.tick)

    def tick(self) -> bool:
        self.at_ms.append(self.loop.now_ms)
        if self.ticker.is_slow:
            self.ticker.hurry()  # As the region does when a tick gave it something to do.
        return self.is_quiet


def test_a_busy_region_ticks_every_5_ms_and_a_quiet_one_every_20() -> None:
    ticked = Ticked()
    ticked.ticker.start()
    ticked.loop.run_to(10)
    assert ticked.at_ms == [0, 5, 10] and not ticked.ticker.is_slow
    ticked.is_quiet = True
    ticked.loop.run_to(60)
    assert ticked.at_ms == [0, 5, 10, 15, 35, 55] and ticked.ticker.is_slow


def test_an_event_in_a_quiet_region_brings_the_tick_of_a_busy_one() -> None:
    ticked = Ticked()
    ticked.is_quiet = True
    ticked.ticker.start()
    ticked.loop.run_to(3)
    ticked.is_quiet = False
    ticked.ticker.hurry()
    assert not ticked.ticker.is_slow
    ticked.loop.run_to(20)
    assert ticked.at_ms == [0, 8, 13, 18]


def test_there_is_one_next_tick_whatever_a_tick_does() -> None:
    ticked = Ticked()
    ticked.is_quiet = True
    ticked.ticker.start()
    ticked.loop.run_to(100)
    assert len(ticked.loop.timers) == 1
    assert ticked.at_ms == [0, 20, 40, 60, 80, 100]


def test_no_tick_follows_a_stop() -> None:
    ticked = Ticked()
    ticked.is_quiet = True
    ticked.ticker.start()
    ticked.ticker.stop()
    assert not ticked.ticker.is_slow
    ticked.loop.run_to(100)
    assert ticked.at_ms == [0]
