"""Serving snapshots to peers that ask (S11.1). Sans-IO.

Snapshots are served one at a time, because a cut costs memory (S14).
"""

from __future__ import annotations

from collections import deque
from typing import Optional

from anabranch.sync.interfaces import Engine, SnapshotCut
from anabranch.sync.links import PeerConnection


class SnapshotServer:
    """Serves the snapshot requests of all peers."""

    def __init__(self) -> None:
        # The connections that wait, each with the number of its request.
        self._asked: deque[tuple[PeerConnection, int]] = deque()
        # A cut that waits for its commit.
        self._cut: Optional[tuple[SnapshotCut, PeerConnection, int]] = None
        self._serving: Optional[PeerConnection] = None

    def ask(self, connection: PeerConnection, number: int) -> None:
        """Adds a request of a peer; it replaces a waiting request of the same connection."""
        self._asked = deque(asked for asked in self._asked if asked[0] is not connection)
        self._asked.append((connection, number))

    def forget(self, connection: PeerConnection) -> None:
        """Drops the requests of a connection that closed."""
        self._asked = deque(asked for asked in self._asked if asked[0] is not connection)
        if self._serving is connection:
            self._serving = self._cut = None

    def serve(self, engine: Engine) -> None:
        """Makes the cut for the next request, once the snapshot before it is sent."""
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
        """Begins to send the cut once it is on disk (S2.4, S11.2)."""
        if self._cut is None or self._cut[0].position > position:
            return
        cut, connection, number = self._cut
        self._cut = None
        assert connection.sender is not None
        connection.sender.send_snapshot(
            number, cut.vector, cut.chains, cut.chunks(connection.sender.limits.batch_bytes)
        )
