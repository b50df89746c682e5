"""Exhaustive tests at small scope: every history of up to four units of three regions.

All units act on one key with one group. `make test-long` adds the histories of five units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.crdt import effects as fx
from anabranch.crdt.apply import apply
from anabranch.crdt.keyspace import Keyspace
from tests.crdt import exploration
from tests.crdt.exploration import GROUP, KEY, Exploration

# Number of histories of exactly 1, 2, 3, 4, 5 units, up to renaming the regions. A different
# number means that the scope has changed.
COUNTS = [3, 42, 922, 28_686, 1_082_138]
KINDS = {
    "add",
    "xdel",
    "trim",
    "del",
    "create 0",
    "create $",
    "destroy",
    "ack",
    "xsetid",
    "deadline",
    "persist",
    "expire",
}


@pytest.mark.timeout(900)
def test_every_history_of_four() -> None:
    """Concurrent effects commute, a join equals shipping, and collecting changes no outcome."""
    found = Exploration()
    found.run(4)
    assert found.histories == COUNTS[:4]
    assert set(found.kinds) == KINDS
    assert min(found.kinds.values()) > 700
    assert found.orders > 40_000
    assert found.joins > 350_000
    assert 100_000 < len(found.joined) < found.joins
    assert found.collections > 20_000


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_every_history_of_five() -> None:
    """The same checks for the histories of five units, which take hours."""
    found = Exploration()
    found.run(5)
    assert found.histories == COUNTS


# -- planted bugs, which the exploration must find


def wrong_create(keyspace: Keyspace, effect: fx.Effect) -> fx.Effect:
    """A create that claims to have seen every destroy, contrary to delete-wins (S6.1)."""
    if isinstance(effect, fx.CreateGroup):
        return fx.CreateGroup(
            effect.key,
            effect.group,
            effect.start_id,
            effect.starts_at_vector,
            dict.fromkeys((1, 2, 3), 1 << 20),
        )
    return effect


def wrong_delete(keyspace: Keyspace, effect: fx.Effect) -> fx.Effect:
    """A DEL that also removes entries that it had not observed, contrary to S5.4."""
    return (
        fx.Delete(effect.key, dict.fromkeys((1, 2, 3), 1 << 20))
        if isinstance(effect, fx.Delete)
        else effect
    )


def wrong_trim(keyspace: Keyspace, effect: fx.Effect) -> fx.Effect:
    """A trim that each receiving region decides anew, contrary to S5.2."""
    return (
        fx.Trim(effect.key, dict(keyspace.vector), False) if isinstance(effect, fx.Trim) else effect
    )


def wrong_expiry(keyspace: Keyspace, effect: fx.Effect) -> fx.Effect:
    """An expiry that leaves a tombstone as DEL does, contrary to S10.3."""
    return fx.Delete(effect.key, effect.vector) if isinstance(effect, fx.RemoveObserved) else effect


def wrong_deadline(keyspace: Keyspace, effect: fx.Effect) -> fx.Effect:
    """A deadline that replaces all deadlines of the receiver, not only those it saw (S10.2)."""
    stream = keyspace.get(KEY)
    if isinstance(effect, fx.SetDeadline) and stream is not None:
        return fx.SetDeadline(effect.key, effect.at_ms, list(stream.deadlines))
    return effect


def wrong_acknowledgement(keyspace: Keyspace, effect: fx.Effect) -> fx.Effect:
    """Acknowledgements that join all creates of the receiver, not only those they name (S8.2)."""
    stream = keyspace.get(KEY)
    if isinstance(effect, fx.Acknowledge) and stream is not None and GROUP in stream.groups:
        return fx.Acknowledge(
            effect.key, effect.group, list(stream.groups[GROUP].creates), effect.spans
        )
    return effect


PLANTED = (
    wrong_create,
    wrong_delete,
    wrong_trim,
    wrong_expiry,
    wrong_deadline,
    wrong_acknowledgement,
)


@pytest.mark.parametrize("wrong", PLANTED)
@pytest.mark.timeout(300)
def test_exploration_catches_a_planted_bug(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Keyspace, fx.Effect], fx.Effect]
) -> None:
    """The exploration fails if `crdt` breaks one rule."""

    def planted(keyspace: Keyspace, effect: fx.Effect, *rest: Any) -> None:
        apply(keyspace, wrong(keyspace, effect), *rest)

    monkeypatch.setattr(exploration, "apply", planted)
    with pytest.raises(AssertionError):
        Exploration().run(4)
