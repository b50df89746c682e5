"""What of this region is on its disk, as of the last commit that ended (S2.4, S13.1)."""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.vector import Vector
from anabranch.region.engine.rows import Commit


class DiskState:
    """Whatever tells others what this region has speaks of these values."""

    def __init__(
        self, position: int, vector: Vector, chains: dict[int, bytes], clock_ms: int
    ) -> None:
        self.position = position
        self.vector = vector
        self.chains = chains
        self.clock_ms = clock_ms
        # The commit that is being written.
        self.in_flight: Optional[Commit] = None
        # Why the last commit failed; empty: it did not fail (S13.4).
        self.error = ""
        # Facts of identity that the next commit stores: life, recovery, lost members.
        self.meta_changes: dict[str, bytes] = {}
        # The position up to which the newest complete checkpoint reflects everything.
        self.checkpoint_position = position
        # The region's clock when that checkpoint ended; 0: none has ended since the start.
        self.checkpoint_ms = 0

    def begin(self, commit: Commit) -> None:
        """A commit is being written; the facts of identity go with it."""
        commit.meta = self.meta_changes
        self.meta_changes = {}
        self.in_flight = commit

    def committed(self) -> None:
        """The commit under way has ended."""
        commit = self.in_flight
        assert commit is not None
        self.in_flight = None
        self.error = ""
        self.position = commit.position
        self.vector = commit.vector
        self.chains = commit.chains
        self.clock_ms = commit.clock_ms

    def clock_of_newest_commit(self) -> int:
        """The clock that the commit under way carries, or else that of the last one."""
        return self.clock_ms if self.in_flight is None else self.in_flight.clock_ms
