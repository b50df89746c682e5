"""Bounds on what clients cost together: lines of the log, and memory of output. Sans-IO."""

from __future__ import annotations

from typing import Final, Optional

WINDOW_MS: Final = 10_000
LINES_MAX: Final = 5


class LineLimit:
    """At most `LINES_MAX` lines of one cause in `WINDOW_MS`, however many clients give it."""

    def __init__(self) -> None:
        # Cause → end of its window, lines in it, lines left out since the last line.
        self._windows: Final[dict[str, tuple[int, int, int]]] = {}

    def line(self, cause: str, now_ms: int) -> Optional[str]:
        """Returns the end of a line that may be logged now; None if it is to be left out.

        The end is empty, or says how many lines of this cause were left out before.
        """
        until_ms, lines, left_out = self._windows.get(cause, (0, 0, 0))
        if now_ms >= until_ms:
            until_ms, lines = now_ms + WINDOW_MS, 0
        if lines == LINES_MAX:
            self._windows[cause] = (until_ms, lines, left_out + 1)
            return None
        self._windows[cause] = (until_ms, lines + 1, 0)
        return f" ({left_out} such lines were left out)" if left_out else ""


class UnsentOutput:
    """The bytes of replies that all clients together have not taken yet: `total`."""

    def __init__(self) -> None:
        self.total = 0
        self._most = 0

    def change(self, before: int, after: int) -> None:
        """Notes that the unsent bytes of one client have changed."""
        self.total += after - before
        self._most = max(self._most, self.total)

    def take_fall(self) -> int:
        """Bytes that were freed since the most of a burst, once three quarters of it are gone.

        0 before, and again after each call that returned more.
        """
        if self.total > self._most // 4:
            return 0
        fall = self._most - self.total
        self._most = self.total
        return fall
