"""The order in which one region did things, and which of them a crash has taken back.

What a command did is known once its effects are committed, and it counts once it is certain to be on the disk: until then it waits on the
region's **tape**. Effects say exactly when that is, by their vectors. Local records (deliveries, claims, acks) have no dots (S13.1), so:

* a commit takes everything that was done before it began, and begins after the former one has ended: what was executed before the former
  `Committed` is on disk with this one, and so is what came before any effect that is on disk;
* under `appendfsync always` what was answered is on disk (S13.2).

After a crash the vector that the new process found says where the tape ends; of the steps at that very vector that are not certain, any
number from the beginning may have survived: a `Doubt`.
"""

from __future__ import annotations

from typing import Final, Optional, Union

from anabranch.sim.checkers.delivery_effects import EffectsByDot
from anabranch.sim.history import (
    Began,
    Checker,
    Committed,
    Moved,
    Operation,
    Setup,
    Stopped,
    Vector,
)


class Item:
    """One step of a region: an operation, or a vector that moved.

    `size`: how many effects the region had applied after it. Vectors of one region only grow, so equal sizes are equal vectors.
    """

    __slots__ = ("after", "changed", "event", "is_sure", "remerged", "size", "wakes")

    def __init__(self, event: Union[Operation, Moved], after: Vector, before_size: int) -> None:
        self.event = event
        self.after = after
        self.size = sum(after.values())
        self.changed = self.size != before_size
        self.is_sure = False  # it is known to be on the disk
        self.remerged = (
            False  # it merged effects of this very region, which a restore had taken (S8.2)
        )
        # Reads that had waited and may have been answered within this step: they are told after it, and after what followed at once.
        self.wakes: Optional[list[Item]] = None


class Doubt:
    """Steps of which a crash has left none, some from the beginning, or all."""

    __slots__ = ("items",)

    def __init__(self, items: list[Item]) -> None:
        self.items = items


class Lost:
    """From here on it is not known what the region holds."""


Step = Union[Item, Doubt, Lost]
READS: Final = (b"XREADGROUP", b"XREAD")
"""Commands that may wait for what they read."""


class Tape:
    """The tape of one region. `past`: what is on disk, in order; `waiting`: what may not be."""

    def __init__(self) -> None:
        self.past: list[Step] = []
        self.waiting: list[Item] = []
        self.size = 0  # of the vector after the newest step
        self.mark = 0  # so many of `waiting` were there at the last Committed

    def add(self, event: Union[Operation, Moved], after: Vector) -> Item:
        item = Item(event, after, self.size)
        self.size = item.size
        self.waiting.append(item)
        return item

    def settle(self, size: int) -> int:
        """How many of `waiting` are on the disk for certain, once a vector of that size is."""
        certain = 0
        for index, item in enumerate(self.waiting):
            if item.is_sure or item.size < size or (item.size == size and item.changed):
                certain = index + 1
        return certain

    def take(self, count: int) -> list[Item]:
        taken = self.waiting[:count]
        del self.waiting[:count]
        self.past.extend(taken)
        return taken


class TapeChecker(Checker):
    """Base of the judges that follow each region's own order.

    They are given steps only once those are on the disk and their effects known: `happened` in order, `doubted` for what a crash may have
    taken, `restarted` when a region begins again from an earlier point.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.facts = EffectsByDot()
        self.tapes: dict[int, Tape] = {}
        self.now_ms = 0
        self._beginning: dict[int, Began] = {}  # starts that found effects which are told of next

    # -- what they override

    def happened(self, region: int, item: Item) -> None:
        """The next step of a region."""

    def doubted(self, region: int, items: list[Item]) -> None:
        """The next steps of a region before a crash, of which it may have kept any number from the beginning."""

    def restarted(self, region: int, steps: list[Step]) -> None:
        """The region was restored, and has its past up to there only."""

    def bewildered(self, region: int, vector: Vector) -> None:
        """What the region holds is not known any more."""

    # -- events

    def executed(self, operation: Operation) -> None:
        """Puts it on the tape; a read that had waited may belong further up."""
        assert operation.after is not None
        tape = self._tape(operation.region)
        item = tape.add(operation, operation.after)
        if operation.waited:
            _note_wakes(tape, item)
            _put_before_woken(tape, item)
        elif operation.at_ms > self.now_ms:
            self.now_ms = operation.at_ms

    def moved(self, event: Moved) -> None:
        tape = self._tape(event.region)
        item = tape.add(event, event.after)
        own = event.after.get(event.region, 0)
        # A commit tells of own effects after they were issued; what is known before has come back from others.
        merged = event.how in ("merge", "join")
        item.remerged = merged and event.before.get(event.region, 0) < own <= self.facts.known(
            event.region
        )
        self.now_ms = event.at_ms

    def answered(self, operation: Operation) -> None:
        """Under `always` the answer says that it is on disk."""
        if operation.always:
            for item in reversed(self.tapes[operation.region].waiting):
                if item.event is operation:
                    item.is_sure = True
                    break

    def committed(self, event: Committed) -> None:
        self.facts.take(event)
        tape = self._tape(event.region)
        certain = max(tape.settle(sum(event.vector.values())), tape.mark)
        self._tell(event.region, tape.take(certain))
        tape.mark = len(tape.waiting)
        self.now_ms = event.at_ms

    def stopped(self, event: Stopped) -> None:
        tape = self._tape(event.region)
        if event.how == "clean":  # everything is committed before it ends
            for item in tape.waiting:
                item.is_sure = True

    def began(self, event: Began) -> None:
        """A process that died after its commit was on the disk, and before anybody heard of it, leaves effects that are told of next."""
        self.now_ms = event.at_ms
        if self.facts.known(event.region) < event.vector.get(event.region, 0):
            self._beginning[event.region] = event
        else:
            self.begin(event)

    def _tape(self, region: int) -> Tape:
        if self._beginning:
            event = self._beginning.pop(region, None)
            if event is not None:
                self.begin(event)
        return self.tapes[region]

    def begin(self, event: Began) -> None:
        """A process begins; what it found on its disk says how far the tape goes."""
        tape = self.tapes.get(event.region)
        if tape is None:
            tape = self.tapes[event.region] = Tape()
            tape.size = sum(event.vector.values())
            if tape.size:
                tape.past.append(Lost())
                self.bewildered(event.region, event.vector)
            return
        size = sum(event.vector.values())
        certain = tape.settle(size)
        newest = tape.waiting[certain - 1].size if certain else _size_of(tape.past)
        if event.how == "backup" or size < newest:
            self._restore(event, tape, size)
        else:
            self._tell(event.region, tape.take(certain))
            doubt = [item for item in tape.waiting if item.size == size]
            if doubt:
                tape.past.append(Doubt(doubt))
                self.doubted(event.region, doubt)
            if self._vector_of(tape.past) != event.vector:
                self._lose(event, tape)
        tape.waiting = []
        tape.mark = 0
        tape.size = size

    def _tell(self, region: int, items: list[Item]) -> None:
        for item in items:
            self.happened(region, item)

    def _restore(self, event: Began, tape: Tape, size: int) -> None:
        """Cuts the past where the backup was taken."""
        tape.past = _cut([*tape.past, *tape.waiting], size)
        if self._vector_of(tape.past) == event.vector:
            self.restarted(event.region, tape.past)
        else:
            self._lose(event, tape)

    def _lose(self, event: Began, tape: Tape) -> None:
        tape.past = [Lost()]
        self.bewildered(event.region, event.vector)

    @staticmethod
    def _vector_of(steps: list[Step]) -> Vector:
        for step in reversed(steps):
            if isinstance(step, Item):
                return step.after
            if isinstance(step, Doubt) and step.items:
                return step.items[-1].after
        return {}


def _size_of(steps: list[Step]) -> int:
    return sum(TapeChecker._vector_of(steps).values())


def _cut(steps: list[Step], size: int) -> list[Step]:
    """The steps up to the vector of that size; of those at it that moved nothing, which ones the backup has is in doubt."""
    kept: list[Step] = []
    doubt: list[Item] = []
    for step in steps:
        if isinstance(step, Lost):
            kept = [step]
        elif (step.items[0] if isinstance(step, Doubt) else step).size > size:
            break
        elif isinstance(step, Doubt):
            if doubt:
                kept.append(Doubt(doubt))
                doubt = []
            kept.append(step)
        elif step.size < size or step.changed:
            kept.append(step)
        else:
            doubt.append(step)
    if doubt:
        kept.append(Doubt(doubt))
    return kept


def _note_wakes(tape: Tape, item: Item) -> None:
    """A read that waited is woken by a step, and told when that step's whole turn is over: it may belong after any step of this turn.

    The turn has the commands that one client had sent together, and what others did as soon as they were answered.
    """
    waiting = tape.waiting
    at_ms: Optional[int] = None
    for index in range(len(waiting) - 2, -1, -1):
        one = waiting[index]
        if isinstance(one.event, Moved):
            if one.wakes is None:
                one.wakes = []
            one.wakes.append(item)
            if one.event.how != "tick" or at_ms not in (None, one.event.at_ms):
                return
            at_ms = one.event.at_ms  # what a region issues when it commits follows in the same turn
            continue
        if one.event.waited:
            continue
        if at_ms is None:
            at_ms = one.event.at_ms
        if one.event.at_ms != at_ms or one.event.number < item.event.number:  # type: ignore[union-attr]
            return
        if one.wakes is None:
            one.wakes = []
        one.wakes.append(item)


def _put_before_woken(tape: Tape, item: Item) -> None:
    """A command that had waited for the end of a start is told after the reads that it woke, and comes before them."""
    operation = item.event
    assert isinstance(operation, Operation)
    if operation.argv[0].upper() in READS:
        return
    waiting = tape.waiting
    index = len(waiting) - 1
    while index > tape.mark:
        one = waiting[index - 1].event
        is_woken = (
            isinstance(one, Operation)
            and one.waited
            and one.argv[0].upper() in READS
            and one.clock_ms == operation.clock_ms
        )
        if not is_woken:
            break
        index -= 1
    waiting.insert(index, waiting.pop())
