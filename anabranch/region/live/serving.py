"""The run of a region, from the start on its files to its end."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Final, Optional

from anabranch.region.config import RegionConfig
from anabranch.region.driver.driver import Driver
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import ReplayFailed, StorageError
from anabranch.region.engine.state import EngineState
from anabranch.region.live import starting
from anabranch.region.live.data_files import DataFiles, write_problem
from anabranch.region.live.database import FILE_NAME, Database
from anabranch.region.live.failed_ends import FailedEnds, NotStartedAgain, RegionFailed, StepFailed
from anabranch.region.live.process import Region
from anabranch.region.live.sql_errors import cannot_write
from anabranch.region.live.stored_identity import check_writable, read_identity
from anabranch.region.live.system_clock import SystemClock
from anabranch.region.live.uncaught import Fail, Uncaught
from anabranch.region.option_values import ConfigError
from anabranch.sync.live.tls import NoTls, RegionTls

_UNKNOWN_PROBLEM: Final = "other files there can be written: check the rights of these, and limits"

_log: Final = logging.getLogger("anabranch.region")


async def _start(
    config: RegionConfig,
    database: Database,
    make_engine: Callable[[EngineState], Engine],
    ends: FailedEnds,
) -> Driver:
    """The start from disk. If a file cannot be written, the error names it and the cause.

    StepFailed for an error of the program itself, which is noted in `ends`.
    """
    clock = SystemClock(config.settings.integer("crdt-clock-offset-ms"))
    try:
        return await starting.start(config, database, clock, make_engine=make_engine)
    except StorageError as error:
        if not cannot_write(error):
            raise
        reason = await asyncio.to_thread(write_problem, config.data) or _UNKNOWN_PROBLEM
        raise StorageError(
            f"cannot read or write {database.path}: {error.__cause__}; {reason}"
        ) from error
    except (ConfigError, OSError):
        raise
    except Exception as error:
        row = error.row if isinstance(error, ReplayFailed) else 0
        ends.note(row, {}, error)
        where = f"in row {row} of its log" if row else "before the log is replayed"
        raise StepFailed(f"its start fails {where}: {error!r}") from error


def _unless_ended_before(config: RegionConfig) -> FailedEnds:
    """The ends of this region by errors of its own; NotStartedAgain if there are too many."""
    ends = FailedEnds(config.data)
    if refusal := ends.refusal():
        raise NotStartedAgain(refusal)
    return ends


def _check_tls(config: RegionConfig) -> None:
    """ConfigError if the files of TLS are wrong."""
    try:
        RegionTls(config.settings, config.cluster, config.members).check(config.name)
    except NoTls as error:
        raise ConfigError(f"sync-tls is {config.settings.text('sync-tls')}: {error}") from None


def _watched(
    config: RegionConfig, ends: FailedEnds, end_process: Optional[Callable[[], None]]
) -> Uncaught:
    """Has uncaught errors end the process, if it is the region's own: it has `end_process`."""
    uncaught = Uncaught(_failing_start(config, ends, end_process))
    if end_process is not None:
        uncaught.watch(asyncio.get_running_loop())
    return uncaught


def _failing_start(
    config: RegionConfig, ends: FailedEnds, end_process: Optional[Callable[[], None]]
) -> Fail:
    """The end of a process that has no region yet."""

    def fail(error: BaseException) -> None:
        try:
            _log.critical("region %s ends: its start failed with %r", config.name, error)
            ends.note(0, {}, error)
        finally:
            if end_process is not None:
                end_process()

    return fail


async def run(
    config: RegionConfig,
    make_engine: Callable[[EngineState], Engine] = Engine,
    end_process: Optional[Callable[[], None]] = None,
) -> None:
    """Serves a region until the task is cancelled or a client sends SHUTDOWN.

    `make_engine` makes the engine, or one that something watches. `end_process`: see `Region`;
    with it, uncaught errors end the process (`Uncaught`).

    Raises:
        StorageError: The database cannot be opened or read, or belongs to another region or
            program.
        ConfigError: The configured members differ from those on disk, or files of TLS are wrong.
        OSError: An address is taken or cannot be bound.
        StepFailed: An error in a step, or in the replay of the log, ended the region.
        NotStartedAgain: Such errors have ended it too often at one place.
        RegionFailed: The stop could not write the last changes, which no client had allowed.
    """
    ends = _unless_ended_before(config)
    _check_tls(config)
    uncaught = _watched(config, ends, end_process)
    try:
        await _run(config, make_engine, end_process, ends, uncaught)
    finally:
        uncaught.over()


async def _run(
    config: RegionConfig,
    make_engine: Callable[[EngineState], Engine],
    end_process: Optional[Callable[[], None]],
    ends: FailedEnds,
    uncaught: Uncaught,
) -> None:
    read_identity(config.data)
    check_writable(config.data)
    database = Database(config.data, files=DataFiles(config.data / FILE_NAME))
    # What a start makes lives on. To look for garbage in it would take a sixth of the start.
    gc.disable()
    region: Optional[Region] = None
    try:
        driver = await _start(config, database, make_engine, ends)
        region = Region(config, driver, database, end_process)
        uncaught.end_by(region.fail)
        # `gc.freeze` keeps the garbage collector from walking through it while clients wait.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()
        await region.start()
        await region.stop_wanted.wait()
        if region.failure is not None:
            raise StepFailed(f"ended by an error of its own: {region.failure!r}")
    except asyncio.CancelledError:
        pass
    except (StepFailed, MemoryError) as error:
        # An orderly end needs memory and threads, and might wait for one of these for ever.
        if end_process is not None:
            _log.critical("region %s: %s", config.name, str(error) or repr(error))
            end_process()
        raise
    finally:
        gc.enable()
        if region is None:
            await database.close()
        else:
            await region.stop()
    if region is not None and region.unwritten:
        if not region.driver.engine.may_lose():
            raise RegionFailed(region.unwritten)
        _log.warning("region %s: %s", config.name, region.unwritten)
    elif region is not None and region.failure is None:
        _log.info("region %s has stopped: all that it answered is on disk", config.name)
