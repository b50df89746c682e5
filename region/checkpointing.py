"""Checkpoints as steps (S13.1): when one is due, and what is to be written, in which order. Sans-IO: the process and the simulator perform
the same steps.

Between any two steps commits may come, the region may stop, and a step may fail: then what was captured stays captured, and the next call
of `steps` goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Union

from anabranch.region.engine.engine import Engine
from anabranch.region.storage.checkpoint import Checkpointer
from anabranch.region.storage.schema import Statement


@dataclass(frozen=True)
class UntilCommitted:
    """Go on when the rows up to `position` are on disk."""

    position: int


@dataclass(frozen=True)
class Write:
    """Run these in one transaction."""

    statements: list[Statement]


@dataclass(frozen=True)
class Truncate:
    """The log up to this position is superfluous for a start: drop what is over the retention limits (S14)."""

    up_to: int


Step = Union[UntilCommitted, Write, Truncate]


class Checkpoints:
    """The checkpoints of one region, one after the other. `log_bytes` is the size of the log on disk, `steady_ms` a time that never runs
    back.
    """

    def __init__(self, engine: Engine, checkpointer: Checkpointer, log_bytes: int) -> None:
        self.engine: Final = engine
        self.checkpointer: Final = checkpointer
        self.log_bytes = log_bytes  # when the last one began
        self.began_ms = 0

    def is_due(self, log_bytes: int, steady_ms: int) -> bool:
        """Whether keys changed, and time or log says that one should begin; never while commits fail."""
        engine = self.engine
        if engine.state.disk.error or not (
            engine.keyspace.dirty
            or engine.keyspace.is_dirty
            or engine.state.changes_since_checkpoint()
        ):
            return False
        if log_bytes - self.log_bytes >= engine.settings.integer("crdt-checkpoint-max-bytes"):
            return True
        return steady_ms - self.began_ms >= engine.settings.integer("crdt-checkpoint-interval-ms")

    def steps(self, log_bytes: int, steady_ms: int) -> Iterator[Step]:
        """One whole checkpoint, in slices between commits; each step is done before the next is asked for."""
        engine = self.engine
        checkpointer = self.checkpointer
        self.log_bytes = log_bytes
        self.began_ms = steady_ms
        if not checkpointer.is_under_way():
            engine.state.journal.cut_block()
            checkpointer.begin(
                engine.keyspace, engine.state.journal.position, engine.state.clock.now_ms
            )
        while checkpointer.pending or checkpointer.has_more():
            if not checkpointer.pending:
                engine.state.journal.cut_block()
                checkpointer.capture(engine.keyspace, engine.state.journal.position)
            yield UntilCommitted(checkpointer.pending_position)
            for statements in checkpointer.slices():
                yield Write(statements)
            checkpointer.written()
        replay_from, statements = checkpointer.finish()
        yield UntilCommitted(replay_from)
        yield Write(statements)
        checkpointer.finished()
        engine.checkpointed(replay_from)
        yield Truncate(replay_from)
