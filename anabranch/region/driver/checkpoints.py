"""Checkpoints as steps (S13.1): when a checkpoint is due, and what it reads and writes. Sans-IO.

Between two steps the region may commit or stop, and a step may fail. The checkpointer then keeps
what it captured, and the next call of `steps` continues from there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, Union

from anabranch.region.driver.effect_log import EffectLog
from anabranch.region.engine.engine import Engine
from anabranch.region.storage.checkpoint import Checkpointer
from anabranch.region.storage.log import OldRow, ReadOldest
from anabranch.region.storage.schema import Statement

# Rows that one step of retention reads.
_OLDEST_ROWS: Final = 2000


@dataclass(frozen=True)
class UntilCommitted:
    """A step: continue when the rows up to `position` are on disk."""

    position: int


@dataclass(frozen=True)
class Write:
    """A step: run the statements in one transaction, then continue."""

    statements: list[Statement]


@dataclass(frozen=True)
class Rest:
    """A step: continue with the next tick, after what waits meanwhile."""


Step = Union[UntilCommitted, Write, Rest, ReadOldest]
# The generator is sent the rows that answer `ReadOldest`, and an empty list after other steps.
Steps = Generator[Step, Sequence[OldRow], None]


class Checkpoints:
    """The checkpoints of one region, one after the other. Times are steady times in ms."""

    def __init__(self, engine: Engine, checkpointer: Checkpointer, log: EffectLog) -> None:
        self._engine: Final = engine
        self._checkpointer: Final = checkpointer
        self._log: Final = log
        # Bytes of the log when the last checkpoint began, without those dropped since.
        self._log_bytes = log.size.bytes
        self._began_ms = 0

    def is_due(self, steady_ms: int) -> bool:
        """Whether to begin a checkpoint: state changed, and enough time passed or log was written.

        A log that is too large counts as a change: only a checkpoint shortens it. It may be so
        although nothing changes, after a start or a new setting.

        Never while commits fail, nor while streams that FLUSHALL dropped are being freed.
        """
        state = self._engine.state
        keyspace = state.keyspace
        if state.disk.error or keyspace.is_freeing():
            return False
        has_changed = keyspace.dirty or keyspace.is_dirty or state.changes_since_checkpoint()
        if not (has_changed or self._log.is_too_large()):
            return False
        if self.grown_bytes() >= state.settings.integer("crdt-checkpoint-max-bytes"):
            return True
        return steady_ms - self._began_ms >= state.settings.integer("crdt-checkpoint-interval-ms")

    def grown_bytes(self) -> int:
        """Bytes by which the log has grown since the last checkpoint began."""
        return self._log.size.bytes - self._log_bytes

    def steps(self, steady_ms: int) -> Steps:
        """The steps of one whole checkpoint, whose slices are written between commits.

        The caller completes each step before it asks for the next. Keys are captured at a position
        that the keyspace reflects exactly: the open block is closed and the keys are captured in
        one step, with nothing in between.
        """
        engine, checkpointer = self._engine, self._checkpointer
        keyspace, journal = engine.state.keyspace, engine.state.journal
        self._log_bytes = self._log.size.bytes
        self._began_ms = steady_ms
        if not checkpointer.is_under_way():
            engine.disk.cut_block()
            checkpointer.begin(keyspace, journal.position, engine.state.clock.now_ms)
        while checkpointer.pending or checkpointer.has_more():
            if not checkpointer.pending:
                engine.disk.cut_block()
                checkpointer.capture(keyspace, journal.position)
            yield UntilCommitted(checkpointer.pending_position)
            for statements in checkpointer.slices():
                yield Write(statements) if statements else Rest()
            checkpointer.written()
        replay_from, statements = checkpointer.finish()
        yield UntilCommitted(replay_from)
        yield Write(statements)
        checkpointer.finished()
        engine.disk.checkpointed(replay_from)
        yield from self._retain(replay_from)

    def _retain(self, up_to: int) -> Steps:
        """Drops the oldest rows while the log is too large (S14).

        A start needs the rows after position `up_to`, so none of these is dropped.
        """
        while self._log.is_too_large():
            oldest = yield ReadOldest(up_to, _OLDEST_ROWS)
            dropped = self._log.drop(oldest)
            if dropped is None:
                return
            statements, gone = dropped
            yield Write(statements)
            self._log.dropped(gone)
            # The dropped bytes were not growth, so the size to compare with loses them, too.
            self._log_bytes -= gone.bytes
