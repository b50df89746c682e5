"""The port of the other regions: it accepts connections, and passes their bytes on to grpc.

grpc accepts whatever connects, keeps a connection that says nothing for some seconds, and tells of
no connection before its first call. So anybody could take all descriptors of the region. The front
accepts in its place. Until a connection has sent a byte, it is one socket. Then its bytes go to
and from grpc, over a local socket that nobody else can name, as they are. `Unnamed` decides which
connections must go.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Optional, cast

from anabranch.sync.session.unnamed import TOO_LATE, TOO_MANY, Unnamed

_log: Final = logging.getLogger("anabranch.sync")

_BACKLOG: Final = 128
_TICK_S: Final = 1.0
# How long the front waits after an accept that failed: no descriptor is free, for instance.
_ACCEPT_PAUSE_S: Final = 0.1
# How long a side has to take the last bytes of a connection that the other side has closed.
_FLUSH_S: Final = 5.0


class LocalSocket:
    """The names of the sockets between front and grpc.

    On Linux they are abstract, so that no file of them is left after a kill.
    """

    def __init__(self) -> None:
        self._folder: Optional[str] = None
        if sys.platform == "linux":
            name = f"anabranch-{secrets.token_hex(16)}"
            self.grpc_address = f"unix-abstract:{name}"
            self._prefix = f"\0{name}"
        else:
            self._folder = tempfile.mkdtemp(prefix="anabranch-")
            self._prefix = f"{self._folder}/sync"
            self.grpc_address = f"unix:{self._prefix}"

    async def connect(self, number: int) -> socket.socket:
        """Connects to grpc under the name of the connection `number`. OSError if that fails."""
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            one.setblocking(False)
            one.bind(f"{self._prefix}-{number}")
            await asyncio.get_running_loop().sock_connect(one, self._prefix)
        except BaseException:
            one.close()
            raise
        return one

    def number_of(self, peer: str) -> int:
        """The number of the connection that grpc calls `peer`; 0 if it is none of the front."""
        stem, _, number = peer.rpartition("-")
        return int(number) if stem == self.grpc_address and number.isdigit() else 0

    def forget(self, number: int) -> None:
        """The connection `number` is closed."""
        if self._folder is not None:
            Path(f"{self._prefix}-{number}").unlink(missing_ok=True)

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Half(asyncio.Protocol):
    """One side of a connection, whose bytes go to the other side."""

    def __init__(self, closed: Callable[[], None]) -> None:
        self._closed: Final = closed
        self._transport: Optional[asyncio.Transport] = None
        self._other: Optional[_Half] = None
        # Bytes that came before the other side was there.
        self._early: list[bytes] = []

    def joins(self, other: _Half) -> None:
        """From now on the bytes go to `other`, and those of `other` come here."""
        self._other, other._other = other, self
        for one, its_other in ((self, other), (other, self)):
            for data in one._early:
                its_other.send(data)
            one._early.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop have the methods, and not the class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early.append(data)
        else:
            self._other.send(data)

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.resume_reading()

    def eof_received(self) -> bool:
        """The transport closes, and the connection with it."""
        return False

    def connection_lost(self, error: Optional[Exception]) -> None:
        self._transport = None
        self._closed()

    def finish(self) -> None:
        """Closes this side once its last bytes are taken."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Passage:
    """One connection: a socket, and since its first byte two sides. `address`: of the dialler."""

    def __init__(self, front: Front, number: int, one: socket.socket, address: str) -> None:
        self.number: Final = number
        self.address: Final = address
        self._front: Final = front
        self._socket: Optional[socket.socket] = one
        self._halves: list[_Half] = []
        self._is_over = False
        front.loop.add_reader(one, self._speaks)

    def greeted(self) -> None:
        """The dialler has said who it is."""
        self._front.unnamed.remove(self.number)

    def ended(self) -> None:
        """The link of this connection is over: from now on it counts as one without a name."""
        if not self._is_over and self.number not in self._front.unnamed:
            self._front.count(self)

    def close(self) -> None:
        """Closes the connection at once."""
        self._is_over = True
        if self._socket is not None:
            self._front.loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        for half in self._halves:
            half.abort()
        self._front.forget(self)

    def _speaks(self) -> None:
        """The first bytes have come."""
        one, self._socket = self._socket, None
        if one is not None:
            self._front.loop.remove_reader(one)
            self._front.spawn(self._open(one))

    async def _open(self, one: socket.socket) -> None:
        """Passes the bytes on from now on."""
        loop = self._front.loop
        outer, inner = _Half(self._half_closed), _Half(self._half_closed)
        try:
            local = await self._front.local.connect(self.number)
            await loop.create_unix_connection(lambda: inner, sock=local)
            self._halves = [inner]
            await loop.connect_accepted_socket(lambda: outer, sock=one)
            self._halves.append(outer)
        except OSError as error:
            _log.warning("a connection from %s could not be served: %s", self.address, error)
            one.close()
            self.close()
            return
        if self._is_over:
            self.close()
        else:
            outer.joins(inner)

    def _half_closed(self) -> None:
        """One side is gone. The other one gets what is left, for some time."""
        if self._is_over:
            self._front.forget(self)
        else:
            self._is_over = True
            for half in self._halves:
                half.finish()
            self._front.loop.call_later(_FLUSH_S, self.close)


class Front:
    """Listens on HOST:PORT for other regions.

    `turned_away` is told of each connection that is closed without a Hello: its address, and why.
    """

    def __init__(self, listen: str, turned_away: Callable[[str, str], None]) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self.local: Final = LocalSocket()
        self.unnamed: Final = Unnamed()
        self._listen: Final = listen
        self._turned_away: Final = turned_away
        self._passages: Final[dict[int, Passage]] = {}
        self._listeners: list[socket.socket] = []
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._number = 0

    def listen(self) -> int:
        """Listens, and returns the port; OSError if the address is taken or cannot be bound."""
        host, _, port = self._listen.rpartition(":")
        self._listeners = _listening(host.strip("[]"), int(port))
        return int(self._listeners[0].getsockname()[1])

    def start(self) -> None:
        """Begins to accept. grpc must listen by now."""
        for listener in self._listeners:
            listener.setblocking(False)
            self.spawn(self._accept(listener))
        self.spawn(self._tick())

    def stop_listening(self) -> None:
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners:
            listener.close()
        self._listeners = []

    def close(self) -> None:
        """Closes all connections."""
        self.stop_listening()
        for passage in list(self._passages.values()):
            passage.close()
        self.local.close()

    def passage(self, peer: str) -> Optional[Passage]:
        """The connection that grpc calls `peer`; None: it did not come through the front."""
        return self._passages.get(self.local.number_of(peer))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- connections

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                one, address = await self.loop.sock_accept(listener)
            except OSError as error:
                _log.warning("a connection of another region could not be accepted: %s", error)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._number += 1
            passage = Passage(self, self._number, one, _shown(address))
            self._passages[passage.number] = passage
            self.count(passage)

    def count(self, passage: Passage) -> None:
        """Counts a connection that has not said who it is; another one may have to go for it."""
        number = self.unnamed.add(passage.number, passage.address, self._now_ms())
        if number is not None:
            self._turn_away(number, TOO_MANY)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            for number in self.unnamed.late(self._now_ms()):
                self._turn_away(number, TOO_LATE)

    def _turn_away(self, number: int, reason: str) -> None:
        passage = self._passages[number]
        passage.close()
        self._turned_away(passage.address, reason)

    def forget(self, passage: Passage) -> None:
        """A connection is closed."""
        self.unnamed.remove(passage.number)
        if self._passages.pop(passage.number, None) is not None:
            self.local.forget(passage.number)

    def _now_ms(self) -> int:
        return int(self.loop.time() * 1000)


def _listening(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at one port of all addresses of a host, as grpc does.

    The address of all interfaces means both IPv4 and IPv6. OSError if none can be bound.
    """
    if host in ("", "0.0.0.0", "::") and socket.has_dualstack_ipv6():
        return [
            socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
            )
        ]
    found: list[socket.socket] = []
    refused: Optional[OSError] = None
    for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            one = socket.create_server((str(address[0]), port), family=family, backlog=_BACKLOG)
        except OSError as error:
            refused = error
            continue
        port = int(one.getsockname()[1])
        found.append(one)
    if refused is not None and not found:
        raise refused
    return found


def _shown(address: tuple[Any, ...]) -> str:
    """HOST:PORT of a socket's address."""
    host = str(address[0]).removeprefix("::ffff:")
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
