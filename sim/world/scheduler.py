"""Virtual time: runs events by time; events of equal times run in the order of creation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from random import Random
from typing import Any

Event = tuple[int, int, Callable[..., None], tuple[Any, ...]]


def uniform(draw: Random, low: int, high: int) -> int:
    """A whole number from low to high.

    A run draws some thousand of these, and `Random.randint` takes four times as long.
    """
    return low + int(draw.random() * (high - low + 1))


class Scheduler:
    """The queue of events. `now_ms` is true time, which no region reads: each has its own clock."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.events = 0
        self._queue: list[Event] = []
        # Events known from the start, the last one first.
        self._known: list[Event] = []
        self._made = 0

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Calls `action` after `delay_ms`."""
        self._made += 1
        heappush(self._queue, (self.now_ms + delay_ms, self._made, action, arguments))

    def at(self, at_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Calls `action` at the time `at_ms`, or at once if that has passed."""
        self.after(max(0, at_ms - self.now_ms), action, *arguments)

    def beforehand(self, events: Iterable[tuple[int, Callable[..., None], Any]]) -> None:
        """Adds events (at_ms, action, argument) that are known at the start, sorted by time.

        Only the next one of them is in the queue at a time, because the cost of an event grows with
        the length of the queue.
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
        """A mark after all events made so far; see `run_before`."""
        return self._made

    def run_before(self, at_ms: int, mark: int) -> None:
        """Runs all events before `at_ms`, and those at `at_ms` that were made before the mark.

        The time is `at_ms` afterwards.
        """
        queue = self._queue
        while queue and (queue[0][0] < at_ms or (queue[0][0] == at_ms and queue[0][1] <= mark)):
            self.now_ms, _, action, arguments = heappop(queue)
            self.events += 1
            action(*arguments)
        self.now_ms = max(at_ms, self.now_ms)

    def run_until(self, at_ms: int) -> None:
        """Runs all events up to `at_ms`, which is the time afterwards."""
        queue = self._queue
        while queue and queue[0][0] <= at_ms:
            self.now_ms, _, action, arguments = heappop(queue)
            self.events += 1
            action(*arguments)
        self.now_ms = at_ms
