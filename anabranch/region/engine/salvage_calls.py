"""The calls of the engine for a salvage: the sound part of a damaged log (S13.7)."""

from __future__ import annotations

from typing import Final

from anabranch.crdt.block import Block
from anabranch.region.engine import merging
from anabranch.region.engine.lifecycle import LOST, RECOVERY
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.steps import Steps


class SalvageCalls:
    """The engine as the driver uses it while it merges a salvage."""

    def __init__(self, state: EngineState, steps: Steps) -> None:
        self.state: Final = state
        self._steps: Final = steps

    def is_wanted(self) -> bool:
        """Whether the salvage on disk is to be merged now.

        It waits while commits fail or are slow, so that too many bytes wait for the disk (S14), and
        until the snapshot is joined from which the region is rebuilt.
        """
        state = self.state
        if not state.disk.has_salvage or state.lifecycle.state not in (RECOVERY, LOST):
            return False
        if state.rebuilds_from:
            return False
        return state.journal.pending_bytes() <= state.cached.uncommitted_max_bytes

    def merge(self, items: list[Block], now_ms: int) -> int:
        """Merges the next items of the salvage (`region.storage.salvage`) while it `is_wanted`.

        Returns how many items are dealt with: those before the first that does not follow yet.

        Raises:
            PeerError: A block forks a chain, is malformed, or is of a region that is no member.
        """
        self.state.clock.read(now_ms)
        try:
            return merging.merge_salvage(self.state, items)
        finally:
            self._steps.after_merge()

    def is_final(self) -> bool:
        """Whether an item of the salvage that does not follow now never will.

        In recovery the region then holds all that other members hold; a lost region gets nothing.
        """
        state = self.state
        return state.lifecycle.state == LOST or state.lifecycle.holds_all_answered(
            state.members.others(), state.disk.vector
        )

    def end(self) -> None:
        """The salvage is dealt with. Its rows go with the commit that ends the recovery."""
        self.state.disk.note_salvage(False)
