"""Serving snapshots to peers that ask (S11.1), one at a time: a cut costs memory (S14). Sans-IO."""

from __future__ import annotations

from collections import deque
from typing import Optional

from anabranch.sync.interfaces import Engine, SnapshotCut
from anabranch.sync.links import PeerConnection


class SnapshotServer:
    """`sent`: how many were begun."""

    def __init__(self) -> None:
        self.sent = 0
        self._asked: deque[tuple[PeerConnection, int]] = (
            deque()
        )  # who waits, with the number of the request
        self._cut: Optional[tuple[SnapshotCut, PeerConnection, int]] = (
            None  # a cut that waits for its commit
        )
        self._serving: Optional[PeerConnection] = None

    def ask(self, connection: PeerConnection, number: int) -> None:
        """A peer asks; a request of its own that still waits is replaced."""
        self._asked = deque(asked for asked in self._asked if asked[0] is not connection)
        self._asked.append((connection, number))

    def forget(self, connection: PeerConnection) -> None:
        """The connection is gone."""
        self._asked = deque(asked for asked in self._asked if asked[0] is not connection)
        if self._serving is connection:
            self._serving = self._cut = None

    def serve(self, engine: Engine) -> None:
        """Cuts for the next one, once the one before was sent."""
        serving = self._serving
        if (
            serving is not None
            and serving.sender is not None
            and (self._cut is not None or serving.sender.sending_snapshot)
        ):
            return
        self._serving = None
        if self._asked:
            connection, number = self._asked.popleft()
            self._cut = (engine.snapshot_cut(), connection, number)
            self._serving = connection

    def committed(self, position: int) -> None:
        """What was cut may be sent once it is on disk (S2.4, S11.2)."""
        if self._cut is None or self._cut[0].position > position:
            return
        cut, connection, number = self._cut
        self._cut = None
        assert connection.sender is not None
        connection.sender.send_snapshot(
            number, cut.vector, cut.chains, cut.chunks(connection.sender.limits.batch_bytes)
        )
        self.sent += 1
