"""Announcements of acknowledgements: which runs a sync round must announce (S8.1).

Free: whether the lower one of what SETID and XCLAIM LASTID said is still a floor at which a run
begins. "An entry must then be above both" (S7.4) does not tell. Free, too: whether a round
announces for a key that a deadline hides (S10.2), which no client sees.
"""

from __future__ import annotations

from typing import NamedTuple

from anabranch.sim.twin.state import Group, Key, Place, State
from anabranch.sim.twin.vectors import Dot


class Due(NamedTuple):
    """What a round announces of a group: counters that are not acknowledged yet.

    `creates`: those that the announcement names. `required`: the counters that it must have, of
    which those of deleted entries may be left out. `allowed`: those that it may have.
    """

    creates: set[Dot]
    required: set[Dot]
    allowed: set[Dot]


def announcements(state: State) -> dict[tuple[bytes, bytes], Due]:
    """(key, group) → what a round must announce now."""
    found: dict[tuple[bytes, bytes], Due] = {}
    for key in state.keys.values():
        for name, group in key.groups.items():
            acked = group.acked()
            allowed = runs(key, group, acked, has_lower_floor=True) - acked
            if allowed:
                required = runs(key, group, acked) - acked if group.local.raised else allowed
                is_seen = state.visible(key.name) is not None
                required = {dot for dot in required if is_seen and dot in key.entries}
                found[(key.name, name)] = Due(set(group.creates), required, allowed)
    return found


def runs(key: Key, group: Group, acked: set[Dot], has_lower_floor: bool = False) -> set[Dot]:
    """The counters of all runs that hold an entry not yet acknowledged.

    `acked`: those of the group. `has_lower_floor`: a run begins also at the lower one of what SETID
    and LASTID said.
    """
    found: set[Dot] = set()
    for region, log in key.logs.items():
        done = [_is_done(group, (region, counter)) for counter in log]
        for begin in _beginnings(key, group, region, acked, has_lower_floor):
            run: list[int] = []
            for counter, is_done in zip(log, done, strict=True):
                if counter <= begin:
                    continue
                if not is_done:
                    break
                run.append(counter)
            if any((region, counter) not in acked for counter in run):
                found |= {(region, counter) for counter in range(begin + 1, run[-1] + 1)}
    return found


def _is_done(group: Group, dot: Dot) -> bool:
    local = group.local
    return dot in local.given and dot not in local.pel and dot not in local.dropped


def _beginnings(
    key: Key, group: Group, region: int, acked: set[Dot], has_lower_floor: bool
) -> set[int]:
    """The counters after which a run may begin."""
    starts = [create.start for create in group.creates.values()]
    # Where concurrent creates have several starts, the lowest is the start of the group (S6.3).
    start = min(key.last_not_above(region, place) for place in starts)
    floor = start
    if group.local.floor is not None:
        floor = key.last_not_above(region, group.local.floor)
    raised = floor
    if group.local.raised:
        raised = key.last_not_above(region, Place(True, group.local.raised, {}))
    found = {start, max(floor, raised)}
    if has_lower_floor:
        found.add(min(floor, raised))
    counters = {counter for one, counter in acked if one == region}
    found |= {counter for counter in counters if counter + 1 not in counters}
    # A deleted entry does not count as dropped, also if DELCONSUMER met it after its deletion.
    dropped = group.local.dropped & key.entries.keys()
    found |= {counter for one, counter in dropped if one == region}
    return found
