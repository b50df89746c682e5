"""The engine's side of one client connection: what commands remember between calls."""

from __future__ import annotations

from typing import Final, Optional


class Transaction:
    """What MULTI has queued, and what WATCH remembers.

    `queued` is None outside a transaction. After `has_failed` (a queued command was wrong) EXEC
    answers EXECABORT. `watched`: key → number of its last change when it was watched (S10.7).
    """

    def __init__(self) -> None:
        self.queued: Optional[list[list[bytes]]] = None
        self.queued_bytes = 0
        self.has_failed = False
        self.watched: dict[bytes, int] = {}

    def begin(self) -> None:
        """MULTI."""
        self.queued = []
        self.queued_bytes = 0
        self.has_failed = False

    def end(self) -> None:
        """EXEC, DISCARD and RESET."""
        self.queued = None
        self.queued_bytes = 0
        self.has_failed = False
        self.watched = {}


class Session:
    """State of one client connection; the server keeps the socket, the engine keeps this.

    The server reads `protocol` (2 or 3) to encode, stops taking commands while `waiting`, and closes after
    writing everything when `closing`.
    """

    def __init__(self, session_id: int, address: str, local_address: str, now_ms: int) -> None:
        self.session_id = session_id
        self.address = address
        self.local_address = local_address
        self.connected_ms = now_ms
        self.active_ms = now_ms
        self.protocol = 2
        self.waiting = False
        self.closing = False
        self.authenticated = True
        self.name = b""
        self.library_name = b""
        self.library_version = b""
        self.last_command = b""
        self.no_evict = False
        self.no_touch = False
        # CLIENT REPLY: "on", "off", or "skip" (the reply of the next command only).
        self.reply_mode = "on"
        self.transaction: Final = Transaction()
        # Counter of the last effect that this connection issued (WAIT).
        self.write_counter = 0
        # Kept by the server, shown by CLIENT LIST: bytes unparsed and unsent.
        self.query_bytes = 0
        self.output_bytes = 0
