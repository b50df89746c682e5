"""Invariant 10: no removed element comes back once its tombstone is dropped (S6.2).

This includes regions that were absent for long. The naive state keeps removals for ever. So an
entry or group that a region shows, and that this state lacks because of a removal, has come back.
"""

from __future__ import annotations

from typing import Final

from anabranch.sim.checkers.ledger import LedgerJudge
from anabranch.sim.checkers.state import KeyState
from anabranch.sim.history import End, Setup, Shown
from anabranch.sim.replies import entry_ids, field_of

# Regions are looked into at every 16th call of `shown`.
LOOKS_EVERY: Final = 16


class NoReturn(LedgerJudge):
    """Looks into regions in turn while the run goes on, and into all of them at the end."""

    name = "no_return"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._times = 0

    def shown(self, shown: dict[int, Shown]) -> None:
        """Every 16th time: looks into one region."""
        self._times += 1
        if shown and self._times % LOOKS_EVERY == 0:
            regions = sorted(shown)
            self._look(shown[regions[self._times // LOOKS_EVERY % len(regions)]])

    def finish(self, end: End) -> None:
        """Looks into each region."""
        for region in sorted(end.shown):
            self._look(end.shown[region])

    def _look(self, one: Shown) -> None:
        state = self.ledger.state_at(one.vector)
        if state is None:
            return
        for name in self.setup.keys:
            key = state.key(name)
            self._look_at_entries(one, key)
            self._look_at_groups(one, key)

    def _look_at_entries(self, one: Shown, key: KeyState) -> None:
        reply = self.setup.ask(one.region, (b"XRANGE", key.key, b"-", b"+"))
        expected: dict[bytes, int] = {}
        for add in key.adds.values():
            expected[add.shown_id] = expected.get(add.shown_id, 0) + 1
        entries = reply if isinstance(reply, list) else []
        for entry_id in entry_ids(entries, len(entries)):
            expected[entry_id] = expected.get(entry_id, 0) - 1
            if expected[entry_id] < 0:
                text = f"shows {entry_id.decode()} of {key.key!r}, which was removed"
                self.fail(one.at_ms, one.region, text)

    def _look_at_groups(self, one: Shown, key: KeyState) -> None:
        reply = self.setup.ask(one.region, (b"XINFO", b"GROUPS", key.key))
        for row in reply if isinstance(reply, list) else []:
            name = field_of(row, b"name")
            if name not in key.groups:
                text = f"shows the group {name!r} of {key.key!r}, which was destroyed"
                self.fail(one.at_ms, one.region, text)
