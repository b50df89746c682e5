"""The client sockets, on asyncio.

A `ClientTransport` carries bytes between an asyncio transport and its `ClientConnection`, and
makes no decisions.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, Final, Optional, Protocol

from anabranch.region.driver.client_connection import (
    ABORTED,
    CLOSING,
    OPEN,
    OUTPUT_HIGH_BYTES,
    OUTPUT_LOW_BYTES,
    ClientConnection,
)
from anabranch.region.engine.settings import Settings

log = logging.getLogger(__name__)

BACKLOG: Final = 511


class ServedRegion(Protocol):
    """The methods of the process that the server uses."""

    @property
    def settings(self) -> Settings: ...

    def connect(self, address: str, local_address: str) -> ClientConnection:
        """Makes the connection of a client that has connected."""

    def stepped(self) -> None:
        """Plans a step if one is due. The server calls it after each call of a connection."""

    def fail(self, error: BaseException) -> None:
        """Ends the process, because a call of a connection has raised `error` (S13.10)."""


class ClientTransport:
    """The asyncio protocol of one client.

    It has no base class, so that mypyc can compile it; asyncio and uvloop need only the methods.
    """

    def __init__(self, server: Server) -> None:
        self._server: Final = server
        self._transport: Optional[asyncio.Transport] = None
        self._connection: Optional[ClientConnection] = None
        self._is_reading = True
        self._turn_planned = False

    # -- callbacks of the event loop

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Asks the region for a connection, which admits or rejects the client."""
        server = self._server
        self._transport = transport
        transport.set_write_buffer_limits(OUTPUT_HIGH_BYTES, OUTPUT_LOW_BYTES)
        _set_socket_options(transport, server.region.settings.integer("tcp-keepalive"))
        try:
            connection = server.region.connect(
                _format_address(transport.get_extra_info("peername")),
                _format_address(transport.get_extra_info("sockname")),
            )
            self._connection = connection
            server.transports[connection] = self
            self.perform()
        except Exception as error:
            self._fail(error)

    def data_received(self, data: bytes) -> None:
        connection = self._connection
        if connection is not None:
            try:
                if connection.measures_before:
                    self._measure(connection)
                connection.received(data)
                self.perform()
                self._server.region.stepped()
            except Exception as error:
                self._fail(error)

    def eof_received(self) -> bool:
        """Handles the end of the client's input; returns whether the transport stays open."""
        connection = self._connection
        if connection is None:
            return False
        try:
            connection.input_ended()
            self.perform()
            self._server.region.stepped()
        except Exception as error:
            self._fail(error)
        return connection.ending == OPEN

    def connection_lost(self, error: Optional[Exception]) -> None:
        connection, self._connection = self._connection, None
        self._transport = None
        if connection is not None:
            self._server.transports.pop(connection, None)
            try:
                connection.lost()
                self._server.region.stepped()
            except Exception as found:
                self._fail(found)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.output_is_full()

    def resume_writing(self) -> None:
        if self._connection is not None:
            try:
                self._connection.output_has_room()
                self.perform()
            except Exception as error:
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Ends the process, because a call of the connection has raised `error`."""
        self._server.region.fail(error)
        self.drop()

    def drop(self) -> None:
        """Closes the socket. Nothing of this client reaches the region any more."""
        self._connection = None
        if self._transport is not None:
            self._transport.abort()

    # -- requests of the connection

    def perform(self) -> None:
        """Writes output, pauses or resumes reading, closes and plans a turn, as requested."""
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

    def _measure(self, connection: ClientConnection) -> None:
        """Reports how much output is unsent, before the connection executes more."""
        if self._transport is not None:
            connection.unsent(self._transport.get_write_buffer_size())

    def _turn(self) -> None:
        self._turn_planned = False
        connection = self._connection
        if connection is not None and connection.wants_turn:
            try:
                if connection.measures_before:
                    self._measure(connection)
                connection.turn()
                self.perform()
                self._server.region.stepped()
            except Exception as error:
                self._fail(error)


class Server:
    """Listens for clients. `transports` maps each open connection to its transport."""

    def __init__(self, region: ServedRegion) -> None:
        self.region: Final = region
        self.transports: Final[dict[ClientConnection, ClientTransport]] = {}
        self.port = 0
        self.loop: Final = asyncio.get_running_loop()
        self._listener: Optional[asyncio.Server] = None

    async def start(self, host: str, port: int) -> None:
        """Listens on `host`:`port`. For port 0 the system chooses; `self.port` has the result.

        Raises:
            OSError: The address is taken or cannot be bound.
        """
        # Any: the attribute ``sockets`` is a tuple in asyncio and a list in uvloop, and compiled
        # code would check for the type that typeshed declares.
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
        """Performs the requests of these connections."""
        for connection in connections:
            transport = self.transports.get(connection)
            if transport is not None:
                transport.perform()

    def drop(self) -> None:
        """Closes all sockets at once, because the region has failed."""
        self.stop_listening()
        transports = list(self.transports.values())
        self.transports.clear()
        for transport in transports:
            transport.drop()

    def stop_listening(self) -> None:
        """Accepts no more clients. Open connections stay open."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def close(self, patience_s: float = 1.0) -> None:
        """Waits up to `patience_s` for connections to send their output, then aborts the rest."""
        self.stop_listening()
        deadline_s = self.loop.time() + patience_s
        while self.transports and self.loop.time() < deadline_s:
            await asyncio.sleep(0.01)
        for connection in list(self.transports):
            connection.abort()
            self.perform([connection])


def _format_address(name: object) -> str:
    """``host:port``, or ``[host]:port`` for IPv6, as in CLIENT LIST."""
    if not isinstance(name, tuple) or len(name) < 2:
        return ""
    return f"[{name[0]}]:{name[1]}" if ":" in str(name[0]) else f"{name[0]}:{name[1]}"


def _set_socket_options(transport: asyncio.Transport, keepalive_s: int) -> None:
    """Sends small replies without delay, and probes idle clients to find dead connections.

    A client is served as well if the system refuses an option.
    """
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    if keepalive_s > 0:
        options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
        if hasattr(socket, "TCP_KEEPIDLE"):
            options.append((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keepalive_s))
            options.append((socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, keepalive_s // 3)))
            options.append((socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3))
    try:
        for level, option, value in options:
            sock.setsockopt(level, option, value)
    except OSError as error:
        log.warning("a client is served without options of its socket: %s", error)
