"""Invariant 13: no entry comes below a stable time that was told (S7.7).

A region tells its stable time T by CRDT.STABLE, and shows it in INFO. From then on no entry whose
ID was generated below T may appear in any region, unless the region that told T had applied its
effect. Two regions that told times hold the same entries below the lower one, removals and effects
that a restored disk lost aside.

Only IDs that a region chose by its clock (`*`) count: IDs given by clients and copies of RENAME
void a T. So does a region that is gone for good: of its entries nothing is demanded from then on.
And once all regions that are left have been put back to backups, no disk holds a clock that reaches
T: a region whose clock is behind finds nobody who tells it the floor. A region may be put back
before T is told by another one, which still counts on the clock of its former life.
"""

from __future__ import annotations

from anabranch.crdt.vector import Vector
from anabranch.sim.checkers.ledger import LedgerJudge
from anabranch.sim.history import Began, Committed, End, Moved, Operation, Setup, Shown, Stopped
from anabranch.sim.logged import Add


class Told:
    """A stable time that a region told.

    `start`: the number of the region's process start. `vector`: the effects that the region had
    applied then. `without`: the regions of whose entries nothing is demanded. `remembering`: the
    regions whose disks hold a clock that reaches the time.
    """

    __slots__ = ("at_ms", "ms", "region", "remembering", "start", "vector", "without")

    def __init__(
        self,
        region: int,
        start: int,
        ms: int,
        vector: Vector,
        at_ms: int,
        without: frozenset[int],
        remembering: set[int],
    ) -> None:
        self.region = region
        self.start = start
        self.ms = ms
        self.vector = vector
        self.at_ms = at_ms
        self.without = without
        self.remembering = remembering

    def misses(self, add: Add) -> bool:
        """Whether the time is wrong if that entry appears."""
        return (
            bool(self.remembering)
            and add.has_clock
            and add.entry_id >> 64 < self.ms
            and add.counter > self.vector.get(add.region, 0)
            and add.region not in self.without
        )


class StableTimes(LedgerJudge):
    """Compares each entry that a region commits, or gets from others, with the times told."""

    name = "stable_times"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        # By region: the times that it told, and the highest of them.
        self._told: dict[int, list[Told]] = {region: [] for region in setup.regions}
        self._highest: dict[int, int] = dict.fromkeys(setup.regions, 0)
        # By region: the newest time that it told since its disk was last put back to a backup.
        self._newest: dict[int, Told] = {}
        # By region: the highest counter that it has committed.
        self._committed: dict[int, int] = dict.fromkeys(setup.regions, 0)
        # By region: the highest clock read since its disk was last put back to a backup.
        self._clocks: dict[int, int] = dict.fromkeys(setup.regions, 0)
        self._starts: dict[int, int] = dict.fromkeys(setup.regions, 0)
        self._gone: frozenset[int] = frozenset()
        self._turn = 0

    # -- times

    def executed(self, operation: Operation) -> None:
        super().executed(operation)
        self._read(operation.region, operation.clock_ms)
        if operation.argv[0].upper() == b"CRDT.STABLE" and isinstance(operation.reply, int):
            assert operation.after is not None
            if operation.reply > self._highest[operation.region] > 0:
                self.setup.counts.rule("S7.7")
            self._tell(operation.region, operation.reply, operation.after, operation.at_ms)

    def shown(self, shown: dict[int, Shown]) -> None:
        """One region after the other shows its stable time in INFO."""
        regions = sorted(shown)
        if regions:
            self._turn += 1
            self._look(shown[regions[self._turn % len(regions)]])

    def finish(self, end: End) -> None:
        """The last times that all regions show."""
        for region in sorted(end.shown):
            self._look(end.shown[region])

    def _look(self, one: Shown) -> None:
        text = self.ledger.figures(one).get(b"crdt_stable_ms", b"0")
        self._tell(one.region, int(text), one.vector, one.at_ms)

    def _tell(self, region: int, ms: int, vector: Vector, at_ms: int) -> None:
        if ms == 0:
            return
        remembering = {
            one
            for one in set(self.setup.regions) - self._gone
            if one not in self.ledger.restored or self._clocks[one] >= ms
        }
        told = Told(region, self._starts[region], ms, dict(vector), at_ms, self._gone, remembering)
        known = self._newest.get(region)
        if known is not None and known.ms >= ms and known.without == told.without:
            return  # The earlier time demands more.
        self._told[region].append(told)
        self._highest[region] = max(self._highest[region], ms)
        self._newest[region] = told
        for other in sorted(self._newest):
            if other != region:
                self._compare(told, self._newest[other])

    def _read(self, region: int, clock_ms: int) -> None:
        """A region has read its clock."""
        self._clocks[region] = max(self._clocks[region], clock_ms)

    def _compare(self, one: Told, other: Told) -> None:
        """Both regions must have applied the same entries below the lower time."""
        lower = min(one.ms, other.ms)
        for origin in self.setup.regions:
            counters = one.vector.get(origin, 0), other.vector.get(origin, 0)
            lacking = one if counters[0] < counters[1] else other
            for counter in range(min(counters) + 1, max(counters) + 1):
                add = self.ledger.effect(origin, counter)
                if isinstance(add, Add) and add.entry_id >> 64 < lower and lacking.misses(add):
                    self._wrong(lacking, add, one.at_ms, f"region {_other(one, other, lacking)}")

    # -- entries

    def committed(self, event: Committed) -> None:
        super().committed(event)
        for effect in self.ledger.fresh:
            if isinstance(effect, Add) and effect.counter <= self._committed[effect.region]:
                self._issued_again(effect)
        for block in event.blocks:
            self._committed[block.origin] = block.last
        for effect in self.ledger.fresh:
            if isinstance(effect, Add):
                for region, highest in self._highest.items():
                    if effect.entry_id >> 64 < highest:
                        self._appears(effect, region, event.at_ms)

    def _issued_again(self, add: Add) -> None:
        """A restored backup had lost the counter, so no time told before speaks of this add."""
        for told in [one for several in self._told.values() for one in several]:
            if told.vector.get(add.region, 0) >= add.counter:
                told.vector[add.region] = add.counter - 1

    def moved(self, event: Moved) -> None:
        super().moved(event)
        self._read(event.region, event.clock_ms)
        highest = self._highest[event.region]
        for origin, counter in event.after.items():
            if origin == event.region and not event.learned:
                continue  # Effects that it issued now: they are judged when it commits them.
            for number in range(event.before.get(origin, 0) + 1, counter + 1):
                add = self.ledger.effect(origin, number)
                if isinstance(add, Add) and add.entry_id >> 64 < highest:
                    self._appears(add, event.region, event.at_ms)

    def _appears(self, add: Add, region: int, at_ms: int) -> None:
        """An entry has appeared; judges the times told by `region`."""
        for told in self._told[region]:
            if told.misses(add):
                self._wrong(told, add, at_ms, "a commit or a merge")
                return

    def _wrong(self, told: Told, add: Add, at_ms: int, where: str) -> None:
        self.fail(
            at_ms,
            told.region,
            f"told the stable time {told.ms} at {told.at_ms} ms without "
            f"{add.shown_id.decode()} of {add.key!r}, which region {add.region} added "
            f"as its effect {add.counter}: {where} shows it",
        )

    # -- processes

    def began(self, event: Began) -> None:
        super().began(event)
        region = event.region
        if event.how == "backup":
            # The disk may have lost what the region had when it told its times.
            self._newest.pop(region, None)
            self._clocks[region] = 0
            self._forget(region)
        # The former process lost its own effects that were not on disk, and their counters are
        # issued again. `_issued_again` sees the counters that a backup takes back.
        own = self._committed[region] if event.how == "backup" else event.vector.get(region, 0)
        for told in self._told[region]:
            if told.start == self._starts[region] and told.vector.get(region, 0) > own:
                told.vector[region] = own
        self._starts[event.region] = event.start

    def stopped(self, event: Stopped) -> None:
        super().stopped(event)
        if event.how == "gone":
            self._gone |= {event.region}
            self._newest.pop(event.region, None)
            self._forget(event.region)

    def _forget(self, region: int) -> None:
        """The disk of a region no longer holds the clocks that it held."""
        for told in [one for several in self._told.values() for one in several]:
            told.remembering.discard(region)


def _other(one: Told, other: Told, lacking: Told) -> int:
    return other.region if lacking is one else one.region
