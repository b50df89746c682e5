"""One simulated region: the real engine, hub and database, and around them what `region.process` and `sync.manager` do live.

It decides nothing. As live, whatever calls the engine or the hub is followed by `work`, which carries what came out of them: answers to
clients, questions to the log, dials, messages, commits. What takes time live (a commit, a read, a turn of merging) is an event here, so
that a kill may fall between any two of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Optional, TypeVar

from anabranch.crdt.block import Block
from anabranch.region import starting
from anabranch.region.checkpointing import Checkpoints, Step, Truncate, UntilCommitted, Write
from anabranch.region.config import Address, RegionConfig
from anabranch.region.database import Database
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.lifecycle import SERVING
from anabranch.region.engine.rows import BlockRow, Commit
from anabranch.region.engine.settings import Settings
from anabranch.sim.history import Began, Committed, Moved, Stopped, Vector
from anabranch.sim.world.clients import Clients
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.scheduler import uniform
from anabranch.sim.world.vfs import Opener, go_on, run
from anabranch.sync import questions
from anabranch.sync.hub import Hub
from anabranch.sync.sender import CheckChains, Locate, ReadBlock, ReadLog

if TYPE_CHECKING:
    from anabranch.sim.world.network import Pipe
    from anabranch.sim.world.world import World

T = TypeVar("T")

MERGE_BYTES: Final = 64 << 10
RETRY_MS: Final = 20
_NOWHERE: Final = Address("127.0.0.1", 0)
# The counter of each question to the log.
_QUESTIONS: Final[dict[type, str]] = {
    kind: f"question:{kind.__name__}" for kind in (Locate, ReadLog, ReadBlock, CheckChains)
}


class SimulatedRegion:
    """A region of the world, running or not. `starts` counts its processes; what belongs to an earlier one counts no more."""

    def __init__(
        self, world: World, region_id: int, name: str, values: dict[str, str], draw: Random
    ) -> None:
        self.world = world
        self.region_id = region_id
        self.name = name
        self.values = dict(values)
        self.draw = draw
        self.disk = Disk(f"{world.disk_prefix}{region_id}")
        self.disk.checkpoint_pages = draw.choice([4, 20, 1000])
        self.clock_offset_ms = 0
        self.write_ms = (0, 3)  # how long a transaction takes
        self.starts = 0
        self.running = False
        self.paused = False
        self.down_for = 0  # faults that keep the process from starting
        self.is_gone = False  # for good: it never starts again
        self.restores = 0  # backups put back
        self.ended = "first"  # how the former process ended, as `Began` says it
        self.is_restored = False  # the next start is told that files were put back
        self.patience_ms = ""  # starts wait so long for others (S13.6); "": as set
        self.told = (
            0  # counter of the newest effect of its own that judges were told is on the disk
        )
        self.clients = Clients(self)
        self.peers: list[int] = []
        self.engine: Engine
        self.hub: Hub
        self.database: Database
        self.settings: Settings

    def now_ms(self) -> int:
        """What the region's own clock shows."""
        return self.world.scheduler.now_ms + self.clock_offset_ms

    def is_running(self, start: int) -> bool:
        return self.running and self.starts == start

    # -- start and stop ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A process starts on what is on the disk."""
        world = self.world
        how, restored = self.ended, self.is_restored
        self.disk.revive()
        self.opener = Opener(self.disk)
        self.settings = Settings(
            {
                **self.values,
                **({"crdt-start-patience-ms": self.patience_ms} if self.patience_ms else {}),
            }
        )
        config = RegionConfig(
            cluster="simulated", members=world.members, name=self.name, resp=_NOWHERE, sync=_NOWHERE, http=None, peers={},
            data=Path("data"), restored=restored, settings=self.settings,
        )  # fmt: skip
        self.database = Database(Path("data"), self.opener.connect)
        self.starts += 1
        try:
            self.engine, checkpointer = run(starting.start(config, self.database, self.now_ms()))
        except StorageError as error:
            self._failed_start(error)
            return
        if self.disk.is_dead():  # the power went during the start
            self.running = True
            self.died()
            return
        engine = self.engine
        self.running = True
        self.is_restored = False
        self.vector: Vector = dict(engine.vector)
        checkpointer.step_max_bytes = self.draw.choice([1, 1 << 20])
        self.checkpoints = Checkpoints(engine, checkpointer, self.database.log_bytes)
        self._steps: Optional[Iterator[Step]] = None
        self._until = 0  # a checkpoint waits for the commit of this position; 0: it does not
        self._jobs: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()
        self._writing = False
        self._committing = False
        self._in_flight: Optional[Commit] = None  # being written
        self._failed: Optional[Commit] = None  # its write failed; it waits for the next try
        self._merge_planned = False
        self._work_planned = False
        self._hub_was_called = True
        self._joined = 0
        self.pipes: list[tuple[Pipe, int]] = []
        self.clients.begin()
        self.hub = Hub(engine, self.settings, self.peers, self.now_ms())
        world.note(self.region_id, "starts", how, engine.life, dict(engine.vector))
        now_ms, patience_ms = (
            world.scheduler.now_ms,
            self.settings.integer("crdt-start-patience-ms"),
        )
        world.judge_began(
            Began(
                self.region_id,
                self.starts,
                how,
                engine.life,
                dict(engine.vector),
                now_ms,
                patience_ms,
            )
        )
        self._tell_found()
        self.stepped("tick")
        world.scheduler.after(uniform(self.draw, 1, world.tick_ms), self._tick, self.starts)

    def _tell_found(self) -> None:
        """The former process may have died when its last commit was on the disk and it had not heard of that."""
        blocks: list[Block] = []
        found = self.engine.vector.get(self.region_id, 0)
        while self.told < found:
            block = run(self.database.block_with(self.region_id, self.told + 1))
            assert block is not None
            blocks.append(block)
            self.told = block.last
        self.told = found
        if blocks:
            now_ms = self.world.scheduler.now_ms
            self.world.judge_committed(
                Committed(self.region_id, self.starts, dict(self.engine.vector), blocks, now_ms)
            )

    def _failed_start(self, error: StorageError) -> None:
        world = self.world
        self.opener.close()
        world.note(self.region_id, "cannot start", str(error))
        if not self.disk.errors and not self.disk.is_dead():
            world.fault_found(f"region {self.region_id} cannot start from its disk: {error}")
        self.disk.errors = 0
        if not self.down_for:
            world.scheduler.after(RETRY_MS * 5, self.start_if_stopped)

    def start_if_stopped(self) -> None:
        if not self.running and not self.down_for and not self.is_gone:
            self.start()

    def stop(
        self, how: str, silently: bool = False, power: Optional[Callable[[Disk], None]] = None
    ) -> None:
        """The process ends, here and now. `silently`: its machine, too, so that nobody hears of it. `power`: what that does to the disk."""
        if not self.running:
            return
        world = self.world
        if self.engine.state.lifecycle.state == SERVING:
            self.patience_ms = ""  # whatever was put back unsaid has been noticed, and made good
        self.running = False
        self.paused = False
        self.ended = how
        world.note(self.region_id, "stops", how)
        self.disk.detach()
        self.opener.close()
        if power is not None:
            power(self.disk)
        self.clients.end()
        world.network.gone(self, silently)
        world.count_figures(self.engine.state, self.hub.counts)
        on_disk = dict(self.engine.disk_vector)
        world.judge_stopped(
            Stopped(self.region_id, self.starts, how, on_disk, world.scheduler.now_ms)
        )

    def died(self) -> None:
        """The disk said so in the middle of a write: `World.cut_disk` has set when, and what happens then."""
        self.world.died(self)

    def stop_cleanly(self) -> None:
        """As a service manager stops it: everything is committed and checkpointed, then it ends."""
        engine, database = self.engine, self.database
        for pipe, end in list(self.pipes):
            self.world.network.drop(pipe, (end != 0, end != 1))
        try:
            self._finish_writing()
            for step in self.checkpoints.steps(database.log_bytes, self._steady_ms()):
                if isinstance(step, UntilCommitted):
                    self._commit_now(self._take_commit())
                else:
                    self._perform(step)
            self._look_at_disk()
        except StorageError:
            if self.disk.is_dead():
                self.died()
            else:
                self.stop("kill")
            return
        assert engine.state.journal.is_empty()
        self.opener.close()
        self.stop("clean")

    def _finish_writing(self) -> None:
        """What is under way is finished first, as live."""
        while self._jobs:
            write, done = self._jobs.popleft()
            write()
            self._look_at_disk()
            done()
        self._steps = None
        self._commit_now(self._failed)
        self._commit_now(self._take_commit())

    def _commit_now(self, commit: Optional[Commit]) -> None:
        if commit is not None:
            run(self.database.commit(commit))
            self._look_at_disk()
            self._tell_written(commit)
            self._committed(commit)

    def _look_at_disk(self) -> None:
        """StorageError when the process died in what was just written."""
        if self.disk.is_dead():
            raise StorageError("died in a write")

    # -- the turn ----------------------------------------------------------------------------------------------------

    def step(self, action: Callable[..., T], *arguments: Any) -> T:
        """Calls the hub; what comes out of that is carried in this round of the loop."""
        result = action(*arguments)
        self._hub_was_called = True
        self.stepped("merge")
        return result

    def stepped(self, how: str) -> None:
        """Engine or hub were called. `how`: what a moved vector is owed to. One round follows for all that happens at this moment."""
        self.note_moved(how)
        if not self._work_planned:
            self._work_planned = True
            self.world.scheduler.after(0, self._work, self.starts)

    def has_room(self) -> None:
        """A connection takes messages again."""
        self._hub_was_called = True
        self.stepped("merge")

    def _work(self, start: int) -> None:
        """One round of the live loop: `SyncManager._step` and `Region._turn`."""
        if not self.is_running(start):
            return
        self._work_planned = False
        if self._hub_was_called:
            self._hub_was_called = False
            self._carry()
            self._turn()
            self.world.network.pump(self)
        else:
            self._turn()

    def _carry(self) -> None:
        """What the hub asks for."""
        hub = self.hub
        scheduler = self.world.scheduler
        for number, request in hub.take_requests():
            scheduler.after(uniform(self.draw, 0, 1), self._answer, self.starts, number, request)
        for peer in hub.take_dials():
            self.world.network.dial(self, peer)
        for number in hub.take_closes():
            self.world.network.close(self, number)
        for note in hub.take_notes():
            self.world.note(self.region_id, "says", note)
        if hub.wants_merge:
            self._plan_merge()

    def _plan_merge(self) -> None:
        if not self._merge_planned:
            self._merge_planned = True
            self.world.scheduler.after(uniform(self.draw, 0, 1), self._merge, self.starts)

    def note_moved(self, how: str) -> None:
        """Tells the judges when the vector moved; then hands on the answers that came late."""
        engine = self.engine
        answers = engine.take_replies()
        if engine.vector != self.vector:
            before, self.vector = self.vector, dict(engine.vector)
            if self.hub.counts["snapshots_joined"] != self._joined:
                self._joined = self.hub.counts["snapshots_joined"]
                how = "join"
            if answers and self.clients.have_waited(answers):
                how = "waited"
            self.world.note(self.region_id, how, before, self.vector)
            now_ms = self.world.scheduler.now_ms
            self.world.judge_moved(
                Moved(
                    self.region_id,
                    self.starts,
                    how,
                    before,
                    self.vector,
                    now_ms,
                    engine.state.clock.now_ms,
                )
            )
        for answer in answers:
            self.clients.answer(answer.session, answer.reply)

    def _turn(self) -> None:
        engine = self.engine
        for session_id in engine.take_sessions_to_close():
            self.clients.close(session_id)
        if not self._committing and engine.wants_commit(self.now_ms()):
            commit = self._take_commit()
            if commit is not None:
                self._committing = True
                self._plan(lambda: self._write_commit(commit), lambda: self._commit_done(commit))

    def _tick(self, start: int) -> None:
        if not self.is_running(start):
            return
        world = self.world
        if not self.paused:
            now_ms = self.now_ms()
            self.engine.tick(now_ms)
            self.note_moved("tick")
            self.step(self.hub.tick, now_ms)
            self._look_at_checkpoint()
        world.scheduler.after(world.tick_ms, self._tick, start)

    def _merge(self, start: int) -> None:
        if not self.is_running(start):
            return
        if self.paused:
            self.world.scheduler.after(self.world.tick_ms, self._merge, start)
            return
        self._merge_planned = False
        if self.step(self.hub.merge_some, MERGE_BYTES, self.now_ms()):
            self._plan_merge()

    def _answer(
        self, start: int, number: int, request: Any, work: Optional[Coroutine[Any, Any, Any]] = None
    ) -> None:
        """Answers a question to the log, from one read to the next. `work`: what is under way."""
        if not self.is_running(start):
            if work is not None:
                work.close()
            return
        if work is None:
            self.world.counters[_QUESTIONS[type(request)]] += 1
            work = questions.answer(self.database, request)
        try:
            done = go_on(work)
        except Exception as error:
            self.world.note(self.region_id, "cannot read", str(error))
            self.step(self.hub.closed, number, f"the log could not be read: {error}", self.now_ms())
            return
        if done is None:
            self.world.scheduler.after(
                uniform(self.draw, 0, 2), self._answer, start, number, request, work
            )
        else:
            self.step(self.hub.answered, number, request, done[0], self.now_ms())

    # -- transactions ------------------------------------------------------------------------------------------------

    def _take_commit(self) -> Optional[Commit]:
        commit = self.engine.take_commit(self.now_ms())
        self.note_moved("tick")
        return commit

    def _plan(self, write: Callable[[], None], done: Callable[[], None]) -> None:
        """Puts a transaction in the queue: there is one at a time."""
        self._jobs.append((write, done))
        if not self._writing:
            self._writing = True
            self._next_job()

    def _next_job(self) -> None:
        self.world.scheduler.after(uniform(self.draw, *self.write_ms), self._write_job, self.starts)

    def _write_job(self, start: int) -> None:
        """The thread has written: its transaction is on the disk, or failed, before the loop hears of it."""
        if not self.is_running(start):
            return
        write, _ = self._jobs[0]
        try:
            write()
        except StorageError as error:
            if self.disk.is_dead():
                self.died()
                return
            text = str(error)
            self._jobs[0] = (write, lambda: self._write_failed(text))
        if self.disk.is_dead():
            self.died()
            return
        self.world.scheduler.after(uniform(self.draw, 0, 1), self._job_done, start)

    def _job_done(self, start: int) -> None:
        if not self.is_running(start):
            return
        if self.paused:
            self.world.scheduler.after(self.world.tick_ms, self._job_done, start)
            return
        _, done = self._jobs.popleft()
        done()
        if not self.is_running(start):
            return
        if self._jobs:
            self._next_job()
        else:
            self._writing = False

    def _write_commit(self, commit: Commit) -> None:
        self._in_flight = commit
        run(self.database.commit(commit))
        self._in_flight = None
        if not self.disk.is_dead():
            self._tell_written(commit)

    def _tell_written(self, commit: Commit) -> None:
        """It is on the disk, whether the process hears of it or not: peers may be sent it from now on."""
        blocks = [row.block for row in commit.rows if isinstance(row, BlockRow) and row.source == 0]
        self.told = commit.vector.get(self.region_id, 0)
        now_ms = self.world.scheduler.now_ms
        self.world.judge_committed(
            Committed(self.region_id, self.starts, dict(commit.vector), blocks, now_ms)
        )

    def _write_failed(self, error: str) -> None:
        """A commit is tried again until it succeeds (S13.4); a checkpoint's step is given up with it."""
        self.world.note(self.region_id, "disk fails", error)
        self.world.counters["write failed"] += 1
        commit, self._in_flight = self._in_flight, None
        if commit is not None:
            self.engine.commit_failed(error)
            self.clients.commit_failed()
            self.stepped("tick")
            self._failed = commit
            self.world.scheduler.after(RETRY_MS, self._retry, self.starts, commit)
        self._steps = None
        self._until = 0

    def _retry(self, start: int, commit: Commit) -> None:
        if self.is_running(start):
            self._failed = None
            self._plan(lambda: self._write_commit(commit), lambda: self._commit_done(commit))

    def _commit_done(self, commit: Commit) -> None:
        self._committing = False
        self._committed(commit)
        if self._until and self.engine.committed_position >= self._until:
            self._until = 0
            self._next_step()

    def _committed(self, commit: Commit) -> None:
        """The order of `Region._commit`: the engine, clients that waited, then whoever ships."""
        now_ms = self.now_ms()
        world = self.world
        world.note(self.region_id, "commits", commit.position, dict(commit.vector))
        self.engine.committed(now_ms)
        self.clients.released(commit.position)
        self.step(self.hub.committed, commit.position, now_ms)

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def _steady_ms(self) -> int:
        return self.world.scheduler.now_ms

    def _look_at_checkpoint(self) -> None:
        if self._steps is None and self.checkpoints.is_due(
            self.database.log_bytes, self._steady_ms()
        ):
            self._steps = self.checkpoints.steps(self.database.log_bytes, self._steady_ms())
            self.world.counters["checkpoint"] += 1
            self._next_step()

    def _next_step(self) -> None:
        """Plans the checkpoint's next step, or waits for the commit that it needs."""
        if self._steps is None:
            return
        for step in self._steps:
            if isinstance(step, UntilCommitted):
                if self.engine.committed_position >= step.position:
                    continue
                self._until = step.position
                self.engine.want_commit()
                self._turn()
                return
            self._plan_step(step)
            return
        self._steps = None

    def _plan_step(self, step: Step) -> None:
        self._plan(lambda: self._perform(step), self._next_step)

    def _perform(self, step: Step) -> None:
        if isinstance(step, Write):
            run(self.database.write(step.statements))
        elif isinstance(step, Truncate):
            settings = self.settings
            limits = (
                settings.integer("crdt-log-max-bytes"),
                settings.integer("crdt-log-max-effects"),
            )
            run(self.database.truncate(step.up_to, *limits))
