"""What watched keys were at their WATCH, by the number of that WATCH.

An EXEC says under which numbers it runs (`Operation.watched`).
"""

from __future__ import annotations

from typing import Optional


class Watches:
    """The WATCHes of one region's process. A key is what it was as `KeyState.changes` counts; None: it did not exist."""

    def __init__(self) -> None:
        # number of a WATCH → snapshots joined by then, its keys
        self._was: dict[int, tuple[int, dict[bytes, Optional[int]]]] = {}

    def begin(self, number: int, joins: int, keys: dict[bytes, Optional[int]]) -> None:
        self._was[number] = joins, keys

    def of(self, numbers: tuple[int, ...]) -> Optional[tuple[int, dict[bytes, Optional[int]]]]:
        """Of several WATCHes the first counts for a key. None when of one of them it cannot be told what it saw."""
        found = [self._was.pop(number, None) for number in numbers]
        if None in found or not found:
            return None
        keys: dict[bytes, Optional[int]] = {}
        for one in found:
            assert one is not None
            for key, change in one[1].items():
                keys.setdefault(key, change)
        assert found[0] is not None
        return found[0][0], keys
