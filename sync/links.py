"""The links of one region, as the hub keeps them: those it dials, with back-off and CRDT.LINK, and those it accepted. Sans-IO."""

from __future__ import annotations

from collections import deque
from typing import Optional, Union

from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.sync.messages import Hello, Message, Welcome
from anabranch.sync.receiver import Receiver
from anabranch.sync.sender import Sender


class PeerConnection:
    """One connection; `number` names it to the carrier. It has a receiver (dialled) or a sender (accepted).

    `peer` is 0 until an accepted one has said Hello. `finishing`: when nothing waits to be said any more, it closes.
    """

    def __init__(
        self,
        number: int,
        now_ms: int,
        *,
        receiver: Optional[Receiver] = None,
        sender: Optional[Sender] = None,
    ) -> None:
        assert (receiver is None) != (sender is None)
        self.number = number
        self.receiver = receiver
        self.sender = sender
        self.peer = receiver.peer if receiver is not None else 0
        self.heard_ms = now_ms
        self.finishing = False
        self.checked = False  # the chains of the other side fit ours
        self.greeting: Optional[Union[Hello, Welcome]] = None  # of the other side
        self.life = 0  # of the other side, as it said itself on this connection; 0: not yet
        self.asked = 0  # the newest asking of this region's start that was said here

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over, and the connection is not about to close."""
        session = self.receiver or self.sender
        assert session is not None
        return session.open

    def say(self, message: Union[StartQuestion, StartAnswer]) -> None:
        """Sends a message that may go in both directions."""
        session = self.receiver or self.sender
        assert session is not None
        session.say(message)

    def next_message(self) -> Optional[Message]:
        """The next message to send; None when nothing waits."""
        if self.receiver is not None:
            return self.receiver.next_message()
        assert self.sender is not None
        return self.sender.next_message()


class Link:
    """What receives from one peer: the dialler's side.

    `state` is what CRDT.PEERS shows: up, down (by CRDT.LINK), connecting, refused, forked. `wanted`: not DOWN. A forked link stays
    closed until CRDT.LINK UP (S13.5).
    """

    def __init__(self, peer: int, pause_min_ms: int, pause_max_ms: int, now_ms: int) -> None:
        self.peer = peer
        self.pause_min_ms = pause_min_ms
        self.pause_max_ms = pause_max_ms
        self.wanted = True
        self.state = "connecting"
        self.detail = ""
        self.dialling = False
        self.connection: Optional[PeerConnection] = None
        self.delay_ms = 0
        self.delayed: deque[tuple[int, Message]] = deque()  # (due, message): CRDT.LINK … DELAY
        self._pause_ms = pause_min_ms
        self._dial_ms = now_ms

    def dial_due(self, now_ms: int) -> bool:
        idle = self.connection is None and not self.dialling
        return idle and self.wanted and self.state != "forked" and now_ms >= self._dial_ms

    def dial_now(self, now_ms: int) -> None:
        self._pause_ms = self.pause_min_ms
        self._dial_ms = now_ms

    def back_off(self, now_ms: int) -> None:
        """Exponential, from crdt-reconnect-min-ms to crdt-reconnect-max-ms."""
        self._dial_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, self.pause_max_ms)

    def back_off_longest(self, now_ms: int) -> None:
        """After a refusal: somebody has to change something first."""
        self._pause_ms = self.pause_max_ms
        self._dial_ms = now_ms + self._pause_ms

    def welcomed(self) -> None:
        self._pause_ms = self.pause_min_ms

    def hold(self, message: Message, now_ms: int) -> bool:
        """Keeps a message for the delay in force; False when it may be processed at once. Order is kept."""
        if not self.delay_ms and not self.delayed:
            return False
        self.delayed.append((now_ms + self.delay_ms, message))
        return True

    def due(self, now_ms: int) -> Optional[Message]:
        """The next message whose delay is over."""
        if self.delayed and (self.delay_ms == 0 or self.delayed[0][0] <= now_ms):
            return self.delayed.popleft()[1]
        return None
