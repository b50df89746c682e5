"""An engine that reports the calls that matter to judges, in their true order."""

from __future__ import annotations

import traceback
from typing import Final, Optional, Protocol

from anabranch.crdt.block import Block
from anabranch.crdt.gossip import Gossip, StartAnswer
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.lifecycle import RECOVERY
from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
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


class TappedEngine(Engine):
    """The real engine with unchanged behaviour."""

    def __init__(self, state: EngineState, watcher: EngineWatcher) -> None:
        self._watcher: Final = watcher
        self._seen: Vector = {}
        self._replies_seen = 0
        super().__init__(state)
        # A start without patience serves at once. It may issue effects before this line, and
        # `began` reports them.
        self._seen = dict(state.disk.vector)

    def began(self) -> None:
        """Reports what the start has issued. The watcher has heard of the start."""
        self._look("tick")

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> Reply:
        before = self._seen
        words = tuple(argv)
        try:
            reply = super().execute(session, argv, now_ms)
        except Exception as error:
            self._watcher.failed(error)
            raise
        if self.state.keyspace.vector != before:
            self._seen = dict(self.state.keyspace.vector)
        try:
            self._watcher.executed(session, words, reply, before)
            self._look("tick")
        except Exception as error:
            raise JudgeFailed(error) from error
        return reply

    def _look(
        self, how: str, source: int = 0, blocks: tuple[tuple[int, int, int], ...] = ()
    ) -> None:
        """Reports movements of the vector and late replies since the last look.

        `source`: the peer whose blocks or snapshot the call took; `blocks`: see `Moved`.
        """
        replies = self.state.outbox.replies
        late = replies[self._replies_seen :]
        self._replies_seen = len(replies)
        if self.state.keyspace.vector != self._seen:
            before, self._seen = self._seen, dict(self.state.keyspace.vector)
            own = self.region_id
            # A region that receives effects of its own is in recovery from then on, and issues
            # none.
            learned = self._seen.get(own, 0) > before.get(own, 0) and (
                self.state.lifecycle.state == RECOVERY
            )
            self._watcher.moved(how, before, self._seen, learned, late, source, blocks)
        for one in late:
            self._watcher.answered(one, self._seen)

    def take_replies(self) -> list[LateReply]:
        # Answers from the log on disk are made outside the engine's calls (`Questions`).
        self._look("tick")
        self._replies_seen = 0
        return super().take_replies()

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        self._look("tick")

    def take_commit(self, now_ms: int) -> Optional[Commit]:
        commit = super().take_commit(now_ms)
        self._look("tick")
        return commit

    def committed(self, now_ms: int) -> None:
        super().committed(now_ms)
        self._look("tick")

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        try:
            super().merge(blocks, source, now_ms)
        finally:
            given = tuple([(block.origin, block.first, block.last) for block in blocks])
            self._look("merge", source, given)

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        try:
            super().join(chunks, source, now_ms)
        finally:
            self._look("join", source)

    def hear_lives(self, lives: dict[int, int], now_ms: int) -> None:
        super().hear_lives(lives, now_ms)
        self._look("merge")

    def peer_holds(self, peer: int, vector: Vector, now_ms: int) -> None:
        super().peer_holds(peer, vector, now_ms)
        self._look("merge")

    def start_answered(self, peer: int, answer: StartAnswer, now_ms: int) -> None:
        super().start_answered(peer, answer, now_ms)
        self._look("merge")

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        super().hear(gossip, now_ms)
        self._look("merge")

    def acknowledged(self, peer: int, vector: Vector, now_ms: int) -> None:
        super().acknowledged(peer, vector, now_ms)
        self._look("merge")
