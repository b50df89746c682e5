"""Waiting for the processes that tests start."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(
    condition: Callable[[], object],
    patience_s: float = 15.0,
    what: str = "the condition",
    pause_s: float = 0.02,
) -> None:
    """Waits until `condition()` is true, at most `patience_s` seconds.

    Exceptions of `condition` count as false. Raises AssertionError after the time limit; its text
    names `what` and the exception of the last attempt, if there was one.
    """
    deadline = time.monotonic() + patience_s
    error: Exception | None = None
    while time.monotonic() < deadline:
        try:
            if condition():
                return
            error = None
        except Exception as caught:
            error = caught
        time.sleep(pause_s)
    raise AssertionError(
        f"timed out after {patience_s} s: {what}" + (f": {error!r}" if error else "")
    )
