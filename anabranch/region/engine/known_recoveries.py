"""The recoveries of other regions that this one has heard of (S13.7)."""

from __future__ import annotations

from typing import Final

# A recovery that is dropped costs another asking, and a region has one recovery at a time.
_OF_A_REGION_MAX: Final = 8


class KnownRecoveries:
    """The recoveries heard of last, of each region: the lives in which they began.

    So false gossip takes no more memory than true gossip.
    """

    def __init__(self) -> None:
        # region_id → recoveries, in the order in which they were heard of.
        self._by_region: dict[int, dict[int, None]] = {}

    def add(self, region_id: int, recovery: int) -> None:
        """Notes a recovery. `region_id` is that of a member."""
        known = self._by_region.setdefault(region_id, {})
        known[recovery] = None
        if len(known) > _OF_A_REGION_MAX:
            del known[next(iter(known))]

    def all(self) -> set[tuple[int, int]]:
        """All of them, as (region_id, life in which the recovery began)."""
        return {(one, recovery) for one, known in self._by_region.items() for recovery in known}
