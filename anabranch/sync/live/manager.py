"""The links of one region on asyncio and gRPC: dials, accepts, and carries messages.

The driver makes all decisions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Optional, Protocol, TypeVar

from anabranch.crdt.errors import PeerError
from anabranch.sync.live.carrier import ConnectionLost, Listener, PeerStream, dial
from anabranch.sync.live.tls import NO_TLS, RegionTls
from anabranch.sync.session.codec import decode_down, decode_up, encode
from anabranch.sync.session.links import OtherEnd
from anabranch.sync.session.messages import Message, Welcome

_log: Final = logging.getLogger("anabranch.sync")

# Time that peers have to end their links with a region that stops.
LEAVE_TIMEOUT_S: Final = 1.0

T = TypeVar("T")


class Driver(Protocol):
    """The part that decides, as sync uses it. See `region.driver.driver.Driver`."""

    def dialled(self, peer: int, end: OtherEnd) -> Optional[int]: ...
    def dial_failed(self, peer: int, text: str) -> None: ...
    def accepted(self, end: OtherEnd) -> int: ...
    def turned_away(self, address: str, reason: str) -> None: ...
    def received(self, connection: int, message: Message, size: int = 0) -> None: ...
    def reads_on(self, connection: int) -> bool: ...
    def malformed(self, connection: int, error: PeerError) -> None: ...
    def disconnected(self, connection: int, text: str) -> None: ...
    def next_message(self, connection: int) -> Optional[Message]: ...
    def is_over(self, connection: int) -> bool: ...
    def sent(self, connection: int, size: int) -> None: ...
    def compression(self) -> str: ...
    def leave(self) -> None: ...


class ServedRegion(Protocol):
    """The region process that the manager serves."""

    @property
    def driver(self) -> Driver: ...

    def stepped(self) -> None:
        """Notes that the driver was called, so that a step may be due."""

    def fail(self, error: BaseException) -> None:
        """Ends the process, because a call of the driver has raised `error` (S13.10)."""


class _StepFailed(Exception):
    """A call of the driver has failed, and the region ends."""


class _Carried:
    """A connection with its tasks.

    `may_send` is set when a message may wait to be sent, `may_read` when a link that was full may
    have room again.
    """

    def __init__(self, stream: PeerStream, is_dialled: bool) -> None:
        self.stream: Final = stream
        self.is_dialled: Final = is_dialled
        self.may_send: Final = asyncio.Event()
        self.may_read: Final = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        # Set when either side has ended it.
        self.ended: Final = asyncio.Event()


class SyncManager:
    """Carries all links of a region.

    `listen` is HOST:PORT; with port 0 the system picks one, which `port` then holds. `addresses`
    maps region_id → HOST:PORT of the peers to dial. With TLS, `names` maps
    region_id → name.
    """

    def __init__(
        self,
        region: ServedRegion,
        listen: str,
        addresses: dict[int, str],
        tls: RegionTls = NO_TLS,
        names: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self.port = 0
        self.addresses: Final = dict(addresses)
        self._region: Final = region
        self._driver: Final = region.driver
        self._tls: Final = tls
        self._names: Final = names
        self._listener: Final = Listener(listen, self._serve, self._turned_away, tls)
        self._carried: dict[int, _Carried] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = False
        # A call of the driver has failed.
        self._has_failed = False

    async def start(self) -> None:
        """Listens; RuntimeError when the address is in use."""
        self._running = True
        self.port = await self._listener.start()

    async def stop(self, in_order: bool = False) -> None:
        """Closes every link. No task of sync runs afterwards.

        `in_order`: peers are told before, and have a moment to end their links themselves.
        """
        self._running = False
        if in_order:
            await self._leave()
        for carried in self._carried.values():
            for task in carried.tasks:
                task.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.stop()

    async def _leave(self) -> None:
        """Tells the peers that receive from this region that it stops; waits for their ends."""
        with suppress(_StepFailed, TimeoutError):
            self._step(self._driver.leave)
            self._region.stepped()
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                for carried in list(self._carried.values()):
                    await carried.ended.wait()

    def perform(self, dials: Sequence[int], hang_ups: Sequence[int]) -> None:
        """Dials and hangs up as a step of the driver asks, and wakes every connection."""
        for peer in dials:
            self._spawn(self._dial(peer))
        for number in hang_ups:
            carried = self._carried.get(number)
            for task in carried.tasks if carried is not None else []:
                task.cancel()
        for carried in self._carried.values():
            carried.may_send.set()
            carried.may_read.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, MemoryError):
            # The driver may wait for what this task had to report.
            self._region.fail(error)
        elif error is not None and not isinstance(error, _StepFailed):
            _log.error("a task of sync failed", exc_info=error)

    def _step(self, call: Callable[[], T]) -> T:
        """Calls the driver. If that fails, the region ends, and no other call of it follows."""
        if self._has_failed:
            raise _StepFailed
        try:
            return call()
        except Exception as error:
            self._has_failed = True
            self._region.fail(error)
            raise _StepFailed from error

    # -- connections

    async def _dial(self, peer: int) -> None:
        try:
            stream = await dial(self.addresses[peer], self._tls, self._names.get(peer, ""))
        # Every error is reported to the driver: a link whose dial never ended would wait for ever.
        except Exception as error:
            if not isinstance(error, ConnectionLost):
                _log.error("a dial failed", exc_info=error)
            text = str(error)
            self._step(lambda: self._driver.dial_failed(peer, text))
            self._region.stepped()
            return
        number = self._step(lambda: self._driver.dialled(peer, stream.end))
        self._region.stepped()
        if number is None:
            await stream.close()
        else:
            await self._run(number, _Carried(stream, is_dialled=True))

    async def _serve(self, stream: PeerStream) -> None:
        if self._running:
            number = self._step(lambda: self._driver.accepted(stream.end))
            await self._run(number, _Carried(stream, is_dialled=False))

    def _turned_away(self, address: str, reason: str) -> None:
        """A connection was closed that had not said who it is."""
        if self._running and not self._has_failed:
            with contextlib.suppress(_StepFailed):
                self._step(lambda: self._driver.turned_away(address, reason))
                self._region.stepped()

    async def _run(self, number: int, carried: _Carried) -> None:
        """Carries one connection until either side ends it."""
        self._carried[number] = carried
        loop = asyncio.get_running_loop()
        carried.tasks = [
            loop.create_task(self._read(number, carried)),
            loop.create_task(self._write(number, carried)),
        ]
        self._region.stepped()
        text = "closed by the peer"
        try:
            done, _ = await asyncio.wait(carried.tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = None if task.cancelled() else task.exception()
                if isinstance(error, ConnectionLost):
                    text = str(error)
                elif error is not None and not isinstance(error, _StepFailed):
                    text = f"failed: {error}"
                    _log.error("a link failed", exc_info=error)
        finally:
            for task in carried.tasks:
                task.cancel()
            del self._carried[number]
            carried.ended.set()
            try:
                self._step(lambda: self._driver.disconnected(number, text))
                self._region.stepped()
            finally:
                await asyncio.gather(*carried.tasks, return_exceptions=True)
                await carried.stream.close()

    async def _read(self, number: int, carried: _Carried) -> None:
        decode = decode_down if carried.is_dialled else decode_up
        while True:
            while not self._step(lambda: self._driver.reads_on(number)):
                carried.may_read.clear()
                await carried.may_read.wait()
            data = await carried.stream.receive()
            if data is None:
                return
            self._step(partial(self._take, number, decode, data))
            self._region.stepped()

    def _take(self, number: int, decode: Callable[[bytes], Message], data: bytes) -> None:
        """Gives the driver a message of the peer, or its error."""
        try:
            message = decode(data)
        except PeerError as error:
            self._driver.malformed(number, error)
        else:
            self._driver.received(number, message, len(data))

    async def _write(self, number: int, carried: _Carried) -> None:
        """Sends the messages of one connection.

        It takes a message only when the transport has room, so that the blocks for a slow peer stay
        on disk.
        """
        while True:
            data = self._step(lambda: self._next(number, carried))
            if data is not None:
                await carried.stream.send(data)
                self._region.stepped()
            elif self._step(lambda: self._driver.is_over(number)):
                await carried.stream.finish()
                return
            else:
                carried.may_send.clear()
                await carried.may_send.wait()

    def _next(self, number: int, carried: _Carried) -> Optional[bytes]:
        """The bytes of the next message to the peer; None if none waits."""
        message = self._driver.next_message(number)
        if message is None:
            return None
        if isinstance(message, Welcome):
            carried.stream.greeted()
        data = encode(message, carried.is_dialled, self._driver.compression())
        self._driver.sent(number, len(data))
        return data
