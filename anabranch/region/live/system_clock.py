"""The machine's clock (see `clock.Clock`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final


class SystemClock:
    """The machine's clock. `offset_ms` is added to the wall-clock time."""

    def __init__(self, offset_ms: int = 0) -> None:
        self._offset_ms: Final = offset_ms
        # The function itself, because each turn of a client calls it twice.
        self.steady_ns: Final[Callable[[], int]] = time.monotonic_ns

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._offset_ms

    def steady_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
