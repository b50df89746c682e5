"""The sockets of clients, on asyncio: they carry bytes between a transport and its `ClientConnection`, and decide nothing."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final, Optional, Protocol

from anabranch.region.client_connection import (
    ABORTED,
    CLOSING,
    OPEN,
    OUTPUT_HIGH_BYTES,
    OUTPUT_LOW_BYTES,
    ClientConnection,
)
from anabranch.region.engine.settings import Settings

BACKLOG: Final = 511


class ServedRegion(Protocol):
    """What the server asks of the process."""

    @property
    def settings(self) -> Settings: ...

    def connect(self, address: str, local_address: str) -> ClientConnection:
        """A client has connected."""

    def stepped(self) -> None:
        """A connection was called: a step may be due."""


class ClientTransport:
    """What asyncio calls a protocol. uvloop and asyncio go by its methods; it has no base class, so that it compiles."""

    def __init__(self, server: Server) -> None:
        self._server: Final = server
        self._transport: Optional[asyncio.Transport] = None
        self._connection: Optional[ClientConnection] = None
        self._is_reading = True
        self._turn_planned = False

    # -- what the loop calls

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Lets the region take the client in, or turn it away."""
        server = self._server
        self._transport = transport
        transport.set_write_buffer_limits(OUTPUT_HIGH_BYTES, OUTPUT_LOW_BYTES)
        _set_socket_options(transport, server.region.settings.integer("tcp-keepalive"))
        connection = server.region.connect(
            _format_address(transport.get_extra_info("peername")),
            _format_address(transport.get_extra_info("sockname")),
        )
        self._connection = connection
        server.transports[connection] = self
        self.perform()

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        if connection is not None:
            connection.received(data)
            self.perform()
            self._server.region.stepped()

    def eof_received(self) -> bool:
        """Whether the transport is to stay open."""
        connection = self._connection
        if connection is None:
            return False
        connection.input_ended()
        self.perform()
        self._server.region.stepped()
        return connection.ending == OPEN

    def connection_lost(self, error: Optional[Exception]) -> None:
        connection, self._connection = self._connection, None
        self._transport = None
        if connection is not None:
            self._server.transports.pop(connection, None)
            connection.lost()
            self._server.region.stepped()

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.output_is_full()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.output_has_room()
            self.perform()

    # -- what the connection asks for

    def perform(self) -> None:
        """Does what the connection asks for."""
        connection, transport = self._connection, self._transport
        if connection is None or transport is None:
            return
        output = connection.take_output()
        if output:
            transport.write(output)
        if connection.measures_output:
            connection.unsent(transport.get_write_buffer_size())
        if connection.ending == ABORTED:
            transport.abort()
        elif connection.ending == CLOSING:
            transport.close()
        elif connection.is_reading != self._is_reading:
            self._is_reading = connection.is_reading
            if self._is_reading:
                transport.resume_reading()
            else:
                transport.pause_reading()
        if connection.wants_turn and not self._turn_planned:
            self._turn_planned = True
            self._server.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_planned = False
        connection = self._connection
        if connection is not None and connection.wants_turn:
            connection.turn()
            self.perform()
            self._server.region.stepped()


class Server:
    """Listens for clients. `transports`: the open ones, by their connections."""

    def __init__(self, region: ServedRegion) -> None:
        self.region: Final = region
        self.transports: Final[dict[ClientConnection, ClientTransport]] = {}
        self.port = 0
        self.loop: Final = asyncio.get_running_loop()
        self._listener: Optional[asyncio.Server] = None

    async def start(self, host: str, port: int) -> None:
        """Listens on `host`:`port` (0: any free one, see `port`); OSError if that is not possible."""
        # Any: asyncio has a tuple of sockets and uvloop a list, and compiled code would insist on
        # the one that typeshed names.
        listener: Any = await self.loop.create_server(
            self._new_transport,  # type: ignore[arg-type]
            host,
            port,
            backlog=BACKLOG,
        )
        self._listener = listener
        self.port = int(listener.sockets[0].getsockname()[1])

    def _new_transport(self) -> ClientTransport:
        return ClientTransport(self)

    def perform(self, connections: list[ClientConnection]) -> None:
        """Does what these connections ask for."""
        for connection in connections:
            transport = self.transports.get(connection)
            if transport is not None:
                transport.perform()

    def stop_listening(self) -> None:
        """Takes no more clients. Those that are here stay."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def close(self, patience_s: float = 1.0) -> None:
        """Waits until every connection has sent its last output, at most so long, and ends the rest."""
        self.stop_listening()
        deadline_s = self.loop.time() + patience_s
        while self.transports and self.loop.time() < deadline_s:
            await asyncio.sleep(0.01)
        for connection in list(self.transports):
            connection.abort()
            self.perform([connection])


def _format_address(name: object) -> str:
    """``host:port``, or ``[host]:port`` for IPv6, as CLIENT LIST shows it."""
    if not isinstance(name, tuple) or len(name) < 2:
        return ""
    return f"[{name[0]}]:{name[1]}" if ":" in str(name[0]) else f"{name[0]}:{name[1]}"


def _set_socket_options(transport: asyncio.Transport, keepalive_s: int) -> None:
    """No delay for small replies, and probes that find out about clients that vanished."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if keepalive_s > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keepalive_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, keepalive_s // 3))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
