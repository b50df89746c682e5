"""The record of a run, and the timeline that it makes.

A world gets `judge` among its judges and `tell`; then `watch` gives the recorder that world. At the
end, before the world is closed, `conclude` takes the last states of the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Optional

from anabranch.crdt.vector import Dot
from anabranch.sim.history import (
    BLOCKING,
    Began,
    Checker,
    Committed,
    End,
    Moved,
    Operation,
    Stopped,
)
from anabranch.sim.logged import Logged, logged
from anabranch.sim.plan import REGION_NAMES, struck_by
from anabranch.sim.timeline.commands import Commands, Label, note_lost
from anabranch.sim.timeline.effects import key_of, kind_of, named, removes, text_of
from anabranch.sim.timeline.entries import Entries
from anabranch.sim.timeline.links import Links
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.sim.world.world import World
from anabranch.study.diagram.arrows import words_of
from anabranch.study.diagram.model import (
    FAULT,
    HEAL,
    OWN,
    START,
    STOP,
    Arrow,
    Band,
    Effect,
    Lane,
    LastState,
    Mark,
    Moment,
    Outage,
    Point,
    Timeline,
)

_STOPS: Final = {
    "kill": "killed",
    "power": "loses power",
    "clean": "stops",
    "backup": "stops; an old backup is put back",
    "gone": "gone for good",
}
# Faults that are seen at once as the end of a process.
_SEEN: Final = frozenset(
    {"kill", "clean restart", "power cut", "long absence", "blackout", "gone for good"}
)


class Recorder:
    """The record of one run. `label_of` chooses the clients that are drawn."""

    def __init__(self, label_of: Label, name_of: Optional[Callable[[int], str]] = None) -> None:
        self._name_of = name_of or (lambda region: REGION_NAMES[region - 1])
        self._world: Optional[World] = None
        self._zero_ms = EPOCH_MS
        self._order = 0
        self._is_over = False
        self.row = ""
        """The row of the table that runs now."""
        self.commands = Commands(label_of)
        self._own: list[Point] = []
        self._arrows: list[Arrow] = []
        self._marks: list[Mark] = []
        self._bands: list[Band] = []
        self._outages: list[Outage] = []
        self._down: dict[int, Moment] = {}
        self._syncing: Optional[tuple[Moment, tuple[int, ...], str]] = None
        # Effects of commands that had waited for the end of a start: (place among the own points,
        # numbers of the operations that had waited).
        self._waited: list[tuple[int, list[int]]] = []
        self._effects: dict[Dot, Logged] = {}
        self._issued_ms: dict[Dot, int] = {}
        self._last_states: tuple[LastState, ...] = ()
        self.judge: type[Checker] = _judge(self)

    # -- the beginning and the end

    def watch(self, world: World, zero_ms: int = EPOCH_MS, keys: tuple[bytes, ...] = ()) -> None:
        """Records from now on. Times count from `zero_ms`; `keys` are those whose entries count.

        Without `keys` the entries of all keys of the world count.
        """
        self._world = world
        self._zero_ms = zero_ms
        self._links = Links(world)
        self._entries = Entries(world, keys or world.keys)
        self._links.look(self.now())

    def conclude(self) -> None:
        """Takes the last state of each key. The world may be closed after this."""
        if self._world is not None and not self._is_over:
            self._links.look(self.now())
            self._links.finish()
            self._last_states = tuple(self._entries.last_states())
            self._is_over = True
            self._end = self.now()

    def now(self) -> Moment:
        """The present moment, after all others."""
        assert self._world is not None
        self._order += 1
        return Moment(self._world.scheduler.now_ms - self._zero_ms, self._order)

    @property
    def has_watched(self) -> bool:
        """Whether there is anything to make a timeline of."""
        return self._world is not None

    @property
    def _records(self) -> bool:
        return self._world is not None and not self._is_over

    # -- rows of a table

    def mark(self, kind: str, regions: tuple[int, ...], text: str) -> None:
        """Adds a mark in words at this moment."""
        self._links.look(self.now())
        self._add_mark(Mark(self.now(), kind, regions, text, self.row))

    def _add_mark(self, mark: Mark) -> None:
        self._marks.append(mark)
        self.commands.others += 1

    def sync_begins(self, regions: tuple[int, ...]) -> None:
        """A Sync row begins."""
        self._syncing = self.now(), regions, self.row
        self.commands.others += 1

    def sync_ends(self) -> None:
        """The Sync row is over, or has failed."""
        if self._syncing is not None:
            begin, regions, row = self._syncing
            self._links.look(self.now())
            self._bands.append(Band(regions, begin, self.now(), row))
            self._syncing = None

    # -- the trace

    def tell(self, line: tuple[Any, ...]) -> None:
        """Takes a line of the trace."""
        if not self._records:
            return
        _, region, what, *details = line
        now = self.now()
        self._links.look(now)
        if what == "waits":
            self.commands.waits(details[0], now, self.row)
        elif what == "frames":
            client, argv, reply = details
            self.commands.framed(now, region, client, argv, reply, self.row)
        elif what == "fault" and details[0] not in _SEEN:
            self._fault(now, *details)
        elif what == "heals" and (self._marks or self._links.gaps or self._links.are_closed()):
            self._add_mark(Mark(now, HEAL, (), "all faults are over", self.row))

    def _fault(self, now: Moment, kind: str, regions: list[int], duration_ms: int) -> None:
        struck = struck_by(kind, tuple(regions))
        lasting = f" for {duration_ms} ms" if duration_ms else ""
        where = f" {', '.join(map(self._name_of, struck))}" if len(struck) > 1 else ""
        self._add_mark(Mark(now, FAULT, struck, f"{kind}{where}{lasting}", self.row))

    # -- events of the history

    def executed(self, operation: Operation) -> None:
        """A region has computed a reply."""
        now = self.now()
        if operation.after is not None and not operation.waited:
            first, last = operation.effects()
            self._issue(operation.region, first, last, now.ms)
            if operation.after != operation.before:
                self._entries.moved(operation.region, now.ms, operation.before, operation.after)
        elif self._waited and operation.waited and operation.argv[0].upper() not in BLOCKING:
            own = self._own[self._waited[-1][0]]
            if (own.region, own.when.ms) == (operation.region, now.ms):
                self._waited[-1][1].append(operation.number)
        self.commands.executed(operation, now, self.row)

    def moved(self, event: Moved) -> None:
        """A step has moved a region's vector without a command."""
        now = self.now()
        own = 0 if event.learned else event.region
        self._entries.moved(event.region, now.ms, event.before, event.after)
        for origin in sorted(event.after):
            first, last = event.before.get(origin, 0) + 1, event.after[origin]
            if first > last:
                continue
            self.commands.others += 1
            if origin == own:
                self._issue(origin, first, last, now.ms)
                if event.how == "waited":
                    self._waited.append((len(self._own), []))
                self._own.append(
                    Point(self.now(), origin, OWN, "", first=first, last=last, row=self.row)
                )
            else:
                issued_ms = self._issued_ms.get((origin, last), now.ms)
                self._arrows.append(
                    Arrow(
                        now,
                        origin,
                        first,
                        last,
                        issued_ms,
                        event.source or origin,
                        event.region,
                        is_snapshot=event.how == "join",
                    )
                )

    def _issue(self, region: int, first: int, last: int, ms: int) -> None:
        for counter in range(first, last + 1):
            self._issued_ms[region, counter] = ms

    def committed(self, event: Committed) -> None:
        """A commit is on disk: from now on the content of its effects is known."""
        for block in event.blocks:
            for place, effect in enumerate(logged(block)):
                self._effects[block.origin, block.first + place] = effect

    def stopped(self, event: Stopped) -> None:
        """A process has ended."""
        if event.how in _STOPS:
            now = self.now()
            text = _STOPS[event.how]
            self._add_mark(Mark(now, STOP, (event.region,), text, self.row))
            self._down[event.region] = self.now()

    def began(self, event: Began) -> None:
        """A process has started again."""
        begin = self._down.pop(event.region, None)
        if begin is None:
            return
        self._outages.append(Outage(event.region, begin, self.now()))
        vector = " ".join(
            f"{self._name_of(region)}:{event.vector[region]}" for region in sorted(event.vector)
        )
        text = f"starts with {vector or 'nothing'} on its disk"
        self._add_mark(Mark(self.now(), START, (event.region,), text, self.row))
        last = event.vector.get(event.region, 0)
        for points in (self.commands.points, self._own):
            note_lost(points, event.region, last)
        self._entries.started(event.region)

    def lost(self, operation: Operation) -> None:
        """A client will never have a reply."""
        self.commands.lost(operation, self._is_over)

    # -- the timeline

    def timeline(self, title: str) -> Timeline:
        """The timeline of the run; ValueError if nothing was watched."""
        if self._world is None:
            raise ValueError("the run ended before anything happened in it")
        self.conclude()
        effects = {
            dot: Effect(
                dot,
                kind_of(effect),
                text_of(effect, self._name_of),
                key_of(effect),
                self._issued_ms.get(dot, 0),
                named(effect),
            )
            for dot, effect in sorted(self._effects.items())
        }
        concerned = {effect.key for effect in effects.values()}
        own = self._without_waited()
        points = [*self.commands.points, *(_told(point, effects) for point in own)]
        down = [Outage(region, begin, None) for region, begin in self._down.items()]
        return Timeline(
            title,
            tuple(Lane(region, self._name_of(region)) for region in self._world.plan.regions),
            tuple(sorted(points, key=lambda point: point.when)),
            tuple(self._with_removals(arrow) for arrow in self._arrows),
            tuple(self._links.gaps),
            tuple(self._bands),
            (*self._outages, *self._links.pauses, *down),
            tuple(self._marks),
            effects,
            self._entries.fates(self._effects),
            tuple(state for state in self._last_states if state.key in concerned),
            self._end.ms,
        )

    def _without_waited(self) -> list[Point]:
        """The points of regions' own; effects of a single command that had waited go to it.

        Several commands that had waited run in one step, which does not tell whose effect is whose.
        """
        gone = set()
        for place, numbers in self._waited:
            if len(numbers) == 1 and self.commands.issued(numbers[0], self._own[place]):
                gone.add(place)
        self._waited = []
        self._own = [point for place, point in enumerate(self._own) if place not in gone]
        return self._own

    def _with_removals(self, arrow: Arrow) -> Arrow:
        """The arrow with the entries that left the region with its effects."""
        found: list[Dot] = []
        for leaving in self._entries.leavings:
            if leaving.region != arrow.to or leaving.ms != arrow.when.ms:
                continue
            span = (leaving.before.get(arrow.origin, 0) + 1, leaving.after.get(arrow.origin, 0))
            if span != (arrow.first, arrow.last):
                continue
            effects = [
                self._effects[arrow.origin, counter]
                for counter in range(arrow.first, arrow.last + 1)
                if (arrow.origin, counter) in self._effects
            ]
            found += [
                dot
                for dot in leaving.dots
                if any(removes(effect, leaving.key, dot) for effect in effects)
            ]
        return replace(arrow, removes=tuple(sorted(set(found))))


def _told(point: Point, effects: dict[Dot, Effect]) -> Point:
    """A point of the region's own with the words of its effects."""
    known = [effects[dot] for dot in point.dots() if dot in effects]
    text = f"by itself: {words_of(known)}" if known else "issues by itself"
    return replace(point, text=text)


def _judge(recorder: Recorder) -> type[Checker]:
    """A judge without violations that passes the history on."""

    class Listener(Checker):
        """Passes the history to the recorder, once it watches."""

        name = "recorder"

        def began(self, event: Began) -> None:
            if recorder._records:
                recorder.began(event)

        def stopped(self, event: Stopped) -> None:
            if recorder._records:
                recorder.stopped(event)

        def executed(self, operation: Operation) -> None:
            if recorder._records:
                recorder.executed(operation)

        def lost(self, operation: Operation) -> None:
            if recorder._world is not None:
                recorder.lost(operation)

        def moved(self, event: Moved) -> None:
            if recorder._records:
                recorder.moved(event)

        def committed(self, event: Committed) -> None:
            recorder.committed(event)

        def finish(self, end: End) -> None:
            recorder.conclude()

    return Listener
