"""What effects and records name: keys and entry IDs, for the index of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.effects import AddIdempotent, AddRun, Effect, key_of
from anabranch.crdt.ids import MAX_HALF, is_above
from anabranch.crdt.pel_chunk import EntryRef


@mypyc_attr(acyclic=True)
class Named:
    """The keys that effects and local records change, and the IDs of the entries in them.

    `keys` are all keys; None in it stands for every key. `others` are those of which something
    else than entries is told, and the IDs of all entries lie between `low_id` and `high_id`.
    """

    def __init__(self) -> None:
        self.keys: set[Optional[bytes]] = set()
        self.others: set[Optional[bytes]] = set()
        # The halves of these IDs, which compiled code compares faster.
        self._low_ms = MAX_HALF + 1
        self._low_seq = 0
        self._high_ms = -1
        self._high_seq = MAX_HALF

    @property
    def low_id(self) -> int:
        return (self._low_ms << 64) | self._low_seq

    @property
    def high_id(self) -> int:
        return (self._high_ms << 64) | self._high_seq

    def entries(self, key: bytes, low_ms: int, low_seq: int, high_ms: int, high_seq: int) -> None:
        """Entries of a key, with IDs of these halves, are added, delivered or acknowledged."""
        self.keys.add(key)
        self._widen(low_ms, low_seq, high_ms, high_seq)

    def _widen(self, low_ms: int, low_seq: int, high_ms: int, high_seq: int) -> None:
        if is_above(self._low_ms, self._low_seq, low_ms, low_seq):
            self._low_ms = low_ms
            self._low_seq = low_seq
        if is_above(high_ms, high_seq, self._high_ms, self._high_seq):
            self._high_ms = high_ms
            self._high_seq = high_seq

    def references(self, key: bytes, entries: Sequence[EntryRef]) -> None:
        """A local record is about these entries of a key; none: it tells of something else.

        The range is that of their ms: a narrower one would cost more than it saves.
        """
        if not entries:
            self.other(key)
            return
        low_ms = high_ms = entries[0].ms
        for entry in entries:
            if entry.ms < low_ms:
                low_ms = entry.ms
            elif entry.ms > high_ms:
                high_ms = entry.ms
        self.entries(key, low_ms, 0, high_ms, MAX_HALF)

    def other(self, key: Optional[bytes]) -> None:
        """Something else happens to a key; None: to every key."""
        self.keys.add(key)
        self.others.add(key)

    def effect(self, effect: Effect) -> None:
        """An effect is issued or merged."""
        if isinstance(effect, AddRun):
            low_id = effect.first_id()
            self.entries(
                effect.key, low_id >> 64, low_id & MAX_HALF, effect.last_ms, effect.last_seq
            )
        elif isinstance(effect, AddIdempotent):
            ms = effect.entry_id >> 64
            seq = effect.entry_id & MAX_HALF
            self.entries(effect.key, ms, seq, ms, seq)
        else:
            self.other(key_of(effect))

    def include(self, more: Named) -> None:
        """Joins what another one names."""
        self.keys |= more.keys
        self.others |= more.others
        self._widen(more._low_ms, more._low_seq, more._high_ms, more._high_seq)
