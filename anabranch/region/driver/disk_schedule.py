"""The order of transactions: commits and slices of checkpoints alternate. Sans-IO.

A part of the driver. One transaction is out at a time. A commit that failed is retried until it
succeeds (S13.4). A checkpoint that failed is given up: the checkpointer keeps what it captured, and
the next checkpoint continues with it.
"""

from __future__ import annotations

from typing import Any, Final, Optional

from anabranch.region.driver.checkpoints import (
    Checkpoints,
    Rest,
    Step,
    Steps,
    UntilCommitted,
    Write,
)
from anabranch.region.driver.effect_log import EffectLog
from anabranch.region.driver.work import DiskTransaction
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.rows import Commit
from anabranch.region.storage.log import ReadOldest


class DiskSchedule:
    """The transactions of one region. Times are steady times in ms."""

    def __init__(
        self, engine: Engine, log: EffectLog, checkpoints: Checkpoints, retry_after_ms: int
    ) -> None:
        self._engine: Final = engine
        self._log: Final = log
        self._checkpoints: Final = checkpoints
        self._retry_after_ms: Final = retry_after_ms
        self._out: Optional[DiskTransaction] = None
        # A commit that failed, and the steady time (ms) of its next attempt.
        self._failed: Optional[DiskTransaction] = None
        self._retry_ms = 0
        self._steady_ms = 0
        # The checkpoint under way, the step whose completion it awaits, and whether a read for it
        # is out.
        self._steps: Optional[Steps] = None
        self._step: Optional[Step] = None
        self._is_reading = False
        self._begins_after_ms = 0
        self._checkpoint_is_next = False
        # Bytes by which the log had grown when the current checkpoint began, and the sum for the
        # checkpoints that ended since the last `take_burst`.
        self._grown_bytes = 0
        self._burst_bytes = 0
        # -- the end
        self._is_stopping = False
        # The checkpoint under way is the last before the stop.
        self._is_last = False
        self._last_is_done = False
        # A commit failed during the stop.
        self._gave_up = False

    # -- events

    def tick(self, steady_ms: int) -> None:
        """Begins a checkpoint when one is due, and continues one that rests."""
        self._steady_ms = steady_ms
        if isinstance(self._step, Rest):
            self._advance([])
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
        """A transaction failed: keeps a commit for a retry, and gives up the checkpoint.

        A commit that fails during a stop ends the stop. A checkpoint that fails does not: effects
        that were acknowledged may still wait for a commit.
        """
        assert transaction is self._out
        self._out = None
        if transaction.commit is not None:
            self._failed = transaction
            self._retry_ms = steady_ms + self._retry_after_ms
            self._gave_up = self._is_stopping
        self.drop_checkpoint(steady_ms)

    def drop_checkpoint(self, steady_ms: int) -> None:
        """Gives up the checkpoint under way; a later one continues with what it captured.

        A stop makes no other one, but still commits everything: a start replays the log.
        """
        self._steps = self._step = None
        self._is_reading = False
        self._begins_after_ms = steady_ms + self._retry_after_ms
        self._last_is_done = self._is_stopping

    def read(self, rows: Any) -> None:
        """The log has answered the read of the checkpoint with `rows`."""
        if self._is_reading:
            self._is_reading = False
            self._advance(rows)

    def stop(self) -> None:
        """Begins the stop: all state is to be committed, and then checkpointed."""
        self._is_stopping = True

    # -- the next action

    @property
    def is_free(self) -> bool:
        """Whether no transaction is out. A commit can begin only then."""
        return self._out is None

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is out or waits for a retry, and no checkpoint is under way."""
        return self._out is None and self._failed is None and self._steps is None

    def next_transaction(self, now_ms: int) -> Optional[DiskTransaction]:
        """The transaction to write now; None if one is already out or none waits.

        None also once the stop has given up, since nobody waits for the end of another attempt.
        """
        if self._out is None and not self._gave_up:
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
            self._advance_stop()
        self._advance_checkpoint()
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
        return (
            self._engine.disk.take_commit(now_ms)
            if self._engine.disk.wants_commit(now_ms)
            else None
        )

    def next_read(self) -> Optional[ReadOldest]:
        """A read for the checkpoint; None if none waits."""
        if self._is_reading or not isinstance(self._step, ReadOldest):
            return None
        self._is_reading = True
        return self._step

    def _advance_checkpoint(self) -> None:
        """Continues the checkpoint if the commit it awaits is on disk; otherwise requests it.

        During a stop a checkpoint does not rest, because no client waits.
        """
        while isinstance(self._step, UntilCommitted) or (
            self._is_stopping and isinstance(self._step, Rest)
        ):
            if isinstance(self._step, UntilCommitted):
                if self._engine.committed_position < self._step.position:
                    self._engine.disk.want_commit()
                    return
            self._advance([])

    def _advance(self, rows: Any) -> None:
        """The current step of the checkpoint is done: takes the next one."""
        assert self._steps is not None
        try:
            # A generator that has not begun accepts only `next`, not a value.
            self._step = next(self._steps) if self._step is None else self._steps.send(rows)
        except StopIteration:
            self._steps = self._step = None
            self._burst_bytes += self._grown_bytes
            self._last_is_done = self._is_last

    def take_burst(self) -> int:
        """Bytes of log covered by the checkpoints that ended since the last call."""
        burst, self._burst_bytes = self._burst_bytes, 0
        return burst

    # -- the end

    def _advance_stop(self) -> None:
        """Requests a commit of everything, then begins a last checkpoint of all changes."""
        if not self._engine.disk.is_all_in_commits():
            self._engine.disk.want_commit()
        elif self._steps is None and not self._last_is_done:
            self._is_last = True
            self._begin()

    def has_stopped(self) -> bool:
        """Whether the stop is over.

        It is over when all state is in commits and the last checkpoint was written or given up, and
        also when a commit failed during the stop.
        """
        if self._gave_up:
            return True
        return (
            self._out is None
            and self._steps is None
            and self._last_is_done
            and self._engine.disk.is_all_in_commits()
        )
