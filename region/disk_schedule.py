"""Which transaction is next: commits, and the slices of checkpoints, in turns. Sans-IO; a part of the driver.

One transaction is out at a time. A commit that failed is tried again until it succeeds (S13.4). A
checkpoint that failed is given up: what it captured stays captured, and the next one goes on with it.
"""

from __future__ import annotations

from typing import Any, Final, Optional

from anabranch.region.checkpoints import Checkpoints, Step, Steps, UntilCommitted, Write
from anabranch.region.effect_log import EffectLog
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.rows import Commit
from anabranch.region.storage.log import ReadOldest
from anabranch.region.work import DiskTransaction


class DiskSchedule:
    """Transactions of one region. Times are steady ones, in ms."""

    def __init__(
        self, engine: Engine, log: EffectLog, checkpoints: Checkpoints, retry_after_ms: int
    ) -> None:
        self._engine: Final = engine
        self._log: Final = log
        self._checkpoints: Final = checkpoints
        self._retry_after_ms: Final = retry_after_ms
        self._out: Optional[DiskTransaction] = None
        # A commit that failed, and when it is tried again (steady ms).
        self._failed: Optional[DiskTransaction] = None
        self._retry_ms = 0
        self._steady_ms = 0
        # The checkpoint under way, the step that it waits for, and whether a read for it is out.
        self._steps: Optional[Steps] = None
        self._step: Optional[Step] = None
        self._is_reading = False
        self._begins_after_ms = 0
        self._checkpoint_is_next = False
        # By how much the log had grown when the checkpoint began, and those that ended.
        self._grown_bytes = 0
        self._burst_bytes = 0
        # -- the end
        self._is_stopping = False
        self._is_last = False  # the checkpoint under way is the last one
        self._last_is_done = False
        self._gave_up = False

    # -- events

    def tick(self, steady_ms: int) -> None:
        """Begins a checkpoint when one is due."""
        self._steady_ms = steady_ms
        if self._steps is None and not self._is_stopping and steady_ms >= self._begins_after_ms:
            if self._checkpoints.is_due(steady_ms):
                self._begin()

    def _begin(self) -> None:
        self._grown_bytes = self._checkpoints.grown_bytes()
        self._steps = self._checkpoints.steps(self._steady_ms)
        self._advance([])

    def written(self, transaction: DiskTransaction) -> None:
        """A transaction is on disk."""
        assert transaction is self._out
        self._out = None
        if transaction.commit is None:
            self._advance([])

    def failed(self, transaction: DiskTransaction, steady_ms: int) -> None:
        """A transaction failed: a commit is kept, a checkpoint is given up with it."""
        assert transaction is self._out
        self._out = None
        if transaction.commit is not None:
            self._failed = transaction
            self._retry_ms = steady_ms + self._retry_after_ms
        self.drop_checkpoint(steady_ms)
        self._gave_up = self._is_stopping

    def drop_checkpoint(self, steady_ms: int) -> None:
        """What was captured stays captured; a later checkpoint goes on with it."""
        self._steps = self._step = None
        self._is_reading = False
        self._begins_after_ms = steady_ms + self._retry_after_ms
        self._gave_up = self._is_stopping

    def read(self, rows: Any) -> None:
        """The checkpoint's question is answered."""
        if self._is_reading:
            self._is_reading = False
            self._advance(rows)

    def stop(self) -> None:
        """Everything is to get to the disk, and into a checkpoint."""
        self._is_stopping = True

    # -- what to do

    def next_transaction(self, now_ms: int) -> Optional[DiskTransaction]:
        """The transaction to write now; None while one is out, or when there is none."""
        if self._out is None:
            self._out = self._choose(now_ms)
            return self._out
        return None

    def _choose(self, now_ms: int) -> Optional[DiskTransaction]:
        if self._failed is not None:
            if self._steady_ms < self._retry_ms and not self._is_stopping:
                return None
            failed, self._failed = self._failed, None
            return failed
        if self._is_stopping:
            self._look_at_end()
        self._look_at_checkpoint()
        if not (self._checkpoint_is_next and isinstance(self._step, Write)):
            commit = self._take_commit(now_ms)
            if commit is not None:
                self._checkpoint_is_next = True
                return DiskTransaction(self._log.statements(commit), commit)
        if isinstance(self._step, Write):
            self._checkpoint_is_next = False
            return DiskTransaction(self._step.statements)
        return None

    def _take_commit(self, now_ms: int) -> Optional[Commit]:
        return self._engine.take_commit(now_ms) if self._engine.wants_commit(now_ms) else None

    def next_read(self) -> Optional[ReadOldest]:
        """A question of the checkpoint; None when it has none."""
        if self._is_reading or not isinstance(self._step, ReadOldest):
            return None
        self._is_reading = True
        return self._step

    def _look_at_checkpoint(self) -> None:
        """Goes on when the commit that the checkpoint waits for is on disk, or has it made."""
        while isinstance(self._step, UntilCommitted):
            if self._engine.committed_position < self._step.position:
                self._engine.want_commit()
                return
            self._advance([])

    def _advance(self, rows: Any) -> None:
        """The step is done: on to the next one."""
        assert self._steps is not None
        try:
            # A generator that has not begun takes None alone.
            self._step = next(self._steps) if self._step is None else self._steps.send(rows)
        except StopIteration:
            self._steps = self._step = None
            self._burst_bytes += self._grown_bytes
            self._last_is_done = self._is_last

    def take_burst(self) -> int:
        """By how many bytes the log had grown before the checkpoints that ended since the last call."""
        burst, self._burst_bytes = self._burst_bytes, 0
        return burst

    # -- the end

    def _look_at_end(self) -> None:
        """First everything into commits, then a last checkpoint of all that changed."""
        if not self._engine.is_all_in_commits():
            self._engine.want_commit()
        elif self._steps is None and not self._last_is_done:
            self._is_last = True
            self._begin()

    def has_stopped(self) -> bool:
        """Whether all is on disk and in a checkpoint, or cannot get there."""
        if self._gave_up:
            return True
        return (
            self._out is None
            and self._steps is None
            and self._last_is_done
            and self._engine.is_all_in_commits()
        )
