"""Serving snapshots to peers that ask (S11.1). Sans-IO.

Snapshots are served one at a time, because a cut costs memory (S14).
"""

from __future__ import annotations

from collections import deque
from typing import Final, Optional

from anabranch.sync.session.interfaces import SnapshotCut, Snapshots
from anabranch.sync.session.links import PeerConnection

# Bytes of a chunk, unless `crdt-batch-max-bytes` is lower. A chunk is made, compressed and sent in
# one turn, and one of these takes about 2 ms.
CHUNK_BYTES: Final = 128 << 10
# What was made for a cut is kept for so long when nobody asks any more. A peer whose patience ended
# asks again soon.
KEEP_MS: Final = 60_000


class SnapshotServer:
    """Serves the snapshot requests of all peers."""

    def __init__(self) -> None:
        # The connections that wait, each with the number of its request.
        self._asked: deque[tuple[PeerConnection, int]] = deque()
        # A cut that waits for its commit.
        self._cut: Optional[tuple[SnapshotCut, PeerConnection, int]] = None
        self._serving: Optional[PeerConnection] = None
        # The last time at which a peer waited for a cut.
        self._waited_ms = 0

    def ask(self, connection: PeerConnection, number: int) -> None:
        """Adds a request of a peer; it replaces a waiting request of the same connection."""
        self._asked = deque(asked for asked in self._asked if asked[0] is not connection)
        self._asked.append((connection, number))

    def forget(self, connection: PeerConnection) -> None:
        """Drops the requests of a connection that closed."""
        self._asked = deque(asked for asked in self._asked if asked[0] is not connection)
        if self._serving is connection:
            self._serving = self._cut = None

    @property
    def is_quiet(self) -> bool:
        """Whether no peer waits for a snapshot."""
        return not self._asked and self._cut is None

    def serve(self, cuts: Snapshots, steady_ms: int) -> None:
        """Works towards the cut for the next request, once the snapshot before it is sent.

        A large cut is prepared over several calls.
        """
        serving = self._serving
        if (
            serving is not None
            and serving.sender is not None
            and (self._cut is not None or serving.sender.sending_snapshot)
        ):
            return
        self._serving = None
        if self._asked:
            self._waited_ms = steady_ms
            if cuts.prepare_cut():
                connection, number = self._asked.popleft()
                self._cut = (cuts.cut(), connection, number)
                self._serving = connection
        elif steady_ms > self._waited_ms + KEEP_MS:
            cuts.drop_preparation()

    def committed(self, position: int) -> None:
        """Begins to send the cut once it is on disk (S2.4, S11.2)."""
        if self._cut is None or self._cut[0].position > position:
            return
        cut, connection, number = self._cut
        self._cut = None
        assert connection.sender is not None
        chunks = cut.chunks(min(connection.sender.limits.batch_bytes, CHUNK_BYTES))
        connection.sender.send_snapshot(number, cut.vector, cut.chains, chunks)
