"""An effect in words, and whether it removes an entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from anabranch.crdt import effects as fx
from anabranch.crdt.stream import NEVER
from anabranch.crdt.vector import Dot, Vector
from anabranch.sim.logged import Add, Logged
from anabranch.study.diagram.model import ADD, GROUP, OTHER, REMOVAL
from anabranch.study.diagram.texts import visible

Name = Callable[[int], str]
"""region_id → name"""


def kind_of(effect: Logged) -> str:
    """The kind of an effect, as the timeline has it."""
    if isinstance(effect, Add):
        return ADD
    if isinstance(effect, fx.CreateGroup):
        return GROUP
    removals = (fx.RemoveEntries, fx.Trim, fx.Delete, fx.Flush, fx.DestroyGroup, fx.RemoveObserved)
    return REMOVAL if isinstance(effect, removals) else OTHER


def key_of(effect: Logged) -> Optional[bytes]:
    """The key of an effect; None for FLUSHALL, which concerns every key."""
    return None if isinstance(effect, fx.Flush) else effect.key


def text_of(effect: Logged, name: Name) -> str:
    """An effect in a few words; an add is the ID of its entry."""
    if isinstance(effect, Add):
        return effect.shown_id.decode()
    if isinstance(effect, fx.RemoveEntries):
        return "removes " + ", ".join(
            f"{name(origin)}:{counter}" for origin, counter in effect.dots
        )
    if isinstance(effect, fx.Trim):
        return f"trims up to {_counters(effect.prefix, name)}"
    if isinstance(effect, fx.Delete):
        return "DEL"
    if isinstance(effect, fx.Flush):
        return "FLUSHALL"
    if isinstance(effect, fx.SetId):
        return f"last ID {effect.entry_id >> 64}-{effect.entry_id & 0xFFFFFFFFFFFFFFFF}"
    if isinstance(effect, fx.CreateGroup):
        return f"creates group {visible(effect.group)}"
    if isinstance(effect, fx.DestroyGroup):
        return f"destroys group {visible(effect.group)}"
    if isinstance(effect, fx.Acknowledge):
        return f"acknowledged in {visible(effect.group)}"
    if isinstance(effect, fx.SetDeadline):
        return "no deadline" if effect.at_ms == NEVER else "deadline"
    if isinstance(effect, fx.RemoveObserved):
        return "removes what expired" if not effect.with_deadlines else "clears the key"
    return "configuration"


def named(effect: Logged) -> tuple[Dot, ...]:
    """The entries that the words of an effect name."""
    return tuple(effect.dots) if isinstance(effect, fx.RemoveEntries) else ()


def _counters(vector: Vector, name: Name) -> str:
    return ", ".join(f"{name(region)}:{vector[region]}" for region in sorted(vector))


def removes(effect: Logged, key: bytes, dot: Dot) -> bool:
    """Whether an effect takes the entry `dot` of the stream `key`."""
    if isinstance(effect, Add) or key_of(effect) not in (None, key):
        return False
    if isinstance(effect, fx.RemoveEntries):
        return dot in effect.dots
    if isinstance(effect, fx.Trim):
        return effect.prefix.get(dot[0], 0) >= dot[1]
    if isinstance(effect, (fx.Delete, fx.Flush, fx.RemoveObserved)):
        return effect.vector.get(dot[0], 0) >= dot[1]
    return False
