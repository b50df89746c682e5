"""Invariant 3: after healing, a pair (pid, iid) has at most one entry within the window.

Only the exceptions of S9 are allowed. During the run the oracle checks that
a retry is answered with the ID of an add that its region holds for the pair, that a new add is
made only where the region holds none (S9.1), and that a removed loser has lost a conflict (S9.2).
"""

from __future__ import annotations

from anabranch.sim.history import End
from anabranch.sim.oracle.adds import may_be_forgotten, may_have_lost, order
from anabranch.sim.oracle.follower import Follower
from anabranch.sim.oracle.judge import OracleJudge
from anabranch.sim.oracle.log import Add
from anabranch.sim.oracle.looking import can_look
from anabranch.sim.oracle.state import KeyState, covers


class IdempotentOnce(OracleJudge):
    """The judge."""

    name = "idempotent_once"

    def finish(self, end: End) -> None:
        """Looks at the final state, which all regions share."""
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
                    if self._exception(follower, state, one, other):
                        continue
                    ids = (
                        f"{one.shown_id.decode()} of region {one.region} and "
                        f"{other.shown_id.decode()} of region {other.region}"
                    )
                    self.fail(
                        end.at_ms,
                        0,
                        f"{state.key.decode()} holds {ids} under one pair {(pid, iid)}",
                    )

    def _exception(self, follower: Follower, state: KeyState, one: Add, other: Add) -> str:
        """The rule by which both entries may stay; empty if there is none."""
        if covers(one.vector, other.region, other.counter) or covers(
            other.vector, one.region, one.counter
        ):
            # The later add was judged against the window when it was made.
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
