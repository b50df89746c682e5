"""One process of a simulated region: carries out the real driver's work on simulated parts.

Like `region.live.process` in a live region, it makes no decisions. Work that takes time there (a
transaction, a read, a turn of merging, a step) is an event here, so a kill may fall between any
two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Optional, TypeVar

from anabranch.region.config import RegionConfig
from anabranch.region.driver.clock import Clock
from anabranch.region.driver.driver import Driver
from anabranch.region.driver.turn_limits import TurnLimits
from anabranch.region.driver.work import Work
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import StorageError
from anabranch.region.engine.state import EngineState
from anabranch.region.live import starting
from anabranch.sim.world import inside
from anabranch.sim.world.disk import Disk
from anabranch.sim.world.environment import Environment
from anabranch.sim.world.file_work import FileWork
from anabranch.sim.world.lines import ClientEvents, Line, Lines
from anabranch.sim.world.links import Dials, held_up
from anabranch.sim.world.network import Endpoint, Network, Pipe
from anabranch.sim.world.planted_error import BrokenOff, Plant, PlantedError
from anabranch.sim.world.reports import Reports
from anabranch.sim.world.scheduler import uniform
from anabranch.sim.world.tapped import TappedEngine
from anabranch.sim.world.vfs import run
from anabranch.sync.session.messages import Message

T = TypeVar("T")

# A stop takes fewer steps in which it neither writes nor reads.
_IDLE_MAX: Final = 10_000


class SimulatedProcess(Endpoint):
    """One process. `number` counts the processes of a region.

    `died` is called when the disk ends the process in the middle of a write, `failed` when an error
    ends it in a step.
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
        failed: Callable[[], None],
    ) -> None:
        self.region_id = region_id
        self.number: Final = number
        self.is_running = False
        self.is_paused = False
        self.pipes: list[tuple[Pipe, int]] = []
        self.files: Final = FileWork(self, environment, disk, draw, died)
        # The life in which the process began.
        self.first_life = 0
        self._environment: Final = environment
        self._network: Final = network
        self._clock: Final = clock
        self._draw: Final = draw
        self.lines: Final = Lines(environment, region_id, events, self.stepped)
        self._reports: Final = Reports(environment, region_id, number, self.lines, clock)
        # Steps run through it while an error is planted in the process.
        self.plant: Optional[Plant] = None
        self._failed: Final = failed
        self._is_stopping = False
        self.lines.guarded = self.guarded
        self.driver: Driver
        self._dials: Dials
        self._step_planned = False
        self._merge_planned = False

    # -- start and end

    def start(self, config: RegionConfig, limits: TurnLimits) -> None:
        """Starts from the files on the disk.

        StorageError when that fails, BrokenOff when a planted error strikes.
        """
        database = self.files.open()
        started = starting.start(config, database, self._clock, limits, self._engine)
        self.driver = run(started) if self.plant is None else self._run_planted(self.plant, started)
        self._reports.begin(self.driver.engine)
        self._dials = Dials(self.driver.hub.links, self._environment.scheduler.now_ms)
        self.is_running = True
        self._network.register(self)
        self.lines.begin(self.driver)

    def _run_planted(self, plant: Plant, start: Coroutine[Any, Any, Driver]) -> Driver:
        """Runs a start in which an error may strike. If it does not, it may strike in a step."""
        try:
            while True:
                plant.run(start.send, None)
        except StopIteration as end:
            driver: Driver = end.value
        except Exception as error:
            start.close()
            if not plant.place:
                raise
            self._environment.note(self.region_id, "fails", plant.place)
            raise BrokenOff from error
        if plant.place:
            self.plant = None
            self._environment.fault_found(
                f"region {self.region_id} caught an error in its start, at {plant.place}"
            )
        return driver

    def _engine(self, state: EngineState) -> Engine:
        return TappedEngine(state, self._reports)

    def begin(self) -> None:
        """Tells the judges of the start, and begins to run."""
        engine = self.driver.engine
        self.files.tell_found(engine.disk_vector)
        assert isinstance(engine, TappedEngine)
        self.first_life = engine.life
        inside.began(self._environment.counts, engine, self._clock.now_ms())
        engine.began()
        self.stepped()
        first_ms = uniform(self._draw, 1, self._environment.tick_ms)
        self._environment.scheduler.after(first_ms, self._tick)

    def end(self) -> None:
        """The process is dead; it does not notice."""
        self.is_running = False
        self.lines.count_within("end of the process")
        self.files.detach()

    def stop_cleanly(self, plant: Optional[Plant] = None) -> None:
        """Stops like a service manager: commits and checkpoints everything.

        StorageError when that fails, BrokenOff when the error `plant` strikes.
        """
        self.plant = plant
        self._is_stopping = True
        for pipe, end in list(self.pipes):
            self._network.drop(pipe, (end != 0, end != 1))
        self.files.finish_writes()
        self.guarded(self.driver.stop)
        self.files.finish_reads()
        idle = 0
        while True:
            work = self._step_of_stop()
            idle = 0 if work.reads or work.transaction is not None else idle + 1
            if idle > _IDLE_MAX:
                self._environment.fault_found(f"region {self.region_id}: its stop does not end")
                raise StorageError("the stop does not end")
            self.lines.perform(work.clients)
            for read in work.reads:
                self.files.read_now(read)
            if work.transaction is not None:
                self.files.write_now(work.transaction)
            if work.has_stopped:
                break
        if self.driver.engine.state.disk.error:
            raise StorageError(self.driver.engine.state.disk.error)
        assert self.driver.engine.disk.is_all_in_commits()
        self.files.close()

    def _step_of_stop(self) -> Work:
        work = self.guarded(self.driver.step)
        assert work is not None, "an error raises BrokenOff"
        return work

    def guarded(self, call: Callable[..., T], *arguments: Any) -> Optional[T]:
        """Makes a call of the driver. None if an error has ended the process in it (S13.10).

        In a stop such an error raises BrokenOff.
        """
        plant = self.plant
        if plant is None or not self.is_running:
            return call(*arguments)
        try:
            result = plant.run(call, *arguments)
        except PlantedError:
            self.plant = None
            self._environment.note(self.region_id, "fails", plant.place)
            self._failed()
            if self._is_stopping:
                raise BrokenOff from None
            return None
        if plant.place:
            self.plant = None
            self._environment.fault_found(
                f"region {self.region_id} caught an error in a step, at {plant.place}, and goes on"
            )
        return result

    # -- steps

    def deliver(self, line: Line) -> None:
        """The next piece of what a client has sent arrives."""
        if self.is_running and self.is_paused:
            self._environment.scheduler.after(self._environment.tick_ms, self.deliver, line)
        elif self.is_running:
            self.lines.received(line)
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
            work = self.guarded(self.driver.step)
            if work is not None:
                self._perform(work)

    def _perform(self, work: Work) -> None:
        """Carries out the work of a step, as `region.live.process` does."""
        scheduler, draw = self._environment.scheduler, self._draw
        for note in work.notes:
            self._environment.note(self.region_id, "says", note.text)
        self.lines.perform(work.clients)
        if work.transaction is not None:
            self.files.write(work.transaction)
        for read in work.reads:
            self.files.read(read)
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
            self.guarded(self.driver.tick)
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
        self.guarded(self.driver.merge)
        self.stepped()

    # -- peers (see `Endpoint`)

    def dialled(self, peer: int) -> Optional[int]:
        number = self.guarded(self.driver.dialled, peer)
        self._dials.opened(peer, number, self._environment.scheduler.now_ms)
        self.stepped()
        return number

    def dial_failed(self, peer: int, text: str) -> None:
        self.guarded(self.driver.dial_failed, peer, text)
        self._dials.failed(peer, self._environment.scheduler.now_ms)
        self.stepped()

    def accepted(self) -> int:
        number = self.driver.accepted()
        self.stepped()
        return number

    def received(self, connection: int, message: Message) -> None:
        self.guarded(self.driver.received, connection, message)
        self.stepped()

    def disconnected(self, connection: int, text: str) -> None:
        self.guarded(self.driver.disconnected, connection, text)
        self._dials.closed(connection, self._environment.scheduler.now_ms)
        self.stepped()

    def has_room(self) -> None:
        if not self.is_paused:
            self._network.pump(self)

    def next_message(self, connection: int) -> Optional[Message]:
        message = self.guarded(self.driver.next_message, connection)
        if message is not None:
            self.stepped()
        return message

    def is_over(self, connection: int) -> bool:
        return self.is_running and self.driver.is_over(connection)
