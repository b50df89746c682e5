"""Base of the judges that share one oracle: a judge receives the findings that bear its name."""

from __future__ import annotations

from anabranch.sim.history import Began, Checker, Committed, Moved, Operation, Setup, Stopped
from anabranch.sim.oracle.oracle import Oracle


class OracleJudge(Checker):
    """Passes the history on to the oracle of the run; only the first judge of a run does so."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.oracle = Oracle.of(self.setup)
        self.feeds = not self.oracle.record.judges
        self.oracle.record.judges[self.name] = self

    def began(self, event: Began) -> None:
        if self.feeds:
            self.oracle.began(event)

    def stopped(self, event: Stopped) -> None:
        if self.feeds:
            self.oracle.stopped(event)

    def executed(self, operation: Operation) -> None:
        if self.feeds:
            self.oracle.executed(operation)

    def moved(self, event: Moved) -> None:
        if self.feeds:
            self.oracle.moved(event)

    def committed(self, event: Committed) -> None:
        if self.feeds:
            self.oracle.committed(event)
