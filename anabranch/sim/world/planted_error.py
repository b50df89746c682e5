"""An error that strikes inside a step of a simulated process (S13.10).

A profile function of Python sees each call that the product makes during a step: of its own
functions, and of built-in ones, where memory is allocated. It raises `PlantedError` at the call
that the seed has drawn. So the product holds nothing for it. In the compiled build only the calls
that the simulator itself makes are seen, and the error strikes at the border of a step.

Calls that judges and taps make during a step do not count.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Optional, TypeVar

import anabranch

_PRODUCT: Final = str(Path(anabranch.__file__).parent)
_SIMULATOR: Final = str(Path(_PRODUCT) / "sim")
PARTS: Final = (
    "",
    "crdt/apply",
    "crdt/block",
    "crdt/join",
    "region/engine/journal",
    "region/engine/commands",
    "region/engine/merging",
    "region/engine",
    "region/driver",
    "region/resp",
    "region/storage",
    "sync/session",
)
"""The parts of the product whose calls may be counted alone; the first one is all of it."""

PARTS_OF_STARTS: Final = (*PARTS, "region/live", "crdt/encoding", "crdt/state")
"""Those whose calls may be counted in a start."""

T = TypeVar("T")


class PlantedError(MemoryError):
    """The error that strikes."""


class BrokenOff(Exception):
    """A planted error has broken off a start or a stop."""


def has_struck() -> bool:
    """Whether a planted error is being handled: what a tap would tell is half done."""
    return isinstance(sys.exc_info()[1], PlantedError)


class Plant:
    """The error of one process: it strikes after `calls` further calls of functions of `part`.

    `place` is where it struck, empty until then.
    """

    def __init__(self, part: str, calls: int) -> None:
        self.place = ""
        self._part: Final = part
        self._calls = calls

    def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Makes one call of a step; PlantedError if the error strikes."""
        former = sys.getprofile()
        sys.setprofile(self._seen)
        try:
            return call(*arguments)
        finally:
            sys.setprofile(former)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_call") or self.place or not self._is_within(frame):
            return
        self._calls -= 1
        if self._calls < 0:
            code = frame.f_code
            self.place = f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}"
            raise PlantedError

    def _is_within(self, frame: FrameType) -> bool:
        """Whether the product makes this call, on its own behalf."""
        name = frame.f_code.co_filename
        if not _is_product(name) or self._part not in name:
            return False
        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            # Python also enters a generator to close it, and drops an error that is raised there.
            return False
        below = frame
        caller: Optional[FrameType] = frame.f_back
        while caller is not None:
            code = caller.f_code
            if code is _RUN:
                return True
            # An engine that tells of its calls passes them on to the real one.
            is_passed_on = code.co_name == below.f_code.co_name
            if not _is_product(code.co_filename) and not is_passed_on:
                return False
            below, caller = caller, caller.f_back
        return False


def _is_product(file: str) -> bool:
    return file.startswith(_PRODUCT) and not file.startswith(_SIMULATOR)


_RUN: Final[CodeType] = Plant.run.__code__
