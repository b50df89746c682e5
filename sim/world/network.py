"""The simulated network: connections between regions that delay, stall, break and half-break.

A connection is two streams of messages, each in order, as gRPC's are; what it loses, it loses by breaking. A cut direction holds messages
back, as TCP does: they arrive late when it heals, or never, if the connection has been given up by then. A connection may break for one
end only: what is on its way to the other then still arrives, late and beside what a newer connection brings (S2.2).
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any, Final

from anabranch.sim.world.scheduler import uniform
from anabranch.sync.codec import decode_down, decode_up, encode_down, encode_up
from anabranch.sync.messages import Acknowledge, BodyRequest, Hello, Message, SnapshotRequest

if TYPE_CHECKING:
    from anabranch.sim.world.region import SimulatedRegion
    from anabranch.sim.world.world import World

UP: Final = 0  # dialler → acceptor
DOWN: Final = 1
_END: Final = None


class Pipe:
    """One connection. `regions`, `starts`, `numbers` and `open` are by end: dialler, acceptor; the rest by direction."""

    __slots__ = ("due_ms", "flight", "numbers", "open", "regions", "starts", "waiting")

    def __init__(self, dialler: SimulatedRegion, acceptor: SimulatedRegion) -> None:
        self.regions = (dialler, acceptor)
        self.starts = (dialler.starts, acceptor.starts)
        self.numbers = [0, 0]
        self.open = [True, True]
        self.flight = [0, 0]  # messages sent and not yet delivered
        self.due_ms = [0, 0]  # when the newest of them arrives
        self.waiting: tuple[deque[Any], deque[Any]] = (
            deque(),
            deque(),
        )  # arrived while the direction is cut, or the reader is paused


class Network:
    """All connections. `cuts` counts, by (from, to), the faults that keep messages from passing."""

    def __init__(
        self, world: World, draw: Random, delay_ms: tuple[int, int], encoded: bool, room: int
    ) -> None:
        self.world = world
        self.draw = draw
        self.delay_ms = delay_ms
        self.encoded = encoded
        self.room = room  # messages in flight per direction
        self.cuts: dict[tuple[int, int], int] = {}
        self.slow_ms: dict[tuple[int, int], int] = {}  # added to the delay
        self.pipes: dict[Pipe, None] = {}  # those that are open at one end at least, oldest first
        self.sent = 0

    def is_cut(self, source: int, target: int) -> bool:
        return self.cuts.get((source, target), 0) > 0

    def _delay(self, source: int, target: int) -> int:
        low, high = self.delay_ms
        delay_ms = low if low == high else uniform(self.draw, low, high)
        return delay_ms + self.slow_ms.get((source, target), 0)

    # -- connections -------------------------------------------------------------------------------------------------

    def dial(self, region: SimulatedRegion, peer: int) -> None:
        there = self.world.regions[peer]
        delay_ms = self._delay(region.region_id, peer) + self._delay(peer, region.region_id)
        self.world.scheduler.after(delay_ms, self._dialled, region, region.starts, there)

    def _dialled(self, region: SimulatedRegion, start: int, there: SimulatedRegion) -> None:
        if not region.is_running(start):
            return
        one, other = region.region_id, there.region_id
        if not there.running or there.paused or self.is_cut(one, other) or self.is_cut(other, one):
            region.step(region.hub.dial_failed, other, "unreachable", region.now_ms())
            return
        pipe = Pipe(region, there)
        number = region.step(region.hub.dial_opened, other, region.now_ms())
        if number is None:
            return
        pipe.numbers = [number, there.step(there.hub.accepted, there.now_ms())]
        region.pipes.append((pipe, 0))
        there.pipes.append((pipe, 1))
        self.pipes[pipe] = None
        self.world.note(one, "connects", other)

    def close(self, region: SimulatedRegion, number: int) -> None:
        """A hub closed its end: the other learns it, with what was on its way lost."""
        for pipe, end in region.pipes:
            if pipe.numbers[end] == number:
                self._leave(pipe, end)
                if any(other.open[end] and other.regions == pipe.regions for other in self.pipes):
                    self.world.counters["connection replaced"] += 1
                self._tell(pipe, 1 - end, "closed by the peer")
                return

    def _leave(self, pipe: Pipe, end: int) -> None:
        """One end is closed."""
        pipe.open[end] = False
        region = pipe.regions[end]
        if (pipe, end) in region.pipes:
            region.pipes.remove((pipe, end))
        if not pipe.open[1 - end]:
            self.pipes.pop(pipe, None)

    def drop(self, pipe: Pipe, tells: tuple[bool, bool]) -> None:
        """The connection breaks; which ends learn of it at once. The other end goes on until it finds out."""
        for end in (0, 1):
            if tells[end]:
                self._tell(pipe, end, "reset")

    def _tell(self, pipe: Pipe, end: int, text: str) -> None:
        region, other = pipe.regions[end], pipe.regions[1 - end]
        if self.is_cut(other.region_id, region.region_id):
            return  # nothing gets there: silence will tell
        self.world.scheduler.after(
            self._delay(other.region_id, region.region_id), self.closed, pipe, end, text
        )

    def closed(self, pipe: Pipe, end: int, text: str) -> None:
        """One end learns that the connection is closed."""
        region = pipe.regions[end]
        if not pipe.open[end]:
            return
        self._leave(pipe, end)
        if region.is_running(pipe.starts[end]):
            self.world.note(region.region_id, "disconnected", pipe.regions[1 - end].region_id, text)
            region.step(region.hub.closed, pipe.numbers[end], text, region.now_ms())

    def between(self, one: int, other: int) -> list[Pipe]:
        """The connections between two regions."""
        return [
            pipe
            for pipe in self.pipes
            if {pipe.regions[0].region_id, pipe.regions[1].region_id} == {one, other}
        ]

    def gone(self, region: SimulatedRegion, silently: bool) -> None:
        """A process is dead. Unless its machine is, too, the others learn that its connections are closed."""
        for pipe, end in list(region.pipes):
            self._leave(pipe, end)
            if not silently:
                self._tell(pipe, 1 - end, "reset")

    # -- messages ----------------------------------------------------------------------------------------------------

    def pump(self, region: SimulatedRegion) -> None:
        """Sends what the region has to say and the transport has room for."""
        now_ms = region.now_ms()
        for pipe, end in list(region.pipes):
            number = pipe.numbers[end]
            while pipe.flight[end] < self.room and pipe.open[end]:
                message = region.hub.next_message(number, now_ms)
                if message is None:
                    if region.hub.finished(number):  # after its last words
                        self._leave(pipe, end)
                        self._send(pipe, end, _END)
                        region.step(region.hub.closed, number, "finished", region.now_ms())
                    break
                self.sent += 1
                self.world.counters[_KINDS[type(message)]] += 1
                if self.world.trace.is_told:
                    self.world.aside(
                        region.region_id, "sends", pipe.regions[1 - end].region_id, message
                    )
                self._send(pipe, end, self._encode(message, end) if self.encoded else message)

    def _send(self, pipe: Pipe, direction: int, message: Any) -> None:
        source, target = pipe.regions[direction].region_id, pipe.regions[1 - direction].region_id
        now_ms = self.world.scheduler.now_ms
        due_ms = max(pipe.due_ms[direction], now_ms + self._delay(source, target))
        pipe.due_ms[direction] = due_ms
        pipe.flight[direction] += 1
        self.world.scheduler.at(due_ms, self._arrived, pipe, direction, message)

    def _arrived(self, pipe: Pipe, direction: int, message: Any) -> None:
        source, target = pipe.regions[direction], pipe.regions[1 - direction]
        if (
            pipe.waiting[direction]
            or target.paused
            or self.is_cut(source.region_id, target.region_id)
        ):
            pipe.waiting[direction].append(message)
            return
        self._deliver(pipe, direction, message)

    def resume(self) -> None:
        """A cut or a pause is over: what waited arrives, in order."""
        for pipe in list(self.pipes):
            for direction in (UP, DOWN):
                source, target = pipe.regions[direction], pipe.regions[1 - direction]
                while (
                    pipe.waiting[direction]
                    and not target.paused
                    and not self.is_cut(source.region_id, target.region_id)
                ):
                    self._deliver(pipe, direction, pipe.waiting[direction].popleft())

    def _deliver(self, pipe: Pipe, direction: int, message: Any) -> None:
        pipe.flight[direction] -= 1
        source, target = pipe.regions[direction], pipe.regions[1 - direction]
        end = 1 - direction
        if pipe.open[end] and target.is_running(pipe.starts[end]):
            if message is _END:
                self.closed(pipe, end, "closed by the peer")
                return
            if isinstance(message, bytes):
                message = decode_down(message) if direction == DOWN else decode_up(message)
            self.world.said(source.region_id, target.region_id, message)
            target.step(target.hub.received, pipe.numbers[end], message, target.now_ms())
        elif self.world.trace.is_told:
            self.world.aside(target.region_id, "never hears", source.region_id, message)
        if (
            pipe.flight[direction] == self.room - 1
            and pipe.open[direction]
            and source.is_running(pipe.starts[direction])
        ):
            source.has_room()

    def _encode(self, message: Message, end: int) -> bytes:
        if end == UP or isinstance(message, (Hello, Acknowledge, BodyRequest, SnapshotRequest)):
            return encode_up(message)  # type: ignore[arg-type]
        return encode_down(message)


class _Kinds(dict[type, str]):
    """The counter of each class of message."""

    def __missing__(self, kind: type) -> str:
        self[kind] = f"message:{kind.__name__}"
        return self[kind]


_KINDS: Final = _Kinds()
