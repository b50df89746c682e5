"""The refusals of links for the operator's log: bounded, whatever clients send. Sans-IO.

A peer that is refused dials again every second, and anybody can connect to the port of the region.
So the same refusal again is no line, and the different ones of one peer and direction are at most
`LINES_MAX` lines in `WINDOW_MS`. The others are counted, and the window's end tells how many they
were, with the newest of them.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.sync.session.unnamed import host_of

WINDOW_MS: Final = 10_000
LINES_MAX: Final = 3
# Most characters of a line that come from the peer: a Hello may name a megabyte of members.
TEXT_MAX: Final = 500


class Refused:
    """A refusal. `peer`: 0 if it is unknown. `direction`: "receiving from", "sending to", or
    "accepting from" before the other side has said who it is.

    `address`: HOST:PORT of the other side, or empty.
    """

    def __init__(
        self, peer: int, direction: str, reason: str, text: str, address: str = ""
    ) -> None:
        self.peer: Final = peer
        self.direction: Final = direction
        self.reason: Final = reason
        self.address: Final = address
        self.text: Final = text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


class _Window:
    """The refusals of one peer in one direction. `lines` were told in the window to `until_ms`."""

    def __init__(self) -> None:
        self.until_ms = 0
        self.lines = 0
        # Reason, text and host of the newest line; forgotten when the link works.
        self.shown: Optional[tuple[str, str, str]] = None
        # The newest refusal that is no line, and the number of these.
        self.newest: Optional[Refused] = None
        self.count = 0


class RefusalLog:
    """Decides which refusals become lines."""

    def __init__(self) -> None:
        # Members and "unknown", in two directions: there are few.
        self._windows: Final[dict[tuple[int, str], _Window]] = {}

    def is_line(self, refused: Refused, now_ms: int) -> bool:
        """Whether this refusal is a line now. If not, it counts for `due`, unless it is no news."""
        window = self._windows.setdefault((refused.peer, refused.direction), _Window())
        shown = _shown(refused)
        if shown == window.shown:
            return False
        if now_ms >= window.until_ms and window.newest is None:
            window.until_ms = now_ms + WINDOW_MS
            window.lines = 0
        if window.lines == LINES_MAX:
            window.newest = refused
            window.count += 1
            return False
        window.lines += 1
        window.shown = shown
        return True

    def due(self, now_ms: int) -> list[tuple[Refused, int]]:
        """The newest refusals left out of windows that are over, each with how many there were."""
        found = []
        for window in self._windows.values():
            if window.newest is not None and now_ms >= window.until_ms:
                found.append((window.newest, window.count))
                window.shown = _shown(window.newest)
                window.newest, window.count = None, 0
        return found

    def works(self, peer: int) -> None:
        """A link with the peer works: the next refusal is news, even if it is the same again."""
        for (one, _), window in self._windows.items():
            if one == peer:
                window.shown = None


def _shown(refused: Refused) -> tuple[str, str, str]:
    """What makes a refusal news: not the port, which is another one with every connection."""
    return refused.reason, refused.text, host_of(refused.address)
