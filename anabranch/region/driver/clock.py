"""The clock that is injected into a region: wall-clock time, and time that never runs back."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The clock of a region: the machine's in the process, a virtual one in the simulator."""

    def now_ms(self) -> int:
        """Wall-clock time, ms since the epoch. It may run back."""

    def steady_ms(self) -> int:
        """Steady time, which never runs back, ms since an arbitrary moment."""

    def steady_ns(self) -> int:
        """Steady time in ns, for measuring how long something took."""
