"""The calls of the engine for links: their states, their traffic, and the requests of CRDT.LINK."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.outbox import LinkRequest
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.statistics import ends_round


class LinkCalls:
    """The engine as the links of the region use it: what they do shows in its figures."""

    def __init__(self, state: EngineState) -> None:
        self.state: Final = state

    def receiver_opened(self, peer: int) -> None:
        """A peer has begun to receive from this region."""
        self.state.peers.receives(peer, True)

    def receiver_closed(self, peer: int) -> None:
        """A peer no longer receives from this region."""
        self.state.peers.receives(peer, False)

    def message_sent(self, peer: int, size: int) -> None:
        """Counts a message of `size` bytes that was sent to a peer."""
        status = self.state.peers.by_id.get(peer)
        if status is not None:
            status.traffic.sent_bytes += size
            status.traffic.sent_messages += 1

    def message_received(self, peer: int, size: int) -> None:
        """Counts a message of `size` bytes that a peer sent."""
        status = self.state.peers.by_id.get(peer)
        if status is not None:
            status.traffic.received_bytes += size
            status.traffic.received_messages += 1

    def reports_vector(self, peer: int) -> None:
        """Notes that the vector on this region's disk is reported to a peer that sends to it."""
        state = self.state
        status, vector = state.peers.by_id[peer], state.disk.vector
        status.traffic.received_rounds += ends_round(
            status.reported, vector, state.members.region_id
        )
        status.reported = vector

    def is_in_state(self, peer: int, state: str, detail: str) -> None:
        """Sets the state that CRDT.PEERS shows for the link that receives from `peer`."""
        status = self.state.peers.by_id[peer]
        status.state = state
        status.detail = detail
        self.state.peers.note_refusals()
        if state == "up" and self.state.lifecycle.lost_words.remove(peer):
            self.state.note_called_lost()

    def runs_twice(self, peer: int, detail: str) -> None:
        """Sets what CRDT.PEERS shows beside the state of a link: two processes run as `peer`."""
        self.state.peers.by_id[peer].detail = detail

    def is_encrypted(self, peer: int, encrypted: bool) -> None:
        """Notes whether the link that receives from `peer`, which is up now, has TLS."""
        self.state.peers.by_id[peer].is_encrypted = encrypted

    def refused(self, reason: str) -> None:
        """A link was closed for `reason`, by this region or by the peer; counts the alarms."""
        self.state.replication.gaps += reason == "gap"
        self.state.replication.forks += reason == "forked"

    def log_has_gap(self) -> None:
        """Effects are missing in the midst of this region's log (S13.10); counts the alarm."""
        self.state.replication.gaps += 1

    def has_requests(self) -> bool:
        """Whether `take_requests` has requests. Cheap, because it runs for each message."""
        return bool(self.state.outbox.link_requests)

    def take_requests(self) -> list[LinkRequest]:
        """The requests of CRDT.LINK since the last call."""
        return self.state.outbox.take_link_requests()
