"""Virtual time: runs events by time; events of equal times run in the order of creation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

# (creation number, action, arguments)
TimedCall = tuple[int, Callable[..., None], tuple[Any, ...]]


def uniform(draw: Random, low: int, high: int) -> int:
    """A whole number from low to high.

    A run draws some thousand of these, and `Random.randint` takes four times as long.
    """
    return low + int(draw.random() * (high - low + 1))


class Scheduler:
    """The queue of events. `now_ms` is true time, which no region reads: each has its own clock."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        # The times that have events, as a heap, and the events of each in the order of creation. A
        # heap of the events would compare far more often: many events have the same time.
        self._times: Final[list[int]] = []
        self._by_time: Final[dict[int, list[TimedCall]]] = {}
        # (at_ms, event) of the events known from the start, the last one first. At their time they
        # run after the events made before them, and before all others.
        self._known: list[tuple[int, TimedCall]] = []
        self._made_before_known = 0
        self._made = 0

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Calls `action` after `delay_ms`."""
        self._made += 1
        at_ms = self.now_ms + delay_ms
        events = self._by_time.get(at_ms)
        if events is None:
            events = self._by_time[at_ms] = []
            heappush(self._times, at_ms)
        events.append((self._made, action, arguments))

    def at(self, at_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Calls `action` at the time `at_ms`, or at once if that has passed."""
        self.after(max(0, at_ms - self.now_ms), action, *arguments)

    def beforehand(self, events: Iterable[tuple[int, Callable[[Any], None], Any]]) -> None:
        """Adds events (at_ms, action, argument) that are known at the start, sorted by time.

        They never enter the heap. Call this once.
        """
        self._made_before_known = self._made
        self._known = [
            (at_ms, (self._made, action, (argument,))) for at_ms, action, argument in events
        ][::-1]

    def mark(self) -> int:
        """A mark after all events made so far; see `run_before`."""
        return self._made

    def run_before(self, at_ms: int, mark: int) -> None:
        """Runs all events before `at_ms`, and those at `at_ms` that were made before the mark.

        The time is `at_ms` afterwards.
        """
        self._run(at_ms - 1)
        self._run_made_before(mark, at_ms)
        self.now_ms = max(at_ms, self.now_ms)

    def run_until(self, at_ms: int) -> None:
        """Runs all events up to `at_ms`, which is the time afterwards."""
        self._run(at_ms)
        self.now_ms = at_ms

    def _run(self, until_ms: int) -> None:
        times, known = self._times, self._known
        while True:
            next_ms = times[0] if times else until_ms + 1
            if known and known[-1][0] <= min(next_ms, until_ms):
                self._run_known()
                continue
            if next_ms > until_ms:
                return
            events = self._by_time[next_ms]
            for event in events:  # an action may append further events
                self._run_event(next_ms, event)
            heappop(times)
            del self._by_time[next_ms]

    def _run_known(self) -> None:
        """Runs the next known event."""
        at_ms, event = self._known.pop()
        self._run_made_before(self._made_before_known, at_ms)
        self._run_event(at_ms, event)

    def _run_made_before(self, mark: int, at_ms: int) -> None:
        """Runs the events at `at_ms` that were made before the mark."""
        events = self._by_time.get(at_ms)
        while events and events[0][0] <= mark:
            self._run_event(at_ms, events.pop(0))

    def _run_event(self, at_ms: int, event: TimedCall) -> None:
        _, action, arguments = event
        self.now_ms = at_ms
        action(*arguments)
