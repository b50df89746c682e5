"""The engine's time: one reading per step, given from outside (S10.2), and steady time."""

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


class EngineClock:
    """The readings of one region's clock, in ms since the epoch.

    A machine's clock can leap. Once `distrust` was called, a reading counts only as far as the time
    that has passed since the last confirmed one explains it, with a tolerance. The clocks of other
    members confirm it (`MemberClocks`). What does not count is not in `now_ms`, so it is in no
    ID, passes no deadline, and is told to nobody.

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
        # The last reading, which may be below `now_ms`, or above it if it does not count.
        self.read_ms = now_ms
        # How far a reading may be from what explains it, in ms; 0: every reading counts.
        self.offset_max_ms = 0
        # Whether the readings of this process were confirmed once.
        self.is_confirmed = True
        # The confirmed reading less steady time: it goes on with steady time.
        self._confirmed_ms = 0

    def deadline_ms(self, timeout_ms: int) -> int:
        """The steady time at which a wait of `timeout_ms` ends; 0, never, for a time-out of 0."""
        return self.steady_ms + timeout_ms if timeout_ms else 0

    def read(self, now_ms: int) -> None:
        """Takes the reading of a step."""
        self.steady_ms = self._began_ms + self._steady.at(now_ms)
        self.read_ms = now_ms
        if self.offset_max_ms:
            explained_ms = self._confirmed_ms + self.steady_ms
            if now_ms > explained_ms + self.offset_max_ms:
                # No part of a leap counts: leaps before several starts would add up.
                now_ms = explained_ms
        if now_ms > self.now_ms:
            self.now_ms = now_ms

    # -- readings that may be wrong

    def distrust(self, kept_ms: int, offset_max_ms: int) -> None:
        """From now on a reading needs an explanation. At the start it is `kept_ms`, on disk."""
        self.offset_max_ms = offset_max_ms
        self.is_confirmed = False
        self.now_ms = kept_ms
        self._confirmed_ms = kept_ms - self.steady_ms

    def confirm(self) -> None:
        """The last reading is right: others agree, nobody can, or an operator says so."""
        confirmed_ms = self.read_ms - self.steady_ms
        self.is_confirmed = True
        if self.offset_max_ms and confirmed_ms > self._confirmed_ms:
            self._confirmed_ms = confirmed_ms
            self.read(self.read_ms)

    def reset(self) -> None:
        """Goes on from the last reading, though `now_ms` was ahead of it (`CRDT.CLOCK RESET`)."""
        self.now_ms = self.read_ms
        self._confirmed_ms = self.read_ms - self.steady_ms
