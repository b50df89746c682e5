"""The simulated network: connections between regions that delay, stall, break and half-break.

A connection is two streams of messages, each in order, as gRPC's streams are; messages are lost
only when it breaks. A cut direction holds messages back, as TCP does: they arrive late, when the
cut heals, or never, if the connection has been given up by then. A connection may break for one
end only: messages on their way to the other end still arrive, late and beside those of a newer
connection (S2.2).
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, Final, Optional

from anabranch.sim.world.environment import Environment
from anabranch.sim.world.scheduler import uniform
from anabranch.sync.session.codec import decode_down, decode_up, encode
from anabranch.sync.session.messages import Message, SnapshotBegin, SnapshotChunk

UP: Final = 0  # dialler → acceptor
DOWN: Final = 1
_END: Final = None


class Endpoint:
    """A process as the network sees it. It takes a step after a call if its driver has one due."""

    region_id: int
    is_running: bool
    is_paused: bool
    # Its connections, each with the number of the process's own end.
    pipes: list[tuple[Pipe, int]]

    def dialled(self, peer: int) -> Optional[int]:
        raise NotImplementedError

    def dial_failed(self, peer: int, text: str) -> None:
        raise NotImplementedError

    def accepted(self) -> int:
        raise NotImplementedError

    def received(self, connection: int, message: Message) -> None:
        raise NotImplementedError

    def disconnected(self, connection: int, text: str) -> None:
        raise NotImplementedError

    def next_message(self, connection: int) -> Optional[Message]:
        raise NotImplementedError

    def is_over(self, connection: int) -> bool:
        raise NotImplementedError

    def has_room(self) -> None:
        """A connection can send messages again."""
        raise NotImplementedError


class Pipe:
    """One connection.

    `ends`, `numbers` and `open` are indexed by end (dialler, acceptor), the others by direction.
    """

    __slots__ = ("due_ms", "ends", "flight", "numbers", "open", "waiting")

    def __init__(self, dialler: Endpoint, acceptor: Endpoint) -> None:
        self.ends = (dialler, acceptor)
        self.numbers = [0, 0]
        self.open = [True, True]
        self.flight = [0, 0]  # messages sent and not yet delivered
        self.due_ms = [0, 0]  # when the newest message in flight arrives
        # Messages that arrived while the direction was cut or the reader was paused.
        self.waiting: tuple[deque[Any], deque[Any]] = (deque(), deque())


class Network:
    """All connections.

    `cuts`: (from, to) → number of faults that hold back messages. `encoded`: messages travel as
    bytes. `room`: messages in flight per direction at most.
    """

    def __init__(
        self,
        environment: Environment,
        draw: Random,
        delay_ms: tuple[int, int],
        encoded: bool,
        room: int,
    ) -> None:
        self.delay_ms: Final = delay_ms
        self.encoded: Final = encoded
        self.room: Final = room
        self.cuts: dict[tuple[int, int], int] = {}
        self.slow_ms: dict[tuple[int, int], int] = {}  # added to the delay
        # The connections that are open at one end at least, oldest first.
        self.pipes: dict[Pipe, None] = {}
        # For each snapshot that is to break: after how many of its messages and one.
        self.snapshot_resets: deque[int] = deque()
        self._environment: Final = environment
        self._draw: Final = draw
        # region_id → the region's newest process.
        self._endpoints: dict[int, Endpoint] = {}

    def register(self, endpoint: Endpoint) -> None:
        """A process has started."""
        self._endpoints[endpoint.region_id] = endpoint

    def is_cut(self, source: int, target: int) -> bool:
        return self.cuts.get((source, target), 0) > 0

    def _delay(self, source: int, target: int) -> int:
        low, high = self.delay_ms
        delay_ms = low if low == high else uniform(self._draw, low, high)
        return delay_ms + self.slow_ms.get((source, target), 0)

    # -- connections

    def dial(self, dialler: Endpoint, peer: int) -> None:
        """A process dials a peer."""
        delay_ms = self._delay(dialler.region_id, peer) + self._delay(peer, dialler.region_id)
        self._environment.scheduler.after(delay_ms, self._dialled, dialler, peer)

    def _dialled(self, dialler: Endpoint, peer: int) -> None:
        if not dialler.is_running:
            return
        one, acceptor = dialler.region_id, self._endpoints.get(peer)
        is_cut = self.is_cut(one, peer) or self.is_cut(peer, one)
        if acceptor is None or not acceptor.is_running or acceptor.is_paused or is_cut:
            dialler.dial_failed(peer, "unreachable")
            return
        pipe = Pipe(dialler, acceptor)
        number = dialler.dialled(peer)
        if number is None:
            return
        pipe.numbers = [number, acceptor.accepted()]
        dialler.pipes.append((pipe, 0))
        acceptor.pipes.append((pipe, 1))
        self.pipes[pipe] = None
        self._environment.note(one, "connects", peer)

    def close(self, endpoint: Endpoint, number: int) -> None:
        """A process closed its end. The other end learns of it; messages on their way are lost."""
        for pipe, end in endpoint.pipes:
            if pipe.numbers[end] == number:
                self._leave(pipe, end)
                if any(other.open[end] and other.ends == pipe.ends for other in self.pipes):
                    self._environment.counters["connection replaced"] += 1
                self._tell(pipe, 1 - end, "closed by the peer")
                return

    def _leave(self, pipe: Pipe, end: int) -> None:
        """Closes one end."""
        pipe.open[end] = False
        endpoint = pipe.ends[end]
        if (pipe, end) in endpoint.pipes:
            endpoint.pipes.remove((pipe, end))
        if not pipe.open[1 - end]:
            self.pipes.pop(pipe, None)

    def drop(self, pipe: Pipe, tells: tuple[bool, bool]) -> None:
        """The connection breaks. `tells`: which ends learn of it at once; the other end goes on."""
        for end in (0, 1):
            if tells[end]:
                self._tell(pipe, end, "reset")

    def _tell(self, pipe: Pipe, end: int, text: str) -> None:
        one, other = pipe.ends[end].region_id, pipe.ends[1 - end].region_id
        if self.is_cut(other, one):
            return  # the news cannot arrive: the end finds out by silence
        self._environment.scheduler.after(self._delay(other, one), self.closed, pipe, end, text)

    def closed(self, pipe: Pipe, end: int, text: str) -> None:
        """One end learns that the connection is closed."""
        if not pipe.open[end]:
            return
        self._leave(pipe, end)
        endpoint = pipe.ends[end]
        if endpoint.is_running:
            other = pipe.ends[1 - end].region_id
            self._environment.note(endpoint.region_id, "disconnected", other, text)
            endpoint.disconnected(pipe.numbers[end], text)

    def between(self, one: int, other: int) -> list[Pipe]:
        """The connections between two regions."""
        wanted = {one, other}
        return [pipe for pipe in self.pipes if {end.region_id for end in pipe.ends} == wanted]

    def gone(self, endpoint: Endpoint, silently: bool) -> None:
        """A process is dead; its peers learn of it, unless `silently` (its machine is dead)."""
        for pipe, end in list(endpoint.pipes):
            self._leave(pipe, end)
            if not silently:
                self._tell(pipe, 1 - end, "reset")

    # -- messages

    def pump(self, endpoint: Endpoint) -> None:
        """Sends the messages of a process for which the connections have room."""
        environment = self._environment
        for pipe, end in list(endpoint.pipes):
            number = pipe.numbers[end]
            while pipe.flight[end] < self.room and pipe.open[end]:
                message = endpoint.next_message(number)
                if message is None:
                    if endpoint.is_over(number):  # its last message has been taken
                        self._leave(pipe, end)
                        self._send(pipe, end, _END)
                        endpoint.disconnected(number, "finished")
                    break
                environment.counters[_KINDS[type(message)]] += 1
                if environment.trace.is_told:
                    other = pipe.ends[1 - end].region_id
                    environment.aside(endpoint.region_id, "sends", other, message)
                self._send(pipe, end, encode(message, end == UP) if self.encoded else message)
                if self.snapshot_resets and isinstance(message, (SnapshotBegin, SnapshotChunk)):
                    self._sent_of_snapshot(pipe)

    def _sent_of_snapshot(self, pipe: Pipe) -> None:
        """A message of a snapshot has been sent that is not the last: the connection may break."""
        resets = self.snapshot_resets
        resets[0] -= 1
        if resets[0] < 0:
            resets.popleft()
            self._environment.counters["reset in a snapshot"] += 1
            self.drop(pipe, (True, True))

    def _send(self, pipe: Pipe, direction: int, message: Any) -> None:
        source, target = pipe.ends[direction].region_id, pipe.ends[1 - direction].region_id
        scheduler = self._environment.scheduler
        due_ms = max(pipe.due_ms[direction], scheduler.now_ms + self._delay(source, target))
        pipe.due_ms[direction] = due_ms
        pipe.flight[direction] += 1
        scheduler.at(due_ms, self._arrived, pipe, direction, message)

    def _is_held(self, pipe: Pipe, direction: int) -> bool:
        source, target = pipe.ends[direction], pipe.ends[1 - direction]
        return target.is_paused or self.is_cut(source.region_id, target.region_id)

    def _arrived(self, pipe: Pipe, direction: int, message: Any) -> None:
        if pipe.waiting[direction] or self._is_held(pipe, direction):
            pipe.waiting[direction].append(message)
            return
        self._deliver(pipe, direction, message)

    def resume(self) -> None:
        """Delivers the messages that waited for the end of a cut or a pause, in order."""
        for pipe in list(self.pipes):
            for direction in (UP, DOWN):
                while pipe.waiting[direction] and not self._is_held(pipe, direction):
                    self._deliver(pipe, direction, pipe.waiting[direction].popleft())

    def _deliver(self, pipe: Pipe, direction: int, message: Any) -> None:
        pipe.flight[direction] -= 1
        source, target = pipe.ends[direction], pipe.ends[1 - direction]
        end = 1 - direction
        if pipe.open[end] and target.is_running:
            if message is _END:
                self.closed(pipe, end, "closed by the peer")
                return
            if isinstance(message, bytes):
                message = decode_down(message) if direction == DOWN else decode_up(message)
            self._environment.note(
                target.region_id, "hears", source.region_id, type(message).__name__
            )
            target.received(pipe.numbers[end], message)
        elif self._environment.trace.is_told:
            self._environment.aside(target.region_id, "never hears", source.region_id, message)
        has_room = pipe.flight[direction] == self.room - 1 and pipe.open[direction]
        if has_room and source.is_running:
            source.has_room()


class _Kinds(dict[type, str]):
    """Message class → the name of its counter."""

    def __missing__(self, kind: type) -> str:
        self[kind] = f"message:{kind.__name__}"
        return self[kind]


_KINDS: Final = _Kinds()
