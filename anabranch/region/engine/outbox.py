"""Outputs of the engine that the driver takes: late replies, and requests made by commands."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.replies import NO_REPLY, Reply
from anabranch.region.engine.session import Session

# Longest delay that CRDT.LINK … DELAY accepts.
LINK_DELAY_MAX_MS: Final = 3_600_000
# Largest limit that CRDT.LINK … LIMIT accepts, in bytes per second.
LINK_LIMIT_MAX_BYTES_S: Final = 1 << 40


class LateReply:
    """The reply of a command that had waited."""

    def __init__(self, session: Session, reply: Reply) -> None:
        self.session: Final = session
        self.reply: Final = reply


class LinkRequest:
    """A request of CRDT.LINK: `action` is "UP", "DOWN", "DELAY" or "LIMIT".

    Delay and limit are those in force after the request; 0 means none.
    """

    def __init__(self, peer: int, action: str, delay_ms: int, limit_bytes_s: int) -> None:
        self.peer: Final = peer
        self.action: Final = action
        self.delay_ms: Final = delay_ms
        self.limit_bytes_s: Final = limit_bytes_s


class Outbox:
    """The outputs since the last call of each `take` method, which empties its list."""

    def __init__(self) -> None:
        self.replies: list[LateReply] = []
        # Replies that wait until a position is on disk (S2.4), in the order of their commands.
        self.held: list[tuple[int, LateReply]] = []
        self.link_requests: list[LinkRequest] = []
        self.sessions_to_close: list[int] = []
        self.shutdown_requested = False
        # SHUTDOWN NOSAVE or FORCE: the region ends also if its last changes cannot be written.
        self.shutdown_may_lose = False
        # DEBUG SLEEP: how long to block the process, in ms.
        self.sleep_ms = 0

    def answer(self, session: Session, reply: Reply) -> None:
        """Sends a waiting session its reply, unless CLIENT REPLY suppresses it.

        The session waits until the reply is taken, so that no command after it is answered first.
        """
        session.waiting = True
        if session.reply_mode != "on":
            if session.reply_mode != "off":
                session.reply_mode = "on"
            reply = NO_REPLY
        self.replies.append(LateReply(session, reply))

    def hold(self, session: Session, reply: Reply, position: int) -> None:
        """Holds a reply until `position` is on disk."""
        session.waiting = True
        self.held.append((position, LateReply(session, reply)))

    def release(self, position: int) -> None:
        """Rows up to `position` are on disk: sends the replies that waited for them."""
        kept: list[tuple[int, LateReply]] = []
        for needed, late in self.held:
            if needed <= position:
                self.answer(late.session, late.reply)
            else:
                kept.append((needed, late))
        self.held = kept

    def drop_held(self) -> None:
        """A commit failed: disconnects the clients whose replies are held (S13.4)."""
        self.sessions_to_close += [late.session.session_id for _, late in self.held]
        self.held = []

    def forget(self, session: Session) -> None:
        """Drops the held replies of a client that is gone."""
        self.held = [held for held in self.held if held[1].session is not session]

    def take_replies(self) -> list[LateReply]:
        """The late replies, in order."""
        if not self.replies:
            return []
        replies, self.replies = self.replies, []
        for late in replies:
            late.session.waiting = False
        return replies

    def take_sessions_to_close(self) -> list[int]:
        """The ids of the sessions to disconnect."""
        closing, self.sessions_to_close = self.sessions_to_close, []
        return closing

    def take_link_requests(self) -> list[LinkRequest]:
        """The requests of CRDT.LINK since the last call."""
        requests, self.link_requests = self.link_requests, []
        return requests

    def take_sleep_ms(self) -> int:
        """How long to block the process, in ms; 0: not at all."""
        sleep_ms, self.sleep_ms = self.sleep_ms, 0
        return sleep_ms

    def is_urgent(self) -> bool:
        """Whether the driver must take an output before the next tick."""
        return bool(
            self.replies or self.sessions_to_close or self.shutdown_requested or self.sleep_ms
        )
