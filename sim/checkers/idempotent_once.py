"""Invariant 3: at most one entry per pair (pid, iid) within the window, after healing; the exceptions of S9 are counted, and only they.

While the run goes on: a retry is answered with the ID of an add that its region holds for the pair, a new add is made only where the region
holds none (S9.1), and what is removed as a conflict's loser has lost one (S9.2).
"""

from __future__ import annotations

from collections import defaultdict

from anabranch.sim.history import End, Setup
from anabranch.sim.oracle.adds import may_be_forgotten, may_have_lost, order
from anabranch.sim.oracle.follower import Follower
from anabranch.sim.oracle.judge import OracleJudge
from anabranch.sim.oracle.log import Add
from anabranch.sim.oracle.looking import can_look
from anabranch.sim.oracle.state import KeyState, covers


class IdempotentOnce(OracleJudge):
    """`exceptions` counts, by rule, the entries that stay beside another of their pair."""

    name = "idempotent_once"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.exceptions: defaultdict[str, int] = defaultdict(int)

    def finish(self, end: End) -> None:
        """Looks at the state in which all regions are."""
        if end.converged_ms is None:
            return
        for region in sorted(end.shown):
            if can_look(self.oracle, region, end.shown[region].vector):
                follower = self.oracle.followers[region]
                for key in sorted(follower.state.keys):
                    self._judge_key(follower, follower.state.keys[key], end)
                return

    def _judge_key(self, follower: Follower, state: KeyState, end: End) -> None:
        for (pid, iid), adds in state.pairs.items():
            present = [add for add in adds if (add.region, add.counter) in state.adds]
            for place, one in enumerate(present):
                for other in present[:place]:
                    rule = self._exception(follower, state, one, other)
                    if rule:
                        self.exceptions[rule] += 1
                        continue
                    ids = f"{one.shown_id.decode()} of region {one.region} and {other.shown_id.decode()} of region {other.region}"
                    self.fail(
                        end.at_ms,
                        0,
                        f"{state.key.decode()} holds {ids} under one pair {(pid, iid)}",
                    )

    def _exception(self, follower: Follower, state: KeyState, one: Add, other: Add) -> str:
        """The rule by which both may stay; empty if none does."""
        if covers(one.vector, other.region, other.counter) or covers(
            other.vector, one.region, one.counter
        ):
            # judged when it was added
            return "S9.1: the later one was added after the window of the first"
        defaults = [
            int(settings["stream-idmp-duration"]) for settings in self.setup.settings.values()
        ]
        if abs(one.recorded_ms - other.recorded_ms) > min(defaults + state.durations_s) * 1000:
            return "S9.2: recorded further apart than the duration"
        if may_be_forgotten(follower):
            return "S9.3: a pair may have been forgotten"
        if any(covers(state.pairs_cleared, add.region, add.counter) for add in (one, other)):
            return "S9.4: a pair was cleared"
        if max(one, other, key=lambda add: (add.entry_id, add.region)).region in self.oracle.gone:
            return "S9.2: the region that would remove the loser is gone for good"
        loser = self.oracle.followers[max(one, other, key=order).region]
        if may_have_lost(loser, one) or may_have_lost(loser, other):
            return "S13.7: a restored disk had lost the pair"
        return ""
