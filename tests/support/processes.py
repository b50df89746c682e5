"""Processes that tests start, and end by their own id."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def stop(process: subprocess.Popen[bytes], patience_s: float = 10.0) -> None:
    """Ends one process that a test started: asks first, then insists."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(patience_s)


def eventually(
    condition: Callable[[], object],
    patience_s: float = 15.0,
    what: str = "the condition",
    pause_s: float = 0.02,
) -> None:
    """Waits until `condition` holds; AssertionError names `what` did not come true, and the last error, if there was one."""
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
        f"{what} did not come true within {patience_s} s" + (f": {error!r}" if error else "")
    )
