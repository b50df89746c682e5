"""Whole regions without a process: real drivers and engines on SQLite in memory.

A test carries the messages between them.
"""

from __future__ import annotations

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, Optional, TypeVar

from anabranch.crdt.encoding import Malformed
from anabranch.region.driver.driver import Driver
from anabranch.region.driver.work import LogRead, Note
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.errors import Damaged
from anabranch.region.engine.lifecycle import SERVING
from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.replies import Reply, listed
from anabranch.region.engine.settings import Settings
from anabranch.region.live import starting
from anabranch.sync.session.log_requests import ReadLog
from anabranch.sync.session.messages import Message
from tests.storage.direct import DirectDatabase, new_disk
from tests.support.engines import execute

T = TypeVar("T")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits for something")


class SetClock:
    """A clock that stands. Each reading of the nanoseconds adds `cost_us` to them."""

    def __init__(self, now_ms: int) -> None:
        self.now = now_ms
        self.cost_us = 0
        self._more_us = 0

    def now_ms(self) -> int:
        return self.now

    def steady_ms(self) -> int:
        return self.now

    def steady_ns(self) -> int:
        self._more_us += self.cost_us
        return 1_000_000 * self.now + 1000 * self._more_us


class Place:
    """One region. `read_logs`: how many questions for rows its disk was asked.

    `fails`: questions for rows that are still to fail. `merges`: it merges as often as it may.
    """

    def __init__(
        self, name: str, members: dict[str, int], peers: list[str], clock: SetClock, **settings: Any
    ) -> None:
        self._settings = {"crdt_clock_offset_max_ms": 0, **settings}
        self._config: Any = SimpleNamespace(
            cluster="c",
            region_id=members[name],
            name=name,
            members=members,
            restored=False,
            first_start=True,
            peers=dict.fromkeys(peers, "nowhere"),
        )
        self.database = DirectDatabase(new_disk())
        self.clock = clock
        self.driver: Driver
        # Replies that came later than their commands; None: the driver takes them.
        self.answers: Optional[list[LateReply]] = None
        self.restart()
        self.merges = True
        self.merge_in_ms: Optional[float] = None
        self.read_logs = 0
        self.fails = 0
        self.dials: list[int] = []
        self.hang_ups: list[int] = []
        self.notes: list[Note] = []

    @property
    def engine(self) -> Engine:
        return self.driver.engine

    def restart(self, **settings: Any) -> None:
        """Starts the region from its disk, with further settings."""
        self._settings = {**self._settings, **settings}
        named = {key.replace("_", "-"): value for key, value in self._settings.items()}
        self._config.settings = Settings(named)
        self.database = DirectDatabase(self.database.disk)
        self.driver = finished(starting.start(self._config, self.database, self.clock))
        self.session = self.engine.clients.connect("test", "test", self.clock.now)

    def run(self, *words: str) -> Reply:
        argv = [word.encode() for word in words]
        return listed(execute(self.engine, self.session, argv, self.clock.now))

    def step(self) -> None:
        """Steps until a step hands out nothing to be done."""
        is_busy = True
        while is_busy and self.driver.is_step_due():
            if self.answers is not None:
                self.answers += self.engine.clients.take_replies()
            work = self.driver.step()
            is_busy = bool(work.transaction or work.reads)
            self.dials += work.dials
            self.hang_ups += work.hang_ups
            self.notes += work.notes
            if work.transaction is not None:
                finished(self.database.write(work.transaction.statements))
                self.driver.written(work.transaction)
            for read in work.reads:
                self._read(read)
            if work.merge_in_ms is not None:
                self.merge_in_ms = work.merge_in_ms
            if self.merges and self.merge_in_ms is not None:
                self.merge()
                is_busy = True

    def merge(self) -> None:
        """The turn of merging that was asked for."""
        self.merge_in_ms = None
        self.driver.merge()

    def _read(self, read: LogRead) -> None:
        if isinstance(read.request, ReadLog):
            self.read_logs += 1
            if self.fails:
                self.fails -= 1
                self.driver.cannot_read(read, "unreadable")
                return
        try:
            answer = finished(self.database.answer(read.request))
        except (Damaged, Malformed) as error:
            self.driver.cannot_read(read, str(error), is_damaged=True)
        else:
            self.driver.read(read, answer)


class Net:
    """Places, and the connections between them: (dialler, its number, acceptor, its number)."""

    def __init__(self, clock: SetClock, *places: Place) -> None:
        self.clock = clock
        self.places = {place.engine.region_id: place for place in places}
        self.wires: list[tuple[Place, int, Place, int]] = []
        self.said: list[Message] = []
        self.is_cut = False

    def run(self, ms: int) -> None:
        for _ in range(ms // 5):
            self.step()

    def step(self, ms: int = 5) -> None:
        self.clock.now += ms
        for place in self.places.values():
            place.driver.tick()
            place.step()
        self._dial()
        moved = True
        while moved:
            moved = False
            for wire in list(self.wires):
                moved = self._carry(wire) or moved
            for place in self.places.values():
                place.step()

    def cut(self) -> None:
        """No connections any more until `is_cut` is unset."""
        self.is_cut = True
        for dialler, up, acceptor, down in self.wires:
            dialler.driver.disconnected(up, "cut")
            acceptor.driver.disconnected(down, "cut")
        self.wires = []

    def _dial(self) -> None:
        for place in self.places.values():
            dials, place.dials = place.dials, []
            for peer in dials:
                other = self.places.get(peer)
                if self.is_cut or other is None:
                    place.driver.dial_failed(peer, "unreachable")
                    continue
                number = place.driver.dialled(peer)
                if number is not None:
                    self.wires.append((place, number, other, other.driver.accepted()))

    def _carry(self, wire: tuple[Place, int, Place, int]) -> bool:
        moved = False
        dialler, up, acceptor, down = wire
        for one, number, other, target in (
            (dialler, up, acceptor, down),
            (acceptor, down, dialler, up),
        ):
            if wire not in self.wires:
                return True
            message = one.driver.next_message(number)
            if message is not None:
                self.said.append(message)
                other.driver.received(target, message)
                moved = True
            elif number in one.hang_ups or one.driver.is_over(number):
                self.wires.remove(wire)
                one.driver.disconnected(number, "closed")
                other.driver.disconnected(target, "closed by the peer")
        return moved


def mesh(*names: str) -> tuple[Net, list[Place]]:
    """Regions that all receive from each other, and that serve."""
    clock = SetClock(1_000_000)
    members = {name: number for number, name in enumerate(names, 1)}
    places = [
        Place(
            name,
            members,
            [peer for peer in names if peer != name],
            clock,
            crdt_heartbeat_interval_ms=50,
        )
        for name in names
    ]
    net = Net(clock, *places)
    net.run(500)
    assert all(place.engine.state.lifecycle.state == SERVING for place in places)
    return net, places
