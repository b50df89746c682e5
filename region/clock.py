"""The time that is injected into a region: wall-clock time, and time that never runs back."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Whoever runs a region gives it one."""

    def now_ms(self) -> int:
        """Wall-clock time, ms since the epoch. It may run back."""

    def steady_ms(self) -> int:
        """Time that never runs back, ms since some moment."""

    def steady_us(self) -> int:
        """The same in µs, for measuring how long a turn took."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def steady_us(self) -> int:
        return time.monotonic_ns() // 1000
