"""Stable time: what reads without gaps rest on (S7.7).

A region tells a time T: every entry with a generated ID below T ms that will ever be in a stream is
there already. `EngineState.stable_time` computes T from this region's clock on disk and from the
clocks that came with the newest counting vectors of the other members. T rests on a promise of
every region: the IDs that it generates never lie below a clock that it, or a member that it asked,
had on disk before. The floor keeps that promise after files were put back to a backup (S4.1).

T is about generated IDs, so IDs given by users, RENAME, a start that only patience ended, a lost
member, and a clock that was reset can make a T wrong. This module notes each of them for INFO.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt import ids

# How long the clocks of all regions are kept fresh after a client asked for T (ms).
_WANTED_MS: Final = 10_000


class StableTime:
    """The floor of this region, who wants T, and what may have made a T wrong.

    `id_floor_ms` is the lowest ms of generated IDs. It is stored as the meta row `id_floor`.
    `patience_ms`, `lost_ms` and `reset_ms` are the times at which a start of this region was last
    ended by patience alone, at which a member was last declared lost here, and at which its clock
    was last reset; 0: never. They are stored, too.
    """

    def __init__(
        self, id_floor_ms: int = 0, patience_ms: int = 0, lost_ms: int = 0, reset_ms: int = 0
    ) -> None:
        self.id_floor_ms = id_floor_ms
        self.patience_ms = patience_ms
        self.lost_ms = lost_ms
        self.reset_ms = reset_ms
        # The highest T that this region has had since the start.
        self.highest_ms = 0
        # Entries with IDs below `highest_ms`: given to XADD here, copied by RENAME here.
        self.given = 0
        self.renamed = 0
        # Steady times until which a client of this region, or of any region, wants T.
        self._asked_until_ms = 0
        self._wanted_until_ms = 0

    def note_asked(self, steady_ms: int) -> None:
        """Notes that a client of this region asked for T."""
        self._asked_until_ms = steady_ms + _WANTED_MS
        self.note_wanted(steady_ms)

    def note_wanted(self, steady_ms: int) -> None:
        """Notes that a client of some region asked for T."""
        self._wanted_until_ms = steady_ms + _WANTED_MS

    def is_asked(self, steady_ms: int) -> bool:
        """Whether a client of this region asked for T lately. Other regions are told."""
        return steady_ms < self._asked_until_ms

    def is_wanted(self, steady_ms: int) -> bool:
        """Whether a client of any region asked for T lately: this region keeps its clock fresh."""
        return steady_ms < self._wanted_until_ms

    def note_given(self, entry_id: int) -> None:
        """Notes an entry whose ID a user gave."""
        self.given += ids.ms_of(entry_id) < self.highest_ms

    def note_renamed(self, entry_id: int) -> None:
        """Notes an entry that RENAME copied."""
        self.renamed += ids.ms_of(entry_id) < self.highest_ms

    def reset_counts(self) -> None:
        """Sets the counts to 0 (CONFIG RESETSTAT)."""
        self.given = self.renamed = 0
