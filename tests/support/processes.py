"""Stopping the processes that tests start, limiting their files, and waiting for conditions."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable

from anabranch.sim.scenario.processes import end


def stop(process: subprocess.Popen[bytes], patience_s: float = 10.0) -> None:
    """Ends a process that a test started: SIGTERM, then SIGKILL after `patience_s` seconds."""
    if process.poll() is None:
        end(process, patience_s)


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


def limit_files(process_id: int, most_bytes: int | None) -> None:
    """Lets a process write no file beyond `most_bytes`, as a full disk would; None ends that."""
    _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    soft = hard if most_bytes is None else most_bytes
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (soft, hard))
