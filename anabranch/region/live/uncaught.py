"""Errors that no step catches end the process, too, if they may leave it half dead (S13.10).

Want of memory can strike between the steps: in a thread, which then ends; in a callback of the
event loop, whose event is then lost; in a destructor. Python prints such an error and goes on. A
region without its thread of SQLite would keep its ports and its links, and answer nothing for ever.

Such errors end the process: every error that ends a thread, and want of memory anywhere.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, Optional

Fail = Callable[[BaseException], None]
"""Ends the process because of an error."""

# Python's words for an error that has ended a thread before or after its own code.
_IN_A_THREAD: Final = "Exception ignored in thread started by"

_log: Final = logging.getLogger("anabranch.region")


class Uncaught:
    """Sees the uncaught errors of this process, and passes them on to `fail`.

    `fail` may run in any thread, and does not return.
    """

    def __init__(self, fail: Fail) -> None:
        self._fail = fail
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def end_by(self, fail: Fail) -> None:
        """From now on, `fail` ends the process."""
        self._fail = fail

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watches all threads of this process, and the callbacks of `loop`."""
        self._loop = loop
        sys.unraisablehook = self._unraisable
        threading.excepthook = self._thread_ended
        loop.set_exception_handler(self._in_callback)

    def over(self) -> None:
        """The region has stopped: an error that comes now ends nothing that matters."""
        if self._loop is not None:
            sys.unraisablehook = sys.__unraisablehook__
            threading.excepthook = threading.__excepthook__
            self._loop.set_exception_handler(None)

    def _unraisable(self, found: sys.UnraisableHookArgs) -> None:
        is_memory = issubclass(found.exc_type, MemoryError)
        if is_memory or (found.err_msg or "").startswith(_IN_A_THREAD):
            self._fail(found.exc_value or found.exc_type())
        sys.__unraisablehook__(found)

    def _thread_ended(self, found: threading.ExceptHookArgs) -> None:
        if issubclass(found.exc_type, SystemExit):
            return
        self._fail(found.exc_value or found.exc_type())

    def _in_callback(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, MemoryError):
            self._fail(error)
        loop.default_exception_handler(context)
