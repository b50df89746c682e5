"""What this region tells its peers of itself (S2.4): vectors, heartbeats, direct links. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Optional

from anabranch.crdt.gossip import Gossip
from anabranch.sync.session import messages as m
from anabranch.sync.session.announcer import Announcer, own_gossip
from anabranch.sync.session.connections import Connections
from anabranch.sync.session.interfaces import Attestation, Engine
from anabranch.sync.session.links import Link
from anabranch.sync.session.receiver import Receiver


class Announcements:
    """The announcements of one region on all its links.

    `direct`: the regions that this one receives from directly (S2.3).
    """

    def __init__(self, engine: Engine, connections: Connections) -> None:
        self._engine: Final = engine
        self._connections: Final = connections
        self._announcer: Final = Announcer(connections.settings, 0)
        self.direct: frozenset[int] = frozenset()

    def merged(self) -> None:
        """Effects were merged that no acknowledgement covers yet."""
        self._announcer.dirty = True

    def is_quiet(self) -> bool:
        """Whether all that was merged is acknowledged."""
        return not self._announcer.dirty

    def announce(self, now_ms: int) -> None:
        """Makes an announcement if one is due, and sends those that are on disk."""
        if self._connections.by_number:
            self._announcer.begin(self._engine, now_ms, self._connections.steady.at(now_ms))
            self.send_committed()

    def send_committed(self) -> None:
        """Sends every announcement and answer that waited for a commit now on disk (S2.4)."""
        position = self._engine.committed_position
        finished = self._announcer.finished(position)
        if finished is not None:
            self._send_announcement(*finished)
        self._connections.start_asking.committed(position)
        self._connections.snapshots.committed(position)

    def _send_announcement(self, attestation: Attestation, beat: bool) -> None:
        gossip = own_gossip(self._engine, attestation) if beat else None
        self._acknowledge(gossip)
        if gossip is not None:
            heartbeat = m.Heartbeat(dict(attestation.vector), attestation.digest, gossip)
            for connection in self._connections.sending.values():
                if connection.sender is not None and connection.sender.open:
                    connection.sender.heartbeat(heartbeat)

    # -- receiving directly

    def direct_changed(self) -> None:
        """Tells peers from which regions this one receives directly (S2.3).

        A link whose peer holds back does not count, nor a link that CRDT.LINK delays for longer
        than crdt-body-patience-ms.
        """
        patience_ms = self._connections.settings.integer("crdt-body-patience-ms")
        direct = set()
        for link, receiver in self._open_receivers():
            if not receiver.holding_back and link.held.delay_ms <= patience_ms:
                direct.add(link.peer)
        if direct != self.direct:
            self.direct = frozenset(direct)
            self._acknowledge(None)

    def _acknowledge(self, gossip: Optional[Gossip]) -> None:
        """Sends peers the vector on this region's disk (S2.4)."""
        for _, receiver in self._open_receivers():
            receiver.acknowledge(self._engine.disk_vector, self.direct, gossip)
            self._engine.peers.links.reports_vector(receiver.peer)

    def _open_receivers(self) -> Iterator[tuple[Link, Receiver]]:
        for link in self._connections.links.values():
            receiver = link.connection.receiver if link.connection is not None else None
            if receiver is not None and receiver.open:
                yield link, receiver
