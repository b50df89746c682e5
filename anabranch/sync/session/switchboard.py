"""The connections of one region: they open, are refused, close and fail. Sans-IO.

`opening` and `hub` build on this module.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, Optional

from anabranch.crdt.errors import ChainForked, NotAMember, PeerError, SyncGap
from anabranch.sync.session import messages as m
from anabranch.sync.session.events import Event
from anabranch.sync.session.handshake import LinkLimits
from anabranch.sync.session.interfaces import Engine, Settings, SteadyClock
from anabranch.sync.session.links import Link, PeerConnection
from anabranch.sync.session.log_tail import LogTail
from anabranch.sync.session.puller import Puller
from anabranch.sync.session.receiver import Receiver
from anabranch.sync.session.refusal_log import RefusalLog, Refused
from anabranch.sync.session.sender import Sender
from anabranch.sync.session.snapshots import SnapshotServer
from anabranch.sync.session.start_asking import StartAsking
from anabranch.sync.session.work import HubWork

# Most accepted connections without a Hello. A peer sends it at once; each of the others may hold a
# message of the greatest length.
HANDSHAKES_MAX: Final = 64


class Switchboard:
    """The connections of one region.

    `links`: the links that this region dials, by peer. `sending`: the connections of the peers that
    receive from this region, by peer. `counts`: figures for INFO and metrics.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        peers: Iterable[int],
        tail: LogTail,
        clock: SteadyClock,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.tail = tail
        pauses = (
            settings.integer("crdt-reconnect-min-ms"),
            settings.integer("crdt-reconnect-max-ms"),
        )
        self.links = {peer: Link(peer, *pauses, 0) for peer in sorted(peers)}
        self.sending: dict[int, PeerConnection] = {}
        self.snapshots = SnapshotServer()
        self.start_asking = StartAsking(engine)
        self.counts = dict.fromkeys(
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
        self._steady = clock
        self._connections: dict[int, PeerConnection] = {}
        self._number = 0
        self._refusals = RefusalLog()
        self._puller = Puller()
        self._work = HubWork()
        for link in self.links.values():
            self._state(link, "connecting")

    # -- connections open and close

    def dial_opened(self, peer: int, now_ms: int) -> Optional[int]:
        """Notes that the dial of `peer` succeeded.

        Returns the number of the connection, or None when the connection is no longer wanted.
        """
        link = self.links[peer]
        link.dialling = False
        if not link.wanted or link.connection is not None:
            return None
        for former in list(self._connections.values()):
            if former.receiver is not None and former.peer == peer:
                self._drop(former)
        link.connection = connection = self._connection(
            now_ms, receiver=Receiver(peer, LinkLimits(self.settings))
        )
        return connection.number

    def dial_failed(self, peer: int, text: str, now_ms: int) -> None:
        link = self.links[peer]
        link.dialling = False
        link.back_off(self._steady.at(now_ms))
        if link.wanted:
            self._state(link, link.state, text)

    def accepted(self, now_ms: int) -> int:
        """Notes that a peer dialled this region; returns the number of the connection.

        Above `HANDSHAKES_MAX` connections without a Hello, the oldest of these is closed.
        """
        silent = [
            connection
            for connection in self._connections.values()
            if connection.sender is not None and connection.greeting is None
        ]
        if len(silent) >= HANDSHAKES_MAX:
            self._drop(silent[0])
        return self._connection(
            now_ms, sender=Sender(self.engine.region_id, LinkLimits(self.settings), self.tail)
        ).number

    def closed(self, number: int, text: str, now_ms: int) -> None:
        """Notes that the carrier lost this connection or that the other side closed it."""
        connection = self._connections.get(number)
        if connection is None:
            return
        link = self.links.get(connection.peer) if connection.receiver is not None else None
        current = link is not None and link.connection is connection
        self._drop(connection)
        if link is not None and current:
            link.back_off(self._steady.at(now_ms))
            if link.state == "up":
                self._tell_link(
                    logging.WARNING, "link_lost", link.peer, f"is lost: {text}", reason=text
                )
            self._state(link, "connecting", text)

    def malformed(self, number: int, error: PeerError, now_ms: int) -> None:
        """Notes that the carrier could not decode a message."""
        connection = self._connections.get(number)
        if connection is not None and not connection.finishing:
            self._failed(connection, error, now_ms)

    def _drop_former_lives(self, now_ms: int) -> None:
        """Closes connections whose peer has begun a later life, and drops their data (S1.3, S2.2).

        Such a connection leads to a process that no longer runs. Suppose that its region was put
        back to a backup. Its peers then report how many of its effects they hold, and the region
        issues its next effects after those (S13.6, S13.7). So an effect of the former life that
        this region has not applied by then must never be applied. What the former life said that
        it holds does not count any more, either: a restore may have taken it back.
        """
        for connection in list(self._connections.values()):
            is_former = 0 < connection.life < self.engine.newest_life(connection.peer)
            if is_former and not connection.finishing:
                text = f"{self._name(connection.peer)} has begun another life"
                self.closed(connection.number, text, now_ms)

    def _connection(
        self, now_ms: int, receiver: Optional[Receiver] = None, sender: Optional[Sender] = None
    ) -> PeerConnection:
        self._number += 1
        connection = PeerConnection(
            self._number, self._steady.at(now_ms), receiver=receiver, sender=sender
        )
        self._connections[connection.number] = connection
        return connection

    def _drop(self, connection: PeerConnection) -> None:
        """Drops a connection and its data, and has it closed without a further message."""
        self._detach(connection)
        if self._connections.pop(connection.number, None) is not None:
            self._work.closes.append(connection.number)

    def _detach(self, connection: PeerConnection) -> None:
        """Takes a connection out of its link and drops its data. Its last messages may still go."""
        self.start_asking.forget(connection)
        if connection.receiver is not None:
            link = self.links[connection.peer]
            if link.connection is connection:
                link.connection = None
                link.held.clear()
                self._puller.closed(connection.peer)
            return
        if self.sending.get(connection.peer) is connection:
            del self.sending[connection.peer]
            if connection.sender is not None and connection.sender.open:
                self.engine.links.receiver_closed(connection.peer)
        self.snapshots.forget(connection)

    def _refuse(self, connection: PeerConnection, refusal: m.Refusal, now_ms: int) -> None:
        """Sends a refusal, then closes the connection. Both sides show the reason."""
        self._detach(connection)
        connection.finishing = True
        session = connection.receiver or connection.sender
        assert session is not None
        session.refuse(refusal)
        self._show_refusal(connection, refusal.reason, refusal.text, now_ms)

    def _show_refusal(
        self, connection: PeerConnection, reason: str, text: str, now_ms: int
    ) -> None:
        self.counts["refusals"] += 1
        self.engine.links.refused(reason)
        direction = "receiving from" if connection.receiver is not None else "sending to"
        refused = Refused(connection.peer, direction, reason, text)
        if self._refusals.is_line(refused, self._steady.at(now_ms)):
            self._tell_refusal(refused)
        if connection.receiver is not None:
            link = self.links[connection.peer]
            if not link.wanted:
                return
            if reason == "superseded":
                link.back_off(self._steady.at(now_ms))
                self._state(link, "connecting", text)
                return
            link.back_off_longest(self._steady.at(now_ms))
            self._state(link, "forked" if reason == "forked" else "refused", f"{reason}: {text}")

    def _tell_refusal(self, refused: Refused, count: int = 1) -> None:
        """Adds a refusal for the operator's log. `count`: the new ones since the last such line."""
        peer = self._name(refused.peer)
        text = f"{refused.direction} {peer}: {refused.reason}: {refused.text}"
        fields: dict[str, object] = {
            "peer": peer,
            "direction": refused.direction.split(" ", 1)[0],
            "reason": refused.reason,
        }
        if count > 1:
            text = f"{count} refusals since the last line, the newest: {text}"
            fields["count"] = count
        self._tell(logging.WARNING, "link_refused", text, **fields)

    def _failed(self, connection: PeerConnection, error: PeerError, now_ms: int) -> None:
        """Refuses a connection whose peer broke the protocol or failed a check of the engine."""
        if isinstance(error, m.LinkRefused):
            reason = error.reason
        elif isinstance(error, ChainForked):
            reason = "forked"
        elif isinstance(error, SyncGap):
            reason = "gap"
        else:
            reason = "not-a-member" if isinstance(error, NotAMember) else "malformed"
        self._refuse(connection, m.Refusal(reason, str(error)), now_ms)

    # -- output for the driver

    def next_message(self, number: int) -> Optional[m.Message]:
        """Returns the next message to send on this connection; None when no message waits.

        The driver asks again after every step and after each message sent.
        """
        connection = self._connections.get(number)
        if connection is None:
            return None
        try:
            return connection.next_message()
        except PeerError as error:
            # This region's log does not fit the vector that the peer reported.
            self._failed(connection, error, self._steady.told_ms)
            return connection.next_message()

    def sent(self, number: int, size: int) -> None:
        """Counts a message of `size` bytes that was sent on this connection."""
        self.counts["bytes_sent"] += size
        connection = self._connections.get(number)
        if connection is not None and connection.peer:
            self.engine.links.message_sent(connection.peer, size)

    def arrived(self, number: int, size: int) -> None:
        """Counts a message of `size` bytes that arrived on this connection.

        The first message of an accepted connection says who the peer is: call this after
        `Hub.received`.
        """
        self.counts["bytes_received"] += size
        connection = self._connections.get(number)
        if connection is not None and connection.peer:
            self.engine.links.message_received(connection.peer, size)

    def finished(self, number: int) -> bool:
        """Whether the carrier is to close this connection. Call it when no message waits."""
        connection = self._connections.get(number)
        return connection is None or connection.finishing

    def _state(self, link: Link, state: str, detail: str = "") -> None:
        link.state = state
        self.engine.links.is_in_state(link.peer, state, detail)

    def _tell(self, level: int, name: str, text: str, **fields: object) -> None:
        """Adds an event for the operator's log."""
        self._work.events.append(Event(level, name, text, fields))

    def _tell_link(self, level: int, name: str, peer: int, text: str, **fields: object) -> None:
        """Adds an event of the link by which this region receives from a peer."""
        shown = self._name(peer)
        self._tell(level, name, f"the link from {shown} {text}", peer=shown, **fields)

    def _name(self, peer: int) -> str:
        member = self.engine.members.get(peer)
        return (
            member.name if member is not None else f"region {peer}" if peer else "an unknown region"
        )
