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
from typing import Final, Optional

from anabranch.crdt.vector import Dot, Vector, covers, includes, raise_to
from anabranch.study.replies.events import KeyEvent
from anabranch.study.replies.histories import KeyHistory, KeyState

RENAMES: Final = frozenset({"RENAME", "RENAMENX"})
# Effects that a write issues before its own, if something is left of a key that does not exist.
_CLEARING: Final = ("remove-observed", "set-deadline")


class RegionAnswer:
    """The answer of one region: its history of a key, and the state of the key.

    `state` was asked for before the history, so that the history reaches at least as far; events
    behind it are left out. None: the history ends before the present, so no region can tell the
    state. `vector` covers the effects on the key that the region had applied at the end, and
    `clock_ms` is its clock there.
    """

    def __init__(
        self, history: KeyHistory, state: Optional[KeyState], until_ms: Optional[int] = None
    ) -> None:
        self.region: Final = history.region
        self.region_id: Final = history.region_id
        self.history: Final = history
        self.state: Final = state
        if state is not None:
            self.vector: Vector = state.vector
            self.events: list[KeyEvent] = _up_to(history.events, self.vector)
            self.clock_ms = state.now_ms
            return
        # Counters are applied without gaps, so the highest one told stands for those below it.
        self.events = history.events
        self.vector = dict(history.floor)
        for event in self.events:
            raise_to(self.vector, event.reached)
        self.clock_ms = history.now_ms if until_ms is None else min(until_ms, history.now_ms)


def _up_to(events: list[KeyEvent], vector: Vector) -> list[KeyEvent]:
    """The events before the first one that a vector of the same region does not cover."""
    beyond = (place for place, one in enumerate(events) if not includes(vector, one.reached))
    return events[: next(beyond, len(events))]


class HistoryStep:
    """One step of a region; see the docstring of the module. `removes`: entries that it removed.

    `ms` is the clock of the region when it wrote the step to its log. `source` is the region_id of
    the peer that sent it, 0 if there is none.
    """

    def __init__(self, region: int, first: KeyEvent) -> None:
        self.region: Final = region
        self.first: Final = first
        self.events: Final = [first]
        self.removes: Final[list[Dot]] = []
        self.ms: Final = first.clock_ms
        self.source: Final = first.source
        self.is_snapshot: Final = first.kind == "snapshot"
        self.is_issue: Final = first.is_effect and not first.source
        self.is_arrival: Final = first.is_effect and first.source != 0

    @property
    def dots(self) -> list[Dot]:
        """The dots of its effects, in order and without gaps; empty for a record or a snapshot."""
        return [event.dot for event in self.events if event.is_effect]


def steps_of(answer: RegionAnswer) -> list[HistoryStep]:
    """The steps of one region, in the order of its log."""
    steps: list[HistoryStep] = []
    for event in answer.events:
        if steps and _belongs(steps[-1], event):
            steps[-1].events.append(event)
        else:
            steps.append(HistoryStep(answer.region_id, event))
    return steps


def _belongs(step: HistoryStep, event: KeyEvent) -> bool:
    """Whether an event is part of the step before it."""
    last = step.events[-1]
    if last.position != event.position or last.source != event.source:
        return False
    if not last.is_effect or not event.is_effect:
        # A read by a new consumer makes two records.
        return (
            last.kind == "consumer-made"
            and event.kind in ("delivered", "claimed")
            and (last.group, last.consumer) == (event.group, event.consumer)
        )
    if (last.dot[0], last.dot[1] + 1) != event.dot:
        return False
    return step.is_arrival or _is_one_command(step, last, event)


def _is_one_command(step: HistoryStep, last: KeyEvent, event: KeyEvent) -> bool:
    if not event.command or event.command != last.command:
        return False
    if event.command in RENAMES:
        return last.other_key == event.other_key
    if event.kind == "trim":
        return event.command == "XADD" and last.kind == "add"
    clears = step.first.kind == "remove-observed"
    return clears and all(one.kind in _CLEARING for one in step.events)


def in_causal_order(lanes: Sequence[Sequence[HistoryStep]]) -> list[HistoryStep]:
    """The steps of all lanes; see the docstring of the module.

    Each lane keeps its order. If logs contradict each other (two lives of a region that used the
    same counters), the step with the earliest time goes on without its causes.
    """
    told = {(step.region, dot) for lane in lanes for step in lane for dot in step.dots}
    issued = {dot for lane in lanes for step in lane if step.is_issue for dot in step.dots}
    nexts = [0] * len(lanes)
    causes = [_causes(lane[0], told, issued) if lane else [] for lane in lanes]
    placed: set[tuple[int, Dot]] = set()
    ordered: list[HistoryStep] = []
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


def _causes(
    step: HistoryStep, told: set[tuple[int, Dot]], issued: set[Dot]
) -> list[tuple[int, Dot]]:
    """The steps of other regions that come before a step, as (region, dot)."""
    if step.is_snapshot:
        seen = step.first.vector
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
