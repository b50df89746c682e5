"""Invariant 9: observed-remove and delete-wins agree with the naive model.

Each command must have answered and issued what the naive state at its region's vector demands. A
region may issue without a command only what the rules allow. Its replies, between faults and at
the end, must show that state (S3 to S7.1, S9.4, S10).
"""

from __future__ import annotations

from typing import Final

from anabranch.sim.history import End, Setup, Shown
from anabranch.sim.oracle.judge import OracleJudge
from anabranch.sim.oracle.looking import can_look, few_looks, look, looks

# Regions are looked into at every second call of `shown`.
LOOKS_EVERY: Final = 2


class Removals(OracleJudge):
    """Looks into a region when all of its effects are known."""

    name = "removals"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._turn = 0
        self._times = 0

    def shown(self, shown: dict[int, Shown]) -> None:
        """Every second time: looks at one key of one region, in turn."""
        self._times += 1
        if not shown or not self.setup.keys or self._times % LOOKS_EVERY:
            return
        regions = sorted(shown)
        self._turn += 1
        region = regions[self._turn % len(regions)]
        keys = self.setup.keys
        key = keys[self._turn // len(regions) % len(keys)]
        if can_look(self.oracle, region, shown[region].vector):
            look(
                self.oracle,
                region,
                key,
                shown[region].at_ms,
                few_looks(key, self._turn // (len(regions) * len(keys))),
            )

    def finish(self, end: End) -> None:
        """Looks at each key of each region."""
        for region in sorted(end.shown):
            for key in self.setup.keys:
                if can_look(self.oracle, region, end.shown[region].vector):
                    look(self.oracle, region, key, end.at_ms, looks(key))
