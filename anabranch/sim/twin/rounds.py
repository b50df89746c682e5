"""Sync rounds: the announcements that a commit begins with (S2.5, S8.1).

Free: when a round begins, and the order of groups. Free, too: counters acknowledged before may be
announced again, and counters of deleted entries may be left out. A round that
announces anything must announce everything.
"""

from __future__ import annotations

from anabranch.sim.twin.announce import announcements
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.effects import Announce, content
from anabranch.sim.twin.replies import Mismatch


def announce(twin: TwinCore) -> None:
    """Checks the announcements of a commit and follows them."""
    if not isinstance(twin.next_issued(), Announce):
        return
    due = announcements(twin.state)
    if twin.counter() > twin.counter_committed:
        twin.state.count("S2.5")
    while True:
        effect = twin.next_issued()
        if not isinstance(effect, Announce):
            break
        expected = due.pop((effect.key, effect.group), None)
        if expected is None:
            raise Mismatch(f"announced {content(effect)!r}; expected nothing of that group")
        group = twin.state.keys[effect.key].groups[effect.group]
        news = effect.counters - group.acked()
        is_right = expected.required <= news <= expected.allowed
        if set(effect.creates) != expected.creates or not is_right:
            raise Mismatch(
                f"announced {content(effect)!r}; expected the creates {sorted(expected.creates)} "
                f"and these counters that are not acknowledged yet: {sorted(expected.required)}; "
                f"allowed are {sorted(expected.allowed)}"
            )
        if group.local.acks > 1:
            twin.state.count("S8.1")
        if group.local.has_no_ack or len(effect.creates) > 1:
            twin.state.count("S8.3")
        group.local.acks, group.local.has_no_ack = 0, False
        ids = twin.state.keys[effect.key].ids
        for dot, entry_id in effect.ids.items():
            if ids.get(dot, entry_id) != entry_id:
                raise Mismatch(f"announced a span that ends at {dot} with another entry ID")
        twin.follow(effect)
        twin.journal.end_unit()
    for (key, name), expected in due.items():
        if expected.required:
            raise Mismatch(
                f"began a round and did not announce {sorted(expected.required)} of the group "
                f"{name!r} of {key!r}"
            )
