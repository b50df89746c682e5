"""Processes that are started, and kept, without a signal in between."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_wait() -> Iterator[None]:
    """Signals that end this program through a handler take effect at the end of the block.

    A handler that raises after a process has begun, and before its object is kept, leaves a
    process that nobody ends. The new process does not inherit handlers. Python calls them in the
    main thread only, so the block changes nothing in another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    former: dict[signal.Signals, Any] = {}
    try:
        for number in _ENDING:
            handler = signal.getsignal(number)
            if callable(handler):
                former[number] = handler
                signal.signal(number, note)
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
