"""A simulated file: the bytes that a process sees, and the bytes that a power cut leaves."""

from __future__ import annotations

from random import Random
from typing import Final

SECTOR_BYTES: Final = 512
_TRUNCATED: Final = -1
_MOST_SYNCED: Final = 1000


Change = tuple[int, bytes]
"""(offset, bytes written there), or (_TRUNCATED, the size in decimal digits)."""


class File:
    """One file.

    `seen`: its bytes as a process reads them. `unsynced`: the changes since the last sync, in
    order.
    """

    __slots__ = ("_durable", "_synced", "seen", "unsynced")

    def __init__(self) -> None:
        self.seen = bytearray()
        self._durable = bytearray()
        # Durable changes that `_durable` does not contain yet: few runs ever need them there.
        self._synced: list[Change] = []
        self.unsynced: list[Change] = []

    def write(self, offset: int, data: bytes) -> None:
        _put(self.seen, offset, data)
        self.unsynced.append((offset, data))

    def truncate(self, size: int) -> None:
        del self.seen[size:]
        self.unsynced.append((_TRUNCATED, b"%d" % size))

    def sync(self) -> None:
        self._synced += self.unsynced
        self.unsynced = []
        if len(self._synced) > _MOST_SYNCED:
            self.durable()

    def durable(self) -> bytearray:
        """The bytes that survive a power cut for sure."""
        for change in self._synced:
            _change(self._durable, *change)
        self._synced = []
        return self._durable

    def after_power_cut(self, draw: Random, survival: float) -> File:
        """The file after a power cut.

        Each unsynced write survives with the probability `survival`; some of the survivors are
        torn.
        """
        left = File()
        left._durable = self.durable()
        for offset, data in self.unsynced:
            if draw.random() >= survival:
                continue
            if offset != _TRUNCATED and draw.random() < 0.3:
                data = data[: SECTOR_BYTES * draw.randrange(1 + len(data) // SECTOR_BYTES)]
            _change(left._durable, offset, data)
        left.seen = bytearray(left._durable)
        return left

    def copy(self) -> File:
        twin = File()
        twin.seen = bytearray(self.seen)
        twin._durable = bytearray(self._durable)
        twin._synced = list(self._synced)
        twin.unsynced = list(self.unsynced)
        return twin


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _change(content: bytearray, offset: int, data: bytes) -> None:
    if offset == _TRUNCATED:
        del content[int(data) :]
    else:
        _put(content, offset, data)
