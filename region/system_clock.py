"""The machine's clock (see `clock.Clock`)."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def steady_us(self) -> int:
        return time.monotonic_ns() // 1000
