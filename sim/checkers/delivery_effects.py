"""Committed effects by dot, in an order in which they may be applied; for judges of delivery."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.effects import Acknowledge, Flush
from anabranch.sim.history import Committed, Vector
from anabranch.sim.oracle.log import Add, Logged, logged

Fact = tuple[int, int, int, Logged]
"""(order, region_id, counter, effect).

`order` extends causality: a region commits an effect before another region can have it. So the
effects may be applied in the order in which the commits were reported."""


_HOLE: Final[Fact] = (0, 0, 0, Flush({}))
"""Stands for effects that were never reported as committed."""


def decoded(event: Committed) -> list[tuple[Block, list[Logged]]]:
    """The blocks of a commit with their effects; cached, as several judges ask for one event."""
    global _decoded
    if _decoded[0] is not event:
        _decoded = (event, [(block, logged(block)) for block in event.blocks])
    return _decoded[1]


_decoded: tuple[Optional[Committed], list[tuple[Block, list[Logged]]]] = (None, [])


class EffectsByDot:
    """All committed effects by dot, and all entries ever added, by key and region log."""

    def __init__(self) -> None:
        # region_id → its effects; counter n at index n - 1.
        self.logs: dict[int, list[Fact]] = {}
        # Key → region_id → adds, ascending.
        self.adds: dict[bytes, dict[int, list[Add]]] = {}
        self._made = 0
        self._has_holes = False

    def take(self, event: Committed) -> None:
        """Adds the effects of a commit.

        A restored region may issue counters anew; the former effects are forgotten.
        """
        for block, effects in decoded(event):
            region = block.origin
            log = self.logs.setdefault(region, [])
            if block.first <= len(log):
                self._forget_from(region, block.first)
            elif block.first > len(log) + 1:
                self._has_holes = True
                log += [_HOLE] * (block.first - len(log) - 1)
            counter = block.first
            for effect in effects:
                self._made += 1
                log.append((self._made, region, counter, effect))
                if isinstance(effect, Add):
                    self.adds.setdefault(effect.key, {}).setdefault(region, []).append(effect)
                counter += 1

    def _forget_from(self, region: int, counter: int) -> None:
        del self.logs[region][counter - 1 :]
        for logs in self.adds.values():
            if region in logs:
                adds = logs[region]
                del adds[bisect_left(adds, counter, key=_counter_of) :]

    def known(self, region: int) -> int:
        """The highest counter of a region that was committed."""
        log = self.logs.get(region)
        return 0 if log is None else len(log)

    def between(self, before: Vector, after: Vector) -> Optional[list[Fact]]:
        """The effects that `after` covers and `before` does not, in an order to apply them.

        None if one of them is unknown.
        """
        found: list[Fact] = []
        origins = 0
        for region, counter in after.items():
            had = before.get(region, 0)
            if counter > had:
                log = self.logs.get(region)
                if log is None or len(log) < counter:
                    return None
                part = log[had:counter]
                found = found + part if origins else part
                origins += 1
        if self._has_holes and _HOLE in found:
            return None
        if origins > 1:
            found.sort(key=_order_of)
        return found

    def covered(self, effect: Acknowledge) -> list[Add]:
        """The entries, deleted ones included, in an announcement's spans (S8.1)."""
        logs = self.adds.get(effect.key)
        found: list[Add] = []
        if logs is None:
            return found
        for region in sorted(effect.spans):
            log = logs.get(region)
            if log is not None:
                spans = effect.spans[region]
                for start, end in zip(spans.starts, spans.ends, strict=True):
                    found += log[
                        bisect_right(log, start, key=_counter_of) : bisect_right(
                            log, end, key=_counter_of
                        )
                    ]
        return found


def _order_of(fact: Fact) -> int:
    return fact[0]


def _counter_of(add: Add) -> int:
    return add.counter
