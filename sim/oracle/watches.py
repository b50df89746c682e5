"""The change counts of watched keys at their WATCH, by the number of the WATCH operation.

An EXEC names the numbers of the WATCHes under which it runs (`Operation.watched`).
"""

from __future__ import annotations

from typing import Optional


class Watches:
    """The WATCHes of one region's process.

    A key is represented by its `KeyState.changes`, or None if it did not exist.
    """

    def __init__(self) -> None:
        # Number of the WATCH → (snapshots joined by then, its keys).
        self._was: dict[int, tuple[int, dict[bytes, Optional[int]]]] = {}

    def begin(self, number: int, joins: int, keys: dict[bytes, Optional[int]]) -> None:
        self._was[number] = joins, keys

    def of(self, numbers: tuple[int, ...]) -> Optional[tuple[int, dict[bytes, Optional[int]]]]:
        """(snapshots joined at the first WATCH, keys) of these WATCHes; each number is used up.

        If several WATCHes name a key, the first counts. Returns None if one of the WATCHes is
        unknown, so that its observation cannot be reconstructed.
        """
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
