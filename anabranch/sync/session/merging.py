"""The merging of what peers have sent: blocks of all links in turn, and snapshots. Sans-IO."""

from __future__ import annotations

import logging
from typing import Final, Optional

from anabranch.crdt.errors import ChainForked, PeerError
from anabranch.crdt.vector import includes
from anabranch.sync.session.announcements import Announcements
from anabranch.sync.session.claims import Claims
from anabranch.sync.session.connections import Connections
from anabranch.sync.session.interfaces import Engine
from anabranch.sync.session.links import PeerConnection
from anabranch.sync.session.receiver import Staged


class Merging:
    """The merging of one region. It asks peers for snapshots, too (S11.1)."""

    def __init__(
        self, engine: Engine, connections: Connections, announcements: Announcements, claims: Claims
    ) -> None:
        self._engine: Final = engine
        self._connections: Final = connections
        self._announcements: Final = announcements
        self._claims: Final = claims
        self._snapshot_number = 0
        # A join applied effects: headers at which other links stopped may be covered now.
        self._again = False
        self._turn = 0
        # The peer whose snapshot comes before anything else; 0: none.
        self._rebuilds_from = engine.peers.rebuilds_from

    # -- blocks

    def is_wanted(self) -> bool:
        """Whether `merge_some` has work.

        A region that is rebuilt from a peer merges nothing before the snapshot of that peer.
        """
        if self._rebuilds_from:
            return False
        return self._again or any(
            link.connection is not None
            and link.connection.receiver is not None
            and link.connection.receiver.ready
            for link in self._connections.links.values()
        )

    def merge_some(self, bytes_max: int, now_ms: int) -> bool:
        """Merges about `bytes_max` bytes of received blocks, one link after the other.

        Returns True when it merged blocks, so that the caller has to call it again.
        """
        if self._rebuilds_from:
            return False
        self._again = False
        links = list(self._connections.links.values())
        self._turn += 1
        merged = False
        for place in range(len(links)):
            link = links[(self._turn + place) % len(links)]
            connection = link.connection
            if connection is None or connection.receiver is None or bytes_max <= 0:
                continue
            blocks = connection.receiver.take(
                self._engine.vector, bytes_max, self._connections.steady.at(now_ms)
            )
            if not blocks:
                continue
            size = sum(len(block.body) for block in blocks)
            bytes_max -= size
            merged = True
            try:
                self._claims.check_blocks(link.peer, blocks)
                self._engine.peers.merge(blocks, link.peer, now_ms)
                self._connections.counts["blocks_merged"] += len(blocks)
                self._connections.counts["bytes_merged"] += size
            except PeerError as error:
                self._connections.failed(connection, error, now_ms)
        if merged:
            self._announcements.merged()
            self._announcements.announce(now_ms)
        return merged

    def merged_elsewhere(self) -> None:
        """Effects were merged that came over no link: a header that waits may be covered now."""
        self._announcements.merged()
        self._again = True

    # -- snapshots

    def pull(self, now_ms: int, steady_ms: int) -> None:
        """Asks a peer for a snapshot when the puller decides so, and gives up one that stalls."""
        patience_ms = self._connections.settings.integer("crdt-snapshot-patience-ms")
        stalled = self._connections.puller.stalled(steady_ms, patience_ms)
        if stalled is not None:
            connection = self._connections.links[stalled].connection
            assert connection is not None
            self._connections.closed(
                connection.number, "no further chunk of its snapshot came", now_ms
            )
        self._rebuilds_from = self._engine.peers.rebuilds_from
        peer = self._to_rebuild_from(steady_ms)
        why = "from which this region is rebuilt"
        if not self._rebuilds_from:
            peer = self._connections.puller.decide(self._engine.vector, steady_ms, patience_ms)
            why = "whose log no longer reaches back"
        connection = self._connections.links[peer].connection if peer is not None else None
        if connection is not None and connection.receiver is not None:
            name = self._connections.name_of(connection.peer)
            text = f"pulls a snapshot from {name}, {why}"
            self._connections.tell(logging.INFO, "snapshot_begun", text, peer=name)
            self._snapshot_number += 1
            connection.receiver.ask_snapshot(self._snapshot_number)

    def _to_rebuild_from(self, steady_ms: int) -> Optional[int]:
        """The peer from which this region is rebuilt, if it is to be asked now (S13.7)."""
        link = self._connections.links.get(self._rebuilds_from)
        connection = link.connection if link is not None else None
        receiver = connection.receiver if connection is not None else None
        puller = self._connections.puller
        if receiver is None or not receiver.open or puller.pulling is not None:
            return None
        return puller.ask(self._rebuilds_from, steady_ms)

    def join(self, connection: PeerConnection, staged: Staged, now_ms: int) -> None:
        """Joins a staged snapshot in one step (S11.2), unless this region holds all of it by now.

        Raises LinkRefused when it claims effects that this region never issued, and ChainForked
        when a chain value of the snapshot differs from this region's.
        """
        self._claims.check_vector(connection.peer, staged.vector)
        for region_id, chain in staged.chains.items():
            same_place = self._engine.disk_vector.get(region_id) == staged.vector.get(region_id)
            if same_place and self._engine.disk_chains.get(region_id, chain) != chain:
                raise ChainForked(f"the snapshot has a different history of region {region_id}")
        is_source = connection.peer == self._rebuilds_from
        if is_source or not includes(self._engine.vector, staged.vector):
            self._engine.peers.snapshots.join(staged.chunks, connection.peer, now_ms)
            self._connections.counts["snapshots_joined"] += 1
            self._engine.peers.want_commit()
            name = self._connections.name_of(connection.peer)
            text = f"joined a snapshot of {staged.bytes} bytes from {name}"
            self._connections.tell(
                logging.INFO, "snapshot_joined", text, peer=name, bytes=staged.bytes
            )
            self._rebuilds_from = self._engine.peers.rebuilds_from
        self._connections.puller.joined(self._connections.steady.at(now_ms))
        self._engine.peers.snapshots.drop_read_ahead()
        self.merged_elsewhere()
