"""The newest removals that this region applied, so that `CRDT.EXPLAIN` can explain absences."""

from __future__ import annotations

from collections import deque
from typing import Final

from anabranch.crdt import effects as fx
from anabranch.crdt.vector import Vector

# Removals remembered, removals returned for one key, and dots remembered of one removal.
REMEMBERED: Final = 4096
REMOVALS_SHOWN: Final = 128
DOTS_REMEMBERED: Final = 64


class Removal:
    """One applied effect that removes entries or groups.

    `taken` is the vector that it had observed or the prefix that it removes: region_id → highest
    counter. `dots` are the dots that it names. An empty `key` means every key.
    """

    def __init__(
        self,
        key: bytes,
        kind: str,
        origin: int,
        counter: int,
        taken: Vector,
        dots: list[tuple[int, int]],
        group: bytes,
    ) -> None:
        self.key = key
        self.kind = kind
        self.origin = origin
        self.counter = counter
        self.taken = taken
        self.dots = dots
        self.group = group


class Removals:
    """The newest removals that this region applied."""

    def __init__(self) -> None:
        self.kept: deque[Removal] = deque(maxlen=REMEMBERED)

    def note(self, effect: fx.Effect, origin: int, counter: int) -> None:
        """Remembers an effect if it is a removal."""
        if isinstance(effect, fx.RemoveEntries):
            self.kept.append(
                Removal(effect.key, "XDEL", origin, counter, {}, effect.dots[:DOTS_REMEMBERED], b"")
            )
        elif isinstance(effect, fx.Trim):
            self.kept.append(Removal(effect.key, "XTRIM", origin, counter, effect.prefix, [], b""))
        elif isinstance(effect, fx.Delete):
            self.kept.append(Removal(effect.key, "DEL", origin, counter, effect.vector, [], b""))
        elif isinstance(effect, fx.Flush):
            self.kept.append(Removal(b"", "FLUSHALL", origin, counter, effect.vector, [], b""))
        elif isinstance(effect, fx.RemoveObserved):
            # Expiry keeps the deadlines; the removal of what is left of a key takes them (S10).
            kind = "leftovers of an expired or deleted key" if effect.with_deadlines else "expiry"
            self.kept.append(Removal(effect.key, kind, origin, counter, effect.vector, [], b""))
        elif isinstance(effect, fx.DestroyGroup):
            self.kept.append(
                Removal(effect.key, "XGROUP DESTROY", origin, counter, {}, [], effect.group)
            )

    def of(self, key: bytes) -> list[Removal]:
        """The newest removals that affect a key, oldest first."""
        found = [removal for removal in self.kept if not removal.key or removal.key == key]
        return found[-REMOVALS_SHOWN:]
