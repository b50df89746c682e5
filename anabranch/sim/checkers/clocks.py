"""Invariant 15: what a region takes for the time is at most a tolerance ahead of true time (S10.2).

Clocks of machines leap by years in the plans that this judge is about. IDs, deadlines and floors
follow from the clock that counts in a region and from its floor, so both are judged.
"""

from __future__ import annotations

from anabranch.sim.asked_faults import HONEST_MS
from anabranch.sim.history import Checker, Operation, Setup


class Clocks(Checker):
    """The judge. It judges regions that compare their clocks with those of others."""

    name = "clocks"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._offsets_ms = {
            region: int(values["crdt-clock-offset-max-ms"])
            for region, values in setup.settings.items()
        }

    def executed(self, operation: Operation) -> None:
        offset_ms = self._offsets_ms[operation.region]
        if not offset_ms or operation.waited:
            return  # `at_ms` of a command that waited is the time at which it came.
        # The tolerance is that of two clocks, which may each differ from true time.
        highest_ms = operation.at_ms + offset_ms + 2 * HONEST_MS
        for name, time_ms in (("clock", operation.clock_ms), ("floor", operation.floor_ms)):
            if time_ms > highest_ms:
                self.fail(
                    operation.at_ms,
                    operation.region,
                    f"its {name} is {time_ms - operation.at_ms} ms ahead of true time",
                )
