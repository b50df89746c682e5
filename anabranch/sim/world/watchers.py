"""What watches the calls of a tapped engine, and the end of a run in which a watcher failed."""

from __future__ import annotations

import traceback
from typing import Protocol

from mypy_extensions import mypyc_attr

from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.session import Session
from anabranch.sim.calls import Call
from anabranch.sim.history import Vector, Words


class EngineWatcher(Protocol):
    """Receives the reports."""

    def executed(self, session: Session, argv: Words, reply: Reply, before: Vector) -> None:
        """A command ran, or began to wait. `before`: the vector before the command."""

    def moved(
        self,
        how: str,
        before: Vector,
        after: Vector,
        learned: bool,
        late: list[LateReply],
        source: int,
        blocks: tuple[tuple[int, int, int], ...],
    ) -> None:
        """A call moved the vector. `late`: the replies that it made. For the others see `Moved`."""

    def answered(self, late: LateReply, vector: Vector) -> None:
        """A command that had waited has its reply."""

    def follows_calls(self) -> bool:
        """Whether to tell of each call."""

    def called(self, call: Call) -> None:
        """A call has returned; it comes before the other reports of the call."""

    def new_cut(self) -> int:
        """A number for a cut of this world."""

    def cut_sent(self, digest: bytes, cut: int) -> None:
        """Chunks with this digest are the cut of that number."""

    def cut_of(self, digest: bytes) -> int:
        """The cut whose chunks have this digest, 0 if none."""

    def failed(self, error: Exception) -> None:
        """A call raised an exception that is no protocol error."""


@mypyc_attr(allow_interpreted_subclasses=True)
class CallWatcher:
    """The part of a watcher that follows the calls alone: `called` tells it of everything."""

    def executed(self, session: Session, argv: Words, reply: Reply, before: Vector) -> None:
        """See `EngineWatcher`."""

    def moved(
        self,
        how: str,
        before: Vector,
        after: Vector,
        learned: bool,
        late: list[LateReply],
        source: int,
        blocks: tuple[tuple[int, int, int], ...],
    ) -> None:
        """See `EngineWatcher`."""

    def answered(self, late: LateReply, vector: Vector) -> None:
        """See `EngineWatcher`."""


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
