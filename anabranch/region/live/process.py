"""One region's process, on asyncio: it performs the work that the driver returns.

The process makes no decisions. After each call of the driver (bytes of a client, a message of a
peer, a tick, the end of a write) it calls `stepped`, which plans at most one step of the driver
for all events of the current iteration of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Optional

from anabranch import build
from anabranch.region.config import RegionConfig
from anabranch.region.driver.client_connection import ClientConnection
from anabranch.region.driver.driver import Driver
from anabranch.region.driver.work import DiskTransaction, LogRead, Work
from anabranch.region.engine.errors import Damaged, StorageError
from anabranch.region.engine.figures.figure import Metric
from anabranch.region.engine.figures.health import health, readiness
from anabranch.region.engine.figures.link_rows import CERTIFICATE_DAYS
from anabranch.region.engine.figures.table import figures
from anabranch.region.engine.settings import Settings
from anabranch.region.live import process_facts
from anabranch.region.live.database import Database
from anabranch.region.live.failed_ends import FailedEnds
from anabranch.region.live.server import Server
from anabranch.region.live.ticker import QUIET_MS, Ticker
from anabranch.sync.live.manager import SyncManager
from anabranch.sync.live.tls import RegionTls

if TYPE_CHECKING:
    from anabranch.region.live.http import Health, HttpServer

_FACTS_S: Final = 1.0
# Time that a stop gives to answers of the log, and to memory that is given back.
_TASKS_S: Final = 10.0

_log: Final = logging.getLogger("anabranch.region")


# Memory that is freed when the region ends by an error, so that its last line can be written.
_RESERVE_BYTES: Final = 1 << 20


class Region:
    """A running region. `serving.run` creates, starts and stops it.

    `end_process`: ends the process at once when a step has failed; None: `serving.run` returns.
    """

    def __init__(
        self,
        config: RegionConfig,
        driver: Driver,
        database: Database,
        end_process: Optional[Callable[[], None]] = None,
    ) -> None:
        self.config: Final = config
        self._end_process: Final = end_process
        self._ends: Final = FailedEnds(config.data)
        self._reserve: Optional[bytearray] = bytearray(_RESERVE_BYTES)
        self.driver: Final = driver
        self.database: Final = database
        self.server: Final = Server(self)
        addresses = {
            member.region_id: str(config.peers[member.name])
            for member in driver.engine.members.values()
            if member.name in config.peers
        }
        place = process_facts.place(str(config.resp))
        driver.engine.introduce(secrets.randbits(63), place)
        self.tls: Final = RegionTls(driver.settings, config.cluster, config.members)
        names = {region_id: name for name, region_id in config.members.items()}
        self.sync: Final = SyncManager(self, str(config.sync), addresses, self.tls, names)
        self.stop_wanted: Final = asyncio.Event()
        self.failure: Optional[BaseException] = None
        # What the stop could not write; empty if all is on disk.
        self.unwritten = ""
        self._has_stopped = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._step_planned = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticker: Final = Ticker(self._loop, self._tick)
        self._http: Final = None if config.http is None else self._http_server()
        self._facts = process_facts.fixed()
        self._facts_due_s = 0.0

    def _http_server(self) -> HttpServer:
        # prometheus-client is imported only where it is used, and before a client can wait: that
        # takes some 30 ms.
        from anabranch.region.live.http import HttpServer

        return HttpServer(self.metrics, self.health, self.ready)

    # -- start and stop

    async def start(self) -> None:
        """Listens for clients, peers and HTTP requests.

        Raises:
            OSError: An address is taken or cannot be bound.
        """
        config = self.config
        self._facts["anabranch_build"] = build.kind()
        self._facts["anabranch_version"] = build.version()
        self._facts["tcp_bind"] = config.resp.host
        self._facts["internal_errors"] = str(self._ends.total)
        self._facts["data_dir"] = str(self.database.path.parent.resolve())
        # A client may ask as soon as the port is open, before the other ports are.
        self._update_facts()
        await self.server.start(config.resp.host, config.resp.port)
        self._facts["tcp_port"] = str(self.server.port)
        try:
            await self.sync.start()
        except RuntimeError as error:
            raise OSError(f"cannot listen on {config.sync} for other regions: {error}") from error
        if self._http is not None and config.http is not None:
            await self._http.start(config.http.host, config.http.port)
        self._ticker.start()
        # A start reads the whole database.
        self._spawn(self._give_back_memory())
        engine = self.driver.engine
        _log.info(
            "region %s (%d) of cluster %s takes clients on %s",
            engine.name,
            engine.region_id,
            engine.cluster,
            config.resp,
        )

    async def stop(self) -> None:
        """Stops listening, lets the driver write everything to disk, and closes the database."""
        self.server.stop_listening()
        await self.sync.stop(in_order=self.failure is None)
        if self._http is not None:
            await self._http.close()
        if self.failure is None:
            self.driver.stop()
            self.stepped()
            await self._has_stopped.wait()
            self.unwritten = self.driver.engine.disk.unwritten()
        self._ticker.stop()
        await self.server.close()
        if self._tasks:
            # Without memory, the thread may have ended that a task waits for.
            await asyncio.wait(list(self._tasks), timeout=_TASKS_S)
        await self.database.close()

    def fail(self, error: BaseException) -> None:
        """Ends the process after an error in a step (S13.10).

        The step may have changed a part of what it had to change, so memory may differ from the
        log. Nothing more is written or sent: the disk is left as after a kill. A further call does
        nothing, unless the first one could not end the process.
        """
        is_first = self.failure is None
        try:
            if is_first:
                # From here on every line may fail for want of memory.
                self.failure = error
                self._reserve = None
                self._tell_end(error)
        finally:
            if self._end_process is not None:
                self._end_process()
        if not is_first:
            return
        self.server.drop()
        self.stop_wanted.set()
        self._has_stopped.set()

    def _tell_end(self, error: BaseException) -> None:
        """Notes the end in its file, and in the operator's log."""
        engine = self.driver.engine
        row = engine.committed_position
        _log.critical(
            "region %s ends: a step failed with %r, so memory may differ from the log; a start"
            " replays the log, which is on disk up to row %d",
            engine.name,
            error,
            row,
            exc_info=error,
        )
        try:
            self._ends.note(row, engine.disk_vector, error)
        except OSError as problem:
            _log.warning("the end of the region cannot be noted: %s", problem)

    # -- steps

    @property
    def settings(self) -> Settings:
        """The region's settings."""
        return self.driver.settings

    def connect(self, address: str, local_address: str) -> ClientConnection:
        """A client has connected."""
        return self.driver.connect(address, local_address)

    def stepped(self) -> None:
        """Plans a step in this iteration of the loop, if one is due before the next tick.

        Call it after each call of the driver.
        """
        if self.failure is not None:
            return
        try:
            if self._ticker.is_slow and not self.driver.is_quiet(QUIET_MS):
                self._ticker.hurry()
            if not self._step_planned and self.driver.is_step_due():
                self._step_planned = True
                self._loop.call_soon(self._step)
        except Exception as error:
            self.fail(error)

    def _step(self) -> None:
        self._step_planned = False
        if self.failure is None:
            try:
                self._perform(self.driver.step())
            except Exception as error:
                self.fail(error)

    def _perform(self, work: Work) -> None:
        """Performs the work that a step returned."""
        for note in work.notes:
            _log.log(note.level, "%s", note.text, extra={"event": note.event})
        self.server.perform(work.clients)
        if work.transaction is not None:
            done = partial(self._written, work.transaction)
            self.database.begin_write(work.transaction.statements, done)
        for read in work.reads:
            self._spawn(self._read(read))
        self.sync.perform(work.dials, work.hang_ups)
        if work.merge_in_ms is not None:
            self._loop.call_later(work.merge_in_ms / 1000, self._merge)
        if work.gives_back_memory:
            self._spawn(self._give_back_memory())
        if work.stop_wanted:
            self.stop_wanted.set()
        if work.has_stopped:
            self._has_stopped.set()
        if work.sleep_ms:  # DEBUG SLEEP blocks the whole process, as in Redis.
            time.sleep(work.sleep_ms / 1000)

    async def _give_back_memory(self) -> None:
        """Gives back the memory that a start or a burst of writes has used."""
        await self.database.drop_caches()
        await self._loop.run_in_executor(None, process_facts.give_back_memory)

    def _merge(self) -> None:
        if self.failure is not None:
            return
        try:
            self.driver.merge()
        except Exception as error:
            self.fail(error)
        self.stepped()

    def _tick(self) -> bool:
        """Ticks the driver, and updates the process facts once a second.

        Returns whether the region is quiet.
        """
        if self.failure is not None:
            return True
        try:
            if self._loop.time() >= self._facts_due_s:
                self.database.require_threads()
                self._update_facts()
            self.driver.tick()
        except Exception as error:
            self.fail(error)
            return True
        self.stepped()
        return self.driver.is_quiet(QUIET_MS)

    # -- the disk

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def _written(self, transaction: DiskTransaction, error: Optional[BaseException]) -> None:
        """A transaction is on disk, or has failed."""
        if self.failure is not None:
            return
        try:
            if error is None:
                if transaction.commit is not None:
                    self.database.set_mark(transaction.commit.position)
                self.driver.written(transaction)
            elif isinstance(error, StorageError):
                self.driver.failed(transaction, str(error))
            else:
                raise error
        except Exception as found:
            self.fail(found)
        self.stepped()

    async def _read(self, read: LogRead) -> None:
        error: Optional[Exception] = None
        result: Any = None
        try:
            result = await self.database.answer(read.request)
        except Exception as found:
            error = found
        if self.failure is not None:
            return
        if error is None:
            self.driver.read(read, result)
        else:
            text = str(error) or repr(error)
            self.driver.cannot_read(read, text, isinstance(error, Damaged))
        self.stepped()

    # -- figures

    def _update_facts(self) -> None:
        """Gives the engine the facts that only the process knows, and looks at the files."""
        self._facts_due_s = self._loop.time() + _FACTS_S
        self._facts.update(process_facts.changing())
        self._facts.update(process_facts.disk(self.database.path))
        days = self.tls.days_left()
        self._facts.pop(CERTIFICATE_DAYS, None)
        if days is not None:
            self._facts[CERTIFICATE_DAYS] = str(days)
        self._facts.update({name: str(value) for name, value in self.driver.figures().items()})
        self.driver.engine.set_process_facts(self._facts)
        if self.database.has_lost_files():
            self.driver.try_disk()

    def metrics(self) -> list[Metric]:
        """The figures for /metrics."""
        self._update_facts()
        return figures(self.driver.engine.state)

    def health(self) -> Health:
        """The state and details for /health."""
        return health(self.driver.engine.state)

    def ready(self, lag_ms_max: Optional[int]) -> tuple[bool, dict[str, Any]]:
        """Whether the region is ready, and the details for /ready; None takes the setting."""
        return readiness(self.driver.engine.state, lag_ms_max)
