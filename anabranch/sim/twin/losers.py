"""Conflicts of idempotent adds: the region that added the loser removes it (S9.2).

If that region is said lost, the remaining member with the lowest id removes it.

Free: whether several losers go in one effect or in several. Free, too: a loser that only a pair
proves which the region may have forgotten (S9.3). Free, too: whether another add of a pair settles
a conflict of former ones, which only a longer duration has made one since. The XCFGSET that makes
it longer may have cleared that add's own pair.
"""

from __future__ import annotations

from anabranch.crdt.effects import RemoveEntries
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.replies import Mismatch
from anabranch.sim.twin.state import Key, Pair, State
from anabranch.sim.twin.vectors import Dot, covers


def loser_of(one: Pair, other: Pair, duration_ms: int) -> Pair | None:
    """The loser, if the two adds conflict: neither had seen the other, both at nearly one time."""
    if (one.pid, one.iid) != (other.pid, other.iid) or one is other:
        return None
    if covers(one.vector, other.dot) or covers(other.vector, one.dot):
        return None
    if abs(one.recorded_ms - other.recorded_ms) > duration_ms:
        return None
    return max(one, other, key=lambda pair: (pair.entry_id, pair.dot[0]))


def remove(twin: TwinCore) -> None:
    """Removes the losers that the pairs of this step prove."""
    if not twin.may_issue():
        return
    state = twin.state
    found: dict[bytes, dict[Dot, bool]] = {}
    for name, came in state.paired:
        key = state.keys[name]
        losers = found.setdefault(name, {})
        for pair in key.pairs.values():
            if (pair.pid, pair.iid) == (came.pid, came.iid):
                _find(twin, key, pair, losers, is_new=pair.dot == came.dot)
    _remove(twin, found)


def remove_all(twin: TwinCore) -> None:
    """Removes all losers that are still here.

    The region owes it when it begins to serve, and when it hears that a member is lost.
    """
    found: dict[bytes, dict[Dot, bool]] = {}
    for key in twin.state.keys.values():
        for pair in key.pairs.values():
            _find(twin, key, pair, found.setdefault(key.name, {}))
    _remove(twin, found)


def _find(
    twin: TwinCore, key: Key, pair: Pair, found: dict[Dot, bool], is_new: bool = True
) -> None:
    """Adds to `found` the losers that the region removes and the pair proves; are they certain?"""
    duration_ms, _ = twin.state.idempotency(key)
    for other in key.pairs.values():
        loser = loser_of(pair, other, duration_ms)
        if loser is not None and _is_mine(twin, loser) and loser.dot in key.entries:
            is_certain = is_new and not (may_be_gone(twin, pair) or may_be_gone(twin, other))
            found[loser.dot] = found.get(loser.dot, False) or is_certain


def _is_mine(twin: TwinCore, loser: Pair) -> bool:
    """Whether the region removes this loser: its own, or as the first of those that remain."""
    members = twin.facts.members
    origin = loser.dot[0]
    return origin == twin.region or (origin not in members and twin.region == min(members))


def may_forget(twin: TwinCore) -> bool:
    """Whether the region's limit of retired pairs is so low that it may forget some (S9.3)."""
    limit = twin.call.settings["crdt-idmp-retired-max"]
    assert isinstance(limit, int)
    return limit < 1000


def may_be_gone(twin: TwinCore, pair: Pair) -> bool:
    """Whether the region may have dropped the pair by now (S9.2, S9.3)."""
    return pair.is_doubtful or (pair.is_retired and may_forget(twin))


def _remove(twin: TwinCore, found: dict[bytes, dict[Dot, bool]]) -> None:
    """Follows the removals of the region; each may remove losers only, and all certain ones."""
    while True:
        effect = twin.next_issued()
        if not isinstance(effect, RemoveEntries) or effect.key not in found:
            break
        losers = found[effect.key]
        if not effect.dots or not all(dot in losers for dot in effect.dots):
            break
        twin.follow(effect)
        for dot in effect.dots:
            del losers[dot]
    for name, losers in found.items():
        for dot, is_certain in losers.items():
            if is_certain and dot in twin.state.keys[name].entries:
                pairs = twin.state.keys[name].pairs
                shown = [
                    (one.dot, one.recorded_ms, one.held_ms, one.entry_id >> 64, one.vector)
                    for one in pairs.values()
                    if (one.pid, one.iid) == (pairs[dot].pid, pairs[dot].iid)
                ]
                raise Mismatch(
                    f"does not remove the loser {dot} of a conflict in {name!r} (S9.2); the pairs "
                    f"(dot, recorded, held, ms of the ID, seen) are {shown}"
                )


def answers(state: State, key: Key, pid: bytes, iid: bytes) -> tuple[set[int], bool]:
    """The IDs that may answer a retry, and whether it may be a new add instead (S9.1).

    Free: which of several answers where an add was repeated after its time in another region, where
    a conflict's entries are not both here any more, where a winner has lost another conflict, or
    where a pair may be retired. Free, too: whether a pair answers in the last ms of its time.
    """
    duration_ms, _ = state.idempotency(key)
    pairs = [one for one in key.pairs.values() if (one.pid, one.iid) == (pid, iid)]
    found: set[int] = set()
    may_add = True
    for one in pairs:
        age_ms = state.clock_ms - one.held_ms
        if one.is_retired or age_ms > duration_ms:
            continue
        may_add = may_add and (one.is_doubtful or age_ms == duration_ms)
        winners = _winners_over(one, pairs, duration_ms)
        found |= {other.entry_id for other in winners}
        are_here = all(other.dot in key.entries for other in (one, *winners))
        if not winners or not are_here or any(other.is_doubtful for other in winners):
            found.add(one.entry_id)
    return found, may_add


def _winners_over(pair: Pair, pairs: list[Pair], duration_ms: int) -> list[Pair]:
    """The pairs that a pair has lost to, those that these have lost to, and so on."""
    found = [pair]
    for loser in found:
        found += [
            other
            for other in pairs
            if other not in found and loser_of(loser, other, duration_ms) is loser
        ]
    return found[1:]
