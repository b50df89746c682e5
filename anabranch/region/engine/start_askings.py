"""The askings of a start (S13.6)."""

from __future__ import annotations

from typing import Final


class StartAskings:
    """The number of the present asking, and who answered it."""

    def __init__(self, ends_ms: int, has_served: bool) -> None:
        # The steady time at which the patience is over, in ms.
        self.ends_ms: Final = ends_ms
        # Whether a start in this directory was over once, or is the first by the operator's word.
        self.has_served = has_served
        self.number = 1
        self.answered: set[int] = set()
        # Whether every member has answered the start, or the recovery after it, and the region has
        # what they told of. Patience ends a start without that.
        self.found_all = False

    def ask_anew(self) -> None:
        self.number += 1
        self.answered.clear()

    def is_answered(self, others: list[int]) -> bool:
        return self.answered.issuperset(others)
