"""The work of one simulated process on its files: transactions and reads, which take time.

A kill, a power cut or a pause may fall between any two of their events.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, Optional, Protocol

from anabranch.crdt.block import Block
from anabranch.crdt.vector import Vector
from anabranch.region.driver.driver import Driver
from anabranch.region.driver.work import DiskTransaction, LogRead
from anabranch.region.engine.errors import Damaged, StorageError
from anabranch.region.engine.rows import BlockRow, Commit
from anabranch.region.live.database import Database
from anabranch.sim.history import Committed
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.environment import Environment
from anabranch.sim.world.lines import Lines
from anabranch.sim.world.scheduler import uniform
from anabranch.sim.world.vfs import Opener, go_on, run

_QUESTION: Final = "question:"


class DiedInWrite(Exception):
    """The process died in the middle of a write, as the disk reports."""


class Process(Protocol):
    """What the work on files needs of its process."""

    region_id: int
    is_running: bool
    is_paused: bool
    driver: Driver

    @property
    def number(self) -> int: ...

    @property
    def lines(self) -> Lines: ...

    def stepped(self) -> None: ...

    def guarded(self, call: Callable[..., Any], *arguments: Any) -> Any: ...


class FileWork:
    """The transactions and reads of one process.

    `died` is called when the disk ends the process in the middle of a write.
    """

    def __init__(
        self,
        process: Process,
        environment: Environment,
        disk: Disk,
        draw: Random,
        died: Callable[[], None],
    ) -> None:
        self._process: Final = process
        self._environment: Final = environment
        self._disk: Final = disk
        self._draw: Final = draw
        self._died: Final = died
        self.write_ms = (0, 3)  # the least and the most that a transaction takes
        # The process dies after this number of further parts of checkpoints and one; -1: never.
        self.slices_left = -1
        # The last commit failed.
        self.commits_fail = False
        # Counter of the newest own effect that judges have been told is on the disk.
        self.told = 0
        # Transactions handed out and not yet reported back → the error text, None while it runs.
        self._planned: dict[DiskTransaction, Optional[str]] = {}
        # Questions to the log without an answer.
        self._asked: dict[LogRead, None] = {}
        self.opener: Final = Opener(disk)
        self._database: Database

    def open(self) -> Database:
        """The database on this disk."""
        self._database = Database(Path("data"), self.opener)
        return self._database

    def close(self) -> None:
        """Closes the files, as a process that ends by itself does."""
        self.opener.close()

    def detach(self) -> None:
        """The process is dead: what it wrote without a sync stays with the disk."""
        self._disk.detach()
        self.opener.close()

    def finish_writes(self) -> None:
        """Writes and reports all transactions at once; `DiedInWrite` as in `write_now`."""
        for transaction, error in list(self._planned.items()):
            if error is None:
                self.write_now(transaction)
            else:
                self._report(transaction, error)

    def finish_reads(self) -> None:
        """Answers all questions at once."""
        for read in list(self._asked):
            self.read_now(read)

    def write(self, transaction: DiskTransaction) -> None:
        """Begins a transaction."""
        self._planned[transaction] = None
        if transaction.commit is None:
            self._environment.counters["checkpoint write"] += 1
        duration_ms = uniform(self._draw, *self.write_ms)
        self._environment.scheduler.after(duration_ms, self._on_disk, transaction)

    def read(self, read: LogRead) -> None:
        """Begins to answer a question."""
        self._asked[read] = None
        self._environment.counters[_QUESTION + type(read.request).__name__] += 1
        self._environment.scheduler.after(uniform(self._draw, 0, 1), self._answer, read)

    def tell_found(self, disk_vector: Mapping[int, int]) -> None:
        """Tells of effects on the disk that the former process did not know to be there.

        That process may have died after the disk had written its last commit.
        """
        blocks: list[Block] = []
        found = disk_vector.get(self._process.region_id, 0)
        is_news = self.told < found
        while self.told < found:
            block = run(self._database.log.block_with(self._process.region_id, self.told + 1))
            if block is None:
                break  # a snapshot brought it back in recovery; judges heard of it when issued
            blocks.append(block)
            self.told = block.last
        self.told = found
        if is_news:
            self._tell_committed(dict(disk_vector), blocks)

    def read_now(self, read: LogRead) -> None:
        try:
            answer = run(self._database.answer(read.request))
        except StorageError as error:
            self._cannot_read(read, error)
        else:
            self._process.guarded(self._process.driver.read, read, answer)

    def write_now(self, transaction: DiskTransaction) -> None:
        """Writes at once; `DiedInWrite` when the disk ends the process during the write."""
        error = self._tried(transaction)
        if self._disk.is_dead():
            raise DiedInWrite
        if error:
            self._tell_failed(transaction, error)
            return
        self._tell_written(transaction.commit)
        self._process.guarded(self._process.driver.written, transaction)

    def _tried(self, transaction: DiskTransaction) -> str:
        """Writes; returns the error in words, or an empty text."""
        found: list[Optional[BaseException]] = []
        self._database.begin_write(transaction.statements, found.append)
        (error,) = found
        if error is not None and not isinstance(error, StorageError):
            raise error
        return "" if error is None else str(error)

    def _on_disk(self, transaction: DiskTransaction) -> None:
        """The writing thread is done: the transaction is on disk, or has failed.

        The loop learns of it later.
        """
        if not self._process.is_running:
            return
        error = self._tried(transaction)
        if self._disk.is_dead() or (not error and self._dies_after(transaction)):
            self._died()
            return
        self._planned[transaction] = error
        if not error:
            self._tell_written(transaction.commit)
        self._environment.scheduler.after(
            uniform(self._draw, 0, 1), self._written, transaction, error
        )

    def _dies_after(self, transaction: DiskTransaction) -> bool:
        """Whether the process dies now that this transaction is on the disk."""
        if self.slices_left < 0 or transaction.commit is not None:
            return False
        self.slices_left -= 1
        return self.slices_left < 0

    def _written(self, transaction: DiskTransaction, error: str) -> None:
        """The loop learns that the transaction is over."""
        if not self._process.is_running:
            return
        if self._process.is_paused:
            scheduler = self._environment.scheduler
            scheduler.after(self._environment.tick_ms, self._written, transaction, error)
            return
        del self._planned[transaction]
        self._report(transaction, error)
        self._process.stepped()

    def _report(self, transaction: DiskTransaction, error: str) -> None:
        if error:
            self._environment.note(self._process.region_id, "disk fails", error)
            self._environment.counters["write failed"] += 1
            self._tell_failed(transaction, error)
        else:
            commit = transaction.commit
            if commit is not None:
                self._environment.note(
                    self._process.region_id, "commits", commit.position, dict(commit.vector)
                )
                self.commits_fail = False
            self._process.guarded(self._process.driver.written, transaction)

    def _tell_failed(self, transaction: DiskTransaction, error: str) -> None:
        if transaction.commit is not None:
            self.commits_fail = True
        self._process.guarded(self._process.driver.failed, transaction, error)

    def _tell_written(self, commit: Optional[Commit]) -> None:
        """Tells the judges of a commit on disk.

        Peers may be sent its effects from now on, even if the process never learns of the commit.
        """
        if commit is None:
            return
        self.told = commit.vector.get(self._process.region_id, 0)
        self._process.lines.count_within("commit")
        rows = [row for row in commit.rows if isinstance(row, BlockRow)]
        own = [row.block for row in rows if row.source == 0]
        self._tell_committed(dict(commit.vector), own)

    def _tell_committed(self, vector: Vector, blocks: list[Block]) -> None:
        now_ms = self._environment.scheduler.now_ms
        event = Committed(self._process.region_id, self._process.number, vector, blocks, now_ms)
        self._environment.events.committed(event)

    def _answer(self, read: LogRead, work: Optional[Coroutine[Any, Any, Any]] = None) -> None:
        """Continues the answer to a question to the log.

        The answer takes several events; other writes may fall between them, even while the process
        is paused.
        """
        if not self._process.is_running:
            if work is not None:
                work.close()
            return
        if work is None:
            work = self._database.answer(read.request)
        try:
            done = go_on(work)
        except Exception as error:
            del self._asked[read]
            self._cannot_read(read, error)
            self._process.stepped()
            return
        if done is None:
            self._environment.scheduler.after(uniform(self._draw, 0, 2), self._answer, read, work)
        else:
            del self._asked[read]
            self._process.guarded(self._process.driver.read, read, done[0])
            self._process.stepped()

    def _cannot_read(self, read: LogRead, error: Exception) -> None:
        self._environment.note(self._process.region_id, "cannot read", str(error))
        self._environment.counters["read failed"] += 1
        is_damaged = isinstance(error, Damaged)
        self._process.guarded(self._process.driver.cannot_read, read, str(error), is_damaged)
