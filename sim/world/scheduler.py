"""Virtual time: events in the order of their time, and of their making where times are equal."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

Event = tuple[int, int, Callable[..., None], tuple[Any, ...]]


def uniform(draw: Random, low: int, high: int) -> int:
    """A whole number from low to high; drawn some thousand times a run, and `randint` takes four times as long."""
    return low + int(draw.random() * (high - low + 1))


class Scheduler:
    """`now_ms` is true time: no region reads it, each has a clock of its own."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.events = 0
        self._queue: list[Event] = []
        self._made = 0

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Calls `action` once so much time has passed."""
        self._made += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._made, action, arguments))

    def at(self, at_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Calls `action` at a time, or at once if that has passed."""
        self.after(max(0, at_ms - self.now_ms), action, *arguments)

    def mark(self) -> int:
        """A place among events of the same time: after all that were made so far."""
        return self._made

    def run_before(self, at_ms: int, mark: int) -> None:
        """Runs all events before a time, and of those at that time the ones made before the mark; it is that time then."""
        queue = self._queue
        while queue and (queue[0][0] < at_ms or (queue[0][0] == at_ms and queue[0][1] <= mark)):
            self.now_ms, _, action, arguments = heapq.heappop(queue)
            self.events += 1
            action(*arguments)
        self.now_ms = max(at_ms, self.now_ms)

    def run_until(self, at_ms: int) -> None:
        """Runs all events up to a time; it is that time then."""
        queue = self._queue
        while queue and queue[0][0] <= at_ms:
            self.now_ms, _, action, arguments = heapq.heappop(queue)
            self.events += 1
            action(*arguments)
        self.now_ms = at_ms
