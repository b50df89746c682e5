"""Announcements of acknowledgements: which runs a sync round must announce (S8.1)."""

from __future__ import annotations

from anabranch.sim.twin.effects import Announce
from anabranch.sim.twin.state import Dot, Group, Key, Place, State


def announcements(state: State) -> dict[tuple[bytes, bytes], Announce]:
    """(key, group) → the announcement that a round must make now.

    `Announce.counters` holds only the counters that are not acknowledged yet.
    """
    found: dict[tuple[bytes, bytes], Announce] = {}
    for key in state.keys.values():
        for name, group in key.groups.items():
            counters = _due(key, group)
            if counters:
                found[(key.name, name)] = Announce(
                    key.name, name, list(group.creates), counters, {}
                )
    return found


def _due(key: Key, group: Group) -> set[Dot]:
    """The counters of all runs that hold an entry not yet acknowledged, without those that are."""
    acked = group.acked()
    found: set[Dot] = set()
    for region, log in key.logs.items():
        done = [_is_done(group, (region, counter)) for counter, _ in log]
        for begin in _beginnings(key, group, region, acked):
            run: list[int] = []
            for (counter, _), is_done in zip(log, done, strict=True):
                if counter <= begin:
                    continue
                if not is_done:
                    break
                run.append(counter)
            if any((region, counter) not in acked for counter in run):
                found |= {(region, counter) for counter in range(begin + 1, run[-1] + 1)}
    return found - acked


def _is_done(group: Group, dot: Dot) -> bool:
    local = group.local
    return dot in local.given and dot not in local.pel and dot not in local.dropped


def _beginnings(key: Key, group: Group, region: int, acked: set[Dot]) -> set[int]:
    """The counters after which a run may begin."""
    starts = [create.start for create in group.creates.values()]
    # Where concurrent creates have several starts, the lowest is the start of the group (S6.3).
    found = {min(key.last_not_above(region, place) for place in starts)}
    if group.local.floor is not None:
        found.add(key.last_not_above(region, group.local.floor))
    if group.local.raised:
        found.add(key.last_not_above(region, Place(True, group.local.raised, {})))
    counters = {counter for one, counter in acked if one == region}
    found |= {counter for counter in counters if counter + 1 not in counters}
    found |= {counter for one, counter in group.local.dropped if one == region}
    return found
