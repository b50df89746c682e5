"""The events of a key as steps, in an order that no cause contradicts.

A step is what a drawing shows as one mark: an effect that a region issued, a run of effects that it
applied, a local record, or a snapshot that it joined. Effects of one command are one step where the
log shows that they are: those of a RENAME, an XADD with its trim, a write with the removal of what
was left of the key (S10.5).

Each region tells its steps in the order of its log, which extends causality (S2.1). The clocks of
two regions may disagree, so times alone would draw effects that arrive before they are issued.
`in_causal_order` takes the steps one by one: of the regions' next steps, those whose causes are all
taken, and of these the one with the earliest time. A cause is the issue of an effect, and its
arrival in the peer that passed it on, as far as logs tell them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Optional

from anabranch.answers import vector_of
from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.study.history.events import Event, Telling

RENAMES: Final = frozenset({"RENAME", "RENAMENX"})
# Effects that a write issues before its own, if something is left of a key that does not exist.
_CLEARING: Final = ("remove-observed", "set-deadline")


class Answer:
    """The answer of one region: its history of a key, and the state of the key.

    `state` is the reply to CRDT.EXPLAIN with NOHISTORY, asked for before the history, so that the
    history reaches at least as far; events behind it are left out. None: the history ends before
    the present, so no region can tell the state. `vector` covers the effects on the key that the
    region had applied at the end, and `clock_ms` is its clock there.
    """

    def __init__(
        self, history: Telling, state: Optional[dict[str, Any]], until_ms: Optional[int] = None
    ) -> None:
        self.region: Final = history.region
        self.region_id: Final = history.region_id
        self.history: Final = history
        self.state: Final = state
        if state is not None:
            self.vector: Vector = vector_of(state["vector"])
            self.events: list[Event] = _up_to(history.events, self.vector)
            self.clock_ms = int(state["now-ms"])
            return
        # Counters are applied without gaps, so the highest one told stands for those below it.
        self.events = history.events
        self.vector = dict(history.floor)
        for event in self.events:
            seen = vector_of(event.facts["vector"]) if event.kind == "snapshot" else {}
            for region_id, counter in [*seen.items(), *([event.dot] if event.dot else [])]:
                self.vector[region_id] = max(self.vector.get(region_id, 0), counter)
        self.clock_ms = history.now_ms if until_ms is None else min(until_ms, history.now_ms)


def _up_to(events: list[Event], vector: Vector) -> list[Event]:
    """The events before the first one that a vector of the same region does not cover."""
    for place, event in enumerate(events):
        seen = vector_of(event.facts["vector"]) if event.kind == "snapshot" else {}
        dots = [event.dot] if event.dot is not None else list(seen.items())
        if not all(covers(vector, *dot) for dot in dots):
            return events[:place]
    return events


class Step:
    """One step of a region; see the docstring of the module. `removes`: entries that it removed.

    `ms` is the clock of the region when it wrote the step to its log.
    """

    def __init__(self, region: int, event: Event) -> None:
        self.region: Final = region
        self.events: Final = [event]
        self.removes: Final[list[Dot]] = []

    @property
    def first(self) -> Event:
        """The first event."""
        return self.events[0]

    @property
    def ms(self) -> int:
        """The time of the first event."""
        return self.first.applied_ms

    @property
    def source(self) -> int:
        """The region_id of the peer that sent it, 0 if there is none."""
        return self.first.source

    @property
    def is_snapshot(self) -> bool:
        """Whether it is a snapshot that the region joined."""
        return self.first.kind == "snapshot"

    @property
    def dots(self) -> list[Dot]:
        """The dots of its effects, in order and without gaps; empty for a record or a snapshot."""
        return [event.dot for event in self.events if event.dot is not None]

    @property
    def is_issue(self) -> bool:
        """Whether the region issued effects."""
        return self.first.dot is not None and self.source == 0

    @property
    def is_arrival(self) -> bool:
        """Whether the region applied effects that a peer sent."""
        return self.first.dot is not None and self.source != 0


def steps_of(answer: Answer) -> list[Step]:
    """The steps of one region, in the order of its log."""
    steps: list[Step] = []
    for event in answer.events:
        if steps and _belongs(steps[-1], event):
            steps[-1].events.append(event)
        else:
            steps.append(Step(answer.region_id, event))
    return steps


def _belongs(step: Step, event: Event) -> bool:
    """Whether an event is part of the step before it."""
    last = step.events[-1]
    if last.position != event.position or last.source != event.source:
        return False
    if last.dot is None or event.dot is None:
        # A read by a new consumer makes two records.
        return (
            last.kind == "consumer-made"
            and event.kind in ("delivered", "claimed")
            and all(last.facts[name] == event.facts[name] for name in ("group", "consumer"))
        )
    if (last.dot[0], last.dot[1] + 1) != event.dot:
        return False
    return step.is_arrival or _is_one_command(step, last, event)


def _is_one_command(step: Step, last: Event, event: Event) -> bool:
    if not event.command or event.command != last.command:
        return False
    if event.command in RENAMES:
        return last.facts.get("other-key") == event.facts.get("other-key")
    if event.kind == "trim":
        return event.command == "XADD" and last.kind == "add"
    clears = step.first.kind == "remove-observed"
    return clears and all(one.kind in _CLEARING for one in step.events)


def in_causal_order(lanes: Sequence[Sequence[Step]]) -> list[Step]:
    """The steps of all lanes; see the docstring of the module.

    Each lane keeps its order. If logs contradict each other (two lives of a region that used the
    same counters), the step with the earliest time goes on without its causes.
    """
    told = {(step.region, dot) for lane in lanes for step in lane for dot in step.dots}
    issued = {dot for lane in lanes for step in lane if step.is_issue for dot in step.dots}
    nexts = [0] * len(lanes)
    causes = [_causes(lane[0], told, issued) if lane else [] for lane in lanes]
    placed: set[tuple[int, Dot]] = set()
    ordered: list[Step] = []
    while heads := [place for place, lane in enumerate(lanes) if nexts[place] < len(lane)]:
        for place in heads:
            causes[place] = [cause for cause in causes[place] if cause not in placed]
        ready = [place for place in heads if not causes[place]] or heads
        chosen = min(ready, key=lambda place: lanes[place][nexts[place]].ms)
        step = lanes[chosen][nexts[chosen]]
        ordered.append(step)
        placed |= {(step.region, dot) for dot in step.dots}
        nexts[chosen] += 1
        if nexts[chosen] < len(lanes[chosen]):
            causes[chosen] = _causes(lanes[chosen][nexts[chosen]], told, issued)
    return ordered


def _causes(step: Step, told: set[tuple[int, Dot]], issued: set[Dot]) -> list[tuple[int, Dot]]:
    """The steps of other regions that come before a step, as (region, dot)."""
    if step.is_snapshot:
        seen = vector_of(step.first.facts["vector"])
        found = [
            (region, dot)
            for region, dot in told
            if covers(seen, *dot)
            and (region == step.source or (region == dot[0] and dot in issued))
        ]
    elif step.is_arrival:
        found = [(dot[0], dot) for dot in step.dots if dot in issued]
        found += [(step.source, dot) for dot in step.dots if (step.source, dot) in told]
    else:
        return []
    return [cause for cause in found if cause[0] != step.region]
