"""Invariant 4: no two regions generate one ID of one key (S4.1).

Only IDs that regions chose by their clocks (`*`) count: clients may give an ID twice, and a RENAME
copies IDs (S10.1).
"""

from __future__ import annotations

from anabranch.sim.checkers.ledger import LedgerJudge
from anabranch.sim.history import Committed, Setup
from anabranch.sim.logged import Add


class UniqueIds(LedgerJudge):
    """Compares the IDs of all adds that are committed."""

    name = "unique_ids"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        # (key, entry ID) → the region that generated the ID.
        self._generated: dict[tuple[bytes, int], int] = {}

    def committed(self, event: Committed) -> None:
        super().committed(event)
        for add in self.ledger.fresh:
            if isinstance(add, Add) and add.has_clock:
                other = self._generated.setdefault((add.key, add.entry_id), add.region)
                if other != add.region:
                    self.fail(
                        event.at_ms,
                        add.region,
                        f"generated {add.shown_id.decode()} of {add.key!r}, "
                        f"which region {other} had generated",
                    )
