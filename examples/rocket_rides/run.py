"""One run: regions, APIs, streamers, consumers, trimmer, load, partition, reconciliation.

The rides come in three parts. Between the first and the second, the first region is cut off from
the others. It is connected again when the second part is in the streams, and every consumer has
read what its region has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Optional

import redis

from examples.rocket_rides import tables
from examples.rocket_rides.cluster import Regions, free_row, start_regions
from examples.rocket_rides.database import SQLITE_PREFIX, Database, open_database
from examples.rocket_rides.fleet import Fleet
from examples.rocket_rides.load import LoadError, WantedRide, send, wanted_rides
from examples.rocket_rides.progress import Observer, Progress
from examples.rocket_rides.reconciliation import Reconciliation, reconcile
from examples.rocket_rides.records import WHOLE_STREAM, entry_id
from examples.rocket_rides.ride_log import prepare
from examples.rocket_rides.trimmer import Trimmer

LOOK_PAUSE_S = 0.1
# A run that makes no progress for this time goes on to the reconciliation, which says what lacks.
STALL_PATIENCE_S = 60.0
# Spark takes long to start, and starts again after a crash.
SPARK_PATIENCE_S = 300.0


class Options(NamedTuple):
    """What is asked of a run.

    `consumers` is the number in each region. `cluster` names the ``cluster.toml`` of running
    regions, None for regions that the run starts itself. `database` is a URL, None for SQLite files
    in the run's directory. `double_sends` and `crashes` are probabilities for each batch. `spark`
    adds a consumer that is a Spark job.
    """

    rides: int
    seed: int
    consumers: int = 2
    cluster: Optional[Path] = None
    database: Optional[str] = None
    double_sends: float = 0.1
    crashes: float = 0.1
    spark: bool = False


class Outcome(NamedTuple):
    """The figures of a finished run. Times are in seconds.

    `crashes` maps a consumer to how often it crashed. `conflicts` are adds of one record in two
    regions of which one was removed. `left` is the length of the stream.
    """

    options: Options
    regions: list[str]
    database: str
    reconciliation: Reconciliation
    progress: Progress
    crashes: dict[str, int]
    conflicts: int
    left: int
    partition_s: float
    total_s: float


Show = Callable[[str, Progress, dict[str, int]], None]


class Run:
    """One run in a directory of its own. `show` is called with the phase and the figures."""

    def __init__(self, options: Options, directory: Path, fleet: Fleet, show: Show) -> None:
        self._options = options
        self._directory = directory
        self._fleet = fleet
        self._show = show
        self._url = options.database or f"{SQLITE_PREFIX}{directory}"
        self._databases: dict[str, Database] = {}
        self._ports: dict[str, int] = {}

    def perform(self) -> Outcome:
        """Performs the run; the caller stops the fleet.

        Raises:
            LogError, DatabaseError, LoadError, ProcessFailed: The run cannot go on.
        """
        begun_s = time.monotonic()
        options = self._options
        self._cluster = options.cluster or start_regions(self._fleet, self._directory / "regions")
        self._regions = Regions(self._cluster)
        prepare(self._regions.endpoints)
        for region in self._regions.names:
            tables.create(self._url, region, self._consumers(region))
            self._databases[region] = open_database(self._url, region)
        self._observer = Observer(self._databases)
        self._conflicts_before = self._regions.conflicts()
        self._start_parts()
        third = options.rides // 3
        rides = wanted_rides(options.rides, options.seed, self._regions.names)
        self._load("all regions are connected", rides[:third])
        partition_s = self._partition(rides[third : 2 * third])
        self._load("the partition is over", rides[2 * third :])
        self._settle("the last rides", self._is_all_settled)
        return self._reconciled(begun_s, partition_s)

    def _partition(self, rides: Sequence[WantedRide]) -> float:
        """Sends rides while the first region is cut off; returns how long it was, in seconds."""
        cut_s = time.monotonic()
        alone = f"{self._regions.names[0]} is cut off"
        try:
            self._regions.cut()
            self._load(alone, rides)
            if self._options.spark:
                self._fleet.kill(self._spark_name())
            self._settle(alone, self._are_sides_settled)
        except BaseException:
            # The regions may be those of somebody else, who goes on to use them.
            with suppress(redis.RedisError):
                self._regions.heal()
            raise
        self._regions.heal()
        return time.monotonic() - cut_s

    def _reconciled(self, begun_s: float, partition_s: float) -> Outcome:
        self._fleet.end("trimmer")
        Trimmer(list(self._databases.values()), self._regions.endpoints).run_once()
        self._settle("the last trim", self._regions.are_level)
        outcome = reconcile(self._databases, self._regions.endpoints)
        progress = self._observer.look()
        return Outcome(
            self._options,
            self._regions.names,
            "SQLite" if self._url.startswith(SQLITE_PREFIX) else "PostgreSQL",
            outcome,
            progress,
            self._crashes(),
            self._regions.conflicts() - self._conflicts_before,
            self._regions.length(self._regions.names[0]),
            partition_s,
            time.monotonic() - begun_s,
        )

    # -- the parts

    def _consumers(self, region: str) -> list[tables.Registration]:
        names = [f"{region}-{n}" for n in range(self._options.consumers)]
        ours = [tables.Registration(name, tables.LOG_WAY) for name in names]
        if self._options.spark and region == self._regions.names[0]:
            ours.append(tables.Registration(self._spark_name(), tables.SPARK_WAY))
        return [*ours, tables.Registration(f"{region}-one-id", tables.ONE_ID_WAY)]

    def _spark_name(self) -> str:
        return f"{self._regions.names[0]}-spark"

    def _start_parts(self) -> None:
        options = self._options
        names = self._regions.names
        first = free_row(len(names))
        self._ports = {region: first + n for n, region in enumerate(names)}
        places = ["--database", self._url]
        for region, port in self._ports.items():
            self._fleet.start_part(
                f"api-{region}", "api", *places, "--region", region, "--port", str(port)
            )
        places += ["--cluster", str(self._cluster)]
        for region in names:
            chance = ["--region", region, "--seed", str(options.seed)]
            share = ["--share", str(options.double_sends)]
            self._fleet.start_part(f"streamer-{region}", "streamer", *places, *chance, *share)
            share = ["--share", str(options.crashes)]
            for name, way in self._consumers(region):
                part, more = "consumer", ["--way", way]
                if way == tables.SPARK_WAY:
                    part, more = "spark", ["--directory", str(self._directory / name)]
                who = ["--name", name, *more]
                self._fleet.start_part(name, part, *places, *chance, *share, *who, has_lives=True)
        self._fleet.start_part("trimmer", "trimmer", *places)
        self._fleet.await_ports(list(self._ports.values()))

    def _crashes(self) -> dict[str, int]:
        return {
            name: self._fleet.crashes(name)
            for region in self._regions.names
            for name, _ in self._consumers(region)
        }

    # -- the phases

    def _look(self, phase: str) -> Progress:
        self._fleet.check()
        progress = self._observer.look()
        self._show(phase, progress, self._crashes())
        time.sleep(LOOK_PAUSE_S)
        return progress

    def _load(self, phase: str, rides: Sequence[WantedRide]) -> None:
        """Sends rides in a thread, and looks on until all are sent."""
        errors: list[LoadError] = []

        def work() -> None:
            try:
                send(rides, self._ports)
            except LoadError as error:
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while thread.is_alive():
            self._look(phase)
        if errors:
            raise errors[0]

    def _settle(self, phase: str, condition: Callable[[], bool]) -> None:
        """Looks on until `condition` holds, or until nothing changes any more."""
        patience_s = SPARK_PATIENCE_S if self._options.spark else STALL_PATIENCE_S
        progress = self._look(phase)
        changed_s = time.monotonic()
        while not condition() and time.monotonic() < changed_s + patience_s:
            former, progress = progress, self._look(phase)
            if progress != former:
                changed_s = time.monotonic()

    def _is_all_settled(self) -> bool:
        """Whether each region has every record, and each consumer has read them all.

        In this order: what is in the streams may still have to be merged, and what is merged read.
        """
        return (
            self._are_all_in_streams() and self._regions.are_level() and self._are_sides_settled()
        )

    def _are_all_in_streams(self) -> bool:
        return all(database.run(tables.staged_count) == 0 for database in self._databases.values())

    def _are_sides_settled(self) -> bool:
        """Whether no record waits in a database, and each consumer has read what its region has."""
        return self._are_all_in_streams() and all(
            self._has_read_all(region, registration)
            for region in self._databases
            for registration in self._consumers(region)
        )

    def _has_read_all(self, region: str, consumer: tables.Registration) -> bool:
        checkpoint = self._databases[region].run(
            lambda each: tables.checkpoint(each, consumer.name)
        )
        if consumer.way == tables.ONE_ID_WAY:
            last = self._regions.last_id(region)
            read = checkpoint[WHOLE_STREAM].entry_id if checkpoint else "0-0"
            return not last or entry_id(last) <= entry_id(read)
        return not any(
            self._regions.has_after(
                region, log, checkpoint[log].entry_id if log in checkpoint else ""
            )
            for log in self._databases
        )
