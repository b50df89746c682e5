"""The deliveries that a log tells under groups that were destroyed since."""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.study.replies.events import DESTROYS, OBSERVED_REMOVES, KeyEvent


class ToldDeliveries:
    """The entries that a log tells as delivered while creates of a group were live.

    Takes the events of CRDT.HISTORY in their order. `floor`: the log holds every effect after it,
    so creates up to it are live from the beginning.
    """

    def __init__(self, name: bytes, creates: set[Dot], floor: Vector) -> None:
        self.name: Final = name
        self.dots: Final[set[Dot]] = set()
        self._creates: Final = creates
        self._live: set[Dot] = {dot for dot in creates if covers(floor, *dot)}

    def take(self, event: KeyEvent) -> None:
        """Takes the next event of the key."""
        if event.group not in (None, self.name):
            return
        if event.kind == "create-group":
            self._live |= self._creates & {event.dot}
        elif event.kind in DESTROYS:
            # An effect stands in the log after all that its vector covers, so no create that
            # stands before a destroy covers it (S6.1).
            self._live = set()
        elif event.kind in OBSERVED_REMOVES:
            self._live = {dot for dot in self._live if not covers(event.covered, *dot)}
        elif event.kind == "delivered" and self._live:
            self.dots.update(event.entries)
