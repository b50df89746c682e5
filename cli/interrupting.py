"""Ends a command with the processes that it has started."""

from __future__ import annotations

import signal
from types import FrameType


def end_as_after_ctrl_c() -> None:
    """Makes SIGTERM end this command as Ctrl-C does: the regions it started end before it."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
