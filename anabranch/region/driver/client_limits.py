"""The settings that client connections need, and counters of all clients."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings

# Pieces of replies that are encoded in one turn of a client.
TURN_PIECES: Final = 8192
# Limits of a client that has not given the password: bytes of unsent replies, and of input that is
# not executed yet. The first is that of Redis.
STRANGER_OUTPUT_BYTES_MAX: Final = 1 << 10
STRANGER_QUERY_BYTES_MAX: Final = 64 << 10
# A lower limit of the memory of all clients counts as this one, as in Redis.
CLIENTS_BYTES_MIN: Final = 128 << 10


class ClientLimits:
    """Copies of the settings that connections need, in bytes.

    `turn_pieces` bounds the encoded pieces of replies in one turn.
    """

    def __init__(self, settings: Settings, turn_pieces: int = TURN_PIECES) -> None:
        self._settings: Final = settings
        self.turn_pieces: Final = turn_pieces
        self._seen = -1
        self.argument_bytes_max = 0
        self.query_bytes_max = 0
        self.output_bytes_max = 0
        # Most bytes of all clients together; 0: no limit.
        self.clients_bytes_max = 0
        # Replies wait for commits (`appendfsync always`).
        self.holds_replies = False
        self.refresh()

    def refresh(self) -> None:
        """Copies the current values if a setting changed."""
        settings = self._settings
        if self._seen != settings.changes:
            self._seen = settings.changes
            self.argument_bytes_max = settings.integer("proto-max-bulk-len")
            self.query_bytes_max = settings.integer("client-query-buffer-limit")
            self.output_bytes_max = settings.integer("client-output-limit")
            self.holds_replies = settings.text("appendfsync") == "always"
            together = settings.integer("maxmemory-clients")
            self.clients_bytes_max = max(together, CLIENTS_BYTES_MIN) if together else 0

    def query_bytes_of(self, session: Session) -> int:
        """Most bytes of input of this client that wait to be executed."""
        if session.authenticated:
            return self.query_bytes_max
        return min(self.query_bytes_max, STRANGER_QUERY_BYTES_MAX)

    def output_bytes_of(self, session: Session) -> int:
        """Most bytes of unsent replies of this client; 0: no limit."""
        if session.authenticated:
            return self.output_bytes_max
        return min(self.output_bytes_max or STRANGER_OUTPUT_BYTES_MAX, STRANGER_OUTPUT_BYTES_MAX)


class ClientCounters:
    """Counters of all clients since the start, for INFO."""

    def __init__(self) -> None:
        self.connections_received = 0
        self.rejected_connections = 0
        self.net_input_bytes = 0
        self.net_output_bytes = 0
        self.protocol_errors = 0
        self.query_limit_disconnections = 0
        self.output_limit_disconnections = 0
        self.idle_disconnections = 0
        self.evicted_clients = 0
