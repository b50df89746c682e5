"""The order of one region's steps, and the steps that a crash has lost.

The effects of a step are known once they are committed, and a step counts once it is certainly on
disk. Until then it waits on the region's tape. For steps with effects, vectors say when they are
on disk. Local records (deliveries, claims, acks) have no dots (S13.1), so two rules hold for them:

* A commit holds everything that was done before it began, and it begins after the former commit
  has ended. So a step that was executed before the former `Committed` is on disk with this one,
  and so is every step before an effect that is on disk.
* Under `appendfsync always` an answered step is on disk (S13.2).

After a crash, the vector that the new process found marks the end of the tape. Of the steps at
that very vector that are not certain, any number from the first on may have survived: a `Doubt`.
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

    `size`: how many effects the region had applied after the step. Vectors of one region only
    grow, so equal sizes mean equal vectors.
    """

    __slots__ = ("after", "changed", "event", "is_sure", "remerged", "size", "wakes")

    def __init__(self, event: Union[Operation, Moved], after: Vector, before_size: int) -> None:
        self.event = event
        self.after = after
        self.size = sum(after.values())
        self.changed = self.size != before_size
        # Whether the step is known to be on disk.
        self.is_sure = False
        # Whether it merged effects of this region itself, which a restore had lost (S8.2).
        self.remerged = False
        # Blocked reads that this step may have answered. The history reports them later, after
        # the commands that followed at once.
        self.wakes: Optional[list[Item]] = None


class Doubt:
    """Steps before a crash. On disk may be none, the first few, or all of them."""

    __slots__ = ("items",)

    def __init__(self, items: list[Item]) -> None:
        self.items = items


class Lost:
    """The content of the region is unknown from here on."""


Step = Union[Item, Doubt, Lost]
READS: Final = (b"XREADGROUP", b"XREAD")
"""Commands that may block for entries."""


class Tape:
    """The tape of one region. `past`: the steps on disk, in order; `waiting`: uncertain steps."""

    def __init__(self) -> None:
        self.past: list[Step] = []
        self.waiting: list[Item] = []
        # The size of the vector after the newest step.
        self.size = 0
        # How many items of `waiting` there were at the last Committed.
        self.mark = 0

    def add(self, event: Union[Operation, Moved], after: Vector) -> Item:
        item = Item(event, after, self.size)
        self.size = item.size
        self.waiting.append(item)
        return item

    def settle(self, size: int) -> int:
        """How many items of `waiting` are certain once a vector of that size is on disk."""
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

    They receive a step only once it is on disk and its effects are known: by `happened` in order,
    by `doubted` if a crash may have lost it. `restarted` tells of a restored backup.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.facts = EffectsByDot()
        self.tapes: dict[int, Tape] = {}
        self.now_ms = 0
        # By region: the counter of its own effects on its disk, as reported.
        self._on_disk: dict[int, int] = {}
        # Starts that found effects on disk which are reported next.
        self._beginning: dict[int, Began] = {}

    # -- overridden by judges

    def happened(self, region: int, item: Item) -> None:
        """The next step of a region."""

    def doubted(self, region: int, items: list[Item]) -> None:
        """The last steps of a region before a crash; the first few of them may be on disk."""

    def restarted(self, region: int, steps: list[Step]) -> None:
        """The region was restored; `steps` are its whole past now."""

    def bewildered(self, region: int, vector: Vector) -> None:
        """The content of the region is unknown from here on; only its vector is known."""

    # -- events

    def executed(self, operation: Operation) -> None:
        """Puts the operation on the tape; a blocked read may belong to an earlier step."""
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
        # Own effects that are known already were committed before, so they came back from others.
        merged = event.how in ("merge", "join")
        item.remerged = merged and event.before.get(event.region, 0) < own <= self.facts.known(
            event.region
        )
        self.now_ms = event.at_ms

    def answered(self, operation: Operation) -> None:
        """Under `always` an answered operation is on disk, and so is all before it."""
        if operation.waits_for_disk():
            for item in reversed(self.tapes[operation.region].waiting):
                if item.event is operation:
                    item.is_sure = True
                    break

    def committed(self, event: Committed) -> None:
        self.facts.take(event)
        self._on_disk[event.region] = event.vector.get(event.region, 0)
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
        """A process has started.

        If the former process died after a commit but before it was reported, the start waits until
        the effects of that commit are reported.
        """
        self.now_ms = event.at_ms
        counter = event.vector.get(event.region, 0)
        if counter > self._on_disk.get(event.region, 0):
            self._beginning[event.region] = event
        else:
            self.begin(event)
        self._on_disk[event.region] = counter

    def _tape(self, region: int) -> Tape:
        if self._beginning:
            event = self._beginning.pop(region, None)
            if event is not None:
                self.begin(event)
        return self.tapes[region]

    def begin(self, event: Began) -> None:
        """Ends the tape of the former process at the vector that the new one found on disk."""
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
        """Cuts the past at the vector of the backup."""
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
    """The steps up to the vector of that size.

    Steps at that vector that changed no vector are in doubt: the backup may hold some of them.
    """
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
    """Notes a blocked read at each step that may have woken it.

    The read is reported when the whole turn of the waking step is over, so it may belong after
    any step of that turn. A turn holds the commands that one client sent together, and the
    commands of others that followed at once.
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
            # The effects that a region issues at a commit follow in the same turn.
            at_ms = one.event.at_ms
            continue
        if one.event.waited:
            continue
        if at_ms is None:
            at_ms = one.event.at_ms
        if (
            one.event.at_ms != at_ms
            # A read is an operation, so its event has a number.
            or one.event.number < item.event.number  # type: ignore[union-attr]
        ):
            return
        if one.wakes is None:
            one.wakes = []
        one.wakes.append(item)


def _put_before_woken(tape: Tape, item: Item) -> None:
    """Moves a command that waited for the end of a start before the reads that it woke.

    The history reports it after them.
    """
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
