"""All client connections of a region, sans-IO: admission, replies held for the disk, timeouts."""

from __future__ import annotations

import logging
from typing import Final

from anabranch.region.driver.client_connection import ClientConnection, ClientShare
from anabranch.region.driver.client_limits import TURN_PIECES
from anabranch.region.driver.clock import Clock
from anabranch.region.driver.command_execution import EngineInterface
from anabranch.region.driver.eviction import Eviction
from anabranch.region.driver.protected_mode import DENIED, is_denied
from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.settings import Settings

log = logging.getLogger(__name__)

_HOUSEKEEPING_MS: Final = 1000


class Clients:
    """The client connections of one region. `turn_pieces`: see `ClientLimits`."""

    def __init__(
        self,
        engine: EngineInterface,
        clock: Clock,
        settings: Settings,
        turn_pieces: int = TURN_PIECES,
    ) -> None:
        self._engine: Final = engine
        self._clock: Final = clock
        self._settings: Final = settings
        self._share: Final = ClientShare(engine, clock, settings, turn_pieces)
        # Connections that were changed by a call that did not come from their own transport.
        self._touched: dict[ClientConnection, None] = {}
        self._housekeeping_due_ms = 0
        self._eviction: Final = Eviction(self._share)

    def connect(self, address: str, local_address: str) -> ClientConnection:
        """Makes the connection of a new client.

        Above ``maxclients`` the client is rejected, and so are those that protected mode denies.
        """
        connection = ClientConnection(self._share)
        counters = self._share.counters
        if is_denied(self._settings, address):
            counters.rejected_connections += 1
            if (more := self._share.line("protected mode")) is not None:
                log.warning("client %s refused: protected mode, no password%s", address, more)
            connection.reject(DENIED)
            return connection
        if len(self._share.by_session) >= self._settings.integer("maxclients"):
            counters.rejected_connections += 1
            connection.reject(b"ERR max number of clients reached")
            return connection
        counters.connections_received += 1
        session = self._engine.connect(address, local_address, self._clock.now_ms())
        connection.admit(session)
        return connection

    # -- calls of the driver

    def answer(self, late: LateReply) -> None:
        """Sends a client the reply of a command that had waited."""
        connection = self._share.by_session.get(late.session.session_id)
        if connection is not None:
            connection.answer(late.reply)
            self._touch(connection)

    def released(self, position: int) -> None:
        """Rows up to `position` are on disk: sends the replies that waited for them."""
        for connection, data in self._share.held.released(position):
            connection.release(data)
            self._touch(connection)

    def commit_failed(self) -> None:
        """Disconnects every client that waits for a commit.

        The commit is retried, so no client may be told that its write failed (S13.4).
        """
        for connection in self._share.held.dropped():
            connection.abort()
            self._touch(connection)

    def close_session(self, session_id: int) -> bool:
        """Disconnects one client (CLIENT KILL); False if no connection has that session."""
        connection = self._share.by_session.get(session_id)
        if connection is None:
            return False
        connection.close()
        self._touch(connection)
        return True

    def finish_all(self) -> None:
        """Finishes all connections.

        They execute no more commands, and close once the replies that wait for the disk have left.
        """
        for connection in list(self._share.by_session.values()):
            connection.finish()
            self._touch(connection)

    def tick(self) -> None:
        """Lets in clients whose delay is over, and evicts those that hold too much.

        Once a second, also closes idle clients and aborts connections that take too long to close.
        """
        steady_ms = self._clock.steady_ms()
        if self._share.logins.waits():
            for connection in self._share.logins.due(steady_ms):
                connection.let_in()
                self._touch(connection)
        is_due = steady_ms >= self._housekeeping_due_ms
        for connection in self._eviction.evict(is_due):
            self._touch(connection)
        if not is_due:
            return
        self._housekeeping_due_ms = steady_ms + _HOUSEKEEPING_MS
        for connection in list(self._share.closing):
            if steady_ms >= connection.patience_ends_ms:
                connection.abort()
                self._touch(connection)
        timeout_ms = 1000 * self._settings.integer("timeout")
        now_ms = self._clock.now_ms()
        for connection in list(self._share.by_session.values()):
            session = connection.session
            if session is None:
                continue
            if session.output_bytes > 0:
                connection.measure()
                self._touch(connection)
            if 0 < timeout_ms < now_ms - session.active_ms and not session.waiting:
                self._share.counters.idle_disconnections += 1
                connection.close()
                self._touch(connection)

    def take_touched(self) -> list[ClientConnection]:
        """The connections whose transports have requests to perform, since the last call."""
        if not self._touched:
            return []
        touched = list(self._touched)
        self._touched.clear()
        return touched

    def take_freed_output(self) -> int:
        """Bytes of unsent replies that were freed after a burst of them (`UnsentOutput`)."""
        return self._share.unsent.take_fall()

    def _touch(self, connection: ClientConnection) -> None:
        self._touched[connection] = None

    def figures(self) -> dict[str, int]:
        """The figures for INFO, by field name."""
        counters = self._share.counters
        return {
            "connected_clients": len(self._share.by_session),
            "total_connections_received": counters.connections_received,
            "rejected_connections": counters.rejected_connections,
            "total_net_input_bytes": counters.net_input_bytes,
            "total_net_output_bytes": counters.net_output_bytes,
            "client_query_buffer_limit_disconnections": counters.query_limit_disconnections,
            "client_output_buffer_limit_disconnections": counters.output_limit_disconnections,
            "idle_client_disconnections": counters.idle_disconnections,
            "evicted_clients": counters.evicted_clients,
            "protocol_errors": counters.protocol_errors,
            "replies_awaiting_commit": len(self._share.held),
        }
