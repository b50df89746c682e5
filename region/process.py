"""One region's process: the loop that carries values between clients, engine, database and sync. It decides nothing.

After every batch of engine calls somebody calls `stepped`: one turn per round of the loop hands out late answers, and begins a commit when
the engine wants one and none is under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Optional

from anabranch.region import facts, starting
from anabranch.region.checkpointing import Checkpoints, UntilCommitted, Write
from anabranch.region.config import RegionConfig
from anabranch.region.database import Database
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.figures import figures
from anabranch.region.engine.lifecycle import RECOVERY, SERVING
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.settings import Settings
from anabranch.region.http import Figure, Health, HttpServer
from anabranch.region.server import Server
from anabranch.region.storage.checkpoint import Checkpointer
from anabranch.sync.manager import SyncManager

_TICK_S: Final = 0.005
_RETRY_S: Final = 0.2
_CHECKPOINT_LOOK_S: Final = 0.1
# After a checkpoint of more log than this, free memory is given back to the system.
_BURST_BYTES: Final = 1 << 20

_log: Final = logging.getLogger("anabranch.region")


class RegionFailed(Exception):
    """Something that must never end has failed: an error of the program's own."""


class Region:
    """A running region. `run` below makes, starts and stops it."""

    def __init__(
        self, config: RegionConfig, engine: Engine, database: Database, checkpointer: Checkpointer
    ) -> None:
        self.config: Final = config
        self.engine: Final = engine
        self.database: Final = database
        self.settings: Final[Settings] = config.settings
        self.on_committed: Final[list[Callable[[int], None]]] = []
        self.server: Final = Server(self)
        self.stopped: Final = asyncio.Event()
        self.failure: Optional[BaseException] = None
        self._checkpoints = Checkpoints(engine, checkpointer, database.log_bytes)
        self._loop = asyncio.get_running_loop()
        self._turn_planned = False
        self._is_committing = False
        self._writing = asyncio.Lock()  # one transaction at a time
        self._committed = asyncio.Event()  # pulsed after each commit
        self._tasks: list[asyncio.Task[None]] = []
        self._checkpoint_task: Optional[asyncio.Task[None]] = None
        self._stopping = False
        self._closed = False
        self._commit_tasks: set[asyncio.Task[None]] = set()
        self._sync: Optional[SyncManager] = None
        self._http: Optional[HttpServer] = None
        self._divergences_seen = 0
        self._state_seen = ""
        self._facts = facts.fixed()

    def now_ms(self) -> int:
        """Wall-clock time, ms since the epoch."""
        return time.time_ns() // 1_000_000

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens the doors: clients, peers, figures. OSError when an address is taken."""
        config = self.config
        engine = self.engine
        await self.server.start(config.resp.host, config.resp.port)
        self._facts["tcp_port"] = str(self.server.port)
        try:
            self._sync = SyncManager(
                self,
                str(config.sync),
                {name: str(address) for name, address in config.peers.items()},
            )
            await self._sync.start()
        except RuntimeError as error:
            raise OSError(f"cannot listen on {config.sync} for other regions: {error}") from error
        if config.http is not None:
            self._http = HttpServer(self.metrics, self.health)
            await self._http.start(config.http.host, config.http.port)
        self._refresh_facts()
        self._tasks = [self._begin(self._ticking()), self._begin(self._refreshing())]
        self._checkpoint_task = self._begin(self._checkpointing())
        self.stepped()
        _log.info(
            "region %s (%d) of cluster %s takes clients on %s",
            engine.name,
            engine.region_id,
            engine.cluster,
            config.resp,
        )

    async def stop(self) -> None:
        """Closes the doors, writes what is not on disk yet, and checkpoints."""
        self.server.stop_listening()
        if self._sync is not None:
            await self._sync.stop()
        if self._http is not None:
            await self._http.close()
        # A checkpoint under way is never cut off: what it has captured counts as saved.
        self._stopping = True
        if self._checkpoint_task is not None:
            await asyncio.gather(self._checkpoint_task, return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        try:
            await self._flush()
            await self._checkpoint()
        except StorageError as error:
            _log.error("the last writes failed: %s", error)
        self._closed = True
        self._turn()
        await self.server.close()
        await self.database.close()

    def fail(self, error: BaseException) -> None:
        """Something that must never end has failed. The process ends as if it were killed, rather than go on without it."""
        _log.critical("region %s ends: %r", self.engine.name, error, exc_info=error)
        self.failure = error
        self.stopped.set()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begins what ends only when it is cancelled or the region stops, and never by an error."""
        task = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    # -- the turn ----------------------------------------------------------------------------------------------------

    def stepped(self) -> None:
        """The engine has been called: a turn follows in this round of the loop, if there is something to do before the next tick."""
        if not self._turn_planned and self.engine.needs_turn():
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_planned = False
        engine = self.engine
        for answer in engine.take_replies():
            self.server.deliver(answer.session, answer.reply)
        for session_id in engine.take_sessions_to_close():
            self.server.close_session(session_id)
        time.sleep(engine.take_sleep_ms() / 1000)
        if engine.shutdown_requested():
            self.stopped.set()
        if not self._is_committing and not self._closed and engine.wants_commit(self.now_ms()):
            self._begin_commit()

    def _begin_commit(self) -> None:
        commit = self.engine.take_commit(self.now_ms())
        if commit is None:
            return
        self._is_committing = True
        task = self._begin(self._commit(commit))
        self._commit_tasks.add(task)
        task.add_done_callback(self._commit_tasks.discard)

    async def _commit(self, commit: Commit) -> None:
        """Writes a commit, again and again until it is on disk (S13.4)."""
        while True:
            try:
                async with self._writing:
                    await self.database.commit(commit)
                break
            except StorageError as error:
                if not self.engine.state.disk.error:
                    _log.error(
                        "commit of position %d failed, no more writes until it succeeds: %s",
                        commit.position,
                        error,
                    )
                self.engine.commit_failed(str(error))
                self.server.commit_failed()
                self.stepped()
                await asyncio.sleep(_RETRY_S)
        self._is_committing = False
        self.engine.committed(self.now_ms())
        self.server.released(commit.position)
        for listener in self.on_committed:
            listener(commit.position)
        self._committed.set()
        self._committed.clear()
        self.stepped()

    async def _flush(self) -> None:
        """Waits until everything done is on disk."""
        while (
            self._is_committing
            or self.engine.state.disk.meta_changes
            or not self.engine.state.journal.is_empty()
        ):
            self.engine.want_commit()
            self.stepped()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._committed.wait(), 1.0)
            self._require_commits()

    def _require_commits(self) -> None:
        """StorageError while commits fail, and when they can come no more."""
        if self.failure is not None:
            raise StorageError(f"after an error of the region's own: {self.failure!r}")
        if self.engine.state.disk.error:
            raise StorageError(self.engine.state.disk.error)

    async def _ticking(self) -> None:
        while True:
            self.engine.tick(self.now_ms())
            self._turn()
            if self.engine.state.replication.divergences != self._divergences_seen:
                self._divergences_seen = self.engine.state.replication.divergences
                _log.error(
                    "DIVERGENCE: a peer with an equal vector has another digest; keep the files of both and see CRDT.EXPLAIN"
                )
            if self.engine.state.lifecycle.state != self._state_seen:
                self._log_state()
            await asyncio.sleep(_TICK_S)

    def _log_state(self) -> None:
        engine = self.engine
        self._state_seen = engine.state.lifecycle.state
        if self._state_seen == RECOVERY:
            _log.warning(
                "region %s is in recovery: members hold more of its effects than it has itself; it issues none until it has them",
                engine.name,
            )
        else:
            _log.info("region %s is %s", engine.name, self._state_seen)

    # -- checkpoints -------------------------------------------------------------------------------------------------

    async def _checkpointing(self) -> None:
        """Begins a checkpoint when one is due."""
        while not self._stopping:
            await asyncio.sleep(_CHECKPOINT_LOOK_S)
            if self._checkpoints.is_due(self.database.log_bytes, self._steady_ms()):
                try:
                    await self._checkpoint()
                except StorageError as error:
                    _log.error("checkpoint failed, it will be tried again: %s", error)
                    await asyncio.sleep(_RETRY_S)

    def _steady_ms(self) -> int:
        return int(self._loop.time() * 1000)

    async def _checkpoint(self) -> None:
        """One whole checkpoint, in slices between commits, and what of the log it makes superfluous."""
        grown_bytes = self.database.log_bytes - self._checkpoints.log_bytes
        settings = self.settings
        for step in self._checkpoints.steps(self.database.log_bytes, self._steady_ms()):
            if isinstance(step, UntilCommitted):
                await self._until_committed(step.position)
                continue
            async with self._writing:
                if isinstance(step, Write):
                    await self.database.write(step.statements)
                else:
                    limits = (
                        settings.integer("crdt-log-max-bytes"),
                        settings.integer("crdt-log-max-effects"),
                    )
                    await self.database.truncate(step.up_to, *limits)
        self._facts["crdt_log_bytes"] = str(self.database.log_bytes)
        if grown_bytes >= _BURST_BYTES:
            await self._loop.run_in_executor(None, facts.give_back_memory)
        self._facts["rdb_last_save_time"] = str(self.now_ms() // 1000)

    async def _until_committed(self, position: int) -> None:
        """Waits until the rows up to a position are on disk, whatever is done meanwhile; StorageError while commits fail."""
        while self.engine.committed_position < position:
            self._require_commits()
            self.engine.want_commit()
            self.stepped()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._committed.wait(), 1.0)

    # -- figures -----------------------------------------------------------------------------------------------------

    async def _refreshing(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._refresh_facts()

    def _refresh_facts(self) -> None:
        self._facts.update(facts.changing())
        self._facts.update({name: str(value) for name, value in self.server.figures().items()})
        self._facts["crdt_log_bytes"] = str(self.database.log_bytes)
        self._facts["crdt_log_rows"] = str(self.database.log_rows)
        self._facts["crdt_log_effects"] = str(self.database.log_effects)
        if self._sync is not None:
            for name, value in self._sync.hub.counts.items():
                self._facts[f"crdt_sync_{name}"] = str(value)
        self.engine.tell_process_facts(self._facts)

    def metrics(self) -> list[Figure]:
        """For /metrics."""
        self._refresh_facts()
        return figures(self.engine.state)

    def health(self) -> Health:
        """For /health."""
        engine = self.engine
        state: Any = "failed" if engine.state.disk.error else engine.state.lifecycle.state
        details = {
            "region": engine.name,
            "cluster": engine.cluster,
            "links": {
                engine.members[peer].name: link.state
                for peer, link in engine.state.peers.by_id.items()
            },
            "divergences": engine.state.replication.divergences,
            "serves": engine.state.lifecycle.state == SERVING,
        }
        return state, details


async def run(config: RegionConfig) -> None:
    """Serves a region until it is cancelled, or a client says SHUTDOWN. StorageError, OSError and RegionFailed say what is wrong."""
    database = Database(config.data)
    region: Optional[Region] = None
    try:
        engine, checkpointer = await starting.start(config, database, time.time_ns() // 1_000_000)
        region = Region(config, engine, database, checkpointer)
        # What a start has made stays: the collector need not walk it again and again while clients wait.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        await region.start()
        await region.stopped.wait()
        if region.failure is not None:
            raise RegionFailed(
                f"ended by an error of its own: {region.failure!r}"
            ) from region.failure
    except asyncio.CancelledError:
        pass
    finally:
        if region is None:
            await database.close()
        else:
            await region.stop()
