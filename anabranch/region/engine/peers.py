"""The state of the links with each other region, for CRDT.PEERS, sync rounds and WAIT."""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Vector
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.lags import Lags, SyncDelays
from anabranch.region.engine.member_clocks import MemberClocks
from anabranch.region.engine.members import Members
from anabranch.region.engine.statistics import Traffic

# How the detail of a link begins whose other side has other members (S1.1).
NO_MEMBER_THERE: Final = ("not-a-member:", "members:")


class PeerStatus:
    """The link that receives from one peer, and the link by which that peer receives from here."""

    def __init__(self) -> None:
        # "none" until the hub sets it: this region does not dial every member.
        self.state = "none"
        self.detail = ""
        # Whether the newest link that was up has TLS.
        self.is_encrypted = False
        # Set by CRDT.LINK … DOWN: messages of the peer are not applied.
        self.is_down = False
        # Set by CRDT.LINK … DELAY and LIMIT; 0: none.
        self.delay_ms = 0
        self.limit_bytes_s = 0
        self.receives_from_here = False
        # The vector on the peer's disk, as reported on the open connection.
        self.acknowledged: Vector = {}
        # The vector that this region reported last to the peer from which it receives.
        self.reported: Vector = {}
        # How far the peer's clock was ahead of this region's, at the newest effects of the peer
        # that this region heard of (ms); 0: not ahead, as far as is known.
        self.clock_ahead_ms = 0
        self.traffic: Final = Traffic()

    @property
    def is_up(self) -> bool:
        """Whether this region receives from the peer."""
        return self.state == "up" and not self.is_down


class Peers:
    """The status of every other member."""

    def __init__(self, members: Members, clock: EngineClock) -> None:
        self.by_id: dict[int, PeerStatus] = {
            member: PeerStatus() for member in members.by_id if member != members.region_id
        }
        self.clocks: Final = MemberClocks(clock, members)
        self.receiver_count = 0
        # Whether every peer that this region dials refuses it, because it is no member there.
        self.refuse_this_region = False
        self.lags: Final = Lags()
        self.delays: Final = SyncDelays()

    def note_refusals(self) -> None:
        """Notes whether all refuse this region. Call it when the state of a link has changed."""
        dialled = [status for status in self.by_id.values() if status.state != "none"]
        self.refuse_this_region = bool(dialled) and all(
            status.state == "refused" and status.detail.startswith(NO_MEMBER_THERE)
            for status in dialled
        )

    def receivers(self) -> list[PeerStatus]:
        """The peers that receive from this region."""
        return [status for status in self.by_id.values() if status.receives_from_here]

    def receives(self, peer: int, receives: bool) -> None:
        """Notes that a peer begins or ceases to receive from this region."""
        status = self.by_id[peer]
        status.receives_from_here = receives
        status.acknowledged = {}
        self.receiver_count = len(self.receivers())
