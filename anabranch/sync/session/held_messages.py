"""Messages that a slow link holds back: the delay and the limit of CRDT.LINK. Sans-IO.

A message passes two stages, in order. The first is the limit: one message after the other takes its
bytes ÷ limit seconds, and is through when its last byte is. The second is the delay, which holds
each message for the same time. Bytes are those of the message on the wire without compression.

The delay alone holds no more than a peer may send ahead of this region's disk, and heartbeats. The
limit could hold ever more heartbeats, so a full queue asks the carrier to read no further.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Optional

from anabranch.sync.session.codec import encode_down
from anabranch.sync.session.messages import Heartbeat, Message

# A limited link that holds this many bytes, in addition to those that its delay holds, is full.
FULL_BYTES: Final = 1 << 20
# A limited link that holds this many messages is full.
FULL_MESSAGES: Final = 1000


class _Held:
    """A message, its size in bytes, and when it arrived and passed the limit (-1: not yet)."""

    __slots__ = ("arrived_us", "message", "size", "through_us")

    def __init__(self, message: Message, size: int, arrived_us: int) -> None:
        self.message = message
        self.size = size
        self.arrived_us = arrived_us
        self.through_us = -1


class HeldMessages:
    """The messages of one connection that wait, oldest first. Times are steady.

    `delay_ms` and `limit_bytes_s` may change at any time: messages that wait follow the new values.
    0 means no delay, or no limit.
    """

    def __init__(self) -> None:
        self.delay_ms = 0
        self.limit_bytes_s = 0
        self.size = 0
        # Messages before the limit, then messages in the delay.
        self._before: deque[_Held] = deque()
        self._delayed: deque[_Held] = deque()
        # When the newest message passed the limit.
        self._free_us = 0

    def __bool__(self) -> bool:
        return bool(self._before or self._delayed)

    def clear(self) -> None:
        """Drops all messages; delay and limit stay."""
        self._before.clear()
        self._delayed.clear()
        self.size = self._free_us = 0

    def hold(self, message: Message, now_ms: int) -> bool:
        """Keeps a message, in order; False if nothing slows the link: process the message at once.

        Without a limit in force the message passes that stage at once, so its size is not needed.
        """
        if not (self.delay_ms or self.limit_bytes_s or self):
            return False
        # A link that this region dialled receives Down messages only.
        size = len(encode_down(message, "none")) if self.limit_bytes_s else 0  # type: ignore[arg-type]
        if isinstance(message, Heartbeat) and message.stops:
            # The peer waits for the end of the link, which drops all messages that are held.
            return False
        self._before.append(_Held(message, size, now_ms * 1000))
        self.size += size
        return True

    def due(self, now_ms: int) -> Optional[Message]:
        """Returns the next message that has passed limit and delay; None if there is none."""
        self._pass_limit(now_ms * 1000)
        if not self._delayed:
            return None
        first = self._delayed[0]
        if first.through_us + self.delay_ms * 1000 > now_ms * 1000:
            return None
        self.size -= first.size
        return self._delayed.popleft().message

    def _pass_limit(self, now_us: int) -> None:
        while self._before:
            first = self._before[0]
            through_us = first.arrived_us
            if self.limit_bytes_s:
                began_us = max(self._free_us, first.arrived_us)
                through_us = began_us + first.size * 1_000_000 // self.limit_bytes_s
            if through_us > now_us:
                return
            first.through_us = self._free_us = through_us
            self._delayed.append(self._before.popleft())

    @property
    def is_full(self) -> bool:
        """Whether the carrier is to read no further message of this connection."""
        if not self.limit_bytes_s:
            return False
        in_delay = self.limit_bytes_s * self.delay_ms // 1000
        return (
            self.size >= FULL_BYTES + min(in_delay, FULL_BYTES << 6)
            or len(self._before) >= FULL_MESSAGES
        )
