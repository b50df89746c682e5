"""The connections of one region: they open, are refused, close and fail. Sans-IO."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, Optional

from anabranch.crdt.errors import ChainForked, NotAMember, PeerError, SyncGap
from anabranch.sync.session import messages as m
from anabranch.sync.session.events import LoggedEvent
from anabranch.sync.session.handshake import Identity, LinkLimits, refusal_of_lost
from anabranch.sync.session.interfaces import Engine, Settings, SteadyClock
from anabranch.sync.session.links import Link, OtherEnd, PeerConnection
from anabranch.sync.session.log_tail import LogTail
from anabranch.sync.session.puller import Puller
from anabranch.sync.session.receiver import Receiver
from anabranch.sync.session.refusal_log import RefusalLog, Refused
from anabranch.sync.session.sender import Sender
from anabranch.sync.session.snapshots import SnapshotServer
from anabranch.sync.session.start_asking import StartAsking
from anabranch.sync.session.unnamed import TOO_LATE, TOO_MANY, Unnamed
from anabranch.sync.session.work import HubWork

# A connection is taken for dead after crdt-link-silence-ms without a message, but not before this
# number of heartbeats is missing.
_SILENCE_HEARTBEATS: Final = 50


class Connections:
    """The connections of one region. `peers`: the regions from which this one receives.

    `links`: the links that this region dials, by peer. `sending`: the connections of the peers that
    receive from this region, by peer. `counts`: figures for INFO and metrics. `work`: the tasks for
    the driver. `has_detached`: a connection was taken out of its link, or out of `sending`.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        peers: Iterable[int],
        tail: LogTail,
        clock: SteadyClock,
    ) -> None:
        self.engine: Final = engine
        self.settings: Final = settings
        self.tail: Final = tail
        self.steady: Final = clock
        pauses = (
            settings.integer("crdt-reconnect-min-ms"),
            settings.integer("crdt-reconnect-max-ms"),
        )
        self.links: Final = {peer: Link(peer, *pauses, 0) for peer in sorted(peers)}
        self.sending: Final[dict[int, PeerConnection]] = {}
        self.by_number: Final[dict[int, PeerConnection]] = {}
        # The parts that hold data of connections.
        self.snapshots: Final = SnapshotServer()
        self.start_asking: Final = StartAsking(engine)
        self.puller: Final = Puller()
        # The accepted connections without a Hello: each may hold a message of the greatest length.
        self.unnamed: Final = Unnamed()
        self.counts: Final = dict.fromkeys(
            [
                "refusals",
                "log_reads",
                "bodies_sent",
                "snapshots_joined",
                "blocks_merged",
                "bytes_merged",
                "bytes_sent",
                "bytes_received",
            ],
            0,
        )
        self.work = HubWork()
        self.has_detached = False
        # This region stops, and takes no new connections.
        self.is_leaving = False
        self._number = 0
        self._refusals: Final = RefusalLog()
        for link in self.links.values():
            self.set_state(link, "connecting")

    # -- connections open and close

    def dialled(self, peer: int, now_ms: int, end: OtherEnd) -> Optional[PeerConnection]:
        """Notes that the dial of `peer` succeeded.

        Returns the connection, or None when it is no longer wanted.
        """
        link = self.links[peer]
        link.dialling = False
        if not link.wanted or link.connection is not None:
            return None
        for former in list(self.by_number.values()):
            if former.receiver is not None and former.peer == peer:
                self.drop(former)
        link.connection = connection = self._new(
            now_ms, end, receiver=Receiver(peer, LinkLimits(self.settings))
        )
        return connection

    def dial_failed(self, peer: int, text: str, now_ms: int) -> None:
        link = self.links[peer]
        link.dialling = False
        link.back_off(self.steady.at(now_ms))
        if link.wanted:
            self.set_state(link, link.state, text)

    def accepted(self, now_ms: int, end: OtherEnd) -> int:
        """Notes that another side dialled this region; returns the number of the connection."""
        sender = Sender(self.engine.region_id, LinkLimits(self.settings), self.tail)
        connection = self._new(now_ms, end, sender=sender)
        if self.is_leaving:
            self.drop(connection)
            return connection.number
        one_too_many = self.unnamed.add(connection.number, end.address, self.steady.at(now_ms))
        if one_too_many is not None:
            self._turn_away(one_too_many, TOO_MANY, now_ms)
        return connection.number

    def _turn_away(self, number: int, text: str, now_ms: int) -> None:
        """Closes an accepted connection that has not said who it is."""
        connection = self.by_number[number]
        self.drop(connection)
        self.turned_away(connection.address, text, now_ms)

    def turned_away(self, address: str, text: str, now_ms: int) -> None:
        """Notes that a connection from `address` was closed before its Hello."""
        self._count_refusal(Refused(0, "accepting from", "unnamed", text, address), now_ms)

    def closed(self, number: int, text: str, now_ms: int) -> None:
        """Notes that the carrier lost this connection or that the other side closed it."""
        connection = self.by_number.get(number)
        if connection is None:
            return
        link = self.links.get(connection.peer) if connection.receiver is not None else None
        current = link is not None and link.connection is connection
        self.drop(connection)
        if link is not None and current:
            link.back_off(self.steady.at(now_ms))
            if link.state == "up":
                self.tell_link(
                    logging.WARNING, "link_lost", link.peer, f"is lost: {text}", reason=text
                )
            self.set_state(link, "connecting", text)

    def malformed(self, number: int, error: PeerError, now_ms: int) -> None:
        """Notes that the carrier could not decode a message."""
        connection = self.by_number.get(number)
        if connection is not None and not connection.finishing:
            self.failed(connection, error, now_ms)

    def close_former_lives(self, now_ms: int) -> None:
        """Closes connections whose peer has begun a later life, and drops their data (S1.3, S2.2).

        Such a connection leads to a process that no longer runs. Suppose that its region was put
        back to a backup. Its peers then report how many of its effects they hold, and the region
        issues its next effects after those (S13.6, S13.7). So an effect of the former life that
        this region has not applied by then must never be applied. What the former life said that
        it holds does not count any more, either: a restore may have taken it back.
        """
        for connection in list(self.by_number.values()):
            is_former = 0 < connection.life < self.engine.peers.newest_life(connection.peer)
            if is_former and not connection.finishing:
                text = f"{self.name_of(connection.peer)} has begun another life"
                self.closed(connection.number, text, now_ms)

    def _new(
        self,
        now_ms: int,
        end: OtherEnd,
        receiver: Optional[Receiver] = None,
        sender: Optional[Sender] = None,
    ) -> PeerConnection:
        self._number += 1
        connection = PeerConnection(
            self._number, self.steady.at(now_ms), receiver=receiver, sender=sender, end=end
        )
        self.by_number[connection.number] = connection
        return connection

    def drop(self, connection: PeerConnection) -> None:
        """Drops a connection and its data, and has it closed without a further message."""
        self.detach(connection)
        if self.by_number.pop(connection.number, None) is not None:
            self.work.closes.append(connection.number)

    def detach(self, connection: PeerConnection) -> None:
        """Takes a connection out of its link and drops its data. Its last messages may still go."""
        self.has_detached = True
        self.unnamed.remove(connection.number)
        self.start_asking.forget(connection)
        if connection.receiver is not None:
            link = self.links[connection.peer]
            if link.connection is connection:
                link.connection = None
                link.held.clear()
                self.puller.closed(connection.peer)
            return
        if self.sending.get(connection.peer) is connection:
            del self.sending[connection.peer]
            if connection.sender is not None and connection.sender.open:
                self.engine.peers.links.receiver_closed(connection.peer)
        self.snapshots.forget(connection)

    def refuse_lost(self, now_ms: int) -> None:
        """Refuses the connections of members that were said to be lost while connected (S13.8)."""
        own = Identity.of(self.engine)
        for connection in list(self.by_number.values()) if own.lost else []:
            if connection.peer in own.lost and not connection.finishing:
                refusal = refusal_of_lost(self.name_of(connection.peer), own.name)
                self.refuse(connection, refusal, now_ms)

    def close_silent(self, now_ms: int, steady_ms: int) -> None:
        silence_ms = max(
            self.settings.integer("crdt-link-silence-ms"),
            _SILENCE_HEARTBEATS * self.settings.integer("crdt-heartbeat-interval-ms"),
        )
        for link in self.links.values():
            # A message that is held back has come: the carrier may have been told to read no more.
            if link.connection is not None and link.held:
                link.connection.heard_ms = steady_ms
        needs_tls = self.settings.text("sync-tls") == "required"
        for connection in list(self.by_number.values()):
            if steady_ms - connection.heard_ms > silence_ms:
                self.closed(connection.number, f"nothing heard for {silence_ms} ms", now_ms)
            elif needs_tls and not connection.certified:
                self.closed(connection.number, "it has no TLS, and sync-tls is required", now_ms)
        for number in self.unnamed.late(steady_ms):
            self._turn_away(number, TOO_LATE, now_ms)

    # -- refusals

    def tell_repeated_refusals(self, steady_ms: int) -> None:
        """Adds lines for refusals that came again and again, when they are due."""
        for refused, count in self._refusals.due(steady_ms):
            self.tell_refusal(refused, count)

    def works(self, peer: int) -> None:
        """A link with a peer is open: its refusals are over."""
        self._refusals.works(peer)

    def refuse(self, connection: PeerConnection, refusal: m.Refusal, now_ms: int) -> None:
        """Sends a refusal, then closes the connection. Both sides show the reason."""
        self.detach(connection)
        connection.finishing = True
        session = connection.receiver or connection.sender
        assert session is not None
        session.refuse(refusal)
        self.show_refusal(connection, refusal.reason, refusal.text, now_ms)

    def show_refusal(self, connection: PeerConnection, reason: str, text: str, now_ms: int) -> None:
        self.engine.peers.links.refused(reason)
        direction = "receiving from" if connection.receiver is not None else "sending to"
        refused = Refused(connection.peer, direction, reason, text, connection.address)
        self._count_refusal(refused, now_ms)
        if connection.receiver is not None:
            link = self.links[connection.peer]
            if not link.wanted:
                return
            if reason == "superseded":
                link.back_off(self.steady.at(now_ms))
                self.set_state(link, "connecting", text)
                return
            link.back_off_longest(self.steady.at(now_ms))
            self.set_state(link, "forked" if reason == "forked" else "refused", f"{reason}: {text}")

    def _count_refusal(self, refused: Refused, now_ms: int) -> None:
        self.counts["refusals"] += 1
        if self._refusals.is_line(refused, self.steady.at(now_ms)):
            self.tell_refusal(refused)

    def tell_refusal(self, refused: Refused, count: int = 1) -> None:
        """Adds a refusal for the operator's log. `count`: the new ones since the last such line."""
        peer = self.name_of(refused.peer)
        text = f"{refused.direction} {peer}: {refused.reason}: {refused.text}"
        fields: dict[str, object] = {
            "peer": peer,
            "direction": refused.direction.split(" ", 1)[0],
            "reason": refused.reason,
        }
        if refused.address:
            fields["address"] = refused.address
        if count > 1:
            text = f"{count} refusals since the last line, the newest: {text}"
            fields["count"] = count
        self.tell(logging.WARNING, "link_refused", text, **fields)

    def failed(self, connection: PeerConnection, error: PeerError, now_ms: int) -> None:
        """Refuses a connection whose peer broke the protocol or failed a check of the engine."""
        if isinstance(error, m.LinkRefused):
            reason = error.reason
        elif isinstance(error, ChainForked):
            reason = "forked"
        elif isinstance(error, SyncGap):
            reason = "gap"
        else:
            reason = "not-a-member" if isinstance(error, NotAMember) else "malformed"
        self.refuse(connection, m.Refusal(reason, str(error)), now_ms)

    # -- messages

    def next_message(self, number: int) -> Optional[m.Message]:
        """Returns the next message to send on this connection; None when no message waits.

        The driver asks again after every step and after each message sent.
        """
        connection = self.by_number.get(number)
        if connection is None:
            return None
        try:
            message = connection.next_message()
        except PeerError as error:
            # This region's log does not fit the vector that the peer reported.
            self.failed(connection, error, self.steady.told_ms)
            return connection.next_message()
        if isinstance(message, m.HoldingBack) and connection.sender is not None:
            self._tell_gap(connection, connection.sender.take_gap())
        return message

    def _tell_gap(self, connection: PeerConnection, gap: Optional[tuple[int, int, int]]) -> None:
        """Says that effects are missing in the midst of this region's log (S13.10)."""
        if gap is None:
            return
        origin, first, last = gap
        peer, of = self.name_of(connection.peer), self.name_of(origin)
        text = (
            f"the log lacks the effects {first} to {last} of {of}, and {peer} gets a snapshot in"
            " their place; stop the region, and `anabranch check` reads the whole log"
        )
        self.engine.peers.links.log_has_gap()
        self.tell(logging.ERROR, "log_gap", text, peer=peer, origin=of, first=first, last=last)

    def sent(self, number: int, size: int) -> None:
        """Counts a message of `size` bytes that was sent on this connection."""
        self.counts["bytes_sent"] += size
        connection = self.by_number.get(number)
        if connection is not None and connection.peer:
            self.engine.peers.links.message_sent(connection.peer, size)

    def arrived(self, number: int, size: int) -> None:
        """Counts a message of `size` bytes that arrived on this connection.

        The first message of an accepted connection says who the peer is: call this after
        `Hub.received`.
        """
        self.counts["bytes_received"] += size
        connection = self.by_number.get(number)
        if connection is not None and connection.peer:
            self.engine.peers.links.message_received(connection.peer, size)

    def finished(self, number: int) -> bool:
        """Whether the carrier is to close this connection. Call it when no message waits."""
        connection = self.by_number.get(number)
        return connection is None or connection.finishing

    def reads_on(self, number: int) -> bool:
        """Whether the carrier is to read another message; False while a limited link is full."""
        connection = self.by_number.get(number)
        if connection is None or connection.receiver is None:
            return True
        return not self.links[connection.peer].held.is_full

    # -- events and states

    def set_state(self, link: Link, state: str, detail: str = "") -> None:
        link.state = state
        self.engine.peers.links.is_in_state(link.peer, state, detail)

    def tell(self, level: int, name: str, text: str, **fields: object) -> None:
        """Adds an event for the operator's log."""
        self.work.events.append(LoggedEvent(level, name, text, fields))

    def tell_link(self, level: int, name: str, peer: int, text: str, **fields: object) -> None:
        """Adds an event of the link by which this region receives from a peer."""
        shown = self.name_of(peer)
        self.tell(level, name, f"the link from {shown} {text}", peer=shown, **fields)

    def tell_accepted(self, connection: PeerConnection) -> None:
        """Adds an event of a link by which a peer begins to receive from this region."""
        shown = self.name_of(connection.peer)
        self.tell(
            logging.INFO,
            "link_accepted",
            f"{shown} receives from this region",
            peer=shown,
            life=connection.life,
            **connection.address_field(),
        )

    def name_of(self, peer: int) -> str:
        member = self.engine.members.get(peer)
        return (
            member.name if member is not None else f"region {peer}" if peer else "an unknown region"
        )
