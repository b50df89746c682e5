"""Connections, and the links that this region dials, with back-off and CRDT.LINK. Sans-IO."""

from __future__ import annotations

from typing import Final, NamedTuple, Optional, Union

from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.sync.session.held_messages import HeldMessages
from anabranch.sync.session.messages import Hello, Message, Welcome
from anabranch.sync.session.receiver import Receiver
from anabranch.sync.session.sender import Sender


class OtherEnd(NamedTuple):
    """Who is at the other end of a connection, as its carrier knows.

    `address`: HOST:PORT; empty if it is not known. `certified`: the member that the certificate of
    the other side is for; empty without TLS.
    """

    address: str = ""
    certified: str = ""


# Nothing is known.
NOBODY: Final = OtherEnd()


class PeerConnection:
    """One connection, with a receiver if this region dialled, or a sender if it accepted.

    `number` is the number by which the driver and the carrier name it. `peer` is 0 until an
    accepted connection has received a Hello. `finishing`: the connection closes once its last
    messages are sent.
    """

    def __init__(
        self,
        number: int,
        now_ms: int,
        *,
        receiver: Optional[Receiver] = None,
        sender: Optional[Sender] = None,
        end: OtherEnd = NOBODY,
    ) -> None:
        assert (receiver is None) != (sender is None)
        self.number = number
        self.receiver = receiver
        self.sender = sender
        self.peer = receiver.peer if receiver is not None else 0
        self.address, self.certified = end
        # When something was last heard, and a message arrived (steady). What is held back counts
        # as heard.
        self.heard_ms = self.said_ms = now_ms
        self.finishing = False
        # The Hello or Welcome of the other side.
        self.greeting: Optional[Union[Hello, Welcome]] = None
        # The life of the other side, as reported by itself on this connection; 0: not reported yet.
        self.life = 0
        # The number of the other side's process; 0: not told.
        self.process = 0
        # Number of the newest start question of this region that was sent here.
        self.asked = 0

    @property
    def is_open(self) -> bool:
        """Whether the handshake is complete and the connection is not finishing."""
        session = self.receiver or self.sender
        assert session is not None
        return session.open

    def address_field(self) -> dict[str, object]:
        """The field of an event that tells the address of the other side, if it is known."""
        return {"address": self.address} if self.address else {}

    def queue(self, message: Union[StartQuestion, StartAnswer]) -> None:
        """Queues a message of a kind that goes in both directions."""
        session = self.receiver or self.sender
        assert session is not None
        session.queue(message)

    def next_message(self) -> Optional[Message]:
        """Returns the next message to send; None when no message waits."""
        if self.receiver is not None:
            return self.receiver.next_message()
        assert self.sender is not None
        return self.sender.next_message()


class Link:
    """The link over which this region receives from one peer: the dialler's side.

    `state` is shown by CRDT.PEERS: up, down (by CRDT.LINK), connecting, refused, forked. `wanted`
    is False after CRDT.LINK DOWN. A forked link stays closed until CRDT.LINK UP (S13.5).
    """

    def __init__(self, peer: int, pause_min_ms: int, pause_max_ms: int, now_ms: int) -> None:
        self.peer = peer
        self.pause_min_ms = pause_min_ms
        self.pause_max_ms = pause_max_ms
        self.wanted = True
        self.state = "connecting"
        self.dialling = False
        self.connection: Optional[PeerConnection] = None
        # For CRDT.LINK … DELAY and LIMIT.
        self.held = HeldMessages()
        self._pause_ms = pause_min_ms
        self._dial_ms = now_ms

    def dial_due(self, now_ms: int) -> bool:
        idle = self.connection is None and not self.dialling
        return idle and self.wanted and self.state != "forked" and now_ms >= self._dial_ms

    def dial_now(self, now_ms: int) -> None:
        self._pause_ms = self.pause_min_ms
        self._dial_ms = now_ms

    def back_off(self, now_ms: int) -> None:
        """Delays the next dial: the pause doubles, up to crdt-reconnect-max-ms."""
        self._dial_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, self.pause_max_ms)

    def back_off_longest(self, now_ms: int) -> None:
        """Delays the next dial by the longest pause: after a refusal an operator has to act."""
        self._pause_ms = self.pause_max_ms
        self._dial_ms = now_ms + self._pause_ms

    def welcomed(self) -> None:
        self._pause_ms = self.pause_min_ms
