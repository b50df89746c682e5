"""The parts that everything in a world shares: time, trace, counters, judges, configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

from anabranch.sim.history import Checker, Violation
from anabranch.sim.rules import Counts
from anabranch.sim.world.scheduler import Scheduler
from anabranch.sim.world.trace import Trace

EPOCH_MS: Final = 1_700_000_000_000

Tell = Callable[[Any], None]


class Events:
    """Passes each event to the judges that override its method."""

    def __init__(self, judges: Sequence[Checker]) -> None:
        self.began: Final = _to_interested(judges, "began")
        self.stopped: Final = _to_interested(judges, "stopped")
        self.moved: Final = _to_interested(judges, "moved")
        self.committed: Final = _to_interested(judges, "committed")
        self.executed: Final = _to_interested(judges, "executed")
        self.answered: Final = _to_interested(judges, "answered")
        self.lost: Final = _to_interested(judges, "lost")
        self.shown: Final = _to_interested(judges, "shown")
        self.called: Final = _to_interested(judges, "called")


def _to_interested(judges: Sequence[Checker], event: str) -> Tell:
    interested = [
        getattr(judge, event)
        for judge in judges
        if getattr(type(judge), event) is not getattr(Checker, event)
    ]

    def tell(value: Any) -> None:
        for each in interested:
            each(value)

    return tell


class Environment:
    """The shared parts of a world.

    `members`: name → region_id. `tick_ms`: the interval of a region process's ticks. `counters`:
    name → how often the event happened. `found`: violations that no judge reports.
    """

    def __init__(self, seed: int, tick_ms: int, members: dict[str, int], trace: Trace) -> None:
        self.scheduler: Final = Scheduler(EPOCH_MS)
        self.trace: Final = trace
        self.counters: Final[defaultdict[str, int]] = defaultdict(int)
        self.counts: Final = Counts(self.counters)
        self.found: Final[list[Violation]] = []
        self.disk_prefix: Final = f"{seed}-"
        self.tick_ms: Final = tick_ms
        self.members: Final = members
        self.events = Events([])
        # Digest of the chunks of a snapshot → number of the cut (`tap`).
        self.cuts: Final[dict[bytes, int]] = {}
        self._cuts_made = 0

    def new_cut(self) -> int:
        """A number for a cut that a region makes for a peer."""
        self._cuts_made += 1
        return self._cuts_made

    def watched_by(self, judges: Sequence[Checker]) -> None:
        """From now on these judges receive all events."""
        self.events = Events(judges)

    def note(self, region: int, what: str, *details: Any) -> None:
        """Adds a line to the trace."""
        self.trace.note((self.scheduler.now_ms - EPOCH_MS, region, what, *details))

    def aside(self, region: int, what: str, *details: Any) -> None:
        """Adds a line that is only printed; call it only if a reader is there (`trace.is_told`)."""
        self.trace.aside(self.scheduler.now_ms - EPOCH_MS, region, what, *details)

    def fault_found(self, text: str) -> None:
        """Records a violation that needs no judge: an event that must never happen."""
        self.found.append(Violation("world", self.scheduler.now_ms, 0, text))
