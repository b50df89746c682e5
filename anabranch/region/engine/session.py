"""The engine's side of one client connection: the state that commands keep between calls."""

from __future__ import annotations

from typing import Final, Optional


class Transaction:
    """The commands queued by MULTI, and the keys watched by WATCH.

    `queued` is None outside a transaction. `has_failed` means that queueing refused a command: EXEC
    then answers EXECABORT. `watched` maps a key to the number of its last change when it was
    watched (S10.7). In `queued_commands` a command of several keys counts once for each.
    """

    def __init__(self) -> None:
        self.queued: Optional[list[list[bytes]]] = None
        self.queued_bytes = 0
        self.queued_commands = 0
        self.has_failed = False
        self.watched: dict[bytes, int] = {}

    def begin(self) -> None:
        """MULTI."""
        self.queued = []
        self.queued_bytes = 0
        self.queued_commands = 0
        self.has_failed = False

    def end(self) -> None:
        """EXEC, DISCARD and RESET."""
        self.queued = None
        self.queued_bytes = 0
        self.queued_commands = 0
        self.has_failed = False
        self.watched = {}


class Session:
    """The engine's state of one client connection. The socket belongs to the server.

    The client connection encodes replies for `protocol` (2 or 3), executes no commands while
    `waiting`, and closes after sending all output once `closing`.
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
        # CLIENT REPLY: "on", "off", or "skip" (the reply of the next command only), which is
        # "skipping" while that command runs.
        self.reply_mode = "on"
        self.transaction: Final = Transaction()
        # Counter of the last effect that this connection issued (WAIT).
        self.write_counter = 0
        # Unparsed and unsent bytes. The client connection sets them, CLIENT LIST shows them.
        self.query_bytes = 0
        self.output_bytes = 0
