"""Handlers of signals in tests, which may run under nohup or in the background of a shell."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def handled_by(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """The signals (SIGINT without any) have this handler for a while."""
    former = {number: signal.signal(number, handler) for number in numbers or (signal.SIGINT,)}
    try:
        yield
    finally:
        for number, one in former.items():
            signal.signal(number, one)
