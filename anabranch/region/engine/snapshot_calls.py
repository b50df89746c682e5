"""The calls of the engine for snapshots: cuts for peers, and joins of what peers have cut (S11)."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.snapshot import CUT_WEIGHT, SnapshotCut, SnapshotRecords
from anabranch.region.engine import merging
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.steps import Steps


class SnapshotCalls:
    """The engine as the hub uses it for snapshots."""

    def __init__(self, state: EngineState, steps: Steps) -> None:
        self.state: Final = state
        self._steps: Final = steps
        # What is made ahead of the next cut, and how much of it in one step: for about as long as
        # it takes to encode so many bytes.
        self._cut_records: Optional[SnapshotRecords] = None
        self._cut_weight = CUT_WEIGHT
        # The snapshot under way.
        self._ahead: Final = merging.ReadAhead(state.keyspace)

    # -- for peers

    def limit_preparation(self, weight: int) -> None:
        """Makes `prepare_cut` take about as long as it takes to encode `weight` bytes."""
        self._cut_weight = weight

    def prepare_cut(self) -> bool:
        """Makes some records of the next snapshot; True once `cut` takes little time."""
        if self._cut_records is None:
            self._cut_records = SnapshotRecords(self.state.keyspace)
        return self._cut_records.make_some(self._cut_weight)

    def drop_preparation(self) -> None:
        """Drops the records that were made for the next snapshot: nobody waits for it any more."""
        if self._cut_records is not None:
            self._cut_records.drop()
            self._cut_records = None

    def cut(self) -> SnapshotCut:
        """A consistent cut of everything applied (S11.2).

        The caller may send it once its position is on disk.
        """
        state = self.state
        state.journal.cut_block()
        if state.journal.position > state.disk.position:
            state.schedule.commit_wanted = True
        state.replication.snapshots_cut += 1
        made, self._cut_records = self._cut_records, None
        return SnapshotCut(state.keyspace, state.journal.position, made)

    # -- of peers

    def read_ahead(self, chunks: list[bytes]) -> None:
        """Reads the chunks of a staged snapshot that came since the last call, for its `join`.

        `chunks` is the list to which the caller adds chunks. Another list is another snapshot, and
        the former one is dropped.

        Raises:
            PeerError: The snapshot is malformed.
        """
        self._ahead.read(chunks)

    def drop_read_ahead(self) -> None:
        """Drops the snapshot that was read ahead: it is joined, or never will be."""
        self._ahead.drop()

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        """Joins a whole staged snapshot in one step (S11), most of it read ahead.

        Raises:
            PeerError: The snapshot is malformed, forks a chain, or knows a region that is not a
                member.
        """
        self.state.clock.read(now_ms)
        if self.state.is_taken_from(source):
            try:
                merging.join_snapshot(self.state, self._ahead.take(chunks), chunks, source)
            finally:
                self._steps.after_merge()
