"""Effects by dot, in an order in which they may be applied, for the judges of delivery; and the entries that an announcement speaks of."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.effects import Acknowledge, Flush
from anabranch.sim.history import Committed, Vector
from anabranch.sim.oracle.log import Add, Logged, logged

Fact = tuple[int, int, int, Logged]
"""(order, region_id, counter, effect). `order` extends causality: a region commits an effect before any other region can have it, so the
order in which commits were told is one in which their effects may be applied."""


_HOLE: Final[Fact] = (0, 0, 0, Flush({}))
"""Stands for effects that nobody saw committed."""


def decoded(event: Committed) -> list[tuple[Block, list[Logged]]]:
    """A commit's blocks with their effects; several judges ask for one event in turn."""
    global _decoded
    if _decoded[0] is not event:
        _decoded = (event, [(block, logged(block)) for block in event.blocks])
    return _decoded[1]


_decoded: tuple[Optional[Committed], list[tuple[Block, list[Logged]]]] = (None, [])


class EffectsByDot:
    """Every effect that a region has committed, by dot; and every entry ever added, by key and region log."""

    def __init__(self) -> None:
        self.logs: dict[int, list[Fact]] = {}  # by region_id; counter n at index n - 1
        self.adds: dict[bytes, dict[int, list[Add]]] = {}  # key → region_id → ascending
        self._made = 0
        self._has_holes = False

    def take(self, event: Committed) -> None:
        """Adds what a commit holds. A region that was restored may issue the counters anew that nobody else had."""
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
        """Up to which counter a region's effects have been committed."""
        log = self.logs.get(region)
        return 0 if log is None else len(log)

    def between(self, before: Vector, after: Vector) -> Optional[list[Fact]]:
        """The effects that `after` covers and `before` does not, in an order in which they may be applied; None when one is not known."""
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
        """The entries, deleted ones included, whose counters lie in an announcement's spans (S8.1)."""
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
