"""Base of the judges that share one ledger."""

from __future__ import annotations

from anabranch.sim.history import Began, Checker, Committed, Moved, Operation, Setup, Stopped
from anabranch.sim.oracle.ledger import Ledger


class LedgerJudge(Checker):
    """Passes the history on to the ledger of the run; only the first judge of a run does so."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.feeds = "ledger" not in setup.shared
        self.ledger = Ledger.of(setup)

    def began(self, event: Began) -> None:
        if self.feeds:
            self.ledger.began(event)

    def stopped(self, event: Stopped) -> None:
        if self.feeds:
            self.ledger.stopped(event)

    def executed(self, operation: Operation) -> None:
        if self.feeds:
            self.ledger.executed(operation)

    def moved(self, event: Moved) -> None:
        if self.feeds:
            self.ledger.moved(event)

    def committed(self, event: Committed) -> None:
        if self.feeds:
            self.ledger.committed(event)
