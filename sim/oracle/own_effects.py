"""The effects that a region may issue without a command; any other is a fault.

They are announcements (S8.1), removals of conflict losers (S9.2), removals of hidden keys
(S10.3), and removals of the remnants of absent keys (S10.6).
"""

from __future__ import annotations

from anabranch.crdt import effects as fx
from anabranch.sim.oracle.adds import is_conflict, observes_all, order
from anabranch.sim.oracle.follower import Follower, described
from anabranch.sim.oracle.log import Add, Logged, Vector
from anabranch.sim.oracle.state import NEVER, covers
from anabranch.sim.oracle.verdicts import Wrong, readable


def judge_own(follower: Follower, others: dict[int, Vector]) -> None:
    """Judges the next effect, which no command asked for; the caller applies it.

    `others`: the other regions' vectors at that moment. Raises Wrong if the effect is not allowed.
    """
    effect = follower.next()
    if isinstance(effect, fx.Acknowledge):
        _announcement(follower, effect)
    elif isinstance(effect, fx.RemoveEntries):
        _loser(follower, effect)
    elif isinstance(effect, fx.RemoveObserved):
        _expiry(follower, effect, others)
    else:
        raise Wrong(f"issued an effect that no command called for: {described(effect)}")


def _announcement(follower: Follower, effect: fx.Acknowledge) -> None:
    """An announcement names exactly the creates that are live here (S8.1)."""
    state = follower.existing(effect.key)
    live = [] if state is None else sorted(state.groups.get(effect.group, {}))
    if sorted(effect.creates) != live or not live:
        raise Wrong(
            f"announced acknowledgements of {readable(effect.group)} under the creates "
            f"{effect.creates}; the live creates are {live}"
        )


def is_loser(follower: Follower, effect: Logged | None) -> bool:
    """Whether the effect removes an add of this region that has lost a conflict here (S9.2)."""
    if (
        not isinstance(effect, fx.RemoveEntries)
        or len(effect.dots) != 1
        or effect.dots[0][0] != follower.region
    ):
        return False
    state = follower.state.keys.get(effect.key)
    own = follower.log.get(*effect.dots[0])
    if state is None or not isinstance(own, Add) or not own.pid:
        return False
    is_present = effect.dots[0] in state.adds
    # The region used one of these durations when the two adds met.
    durations = [follower.integer("stream-idmp-duration"), *state.durations_s]
    for other in state.pairs[(own.pid, own.iid)]:
        if order(other) < order(own) and is_conflict(own, other, max(durations) * 1000):
            # The effects of one step came one after another. A winner that the step cleared
            # afterwards (S9.4) won nevertheless; a loser that another region's removal took
            # afterwards was present when this region removed it.
            came_now = not covers(follower.before, other.region, other.counter)
            if came_now or (
                is_present and not covers(state.pairs_cleared, other.region, other.counter)
            ):
                return True
    return False


def _loser(follower: Follower, effect: fx.RemoveEntries) -> None:
    if not is_loser(follower, effect):
        raise Wrong(
            f"removed entries of {readable(effect.key)} that lost no conflict: {effect.dots}",
            "idempotent_once",
        )


def _expiry(follower: Follower, effect: fx.RemoveObserved, others: dict[int, Vector]) -> None:
    state = follower.state.keys.get(effect.key)
    name = readable(effect.key)
    observes_all(follower, effect.vector, "RemoveObserved")
    if state is None:
        raise Wrong(f"removed the observed elements of {name}, a key without any effect")
    winner = state.winning_deadline()
    if not effect.with_deadlines:
        if winner is None or winner[1] == NEVER or not state.is_hidden(follower.clock_ms):
            raise Wrong(
                f"removed {name} as expired; its deadline is {winner}, "
                f"the clock {follower.clock_ms}"
            )
        dot, at_ms = winner
        if follower.clock_ms > at_ms + follower.integer("crdt-expiry-grace-ms"):
            return
        if dot[0] != follower.region:
            raise Wrong(
                f"removed {name} as expired within the grace period; "
                f"region {dot[0]} set its deadline"
            )
        lacking = [region for region, vector in others.items() if not covers(vector, *dot)]
        if lacking and not follower.record.restores:
            raise Wrong(f"removed {name} as expired before region {lacking[0]} had that deadline")
        return
    if state.is_present() and not state.is_hidden(follower.clock_ms):
        raise Wrong(f"removed the remnants of {name}, which exists")
    if state.has_header() or state.groups or state.stream:
        raise Wrong(
            f"removed the remnants of {name}, which holds more than deadlines and configuration"
        )
    if not (state.deadlines or state.configurations):
        raise Wrong(f"removed the remnants of {name}, which holds nothing")
    unstable = [
        region
        for region, vector in others.items()
        for dot in state.touched.items()
        if not covers(vector, *dot)
    ]
    if unstable and not follower.record.restores:
        raise Wrong(
            f"removed the remnants of {name} before region {unstable[0]} had every effect on it"
        )
