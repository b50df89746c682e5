"""One simulated region: a machine with disk and clock, and its processes one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, Optional

from anabranch.region.config import RegionConfig
from anabranch.region.driver.driver import Driver
from anabranch.region.driver.turn_limits import TurnLimits
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.lifecycle import SERVING
from anabranch.region.engine.setting import Value
from anabranch.region.engine.settings import Settings
from anabranch.region.option_values import Address
from anabranch.sim.history import Began, Stopped
from anabranch.sim.world import inside
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.environment import Environment
from anabranch.sim.world.file_work import DiedInWrite
from anabranch.sim.world.lines import ClientEvents, Lines
from anabranch.sim.world.network import Network
from anabranch.sim.world.planted_error import BrokenOff, Plant
from anabranch.sim.world.process import SimulatedProcess

RETRY_MS: Final = 20
MERGE_BYTES: Final = 64 << 10
_NOWHERE: Final = Address("127.0.0.1", 0)

Power = Callable[[Disk], None]


# Regions whose clocks differ would refuse writes, and most plans are not about that.
USUAL: Final = {"crdt-clock-offset-max-ms": "0"}


class RegionClock:
    """The machine's clock: true time plus an offset that faults change. Steady time is true."""

    def __init__(self, environment: Environment) -> None:
        self.offset_ms = 0
        self._scheduler: Final = environment.scheduler

    def now_ms(self) -> int:
        return self._scheduler.now_ms + self.offset_ms

    def steady_ms(self) -> int:
        return self._scheduler.now_ms

    def steady_ns(self) -> int:
        return self._scheduler.now_ms * 1_000_000


class Restart:
    """The circumstances of the next start.

    `how`: the way in which the former process ended, as in `Began`. `is_restored`: the process is
    told that files were put back. `is_first_start`: it is told that an empty directory is no loss.
    `patience_ms`: how long the start waits for other members (S13.6); empty: as the setting says.
    """

    def __init__(self) -> None:
        self.how = "first"
        self.is_restored = False
        self.is_first_start = True
        self.patience_ms = ""


class SimulatedRegion:
    """A region of the world, running or not.

    `starts` counts its processes; events of an earlier process are ignored.
    """

    def __init__(
        self,
        environment: Environment,
        network: Network,
        events: ClientEvents,
        region_id: int,
        name: str,
        values: dict[str, str],
        draw: Random,
    ) -> None:
        self.region_id: Final = region_id
        self.name: Final = name
        self.values: Final = dict(values)
        self.draw: Final = draw
        self.environment: Final = environment
        self.disk: Final = Disk(f"{environment.disk_prefix}{region_id}")
        self.disk.checkpoint_pages = draw.choice([4, 20, 1000])
        self.clock: Final = RegionClock(environment)
        self.restart: Final = Restart()
        self.peers: list[int] = []
        self.process: Optional[SimulatedProcess] = None
        self.starts = 0
        self.write_ms = (0, 3)
        self.down_for = 0  # number of faults that keep the process from starting
        self.is_gone = False  # gone for good: it never starts again
        self.restores = 0  # number of backups put back
        self._network: Final = network
        self._events: Final = events
        # The death that the disk causes in a write: how, ms until the next start, the disk's fate.
        self._cut: Optional[tuple[str, int, Optional[Power]]] = None
        # Time until the start after an error in a step, in ms.
        self._failed_for_ms = 0
        # The errors of the next starts, the first one first.
        self._in_starts: list[Plant] = []

    # -- properties

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.is_running

    @property
    def paused(self) -> bool:
        return self.process is not None and self.process.is_paused

    @property
    def driver(self) -> Driver:
        """The driver of the newest process."""
        assert self.process is not None
        return self.process.driver

    @property
    def engine(self) -> Engine:
        """The engine of the newest process."""
        return self.driver.engine

    @property
    def settings(self) -> Settings:
        """The settings of the newest process."""
        return self.driver.settings

    @property
    def lines(self) -> Lines:
        """The clients' connections to the newest process."""
        assert self.process is not None
        return self.process.lines

    def now_ms(self) -> int:
        """The time that the region's own clock reads."""
        return self.clock.now_ms()

    def is_running(self, start: int) -> bool:
        """Whether the process of that start still runs."""
        return self.running and self.starts == start

    def stepped(self) -> None:
        """The engine was called: plans a step if one is due by the next tick."""
        if self.process is not None:
            self.process.stepped()

    # -- start and stop

    def start(self) -> None:
        """Starts a process from the files on the disk."""
        environment = self.environment
        how = self.restart.how
        self.disk.revive()
        told = self.process.files.told if self.process is not None else 0
        self.starts += 1
        process = SimulatedProcess(
            environment,
            self._network,
            self._events,
            self.region_id,
            self.starts,
            self.disk,
            self.clock,
            self.draw,
            self.died,
            self.failed,
        )
        process.files.told = told
        process.files.write_ms = self.write_ms
        limits = self._limits()
        if self._in_starts:
            process.plant = self._in_starts.pop(0)
        try:
            process.start(self._config(), limits)
        except BrokenOff:
            process.files.opener.close()
            self.process = process
            environment.counters["died of an error in a start"] += 1
            environment.scheduler.after(self._failed_for_ms, self.start_if_stopped)
            return
        except StorageError as error:
            process.files.opener.close()
            self.process = process
            self._failed_start(error)
            return
        self.process = process
        if self.disk.is_dead():  # the power went during the start
            self.died()
            return
        self.restart.is_restored = False
        engine = process.driver.engine
        environment.note(self.region_id, "starts", how, engine.life, dict(engine.disk_vector))
        patience = self.settings.integer("crdt-start-patience-ms")
        now_ms = environment.scheduler.now_ms
        environment.events.began(
            Began(
                self.region_id,
                self.starts,
                how,
                engine.life,
                dict(engine.disk_vector),
                now_ms,
                patience,
            )
        )
        process.begin()

    def _limits(self) -> TurnLimits:
        """Limits of a process, drawn."""
        turn_pieces = self.draw.choice([1, 1 << 20])
        is_small = self.draw.choice([True, False])
        return TurnLimits(
            merge_bytes=MERGE_BYTES,
            retry_ms=RETRY_MS,
            turn_pieces=turn_pieces,
            capture_bytes=1 if is_small else 1 << 20,
            encode_stretch=8 if is_small else 1 << 20,
            cut_weight=1 if is_small else 1 << 20,
            index_bytes=400 if is_small else 1 << 20,
        )

    def _config(self) -> RegionConfig:
        environment = self.environment
        values: dict[str, Value] = {**USUAL, **self.values}
        if self.restart.patience_ms:
            values["crdt-start-patience-ms"] = self.restart.patience_ms
        names = {region_id: name for name, region_id in environment.members.items()}
        return RegionConfig(
            cluster="simulated",
            members=environment.members,
            name=self.name,
            resp=_NOWHERE,
            sync=_NOWHERE,
            http=None,
            peers={names[peer]: _NOWHERE for peer in self.peers},
            data=Path("data"),
            restored=self.restart.is_restored,
            first_start=self.restart.is_first_start,
            settings=Settings(values),
        )

    def _failed_start(self, error: StorageError) -> None:
        environment = self.environment
        environment.note(self.region_id, "cannot start", str(error))
        if not self.disk.errors and not self.disk.is_dead():
            text = f"region {self.region_id} cannot start from its disk: {error}"
            environment.fault_found(text)
        self.disk.errors = 0
        if not self.down_for:
            environment.scheduler.after(RETRY_MS * 5, self.start_if_stopped)

    def start_if_stopped(self) -> None:
        """Starts a process unless one runs, a fault prevents it, or the region is gone for good."""
        if not self.running and not self.down_for and not self.is_gone:
            self.start()

    def stop(self, how: str, silently: bool = False, power: Optional[Power] = None) -> None:
        """Ends the process now.

        `silently`: its machine ends, too, so that no peer learns of it. `power`: the effect on the
        disk.
        """
        process = self.process
        if process is None or not process.is_running:
            return
        environment = self.environment
        engine = process.driver.engine
        if engine.state.lifecycle.state == SERVING:
            # The region serves, so a forgotten restore has been detected and repaired.
            self.restart.patience_ms = ""
        self.restart.how = how
        environment.note(self.region_id, "stops", how)
        process.end()
        if power is not None:
            power(self.disk)
        process.lines.end()
        self._network.gone(process, silently)
        _count_figures(environment, process.driver)
        inside.ended(environment.counts, engine, process.first_life)
        on_disk = dict(engine.disk_vector)
        now_ms = environment.scheduler.now_ms
        environment.events.stopped(Stopped(self.region_id, self.starts, how, on_disk, now_ms))

    def stop_cleanly(self, plant: Optional[Plant] = None) -> None:
        """Stops the process like a service manager. `plant`: an error may break the stop off."""
        assert self.process is not None
        try:
            self.process.stop_cleanly(plant)
        except BrokenOff:
            self.environment.counters["died of an error in a stop"] += 1
        except DiedInWrite:
            self.died()
        except StorageError:
            self.stop("kill")
        else:
            self.stop("clean")

    # -- faults

    def pause(self, paused: bool) -> None:
        """Pauses the process, or lets it go on."""
        assert self.process is not None
        self.process.is_paused = paused
        if not paused:
            self.process.resumed()

    def writes_take(self, write_ms: tuple[int, int]) -> None:
        """Sets the least and the most that a transaction takes, in ms."""
        self.write_ms = write_ms
        if self.process is not None:
            self.process.files.write_ms = write_ms

    def cut_disk(self, operations: int, how: str, restart_ms: int, power: Optional[Power]) -> None:
        """Lets the region die at the disk operation after `operations` more."""
        self._cut = (how, restart_ms, power)
        self.disk.cut_in(operations, lambda: None)

    def cut_checkpoint(
        self, slices: int, how: str, restart_ms: int, power: Optional[Power]
    ) -> None:
        """Lets the region die right after `slices` more parts of checkpoints and another one."""
        assert self.process is not None
        self._cut = (how, restart_ms, power)
        self.process.files.slices_left = slices

    def plant(self, plant: Plant, restart_ms: int) -> None:
        """Lets an error end the region in one of its next steps (S13.10)."""
        assert self.process is not None
        self.process.plant = plant
        self._failed_for_ms = restart_ms

    def plant_in_starts(self, plants: list[Plant], restart_ms: int) -> None:
        """Lets errors break off the next starts, or the first steps after them."""
        self._in_starts = plants
        self._failed_for_ms = restart_ms

    def call_off(self) -> None:
        """Cancels a death that is set and has not come."""
        self.disk.call_off()
        self._in_starts = []
        if self.process is not None:
            self.process.files.slices_left = -1
            self.process.plant = None

    def failed(self) -> None:
        """An error has ended the process in a step. It is started again, as services do."""
        self.environment.counters["died of an error in a step"] += 1
        self.stop("kill")
        self.environment.scheduler.after(self._failed_for_ms, self.start_if_stopped)

    def died(self) -> None:
        """Carries out the death that the disk has caused."""
        how, restart_ms, power = self._cut or ("kill", 50, None)
        self._cut = None
        self.environment.counters[f"died in a write: {how}"] += 1
        self.stop(how, silently=how == "power", power=power)
        self.environment.scheduler.after(restart_ms, self.start_if_stopped)


_FIGURES: Final = (
    "effects_merged",
    "snapshots_joined",
    "snapshots_cut",
    "gaps",
    "forks",
    "divergences",
    "idmp_conflicts",
    "expired_keys",
    "expired_early",
    "acknowledgements",
)


def _count_figures(environment: Environment, driver: Driver) -> None:
    """Adds the figures that INFO shows of a process to the run's counters."""
    state = driver.engine.state
    figures = {name: getattr(state.replication, name) for name in _FIGURES}
    figures["idmp_evicted_early"] = state.keyspace.pair_limits.forgotten_early
    figures["unit_max_bytes_refused"] = state.statistics.unit_max_bytes_refused
    for name, value in figures.items():
        if value:
            environment.counters[f"figure:{name}"] += value
    for name, value in driver.hub.counts.items():
        if value:
            environment.counters[f"sync:{name}"] += value
