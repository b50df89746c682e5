"""What effects and records name: keys and entry IDs, for the index of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.effects import AddIdempotent, AddRun, Effect, key_of
from anabranch.crdt.ids import MAX_HALF, MAX_ID
from anabranch.crdt.pel_chunk import EntryRef

# No range of IDs reaches below this one.
NO_ID = MAX_ID + 1


@mypyc_attr(acyclic=True)
class Named:
    """The keys that effects and local records change, and the IDs of the entries in them.

    `keys` are all keys; None in it stands for every key. `others` are those of which something
    else than entries is told, and the IDs of all entries lie between `low_id` and `high_id`.
    """

    def __init__(self) -> None:
        self.keys: set[Optional[bytes]] = set()
        self.others: set[Optional[bytes]] = set()
        self.low_id = NO_ID
        self.high_id = -1

    def entries(self, key: bytes, low_id: int, high_id: int) -> None:
        """Entries of a key are added, delivered or acknowledged."""
        self.keys.add(key)
        if low_id < self.low_id:
            self.low_id = low_id
        if high_id > self.high_id:
            self.high_id = high_id

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
        self.entries(key, low_ms << 64, high_ms << 64 | MAX_HALF)

    def other(self, key: Optional[bytes]) -> None:
        """Something else happens to a key; None: to every key."""
        self.keys.add(key)
        self.others.add(key)

    def effect(self, effect: Effect) -> None:
        """An effect is issued or merged."""
        if isinstance(effect, AddRun):
            last_id = effect.last_ms << 64 | effect.last_seq
            self.entries(effect.key, effect.first_id(), last_id)
        elif isinstance(effect, AddIdempotent):
            self.entries(effect.key, effect.entry_id, effect.entry_id)
        else:
            self.other(key_of(effect))

    def include(self, more: Named) -> None:
        """Joins what another one names."""
        self.keys |= more.keys
        self.others |= more.others
        self.low_id = min(self.low_id, more.low_id)
        self.high_id = max(self.high_id, more.high_id)
