"""Removals that a region issues by itself: expired keys and leftovers (S10.3, S10.6).

Free: when a region issues them, and since when the grace period of a leftover runs, so any region
may remove one. Checked: that the key is hidden or holds leftovers only, what is removed, and that
every other member holds the deadline and is past it, as far as it could have said so.
"""

from __future__ import annotations

from anabranch.crdt.effects import RemoveObserved
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.effects import content
from anabranch.sim.twin.replies import Mismatch
from anabranch.sim.twin.state import Key
from anabranch.sim.twin.vectors import covers


def work(twin: TwinCore) -> None:
    """Checks the removals of a tick and follows them."""
    while True:
        effect = twin.next_issued()
        if not isinstance(effect, RemoveObserved):
            return
        key = twin.state.keys.get(effect.key)
        if key is None:
            raise Mismatch(f"issued {content(effect)!r} for a key that it does not hold")
        if effect.with_deadlines:
            _check_leftover(twin, key, effect)
        else:
            _check_expiry(twin, key, effect)
        twin.issue(RemoveObserved(effect.key, twin.vector(), effect.with_deadlines))
        twin.state.count("S10.6" if effect.with_deadlines else "S10.3")


def _grace_ms(twin: TwinCore) -> int:
    value = twin.call.settings["crdt-expiry-grace-ms"]
    assert isinstance(value, int)
    return value


def _check_expiry(twin: TwinCore, key: Key, effect: RemoveObserved) -> None:
    won = key.deadline()
    clock_ms = twin.state.clock_ms
    if won is None or not key.is_hidden(clock_ms):
        raise Mismatch(f"issued {content(effect)!r}; the key is not hidden (S10.3)")
    parts = (key.entries, key.header, key.groups, key.pairs, key.configurations)
    if not any(parts):
        raise Mismatch(f"issued {content(effect)!r}; only deadlines are left (S10.3)")
    if clock_ms > won[1] + _grace_ms(twin):
        return
    if won[0][0] != twin.region:
        raise Mismatch(f"issued {content(effect)!r} for a deadline of another region (S10.3)")
    for other in twin.others():
        if not covers(other.had, won[0]) or other.clock_max_ms <= won[1]:
            raise Mismatch(
                f"issued {content(effect)!r}; region {other.region} never held the deadline, "
                "or never was past it (S10.3)"
            )


def _check_leftover(twin: TwinCore, key: Key, effect: RemoveObserved) -> None:
    if key.entries or key.header or key.groups:
        raise Mismatch(f"issued {content(effect)!r}; the key holds more than leftovers (S10.6)")
    if not key.deadlines and not key.configurations:
        raise Mismatch(f"issued {content(effect)!r}; nothing is left of the key (S10.6)")
