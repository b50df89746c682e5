"""One region's reply of CRDT.EXPLAIN beside the true history of that region.

A `View` takes the part of the history up to the vector in the reply. It knows which effects the
reply tells, and computes the state at that vector by definition (`sim.oracle.state`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, Optional

from anabranch.crdt import effects as fx
from anabranch.crdt.vector import Vector
from anabranch.sim.arguments import shown
from anabranch.sim.checkers.state import KeyState, State
from anabranch.sim.logged import Add, Dot, Logged
from tests.study.truth import Applied, RegionHistory, Truth, covers

# Removals of entries, those that name dots left out: each is told with what it removes or had seen.
SWEEPING: Final = (fx.Trim, fx.Delete, fx.Flush, fx.RemoveObserved)


def vector_of(flat: list[int]) -> Vector:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def takes(effect: Logged, key: bytes, dot: Dot) -> bool:
    """Whether an effect removes the entry of `key` with this dot (S5, S10.3)."""
    if isinstance(effect, fx.Flush):
        return covers(effect.vector, dot)
    if effect.key != key:
        return False
    if isinstance(effect, fx.RemoveEntries):
        return dot in effect.dots
    if isinstance(effect, fx.Trim):
        return covers(effect.prefix, dot)
    if isinstance(effect, (fx.Delete, fx.RemoveObserved)):
        return covers(effect.vector, dot)
    return False


def concerns(effect: Logged, key: bytes) -> bool:
    return isinstance(effect, fx.Flush) or effect.key == key


class View:
    """`reply`: the reply as dicts, lists and texts; `key` and `wanted`: the question."""

    def __init__(self, truth: Truth, reply: dict[str, Any], key: bytes, wanted: int) -> None:
        self.truth: Final = truth
        self.reply: Final = reply
        self.key: Final = key
        self.wanted: Final = wanted
        self.region: Final = int(reply["region_id"])
        self.name: Final = str(reply["region"])
        self.vector: Final = vector_of(reply["vector"])
        self.floor: Final = vector_of(reply["log-floor"])
        self.left_out: Final = int(reply["left-out"])
        self.life: Final[RegionHistory] = truth.lives[self.region]
        count = sum(self.vector.values())
        self.past: Final = self.life.items[:count]
        # Dot → its place in the region's order; effects of one snapshot share theirs.
        self.places: Final[dict[Dot, int]] = {}
        self.applied: Final[dict[Dot, Applied]] = {}
        place = 0
        for item in self.past:
            if not (item.is_joined and place and item.step == self.past[len(self.places) - 1].step):
                place += 1
            self.places[item.dot] = place
            self.applied[item.dot] = item
        # The effects of the reply's events, by dot.
        self.told: Final[dict[Dot, dict[str, Any]]] = {
            (event["dot"][0], event["dot"][1]): event for event in reply["events"] if "dot" in event
        }

    def is_past_known(self) -> bool:
        """Whether the history up to the reply's vector is known."""
        reached: Vector = {}
        for item in self.past:
            reached[item.dot[0]] = item.dot[1]
        return reached == self.vector and all(dot in self.truth.effects for dot in self.places)

    def has(self, dot: Dot) -> bool:
        """Whether the region had applied the effect."""
        return covers(self.vector, dot)

    def effect(self, dot: Dot) -> Logged:
        return self.truth.effects[dot]

    def concerning(self) -> list[tuple[Dot, Logged]]:
        """The effects on the key, in the region's order."""
        pairs = [(item.dot, self.effect(item.dot)) for item in self.past]
        return [(dot, effect) for dot, effect in pairs if concerns(effect, self.key)]

    def adds(self) -> list[Dot]:
        """The adds of the wanted ID."""
        return [
            dot
            for dot, effect in self.concerning()
            if isinstance(effect, Add) and effect.entry_id == self.wanted
        ]

    @cached_property
    def state(self) -> KeyState:
        """The state of the key, by definition."""
        state = State()
        for item in self.past:
            effect = self.effect(item.dot)
            if concerns(effect, self.key):
                state.apply(*item.dot, effect)
        return state.key(self.key)

    @property
    def now_ms(self) -> int:
        return int(self.reply["now-ms"])

    def is_hidden(self) -> bool:
        return self.state.is_hidden(self.now_ms)

    def removals(self, dot: Dot) -> list[Dot]:
        """The effects that take an entry, in the region's order."""
        return [one for one, effect in self.concerning() if takes(effect, self.key, dot)]

    def first_removals(self, dot: Dot) -> list[Dot]:
        """The first effect that takes an entry; several if they came with one snapshot."""
        removals = self.removals(dot)
        return [one for one in removals if self.places[one] == self.places[removals[0]]]

    def survived(self, dot: Dot) -> list[Dot]:
        """The removals that are concurrent with an add and do not take it."""
        truth = self.truth
        return [
            one
            for one, effect in self.concerning()
            if isinstance(effect, SWEEPING)
            and not takes(effect, self.key, dot)
            and not truth.has_seen(one, dot)
            and not truth.has_seen(dot, one)
        ]

    def entry_dots_in_records(self) -> set[Dot]:
        """The dots that local records name with the wanted ID."""
        return {
            (int(entry[0]), int(entry[1]))
            for event in self.reply["events"]
            for entry in event.get("entries", ())
            if entry[2] == shown(self.wanted).decode()
        }

    # -- how far the reply tells

    def positions(self) -> list[int]:
        """The rows of the snapshots that the reply tells."""
        return [event["position"] for event in self.reply["events"] if event["kind"] == "snapshot"]

    def joined_after(self, dot: Dot, until: Optional[Dot] = None) -> bool:
        """Whether the reply tells a snapshot after an effect that it tells (and before another)."""
        low = self.told[dot]["position"]
        high = self.told[until]["position"] if until is not None else None
        return any(low < one and (high is None or one < high) for one in self.positions())


def tell_all(views: list[View], vector: Vector) -> bool:
    """Whether the logs together hold every effect that a vector covers.

    A log without omissions holds the effects above its floor, up to its vector.
    """
    for region, counter in vector.items():
        held = 0
        spans = sorted(
            (view.floor.get(region, 0), view.vector.get(region, 0))
            for view in views
            if not view.left_out
        )
        for low, high in spans:
            if low <= held:
                held = max(held, high)
        if held < counter:
            return False
    return True
