"""How far regions are behind each other in time, and how long effects travel.

Theory of operation
-------------------
A lag in effects says nothing about time. So the region remembers **marks**: at which moment it
first knew of which counter. The lag of whoever holds effects up to a counter is the age of the
first mark above that counter. All moments of lags are this region's own steady time, so clocks that
are set wrong do not matter.

- A peer lags behind this region by the marks of this region's own effects on disk, and by the
  counter that the peer is known to have on disk.
- This region is behind a peer by the marks of the peer's effects that it has heard of. While the
  link by which it receives from the peer is interrupted, it may hear of none; then it is behind at
  least since it heard of the last ones, through other regions, too. A link that is delayed by
  CRDT.LINK tells everything that much late.

**Sync delays** are measured with the statements that regions make of themselves: a statement has a
vector and the clock of the commit of that vector (S6.2). The delay is the time from this clock to
the moment at which this region's disk had the same effects. Regions state that with each heartbeat,
so there is one sample for each heartbeat with new effects. Two clocks are compared here.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, Optional

from anabranch.crdt.gossip import Heard
from anabranch.crdt.vector import Vector
from anabranch.region.engine.statistics import ReplicationStatistics

# Steady time between two marks.
INTERVAL_MS: Final = 100
# Above this number every second of the older marks is dropped: old lags are known less exactly.
_MARKS_MAX: Final = 512
# Statements of one region whose effects are not on this region's disk yet.
_STATEMENTS_MAX: Final = 64


class Marks:
    """Moments (ms) at which counters were first known, both ascending."""

    def __init__(self) -> None:
        self._at_ms: list[int] = []
        self._counters: list[int] = []

    def note(self, counter: int, at_ms: int) -> None:
        """Adds a mark, unless the counter is known or the time runs back."""
        if self._counters and (counter <= self._counters[-1] or at_ms < self._at_ms[-1]):
            return
        self._at_ms.append(at_ms)
        self._counters.append(counter)
        if len(self._counters) > _MARKS_MAX:
            # The first mark stays: it is the age of the oldest effect that somebody lacks.
            del self._at_ms[1 : _MARKS_MAX // 2 : 2]
            del self._counters[1 : _MARKS_MAX // 2 : 2]

    def first_above(self, counter: int) -> Optional[int]:
        """The moment of the first mark above a counter; None if there is none."""
        place = bisect_right(self._counters, counter)
        return self._at_ms[place] if place < len(self._at_ms) else None

    def forget(self, counter: int) -> None:
        """Drops the marks up to a counter."""
        place = bisect_right(self._counters, counter)
        if place:
            del self._at_ms[:place]
            del self._counters[:place]

    def __len__(self) -> int:
        return len(self._counters)


class Lags:
    """The marks of this region and of its peers."""

    def __init__(self) -> None:
        self._own: Final = Marks()
        self._heard: Final[dict[int, Marks]] = {}
        # Steady time at which the link from a peer was last up, or at which this region last heard
        # of new effects of the peer.
        self._up_ms: Final[dict[int, int]] = {}
        # The counter heard of each peer.
        self._newest: Final[dict[int, int]] = {}
        self._due_ms = 0

    def is_due(self, steady_ms: int) -> bool:
        """Whether to call `note_own` and `note_peer` now."""
        return steady_ms >= self._due_ms

    def note_own(self, counter: int, held_by_all: int, steady_ms: int) -> None:
        """Notes the counter on this region's disk, and the lowest that its peers hold."""
        self._due_ms = steady_ms + INTERVAL_MS
        self._own.forget(held_by_all)
        if counter > held_by_all:
            self._own.note(counter, steady_ms)

    def note_peer(self, peer: int, hears: bool, heard: int, applied: int, steady_ms: int) -> None:
        """Notes the counter heard of a peer, and the one applied here.

        `hears`: the link from the peer is up, or the peer is not dialled at all.
        """
        marks = self._heard.get(peer)
        if marks is None:
            marks = self._heard[peer] = Marks()
            self._up_ms[peer] = steady_ms
        marks.forget(applied)
        if heard > applied:
            marks.note(heard, steady_ms)
        known = max(heard, applied)
        if hears or known > self._newest.get(peer, 0):
            self._up_ms[peer] = steady_ms
        self._newest[peer] = known

    def peer_lag_ms(self, held: int, steady_ms: int) -> int:
        """How long a peer that holds own effects up to `held` has lacked the next one; else 0."""
        since_ms = self._own.first_above(held)
        return 0 if since_ms is None else max(steady_ms - since_ms, 0)

    def behind_ms(self, peer: int, delay_ms: int, applied: int, steady_ms: int) -> int:
        """How long this region has been behind a peer, of whose effects `applied` are here.

        `delay_ms` is the delay of the link from the peer.
        """
        marks = self._heard.get(peer)
        if marks is None:
            return 0
        since_ms = marks.first_above(applied)
        lag_ms = 0 if since_ms is None else max(steady_ms - since_ms, 0)
        if steady_ms - self._up_ms[peer] > INTERVAL_MS:
            lag_ms = max(lag_ms, steady_ms - self._up_ms[peer])
        return lag_ms + delay_ms


class SyncDelays:
    """Measures how long effects take from the disk of their region to this region's disk."""

    def __init__(self) -> None:
        # For each origin: when which counter was on this region's disk (clock, ms).
        self._on_disk: Final[dict[int, Marks]] = {}
        # For each origin: the counters and clocks (ms) of statements, ascending.
        self._stated: Final[dict[int, list[tuple[int, int]]]] = {}
        self._newest: Final[dict[int, int]] = {}

    def stated(self, heard: Heard, statistics: ReplicationStatistics) -> bool:
        """A region has stated what is on its disk. Returns whether it has new effects of its own.

        The clock of such a statement is the one of a commit made just now, or a little earlier.
        """
        origin = heard.region_id
        counter = heard.vector.get(origin, 0)
        if counter <= self._newest.get(origin, 0):
            return False
        is_first = origin not in self._newest
        self._newest[origin] = counter
        if is_first:
            # This region may have been away when these effects were issued.
            return True
        stated = self._stated.setdefault(origin, [])
        if len(stated) < _STATEMENTS_MAX:
            stated.append((counter, heard.clock_ms))
        self._count(origin, statistics)
        return True

    def committed(
        self, vector: Vector, own: int, now_ms: int, statistics: ReplicationStatistics
    ) -> None:
        """This region's disk has the effects of `vector` since `now_ms`."""
        for origin, counter in vector.items():
            if origin == own:
                continue
            marks = self._on_disk.get(origin)
            if marks is None:
                marks = self._on_disk[origin] = Marks()
            marks.note(counter, now_ms)
            if self._stated.get(origin):
                self._count(origin, statistics)

    def _count(self, origin: int, statistics: ReplicationStatistics) -> None:
        """Counts the statements whose effects are on disk."""
        marks, stated = self._on_disk.get(origin), self._stated[origin]
        while marks is not None and stated:
            counter, clock_ms = stated[0]
            at_ms = marks.first_above(counter - 1)
            if at_ms is None:
                return
            statistics.count_sync_delay(origin, at_ms - clock_ms)
            del stated[0]
