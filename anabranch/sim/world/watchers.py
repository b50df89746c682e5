"""What watches the calls of a tapped engine, and the end of a run in which a watcher failed."""

from __future__ import annotations

import traceback
from typing import Protocol

from anabranch.sim.calls import Call


class EngineWatcher(Protocol):
    """Is told of the calls of a tapped engine."""

    def called(self, call: Call) -> None:
        """A call has returned."""

    def new_cut(self) -> int:
        """A number for a cut of this world."""

    def cut_sent(self, digest: bytes, cut: int) -> None:
        """Chunks with this digest are the cut of that number."""

    def cut_of(self, digest: bytes) -> int:
        """The cut whose chunks have this digest, 0 if none."""

    def failed(self, error: Exception) -> None:
        """A call raised an exception that is no protocol error."""


class JudgeFailed(BaseException):
    """A watcher of a command raised the exception `error`.

    This is no `Exception`: the connection that runs the command answers those of the engine with an
    error reply, and the run would go on. Compiled modules do not keep the cause of an exception, so
    it is an argument.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def cause_of(error: BaseException) -> BaseException:
    """The exception of the watcher, if `error` is a `JudgeFailed`; else `error` itself."""
    return error.error if isinstance(error, JudgeFailed) else error


def described(raised: BaseException) -> str:
    """Type, text and place of an exception of the code under test, as a violation states them."""
    error = cause_of(raised)
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
