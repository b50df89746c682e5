"""The RESP server: listens, admits clients, and holds replies that wait for a commit. `region.connection` serves each client.

Replies that wait for the disk (``appendfsync always``, S13.2) stand in `region.held`.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, Final, Optional

from anabranch.region.connection import OUTPUT_HIGH_BYTES, OUTPUT_LOW_BYTES, Connection, RegionDoors
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.session import Session
from anabranch.region.held import HeldReplies

BACKLOG: Final = 511


class Server:
    """Listens for clients. Its counters are shown by INFO."""

    def __init__(self, region: RegionDoors) -> None:
        self.region: Final = region
        self.settings: Final = region.settings
        self.connections: dict[int, Connection] = {}
        # Closed connections that still send.
        self.lingering: set[Connection] = set()
        # Replies that wait for a commit.
        self.held: HeldReplies[Connection, bytes] = HeldReplies()
        self.connections_received = 0
        self.rejected_connections = 0
        self.net_input_bytes = 0
        self.net_output_bytes = 0
        self.protocol_errors = 0
        self.internal_errors = 0
        self.query_limit_disconnections = 0
        self.output_limit_disconnections = 0
        self.idle_disconnections = 0
        self.port = 0
        self._listener: Optional[asyncio.Server] = None
        self._housekeeping_timer: Optional[asyncio.TimerHandle] = None
        self.read_settings()

    def read_settings(self) -> None:
        """Copies the settings that hot paths need."""
        settings = self.settings
        self.settings_seen = settings.changes
        self.argument_bytes_max = settings.integer("proto-max-bulk-len")
        self.query_bytes_max = settings.integer("client-query-buffer-limit")
        self.output_bytes_max = settings.integer("client-output-limit")

    async def start(self, host: str, port: int) -> None:
        """Listens on `host`:`port` (0: any free one, see `port`); OSError if that is not possible."""
        self.loop = asyncio.get_running_loop()
        # Any: asyncio has a tuple of sockets and uvloop a list, and compiled code would insist on the one that typeshed names.
        listener: Any = await self.loop.create_server(
            self._new_connection,  # type: ignore[arg-type]
            host,
            port,
            backlog=BACKLOG,
        )
        self._listener = listener
        self.port = int(listener.sockets[0].getsockname()[1])
        self._housekeeping_timer = self.loop.call_later(1.0, self._housekeeping)

    def _new_connection(self) -> Connection:
        return Connection(self)

    def admit(self, connection: Connection, transport: asyncio.Transport) -> None:
        """Makes a session for a new client, unless there are too many."""
        if len(self.connections) >= self.settings.integer("maxclients"):
            self.rejected_connections += 1
            connection.write(b"-ERR max number of clients reached\r\n")
            connection.close()
            return
        self.connections_received += 1
        transport.set_write_buffer_limits(OUTPUT_HIGH_BYTES, OUTPUT_LOW_BYTES)
        _set_socket_options(transport, self.settings.integer("tcp-keepalive"))
        session = self.region.engine.connect(
            _format_address(transport.get_extra_info("peername")),
            _format_address(transport.get_extra_info("sockname")),
            self.region.now_ms(),
        )
        connection.session = session
        self.connections[session.session_id] = connection

    def deliver(self, session: Session, reply: Reply) -> None:
        """Sends an answer that `Engine.take_answers` handed out."""
        connection = self.connections.get(session.session_id)
        if connection is not None:
            connection.answer(session, reply)

    def released(self, position: int) -> None:
        """Sends what waited for rows up to `position`; called after each commit."""
        for connection, data in self.held.released(position):
            connection.release(data)

    def commit_failed(self) -> None:
        """Disconnects every client that waits for a commit: it is never told that its write failed (S13.4)."""
        for connection in self.held.dropped():
            connection.abort()

    def close_session(self, session_id: int) -> bool:
        """Disconnects one client (CLIENT KILL); False if there is none of that number."""
        connection = self.connections.get(session_id)
        if connection is not None:
            connection.close()
        return connection is not None

    def figures(self) -> dict[str, int]:
        """Counters since the start, by the names that INFO gives them; and what stands now."""
        return {
            "connected_clients": len(self.connections),
            "total_connections_received": self.connections_received,
            "rejected_connections": self.rejected_connections,
            "total_net_input_bytes": self.net_input_bytes,
            "total_net_output_bytes": self.net_output_bytes,
            "client_query_buffer_limit_disconnections": self.query_limit_disconnections,
            "client_output_buffer_limit_disconnections": self.output_limit_disconnections,
            "idle_client_disconnections": self.idle_disconnections,
            "protocol_errors": self.protocol_errors,
            "internal_errors": self.internal_errors,
            "replies_awaiting_commit": len(self.held),
        }

    def stop_listening(self) -> None:
        """Takes no more clients; those that are here stay."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def close(self, patience_s: float = 1.0) -> None:
        """Takes no more clients, sends what is written and not held, and closes every connection within `patience_s`."""
        self.stop_listening()
        if self._housekeeping_timer is not None:
            self._housekeeping_timer.cancel()
        for connection in list(self.connections.values()):
            connection.close()
        deadline_s = time.monotonic() + patience_s
        while self.lingering and time.monotonic() < deadline_s:
            await asyncio.sleep(0.01)
        for connection in list(self.lingering):
            connection.abort()

    def _housekeeping(self) -> None:
        """Once a second: idle clients, connections that do not get rid of their last output, figures."""
        self._housekeeping_timer = self.loop.call_later(1.0, self._housekeeping)
        now_s = time.monotonic()
        for connection in [one for one in self.lingering if one.abort_at_s <= now_s]:
            connection.abort()
        timeout_ms = 1000 * self.settings.integer("timeout")
        now_ms = self.region.now_ms()
        for connection in list(self.connections.values()):
            session = connection.session
            if session is None:
                continue
            if session.output_bytes > 0:
                connection.measure_output()
            if 0 < timeout_ms < now_ms - session.active_ms and not session.waiting:
                self.idle_disconnections += 1
                connection.close()


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
