"""One process of a simulated region: carries out the real driver's work on simulated parts.

Like `region.live.process` in a live region, it makes no decisions. Work that takes time there (a
transaction, a read, a turn of merging, a step) is an event here, so a kill may fall between any
two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final, Optional

from anabranch.crdt.block import Block
from anabranch.region.config import RegionConfig
from anabranch.region.driver.clock import Clock
from anabranch.region.driver.driver import Driver
from anabranch.region.driver.turn_limits import TurnLimits
from anabranch.region.driver.work import DiskTransaction, LogRead, Work
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import Damaged, StorageError
from anabranch.region.engine.rows import BlockRow, Commit
from anabranch.region.engine.state import EngineState
from anabranch.region.live import starting
from anabranch.region.live.database import Database
from anabranch.sim.history import Committed, Vector
from anabranch.sim.world import inside
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.environment import Environment
from anabranch.sim.world.lines import ClientEvents, Line, Lines
from anabranch.sim.world.links import Dials, held_up
from anabranch.sim.world.network import Endpoint, Network, Pipe
from anabranch.sim.world.reports import Reports
from anabranch.sim.world.scheduler import uniform
from anabranch.sim.world.tapped import TappedEngine
from anabranch.sim.world.vfs import Opener, go_on, run
from anabranch.sync.session.messages import Message

_QUESTION: Final = "question:"
# A stop takes fewer steps in which it neither writes nor reads.
_IDLE_MAX: Final = 10_000


class DiedInWrite(Exception):
    """The process died in the middle of a write, as the disk reports."""


class SimulatedProcess(Endpoint):
    """One process. `number` counts the processes of a region.

    `died` is called when the disk ends the process in the middle of a write.
    """

    def __init__(
        self,
        environment: Environment,
        network: Network,
        events: ClientEvents,
        region_id: int,
        number: int,
        disk: Disk,
        clock: Clock,
        draw: Random,
        died: Callable[[], None],
    ) -> None:
        self.region_id = region_id
        self.number: Final = number
        self.is_running = False
        self.is_paused = False
        self.pipes: list[tuple[Pipe, int]] = []
        self.write_ms = (0, 3)  # the least and the most that a transaction takes
        # The process dies after this number of further parts of checkpoints and one; -1: never.
        self.slices_left = -1
        # The last commit failed.
        self.commits_fail = False
        # Counter of the newest own effect that judges have been told is on the disk.
        self.told = 0
        # The life in which the process began.
        self.first_life = 0
        self._environment: Final = environment
        self._network: Final = network
        self._disk: Final = disk
        self._clock: Final = clock
        self._draw: Final = draw
        self._died: Final = died
        self.opener: Final = Opener(disk)
        self.lines: Final = Lines(environment, region_id, events, self.stepped)
        self._reports: Final = Reports(environment, region_id, number, self.lines, clock)
        self.driver: Driver
        self._dials: Dials
        self._database: Database
        self._step_planned = False
        self._merge_planned = False
        # Transactions handed out and not yet reported back → the error text, None while it runs.
        self._planned: dict[DiskTransaction, Optional[str]] = {}
        # Questions to the log without an answer.
        self._asked: dict[LogRead, None] = {}

    # -- start and end

    def start(self, config: RegionConfig, limits: TurnLimits) -> None:
        """Starts from the files on the disk; StorageError when that fails."""
        self._database = Database(Path("data"), self.opener.connect)
        started = starting.start(config, self._database, self._clock, limits, self._engine)
        self.driver = run(started)
        self._reports.begin(self.driver.engine)
        self._dials = Dials(self.driver.hub.links, self._environment.scheduler.now_ms)
        self.is_running = True
        self._network.register(self)
        self.lines.begin(self.driver)

    def _engine(self, state: EngineState) -> Engine:
        return TappedEngine(state, self._reports)

    def begin(self) -> None:
        """Tells the judges of the start, and begins to run."""
        self._tell_found()
        engine = self.driver.engine
        assert isinstance(engine, TappedEngine)
        self.first_life = engine.life
        inside.began(self._environment.counts, engine, self._clock.now_ms())
        engine.began()
        self.stepped()
        first_ms = uniform(self._draw, 1, self._environment.tick_ms)
        self._environment.scheduler.after(first_ms, self._tick)

    def _tell_found(self) -> None:
        """Tells of effects on the disk that the former process did not know to be there.

        That process may have died after the disk had written its last commit.
        """
        engine = self.driver.engine
        blocks: list[Block] = []
        found = engine.disk_vector.get(self.region_id, 0)
        is_news = self.told < found
        while self.told < found:
            block = run(self._database.log.block_with(self.region_id, self.told + 1))
            if block is None:
                break  # a snapshot brought it back in recovery; judges heard of it when issued
            blocks.append(block)
            self.told = block.last
        self.told = found
        if is_news:
            self._tell_committed(dict(engine.disk_vector), blocks)

    def end(self) -> None:
        """The process is dead; it does not notice."""
        self.is_running = False
        self.lines.count_within("end of the process")
        self._disk.detach()
        self.opener.close()

    def stop_cleanly(self) -> None:
        """Stops like a service manager: commits and checkpoints everything.

        StorageError when that fails.
        """
        for pipe, end in list(self.pipes):
            self._network.drop(pipe, (end != 0, end != 1))
        for transaction, error in list(self._planned.items()):
            if error is None:
                self._write_now(transaction)
            else:
                self._report(transaction, error)
        self.driver.stop()
        for read in list(self._asked):
            self._read_now(read)
        idle = 0
        while True:
            work = self.driver.step()
            idle = 0 if work.reads or work.transaction is not None else idle + 1
            if idle > _IDLE_MAX:
                self._environment.fault_found(f"region {self.region_id}: its stop does not end")
                raise StorageError("the stop does not end")
            self.lines.perform(work.clients)
            for read in work.reads:
                self._read_now(read)
            if work.transaction is not None:
                self._write_now(work.transaction)
            if work.has_stopped:
                break
        if self.driver.engine.state.disk.error:
            raise StorageError(self.driver.engine.state.disk.error)
        assert self.driver.engine.disk.is_all_in_commits()
        self.opener.close()

    def _read_now(self, read: LogRead) -> None:
        try:
            answer = run(self._database.answer(read.request))
        except StorageError as error:
            self._cannot_read(read, error)
        else:
            self.driver.read(read, answer)

    def _write_now(self, transaction: DiskTransaction) -> None:
        """Writes at once; `DiedInWrite` when the disk ends the process during the write."""
        error = self._tried(transaction)
        if self._disk.is_dead():
            raise DiedInWrite
        if error:
            self._tell_failed(transaction, error)
            return
        self._tell_written(transaction.commit)
        self.driver.written(transaction)

    def _tried(self, transaction: DiskTransaction) -> str:
        """Writes; returns the error in words, or an empty text."""
        found: list[Optional[BaseException]] = []
        self._database.begin_write(transaction.statements, found.append)
        (error,) = found
        if error is not None and not isinstance(error, StorageError):
            raise error
        return "" if error is None else str(error)

    # -- steps

    def deliver(self, line: Line, data: bytes) -> None:
        """Bytes of a client arrive."""
        if self.is_running and self.is_paused:
            self._environment.scheduler.after(self._environment.tick_ms, self.deliver, line, data)
        elif self.is_running:
            self.lines.received(line, data)
            self.stepped()

    def stepped(self) -> None:
        """The driver was called: plans a step for this moment if one is due by the next tick."""
        if not self._step_planned and self.is_running and self.driver.is_step_due():
            self._plan_step()

    def resumed(self) -> None:
        """The process goes on after a pause."""
        if not self._step_planned:
            self._plan_step()

    def _plan_step(self) -> None:
        self._step_planned = True
        self._environment.scheduler.after(0, self._step)

    def _step(self) -> None:
        self._step_planned = False
        if self.is_running and not self.is_paused:
            self._perform(self.driver.step())

    def _perform(self, work: Work) -> None:
        """Carries out the work of a step, as `region.live.process` does."""
        scheduler, draw = self._environment.scheduler, self._draw
        for note in work.notes:
            self._environment.note(self.region_id, "says", note.text)
        self.lines.perform(work.clients)
        if work.transaction is not None:
            self._planned[work.transaction] = None
            if work.transaction.commit is None:
                self._environment.counters["checkpoint write"] += 1
            scheduler.after(uniform(draw, *self.write_ms), self._write, work.transaction)
        for read in work.reads:
            self._asked[read] = None
            self._environment.counters[_QUESTION + type(read.request).__name__] += 1
            scheduler.after(uniform(draw, 0, 1), self._read, read)
        for peer in work.dials:
            self._dials.dialled(peer)
            self._network.dial(self, peer)
        for number in work.hang_ups:
            self._dials.closed(number, scheduler.now_ms)
            self._network.close(self, number)
        if work.merge_in_ms is not None:
            self._merge_planned = True
            scheduler.after(uniform(draw, 0, 1), self._merge)
        self._network.pump(self)

    def _tick(self) -> None:
        if not self.is_running:
            return
        if not self.is_paused:
            self._look_at_links()
            self.driver.tick()
            self.stepped()
        self._environment.scheduler.after(self._environment.tick_ms, self._tick)

    def _look_at_links(self) -> None:
        now_ms = self._environment.scheduler.now_ms
        texts = self._dials.overdue(now_ms, self._clock.now_ms())
        if not self._merge_planned and not self._step_planned:
            texts += held_up(self.driver.hub.links, self.driver.engine.vector)
        for text in texts:
            self._environment.fault_found(f"region {self.region_id} {text}")

    def _merge(self) -> None:
        if not self.is_running:
            return
        if self.is_paused:
            self._environment.scheduler.after(self._environment.tick_ms, self._merge)
            return
        self._merge_planned = False
        self.driver.merge()
        self.stepped()

    # -- the disk

    def _write(self, transaction: DiskTransaction) -> None:
        """The writing thread is done: the transaction is on disk, or has failed.

        The loop learns of it later.
        """
        if not self.is_running:
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
        if not self.is_running:
            return
        if self.is_paused:
            scheduler = self._environment.scheduler
            scheduler.after(self._environment.tick_ms, self._written, transaction, error)
            return
        del self._planned[transaction]
        self._report(transaction, error)
        self.stepped()

    def _report(self, transaction: DiskTransaction, error: str) -> None:
        if error:
            self._environment.note(self.region_id, "disk fails", error)
            self._environment.counters["write failed"] += 1
            self._tell_failed(transaction, error)
        else:
            commit = transaction.commit
            if commit is not None:
                self._environment.note(
                    self.region_id, "commits", commit.position, dict(commit.vector)
                )
                self.commits_fail = False
            self.driver.written(transaction)

    def _tell_failed(self, transaction: DiskTransaction, error: str) -> None:
        if transaction.commit is not None:
            self.commits_fail = True
        self.driver.failed(transaction, error)

    def _tell_written(self, commit: Optional[Commit]) -> None:
        """Tells the judges of a commit on disk.

        Peers may be sent its effects from now on, even if the process never learns of the commit.
        """
        if commit is None:
            return
        self.told = commit.vector.get(self.region_id, 0)
        self.lines.count_within("commit")
        rows = [row for row in commit.rows if isinstance(row, BlockRow)]
        own = [row.block for row in rows if row.source == 0]
        self._tell_committed(dict(commit.vector), own)

    def _tell_committed(self, vector: Vector, blocks: list[Block]) -> None:
        now_ms = self._environment.scheduler.now_ms
        event = Committed(self.region_id, self.number, vector, blocks, now_ms)
        self._environment.events.committed(event)

    def _read(self, read: LogRead, work: Optional[Coroutine[Any, Any, Any]] = None) -> None:
        """Continues the answer to a question to the log.

        The answer takes several events; other writes may fall between them, even while the process
        is paused.
        """
        if not self.is_running:
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
            self.stepped()
            return
        if done is None:
            self._environment.scheduler.after(uniform(self._draw, 0, 2), self._read, read, work)
        else:
            del self._asked[read]
            self.driver.read(read, done[0])
            self.stepped()

    def _cannot_read(self, read: LogRead, error: Exception) -> None:
        self._environment.note(self.region_id, "cannot read", str(error))
        self._environment.counters["read failed"] += 1
        self.driver.cannot_read(read, str(error), isinstance(error, Damaged))

    # -- peers (see `Endpoint`)

    def dialled(self, peer: int) -> Optional[int]:
        number = self.driver.dialled(peer)
        self._dials.opened(peer, number, self._environment.scheduler.now_ms)
        self.stepped()
        return number

    def dial_failed(self, peer: int, text: str) -> None:
        self.driver.dial_failed(peer, text)
        self._dials.failed(peer, self._environment.scheduler.now_ms)
        self.stepped()

    def accepted(self) -> int:
        number = self.driver.accepted()
        self.stepped()
        return number

    def received(self, connection: int, message: Message) -> None:
        self.driver.received(connection, message)
        self.stepped()

    def disconnected(self, connection: int, text: str) -> None:
        self.driver.disconnected(connection, text)
        self._dials.closed(connection, self._environment.scheduler.now_ms)
        self.stepped()

    def has_room(self) -> None:
        if not self.is_paused:
            self._network.pump(self)

    def next_message(self, connection: int) -> Optional[Message]:
        message = self.driver.next_message(connection)
        if message is not None:
            self.stepped()
        return message

    def is_over(self, connection: int) -> bool:
        return self.driver.is_over(connection)
