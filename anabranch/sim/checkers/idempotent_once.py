"""Invariant 3: after healing, a pair (pid, iid) has at most one entry within the window.

Only the exceptions of S9 are allowed. The twin judges each answer to a retry, and each removal of a
loser, when it happens.
"""

from __future__ import annotations

from anabranch.sim.checkers.ledger import LedgerJudge
from anabranch.sim.checkers.state import KeyState, covers
from anabranch.sim.history import End, Setup
from anabranch.sim.logged import Add


class IdempotentOnce(LedgerJudge):
    """The judge."""

    name = "idempotent_once"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        values = setup.settings.values()
        self._least_ms = 1000 * min(int(one["stream-idmp-duration"]) for one in values)
        self._least_retired = min(int(one["crdt-idmp-retired-max"]) for one in values)

    def finish(self, end: End) -> None:
        """Looks at the final state, which all regions share."""
        if end.converged_ms is None or not end.shown:
            return
        state = self.ledger.state_at(end.shown[min(end.shown)].vector)
        if state is not None:
            for name in sorted(state.keys):
                self._judge_key(state.keys[name], end)

    def _judge_key(self, key: KeyState, end: End) -> None:
        for (pid, iid), adds in key.pairs.items():
            present = [add for add in adds if (add.region, add.counter) in key.adds]
            for place, one in enumerate(present):
                for other in present[:place]:
                    if self._exception(key, one, other):
                        continue
                    ids = (
                        f"{one.shown_id.decode()} of region {one.region} and "
                        f"{other.shown_id.decode()} of region {other.region}"
                    )
                    self.fail(
                        end.at_ms, 0, f"{key.key.decode()} holds {ids} under one pair {(pid, iid)}"
                    )

    def _exception(self, key: KeyState, one: Add, other: Add) -> str:
        """The rule by which both entries may stay; empty if there is none."""
        if covers(one.vector, other.region, other.counter) or covers(
            other.vector, one.region, one.counter
        ):
            return "S9.1: the later one was added after the window of the first"
        least_ms = min([self._least_ms, *(1000 * one for one in key.durations_s)])
        if abs(one.recorded_ms - other.recorded_ms) > least_ms:
            return "S9.2: recorded further apart than the duration"
        if self.ledger.log.pairs > self._least_retired:
            return "S9.3: a pair may have been forgotten"
        if any(covers(key.pairs_cleared, add.region, add.counter) for add in (one, other)):
            return "S9.4: a pair was cleared"
        remover = max(one, other, key=lambda add: (add.entry_id, add.region)).region
        if remover in self.ledger.gone:
            remover = min(set(self.setup.regions) - self.ledger.gone)
        if remover in self.ledger.restored and any(
            self.ledger.came_joined(remover, (add.region, add.counter)) for add in (one, other)
        ):
            # A snapshot holds no pair that its sender has collected as stable. The restored disk
            # had lost the effects on which that stability rested.
            return "S13.7: a restored disk had lost the pair"
        return ""
