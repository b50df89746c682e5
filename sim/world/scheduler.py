"""Virtual time: events in the order of their time, and of their making where times are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
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
        self._known: list[Event] = []  # beforehand, the last one first
        self._made = 0

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Calls `action` once so much time has passed."""
        self._made += 1
        heappush(self._queue, (self.now_ms + delay_ms, self._made, action, arguments))

    def at(self, at_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Calls `action` at a time, or at once if that has passed."""
        self.after(max(0, at_ms - self.now_ms), action, *arguments)

    def beforehand(self, events: Iterable[tuple[int, Callable[..., None], Any]]) -> None:
        """Events (at_ms, action, argument) that are all known at the start, in the order of their time.

        Only the next one of them is in the queue at a time: it is the queue's length that an event costs.
        """
        for at_ms, action, argument in events:
            self._made += 1
            self._known.append((max(at_ms, self.now_ms), self._made, action, (argument,)))
        self._known.reverse()
        self._make_known()

    def _make_known(self) -> None:
        if self._known:
            at_ms, number, action, arguments = self._known.pop()
            heappush(self._queue, (at_ms, number, self._run_known, (action, arguments)))

    def _run_known(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._make_known()
        action(*arguments)

    def mark(self) -> int:
        """A place among events of the same time: after all that were made so far."""
        return self._made

    def run_before(self, at_ms: int, mark: int) -> None:
        """Runs all events before a time, and of those at that time the ones made before the mark; it is that time then."""
        queue = self._queue
        while queue and (queue[0][0] < at_ms or (queue[0][0] == at_ms and queue[0][1] <= mark)):
            self.now_ms, _, action, arguments = heappop(queue)
            self.events += 1
            action(*arguments)
        self.now_ms = max(at_ms, self.now_ms)

    def run_until(self, at_ms: int) -> None:
        """Runs all events up to a time; it is that time then."""
        queue = self._queue
        while queue and queue[0][0] <= at_ms:
            self.now_ms, _, action, arguments = heappop(queue)
            self.events += 1
            action(*arguments)
        self.now_ms = at_ms
