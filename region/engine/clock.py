"""The engine's time: one reading per step, given from outside (S10.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Optional

from anabranch.sync.steady_clock import SteadyClock


class EngineClock:
    """The readings of one region's clock, in ms since the epoch.

    `steady` is as in `SteadyClock`.
    """

    def __init__(self, now_ms: int, steady: Optional[Callable[[], int]] = None) -> None:
        # The highest time that this region has read. It never runs back.
        self.now_ms = now_ms
        # Time for patience, intervals and time-outs. It advances even while `now_ms` stands still
        # because the system clock was set back, and does not leap when that clock is set forward.
        self.steady_ms = now_ms
        self._began_ms: Final = now_ms
        self._steady: Final = SteadyClock(now_ms, steady)
        # The last reading, which may be below `now_ms`.
        self.read_ms = now_ms

    def deadline_ms(self, timeout_ms: int) -> int:
        """The steady time at which a wait of `timeout_ms` ends; 0, never, for a time-out of 0."""
        return self.steady_ms + timeout_ms if timeout_ms else 0

    def read(self, now_ms: int) -> None:
        """Takes the reading of a step."""
        self.steady_ms = self._began_ms + self._steady.at(now_ms)
        self.read_ms = now_ms
        if now_ms > self.now_ms:
            self.now_ms = now_ms
