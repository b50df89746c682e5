"""The time that is injected into a region: wall-clock time, and time that never runs back."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The process gives the region the machine's clock, the simulator a simulated one."""

    def now_ms(self) -> int:
        """Wall-clock time, ms since the epoch. It may run back."""

    def steady_ms(self) -> int:
        """Time that never runs back, ms since some moment."""

    def steady_us(self) -> int:
        """The same in µs, for measuring how long a turn took."""
