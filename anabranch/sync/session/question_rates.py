"""How often a peer may ask and report. Sans-IO.

Each question costs this region work: an answer to a start needs a commit, a snapshot a cut of all
data. A peer asks again only after news or after seconds, so it stays far below these rates. One
that does not is refused, and may dial again.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.sync.session import messages as m


class _Rate:
    """So many messages at once, and after these one every `interval_us`."""

    def __init__(self, name: str, at_once: int, per_s: float) -> None:
        self.name: Final = name
        self.at_once: Final = at_once
        self.per_s: Final = per_s
        self.interval_us: Final = int(1_000_000 / per_s)


_RATES: Final[dict[type, _Rate]] = {
    StartQuestion: _Rate("questions of a start", 100, 10),
    StartAnswer: _Rate("answers to a start", 100, 10),
    m.SnapshotRequest: _Rate("requests for a snapshot", 10, 0.5),
    m.VectorAcknowledgement: _Rate("vectors", 10_000, 2000),
    m.Heartbeat: _Rate("heartbeats", 5000, 1000),
    m.HoldingBack: _Rate("messages that it holds back", 1000, 100),
}


class QuestionRates:
    """The rates of all peers."""

    def __init__(self) -> None:
        # (peer, kind) → when all that came will be within the rate, in µs (steady).
        self._paid_us: Final[dict[tuple[int, type], int]] = {}

    def count(self, peer: int, message: object, steady_ms: int) -> None:
        """Counts a message. Raises `LinkRefused` if the peer sends too many of its kind."""
        kind = type(message)
        rate = _RATES.get(kind)
        if rate is None:
            return
        now_us = steady_ms * 1000
        paid_us = max(self._paid_us.get((peer, kind), 0), now_us) + rate.interval_us
        if paid_us - now_us > rate.at_once * rate.interval_us:
            raise m.LinkRefused(
                "malformed",
                f"too many {rate.name}: {rate.at_once} at once and {rate.per_s:g} per second are"
                " allowed",
            )
        self._paid_us[(peer, kind)] = paid_us
