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
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, Optional

from anabranch.sync.live.relay import Half, LocalSocket
from anabranch.sync.live.tls import (
    FIRST_BYTE,
    HANDSHAKE_TIMEOUT_S,
    OFF,
    REQUIRED,
    NoTls,
    RegionTls,
    why,
)
from anabranch.sync.session.unnamed import TOO_LATE, TOO_MANY, Unnamed

_log: Final = logging.getLogger("anabranch.sync")

_BACKLOG: Final = 128
_TICK_S: Final = 1.0
# How long the front waits after an accept that failed: no descriptor is free, for instance.
_ACCEPT_PAUSE_S: Final = 0.1
# How long a side has to take the last bytes of a connection that the other side has closed.
_FLUSH_S: Final = 5.0


class Passage:
    """One connection: a socket, and since its first byte two sides.

    `address`: of the dialler. `region`: the member that its certificate is for; empty without TLS.
    """

    def __init__(self, front: Front, number: int, one: socket.socket, address: str) -> None:
        self.number: Final = number
        self.address: Final = address
        self.region = ""
        self._front: Final = front
        self._socket: Optional[socket.socket] = one
        self._halves: list[Half] = []
        self._opening: Optional[asyncio.Task[None]] = None
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
        if self._opening is not None and self._opening is not asyncio.current_task():
            self._opening.cancel()
        for half in self._halves:
            half.abort()
        self._front.forget(self)

    def _speaks(self) -> None:
        """The first bytes have come."""
        one, self._socket = self._socket, None
        if one is not None:
            self._front.loop.remove_reader(one)
            self._opening = self._front.spawn(self._open(one))

    async def _open(self, one: socket.socket) -> None:
        """Learns from the certificate who it is, and passes the bytes on from now on."""
        outer, inner = Half(self._half_closed), Half(self._half_closed)
        try:
            await self._greet(one, outer)
            local = await self._front.local.connect(self.number)
            await self._front.loop.create_unix_connection(lambda: inner, sock=local)
        except asyncio.CancelledError:
            one.close()
            raise
        except NoTls as error:
            self._front.turn_away(self.number, str(error))
        except OSError as error:
            _log.warning("a connection from %s could not be served: %s", self.address, error)
            self.close()
        else:
            self._halves.append(inner)
            outer.joins(inner)
            return
        outer.abort()
        one.close()

    async def _greet(self, one: socket.socket, outer: Half) -> None:
        """Begins TLS if the other side does. NoTls if that, or its absence, is not allowed."""
        tls, loop = self._front.tls, self._front.loop
        try:
            begins = one.recv(1, socket.MSG_PEEK) == FIRST_BYTE
        except OSError as error:
            raise NoTls(f"it is lost: {why(error)}") from None
        if begins and tls.mode == OFF:
            raise NoTls("it speaks TLS, and sync-tls is off here")
        if not begins and tls.mode == REQUIRED:
            raise NoTls("it speaks no TLS, and sync-tls is required here")
        context = tls.accepting() if begins else None
        timeout_s = HANDSHAKE_TIMEOUT_S if begins else None
        try:
            await loop.connect_accepted_socket(
                lambda: outer, one, ssl=context, ssl_handshake_timeout=timeout_s
            )
        except OSError as error:
            if not begins:
                raise
            raise NoTls(f"the handshake of TLS failed: {why(error)}") from None
        self._halves = [outer]
        if begins:
            self.region = tls.region_of(outer.certificate())

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

    def __init__(
        self, listen: str, turned_away: Callable[[str, str], None], tls: RegionTls
    ) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self.tls: Final = tls
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

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

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
            self.turn_away(number, TOO_MANY)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            for number in self.unnamed.late(self._now_ms()):
                self.turn_away(number, TOO_LATE)

    def turn_away(self, number: int, reason: str) -> None:
        """Closes a connection that has not said who it is."""
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
