"""The clock pulse of a region's process: the calls of its periodic work, often or rarely.

Events need no tick: each plans a step of its own. A tick continues what takes many steps, and
notices that a time has come. While nothing is under way that the next few milliseconds could
change, ticks are rare, so that an idle region leaves the processor alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Optional

_BUSY_MS: Final = 5
QUIET_MS: Final = 20
"""The time between two ticks of a quiet region."""


class Ticker:
    """Calls `tick` every 5 ms, and every 20 ms while it returns True: the region is quiet."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: Callable[[], bool]) -> None:
        self._loop: Final = loop
        self._tick: Final = tick
        self._timer: Optional[asyncio.TimerHandle] = None
        # Whether the next tick is that of a quiet region.
        self.is_slow = False

    def start(self) -> None:
        """Ticks, and goes on until `stop`."""
        # What a tick begins does not hurry: the next tick is planned below.
        self.is_slow = False
        self.is_slow = self._tick()
        self._plan(QUIET_MS if self.is_slow else _BUSY_MS)

    def stop(self) -> None:
        """Ends the ticks."""
        self.is_slow = False
        if self._timer is not None:
            self._timer.cancel()

    def hurry(self) -> None:
        """Has the next tick come as soon as that of a busy region."""
        self.stop()
        self._plan(_BUSY_MS)

    def _plan(self, in_ms: int) -> None:
        self._timer = self._loop.call_later(in_ms / 1000, self.start)
