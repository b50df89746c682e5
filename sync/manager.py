"""Sync of one region, live: carries values between the hub (which decides), gRPC, the engine's steps and the database."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from anabranch.crdt.errors import PeerError
from anabranch.crdt.vector import Vector
from anabranch.sync import questions
from anabranch.sync.carrier import ConnectionLost, Listener, Stream, dial
from anabranch.sync.codec import decode_down, decode_up, encode_down, encode_up
from anabranch.sync.doors import Region, Row
from anabranch.sync.hub import Hub
from anabranch.sync.messages import Acknowledge, BodyRequest, Hello, Message, SnapshotRequest
from anabranch.sync.sender import ReadLog, Request

# Merged in one turn of the loop; clients are served between turns.
MERGE_TURN_BYTES: Final = 128 << 10
# A turn shorter than this needs no rest after it.
MERGE_SHORT_S: Final = 0.002
MERGE_REST_MAX_S: Final = 0.05
_TICK_S: Final = 0.005

_log = logging.getLogger("anabranch.sync")


@dataclass(frozen=True)
class LinkStatus:
    """One link as shown to people. `receiving`: this region receives from `peer`; otherwise `peer` receives from here."""

    peer: int
    receiving: bool
    state: str
    detail: str
    acknowledged: Vector
    unacknowledged_bytes: int


class _Carried:
    """A connection with its tasks. `wake` is set when there may be something to send."""

    def __init__(self, stream: Stream, dialled: bool) -> None:
        self.stream = stream
        self.dialled = dialled
        self.wake = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []


class SyncManager:
    """`listen`: HOST:PORT (port 0: the system picks, see `port`); `peers`: name → HOST:PORT of the regions to receive from.

    ValueError when a peer's name is not that of another member.
    """

    def __init__(self, region: Region, listen: str, peers: dict[str, str]) -> None:
        self.region = region
        self.port = 0
        ids = {
            member.name: region_id
            for region_id, member in region.engine.members.items()
            if region_id != region.engine.region_id
        }
        for name in peers:
            if name not in ids:
                raise ValueError(
                    f"peer '{name}' is no other member of the cluster: {', '.join(sorted(ids))}"
                )
        self._addresses = {ids[name]: address for name, address in peers.items()}
        self.hub = Hub(region.engine, region.settings, self._addresses, region.now_ms())
        self._listener = Listener(listen, self._serve)
        self._carried: dict[int, _Carried] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reads: dict[tuple[int, int, int], asyncio.Task[Sequence[Row]]] = {}
        self._step_planned = False
        self._merge_planned = False
        self._merge_rest_s = 0.0
        self._running = False

    # ---- Start, stop, state

    async def start(self) -> None:
        """Listens, and begins to dial; RuntimeError when the address is taken."""
        self._running = True
        self.port = await self._listener.start()
        self.region.on_committed.append(self._committed)
        self._spawn(self._ticking())

    async def stop(self) -> None:
        """Closes every link. Nothing of sync runs afterwards."""
        self._running = False
        if self._committed in self.region.on_committed:
            self.region.on_committed.remove(self._committed)
        for carried in self._carried.values():
            for task in carried.tasks:
                task.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.stop()

    def set_peer(self, name: str, address: str) -> None:
        """Dials a peer elsewhere from the next attempt on."""
        for region_id, member in self.region.engine.members.items():
            if member.name == name and region_id in self._addresses:
                self._addresses[region_id] = address
                return
        raise ValueError(f"'{name}' is not among the peers")

    def status(self) -> list[LinkStatus]:
        """Every link, both directions."""
        result = [
            LinkStatus(link.peer, True, link.state, link.detail, {}, 0)
            for link in self.hub.links.values()
        ]
        for peer, connection in self.hub.sending.items():
            sender = connection.sender
            assert sender is not None
            state = (
                "connecting" if not sender.open else "holding back" if sender.holding_back else "up"
            )
            result.append(
                LinkStatus(
                    peer, False, state, "", dict(sender.acknowledged), sender.unacknowledged.bytes
                )
            )
        return result

    # ---- Steps

    def _committed(self, position: int) -> None:
        self.hub.committed(position, self.region.now_ms())
        self._plan_step()

    async def _ticking(self) -> None:
        try:
            while True:
                self.hub.tick(self.region.now_ms())
                self._plan_step()
                await asyncio.sleep(_TICK_S)
        except Exception as error:
            self.region.fail(error)

    def _plan_step(self) -> None:
        """One step for all that this turn of the loop brings."""
        if not self._step_planned:
            self._step_planned = True
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._step_planned = False
        if not self._running:
            return
        hub = self.hub
        self.region.stepped()
        for number, request in hub.take_requests():
            self._spawn(self._answer(number, request))
        for peer in hub.take_dials():
            self._spawn(self._dial(peer))
        for number in hub.take_closes():
            carried = self._carried.get(number)
            for task in carried.tasks if carried is not None else []:
                task.cancel()
        for carried in self._carried.values():
            carried.wake.set()
        for note in hub.take_notes():
            _log.warning("%s: %s", self.region.engine.name, note)
        if hub.wants_merge:
            self._plan_merge()

    def _plan_merge(self) -> None:
        if not self._merge_planned:
            self._merge_planned = True
            asyncio.get_running_loop().call_later(self._merge_rest_s, self._merge)

    def _merge(self) -> None:
        """A turn's worth of merging, then a rest as long as a long turn was: clients keep half of the loop while a region catches up."""
        self._merge_planned = False
        began_s = time.monotonic()
        if self._running and self.hub.merge_some(MERGE_TURN_BYTES, self.region.now_ms()):
            taken_s = time.monotonic() - began_s
            self._merge_rest_s = min(taken_s, MERGE_REST_MAX_S) if taken_s > MERGE_SHORT_S else 0.0
            self._plan_merge()
            self._plan_step()
        else:
            self._merge_rest_s = 0.0

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s: sync task failed", self.region.engine.name, exc_info=task.exception())

    # ---- Connections

    async def _dial(self, peer: int) -> None:
        try:
            stream = await dial(self._addresses[peer])
        except Exception as error:  # whatever it was: a link that waits for the end of its dial would wait for ever
            if not isinstance(error, ConnectionLost):
                _log.error("%s: a dial failed", self.region.engine.name, exc_info=error)
            self.hub.dial_failed(peer, str(error), self.region.now_ms())
            return
        number = self.hub.dial_opened(peer, self.region.now_ms())
        if number is None:
            await stream.close()
            return
        await self._run(number, _Carried(stream, dialled=True))

    async def _serve(self, stream: Stream) -> None:
        if self._running:
            await self._run(
                self.hub.accepted(self.region.now_ms()), _Carried(stream, dialled=False)
            )

    async def _run(self, number: int, carried: _Carried) -> None:
        """Carries one connection until either side ends it."""
        self._carried[number] = carried
        loop = asyncio.get_running_loop()
        carried.tasks = [
            loop.create_task(self._read(number, carried)),
            loop.create_task(self._write(number, carried)),
        ]
        self._plan_step()
        text = "closed by the peer"
        try:
            done, _ = await asyncio.wait(carried.tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled() and isinstance(task.exception(), ConnectionLost):
                    text = str(task.exception())
                elif not task.cancelled() and task.exception() is not None:
                    text = f"failed: {task.exception()}"
                    _log.error(
                        "%s: a link failed", self.region.engine.name, exc_info=task.exception()
                    )
        finally:
            for task in carried.tasks:
                task.cancel()
            del self._carried[number]
            self.hub.closed(number, text, self.region.now_ms())
            if self._running:
                self._plan_step()
            await asyncio.gather(*carried.tasks, return_exceptions=True)
            await carried.stream.close()

    async def _read(self, number: int, carried: _Carried) -> None:
        decode = decode_down if carried.dialled else decode_up
        while (data := await carried.stream.receive()) is not None:
            try:
                message: Message = decode(data)
            except PeerError as error:
                self.hub.malformed(number, error, self.region.now_ms())
            else:
                self.hub.received(number, message, self.region.now_ms())
            self._plan_step()

    async def _write(self, number: int, carried: _Carried) -> None:
        """Makes a message only when the transport has room for it: what waits for a slow peer stays on the disk."""
        while True:
            message = self.hub.next_message(number, self.region.now_ms())
            if message is not None:
                data = self._encode(message, carried.dialled)
                self.hub.counts["bytes_sent"] += len(data)
                await carried.stream.send(data)
                self._plan_step()
            elif self.hub.finished(number):
                await carried.stream.finish()
                return
            else:
                carried.wake.clear()
                await carried.wake.wait()

    def _encode(self, message: Message, dialled: bool) -> bytes:
        if isinstance(message, (Hello, Acknowledge, BodyRequest, SnapshotRequest)):
            return encode_up(message)
        if dialled:
            return encode_up(message)  # type: ignore[arg-type]  # a Refusal: the only message that goes both ways
        return encode_down(message, self.region.settings.text("crdt-compression"))

    # ---- Questions to the log

    async def _answer(self, number: int, request: Request) -> None:
        try:
            result = await questions.answer(self.region.database, request, self._rows_after)
        except Exception as error:
            self.hub.closed(number, f"the log could not be read: {error}", self.region.now_ms())
            self._plan_step()
            raise
        self.hub.answered(number, request, result, self.region.now_ms())
        self._plan_step()

    async def _rows_after(self, request: ReadLog) -> Sequence[Row]:
        """Peers that stand at the same place share one read, if it began late enough for both."""
        key = (request.position, request.committed, request.bytes_max)
        task = self._reads.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._read_rows(request))
            self._reads[key] = task
            task.add_done_callback(lambda _: self._reads.pop(key, None))
        return await asyncio.shield(task)

    async def _read_rows(self, request: ReadLog) -> Sequence[Row]:
        return await self.region.database.rows_after(request.position, request.bytes_max)
