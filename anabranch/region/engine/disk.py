"""The state that is on this region's disk, as of the last successful commit (S2.4, S13.1)."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.vector import Vector
from anabranch.region.engine.members import ids_in_row
from anabranch.region.engine.rows import Commit


class DiskState:
    """Position, vector, chains and clock on disk.

    Everything that this region tells others about its state comes from these values (S2.4).
    """

    def __init__(
        self, position: int, vector: Vector, chains: dict[int, bytes], clock_ms: int, opened_ms: int
    ) -> None:
        self.position = position
        self.vector = vector
        self.chains = chains
        self.clock_ms = clock_ms
        # The commit that was under way when the clock was reset (S10.2): its clock does not count.
        self._before_reset: Optional[Commit] = None
        # The region's clock at the start of this process.
        self.opened_ms: Final = opened_ms
        # The commit that is being written.
        self.in_flight: Optional[Commit] = None
        # Error text of the last commit if it failed, else empty (S13.4).
        self.error = ""
        # What was found damaged in the database since the start, else empty.
        self.damage = ""
        # The members that this region called lost at its last commit (S13.8).
        self.lost: list[int] = []
        # The database holds salvaged blocks that the recovery has not dealt with yet (S13.7).
        self.has_salvage = False
        # The member whose snapshot a rebuilt region joins before anything else; 0: none, or it has.
        self.rebuild_from = 0
        # Meta rows that the next commit stores: life, recovery, lost members, the floor of IDs.
        self.meta_changes: dict[str, bytes] = {}
        # The newest complete checkpoint reflects all rows up to this position.
        self.checkpoint_position = position
        # The region's clock when that checkpoint ended; 0: none has ended since the start.
        self.checkpoint_ms = 0

    def note_salvage(self, is_there: bool) -> None:
        """Notes whether the database holds salvaged blocks that are not dealt with."""
        self.has_salvage = is_there

    def note_rebuild(self, source: int) -> None:
        """Notes the member whose snapshot is to be joined first; 0: none any more."""
        self.rebuild_from = source

    def begin(self, commit: Commit) -> None:
        """Notes the commit that is now written, and adds the meta rows to it."""
        commit.meta = self.meta_changes
        self.meta_changes = {}
        self.in_flight = commit

    def committed(self) -> None:
        """The commit under way is on disk."""
        commit = self.in_flight
        assert commit is not None
        self.in_flight = None
        self.error = ""
        self.position = commit.position
        self.vector = commit.vector
        self.chains = commit.chains
        if commit is not self._before_reset:
            self.clock_ms = max(self.clock_ms, commit.clock_ms)
        if "lost" in commit.meta:
            self.lost = ids_in_row(commit.meta["lost"])

    def reset_clock(self, clock_ms: int) -> None:
        """The clock was reset to `clock_ms`: that of the commit under way counts no more."""
        self.clock_ms = clock_ms
        self._before_reset = self.in_flight

    def clock_of_newest_commit(self) -> int:
        """The clock of the commit under way, else of the last commit.

        A commit without rows does not count while it is under way: no position tells when it is on
        disk.
        """
        if (
            self.in_flight is None
            or self.in_flight is self._before_reset
            or self.in_flight.position <= self.position
        ):
            return self.clock_ms
        return max(self.clock_ms, self.in_flight.clock_ms)
