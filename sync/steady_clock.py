"""Time for time-outs and intervals, which setting the clock does not change. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Optional


class SteadyClock:
    """A clock for timeouts and intervals, in ms from 0.

    `steady` tells time that no setting of the region's clock changes, in ms since an arbitrary
    moment. Without it, time advances with the clock and stands still while that runs back.
    """

    def __init__(self, now_ms: int, steady: Optional[Callable[[], int]] = None) -> None:
        # The newest time told.
        self.told_ms = now_ms
        self._steady: Final = steady
        self._steady_from: Final = 0 if steady is None else steady()
        self._steady_ms = 0

    def at(self, now_ms: int) -> int:
        if now_ms == self.told_ms:
            return self._steady_ms  # Many commands and messages come within a millisecond.
        if self._steady is not None:
            self._steady_ms = self._steady() - self._steady_from
        else:
            self._steady_ms += max(0, now_ms - self.told_ms)
        self.told_ms = now_ms
        return self._steady_ms
