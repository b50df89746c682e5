"""How often a busy stream is looked at, so that the console takes little of the machine.

A look takes CPU time of the console, and about as much of the regions. The console earns a share of
each second, and may save up some of it. So changes that a person makes are seen at once, one after
another, while a stream that is written thousands of times a second is looked at a few times a
second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# Seconds of CPU time that looks may take in a second, and that can be saved up.
SHARE: Final = 0.02
SAVED_MAX_S: Final = 0.5
# The longest pause between two looks.
PAUSE_MAX_S: Final = 2.0


class Pace:
    """The CPU time that looks may take. `steady_s` and `cpu_s` are clocks, for tests."""

    def __init__(
        self,
        steady_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._steady_s: Final = steady_s
        self._cpu_s: Final = cpu_s
        self._saved_s = SAVED_MAX_S
        self._counted_s = steady_s()

    def begin(self) -> float:
        """A look begins. Returns what `end` needs."""
        return self._cpu_s()

    def end(self, began_s: float) -> None:
        """The look has ended."""
        self._earn()
        debt_max_s = SHARE * PAUSE_MAX_S
        self._saved_s = max(self._saved_s - (self._cpu_s() - began_s), -debt_max_s)

    def pause_s(self) -> float:
        """How long to wait before the next look."""
        self._earn()
        return max(-self._saved_s, 0.0) / SHARE

    def _earn(self) -> None:
        now_s = self._steady_s()
        earned_s = (now_s - self._counted_s) * SHARE
        self._saved_s = min(self._saved_s + earned_s, SAVED_MAX_S)
        self._counted_s = now_s
