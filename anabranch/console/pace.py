"""How often a busy stream is looked at, so that the console takes little of the machine.

A look takes CPU time of the console, and about as much of the regions. The console earns a share of
each second, and may save up some of it. So changes that a person makes are seen at once, one after
another. While a program writes hundreds of times between two looks, the share is much smaller and
nothing is saved: nobody could follow, and the writer needs the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# Seconds of CPU time that looks may take in a second, and that can be saved up.
SHARE: Final = 0.05
SAVED_MAX_S: Final = 0.5
# In a rush more effects than so many come between two looks, or two answers of a region.
RUSH_EFFECTS: Final = 200
RUSH_SHARE: Final = 0.005
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
        self._share = SHARE

    def begin(self, effects: int) -> float:
        """A look begins, `effects` after the look before. Returns what `end` needs."""
        self._earn()
        self._share = SHARE
        if effects > RUSH_EFFECTS:
            self._share = RUSH_SHARE
            self._saved_s = min(self._saved_s, 0.0)
        return self._cpu_s()

    def end(self, began_s: float) -> None:
        """The look has ended."""
        self._earn()
        debt_max_s = self._share * PAUSE_MAX_S
        self._saved_s = max(self._saved_s - (self._cpu_s() - began_s), -debt_max_s)

    def pause_s(self) -> float:
        """How long to wait before the next look."""
        self._earn()
        return max(-self._saved_s, 0.0) / self._share

    def _earn(self) -> None:
        now_s = self._steady_s()
        earned_s = (now_s - self._counted_s) * self._share
        self._saved_s = min(self._saved_s + earned_s, SAVED_MAX_S)
        self._counted_s = now_s
