"""The true history of a simulated run: who issued each effect, and when each region applied it.

`Truth` is a judge that judges nothing itself: it records what happened, from the events of the
simulator alone, and uses nothing of `study/`.

* Of each effect: its content (from committed blocks), the command that issued it (from words and
  replies), and the vector that its region had applied before it. So concurrency is known exactly.
* Of each region: the order in which it applied effects, the peer that sent them, and its own clock
  then. A crash takes back what was not on disk, and a restored backup what came after it.
* Deliveries: the commands of groups with their replies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Optional

from anabranch.crdt.vector import Vector
from anabranch.region.engine.replies import Reply
from anabranch.sim.history import (
    BLOCKING,
    Began,
    Checker,
    Committed,
    Moved,
    Operation,
    Setup,
    Words,
)
from anabranch.sim.logged import Dot, Logged, logged
from tests.study import issuers
from tests.study.issuers import Names, Said

Divide = Callable[[list[Logged]], Optional[list[Names]]]
ANYTHING: Final[Names] = frozenset({"*"})


def covers(vector: Vector, dot: Dot) -> bool:
    return vector.get(dot[0], 0) >= dot[1]


class Unit:
    """The effects that one region issued in one step, counters `first` to `last`.

    `seen` is the vector of effects of other regions that the region had applied then. `divide`
    tells the possible commands of the effects.
    """

    def __init__(self, region: int, first: int, last: int, seen: Vector, divide: Divide) -> None:
        self.region: Final = region
        self.first: Final = first
        self.last: Final = last
        self.seen: Final = seen
        self.divide = divide


class Applied:
    """One effect in the history of a region.

    `clock_ms` is the region's clock when it applied the effect. A region writes its own effects
    into the log later, when it closes their block, at the latest at `closed_ms` (None: not known).
    Effects of one joined snapshot have the same `step`, and no order among them.
    """

    __slots__ = ("clock_ms", "closed_ms", "dot", "is_joined", "source", "step")

    def __init__(self, dot: Dot, source: int, clock_ms: int, step: int, is_joined: bool) -> None:
        self.dot: Final = dot
        self.source: Final = source
        self.clock_ms: Final = clock_ms
        self.step: Final = step
        self.is_joined: Final = is_joined
        self.closed_ms: Optional[int] = None


class Joined:
    """A snapshot that a region joined in a step; `after` is the vector after it."""

    def __init__(self, step: int, source: int, clock_ms: int, after: Vector) -> None:
        self.step: Final = step
        self.source: Final = source
        self.clock_ms: Final = clock_ms
        self.after: Final = after


class RegionHistory:
    """The history of one region: `items` in the order in which it applied them."""

    def __init__(self) -> None:
        self.items: list[Applied] = []
        self.joins: list[Joined] = []
        self.vector: Vector = {}
        # Number of its process, and of its last step; how often a process began.
        self.start = 0
        self.starts = 0
        self.step = 0
        # The last unit of commands that had waited for the end of the start, and its clock.
        self.waited: Said = []
        self.waited_ms = -1
        # Own effects whose block is not on disk yet, and those on disk since the last clock.
        self.open: list[Applied] = []
        self.closing: list[Applied] = []
        # The history is not known from here on, until the next start.
        self.is_blind = False

    def reads_clock(self, clock_ms: int) -> None:
        """The region's clock: blocks that are on disk were closed before."""
        for item in self.closing:
            item.closed_ms = clock_ms
        self.closing = []

    def apply(self, dot: Dot, source: int, clock_ms: int, is_joined: bool = False) -> None:
        item = Applied(dot, source, clock_ms, self.step, is_joined)
        self.items.append(item)
        self.vector[dot[0]] = dot[1]
        if source == 0:
            self.open.append(item)

    def cut(self, vector: Vector) -> None:
        """Goes back to the vector that a start found on disk."""
        kept = [item for item in self.items if covers(vector, item.dot)]
        assert kept == self.items[: len(kept)], "a disk holds a part of a history"
        self.items = kept
        known: Vector = {}
        for item in kept:
            known[item.dot[0]] = item.dot[1]
        self.is_blind = known != vector
        self.vector = dict(vector)
        last = kept[-1].step if kept else -1
        self.joins = [join for join in self.joins if join.step <= last]
        self.open = []


class Truth(Checker):
    """Records a run. `lives`: region_id → its history."""

    name = "truth"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.lives = {region: RegionHistory() for region in setup.regions}
        # Dot → its effect, once committed, and the step in which it was issued.
        self.effects: dict[Dot, Logged] = {}
        self.units: dict[Dot, Unit] = {}
        # By region: its operations, in order.
        self.operations: dict[int, list[Operation]] = {region: [] for region in setup.regions}
        # How many backups were put back.
        self.restores = 0

    # -- questions

    def seen_by(self, dot: Dot) -> Vector:
        """The vector that its region had applied when it issued the effect."""
        return {**self.units[dot].seen, dot[0]: dot[1] - 1}

    def has_seen(self, later: Dot, earlier: Dot) -> bool:
        """Whether the region that issued `later` had applied `earlier` before."""
        return covers(self.seen_by(later), earlier)

    def commands_of(self, dot: Dot) -> Names:
        """The possible commands of an effect, as an explanation shows them."""
        unit = self.units[dot]
        numbers = range(unit.first, unit.last + 1)
        effects = [self.effects[(unit.region, number)] for number in numbers]
        names = unit.divide(effects)
        return ANYTHING if names is None else names[dot[1] - unit.first]

    # -- events

    def began(self, event: Began) -> None:
        life = self.lives[event.region]
        if event.how == "backup":
            self.restores += 1
        life.cut(event.vector)
        life.start = event.start
        life.starts += 1

    def committed(self, event: Committed) -> None:
        for block in event.blocks:
            for offset, effect in enumerate(logged(block)):
                self.effects[(block.origin, block.first + offset)] = effect
        life = self.lives[event.region]
        written = event.vector.get(event.region, 0)
        life.closing += [item for item in life.open if item.dot[1] <= written]
        life.open = [item for item in life.open if item.dot[1] > written]

    def executed(self, operation: Operation) -> None:
        life = self.lives[operation.region]
        self.operations[operation.region].append(operation)
        if operation.waited:
            # Its effects came with a step that was reported before.
            if operation.clock_ms == life.waited_ms:
                life.waited += _said(operation)
            return
        life.step += 1
        assert operation.after is not None
        if operation.before != life.vector:
            life.is_blind = True
        first, last = operation.effects()
        if first <= last:
            divide = _dividing(operation.queued, operation.argv, _said(operation))
            self._issue(life, operation.region, first, last, operation.clock_ms, divide)
        life.reads_clock(operation.clock_ms)

    def moved(self, event: Moved) -> None:
        region, life = event.region, self.lives[event.region]
        life.step += 1
        if event.before != life.vector:
            life.is_blind = True
        if event.how == "join":
            self._join(life, event)
        for origin, first, last in event.blocks:
            held = life.vector.get(origin, 0)
            if held < last <= event.after.get(origin, 0) and (origin != region or event.learned):
                for counter in range(first, last + 1):
                    life.apply((origin, counter), event.source, event.clock_ms)
        own = event.after.get(region, 0)
        first = life.vector.get(region, 0) + 1
        if first <= own:
            divide: Divide = issuers.of_region
            if event.how == "waited":
                life.waited, life.waited_ms = [], event.clock_ms
                divide = _of_waited(life.waited)
            self._issue(life, region, first, own, event.clock_ms, divide)
        if life.vector != event.after:
            life.is_blind = True
        life.reads_clock(event.clock_ms)

    def _join(self, life: RegionHistory, event: Moved) -> None:
        for origin, counter in event.after.items():
            if origin != event.region or event.learned:
                for one in range(life.vector.get(origin, 0) + 1, counter + 1):
                    life.apply((origin, one), event.source, event.clock_ms, True)
        life.joins.append(Joined(life.step, event.source, event.clock_ms, dict(event.after)))

    def _issue(
        self, life: RegionHistory, region: int, first: int, last: int, clock_ms: int, divide: Divide
    ) -> None:
        unit = Unit(region, first, last, dict(life.vector), divide)
        for counter in range(first, last + 1):
            self.units[(region, counter)] = unit
            life.apply((region, counter), 0, clock_ms)


def _said(operation: Operation) -> Said:
    """The commands of an operation that may have issued effects, with their replies."""
    if not operation.queued:
        is_silent = operation.argv[0].upper() in BLOCKING
        return [] if is_silent else [(operation.argv, operation.reply)]
    replies: list[Reply] = operation.reply if isinstance(operation.reply, list) else []
    return list(zip(operation.queued, replies, strict=False))


def _dividing(queued: tuple[Words, ...], argv: Words, said: Said) -> Divide:
    if queued:
        return lambda effects: issuers.of_transaction(said, effects)
    return lambda effects: issuers.of_command(argv, effects)


def _of_waited(said: Said) -> Divide:
    return lambda effects: issuers.of_many(said, effects)
