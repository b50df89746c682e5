"""What a region must do about its links, though nothing else happens: dial, and go on merging.

The pauses between dials have an account here, apart from the region's own. A pause doubles with
every dial that fails and every connection that ends, between crdt-reconnect-min-ms and
crdt-reconnect-max-ms. A link that was up begins with the shortest pause again. After a refusal the
pause is the longest. A link that an operator took down is not dialled, nor one whose chains fork
(S13.5).

A link that stopped at a header goes on once the block has come by another link (S2.3).
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.vector import Vector, covers
from anabranch.sync.session.links import Link

# Ticks of a working region after a dial is due, without a dial.
TICKS_MAX: Final = 6


class _Dialled:
    """The link to one peer. `due_ms` is the true time of the next dial, None while none is due."""

    def __init__(self, link: Link, now_ms: int) -> None:
        self.link: Final = link
        self.pause_ms = link.pause_min_ms
        self.due_ms: Optional[int] = now_ms
        # The connection, by the process's number; 0 without one.
        self.connection = 0
        # Ticks since a dial became due.
        self.overdue = 0

    def dialled(self) -> None:
        self.connection = 0
        self.due_ms = None
        self.overdue = 0

    def ended(self, now_ms: int) -> None:
        """A dial failed, or the connection is gone."""
        link = self.link
        if link.state == "refused":
            self.pause_ms = link.pause_max_ms
        self.dialled()
        self.due_ms = now_ms + self.pause_ms
        self.pause_ms = min(2 * self.pause_ms, link.pause_max_ms)

    def look(self, now_ms: int, ran_back: bool) -> bool:
        """The region works at this moment; returns whether a dial is overdue.

        `ran_back`: its clock has run back since the last look. Its time for links stood still
        meanwhile, however long that was, so a pause may begin anew.
        """
        link = self.link
        if link.state == "up":
            self.pause_ms = link.pause_min_ms
        if not link.wanted or link.state == "forked":
            # CRDT.LINK UP has it dialled at once.
            self.pause_ms = link.pause_min_ms
            if self.due_ms is not None:
                self.due_ms = now_ms
            self.overdue = 0
        elif self.due_ms is not None and ran_back:
            self.due_ms = max(self.due_ms, now_ms + link.pause_max_ms)
            self.overdue = 0
        elif self.due_ms is not None and now_ms > self.due_ms:
            self.overdue += 1
        return self.overdue > TICKS_MAX


class Dials:
    """The links that one process dials, by the region_id of the peer."""

    def __init__(self, links: dict[int, Link], now_ms: int) -> None:
        self._links: Final = {peer: _Dialled(link, now_ms) for peer, link in links.items()}
        self._clock_ms = 0

    def dialled(self, peer: int) -> None:
        """The process dials a peer."""
        self._links[peer].dialled()

    def opened(self, peer: int, number: Optional[int], now_ms: int) -> None:
        """A dial succeeded. `number` is that of the connection, None if it is not wanted."""
        if number is None:
            self._links[peer].ended(now_ms)
        else:
            self._links[peer].connection = number

    def failed(self, peer: int, now_ms: int) -> None:
        """A dial failed."""
        self._links[peer].ended(now_ms)

    def closed(self, number: int, now_ms: int) -> None:
        """A connection is gone, whoever closed it. Others than the present ones do not count."""
        for one in self._links.values():
            if one.connection == number:
                one.ended(now_ms)

    def overdue(self, now_ms: int, clock_ms: int) -> list[str]:
        """Call it in every tick of a process that works; returns what is wrong.

        `clock_ms` is the time that its own clock reads.
        """
        ran_back, self._clock_ms = clock_ms < self._clock_ms, clock_ms
        return [
            f"works, and did not dial region {peer} for {now_ms - (one.due_ms or 0)} ms after it "
            "was due"
            for peer, one in self._links.items()
            if one.look(now_ms, ran_back)
        ]


def held_up(links: dict[int, Link], vector: Vector) -> list[str]:
    """Call it while a region with this vector has no merge to come; returns what is wrong."""
    found: list[str] = []
    for peer, link in links.items():
        receiver = link.connection.receiver if link.connection is not None else None
        dot = receiver.stuck_at if receiver is not None else None
        if dot is not None and covers(vector, *dot):
            found.append(f"has block {dot}, and the link from region {peer} still waits for it")
    return found
