"""A part of a timeline: one key, or a range of time; and the bound on the size of a drawing."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Optional

from anabranch.crdt.vector import Dot
from anabranch.study.diagram.model import OWN, Arrow, Point, Timeline
from anabranch.study.diagram.texts import visible

EVENTS_MAX: Final = 250
"""Events of one drawing; more of them make a page that nobody reads."""
NAMED_MAX: Final = 5
"""Keys that an error names."""


class TooManyEvents(Exception):
    """A timeline is too large for a drawing. `keys` are its keys, the busiest first."""

    def __init__(self, events: int, events_max: int, keys: list[bytes], end_ms: int) -> None:
        super().__init__(
            f"{events} events are too many for one drawing, which has at most {events_max}"
        )
        self.events = events
        self.keys = keys
        self.end_ms = end_ms


class NothingLeft(Exception):
    """No event is left; the text says which part was asked for."""


def check_size(timeline: Timeline, events_max: int) -> None:
    """Raises `TooManyEvents` if the timeline has more than `events_max` events."""
    if timeline.events() > events_max:
        raise TooManyEvents(timeline.events(), events_max, busiest(timeline), timeline.end_ms)


def busiest(timeline: Timeline) -> list[bytes]:
    """The keys of the timeline's effects, those with most effects first."""
    count: dict[bytes, int] = {}
    for effect in timeline.effects.values():
        if effect.key is not None:
            count[effect.key] = count.get(effect.key, 0) + 1
    return sorted(count, key=lambda key: (-count[key], key))


def narrowed(
    timeline: Timeline, key: Optional[bytes] = None, from_ms: int = 0, to_ms: Optional[int] = None
) -> Timeline:
    """The events that concern `key`, from `from_ms` to `to_ms`, both included.

    Cuts, faults, syncs and outages concern every key. The last states stay those of the end of the
    run. Raises `NothingLeft` if no command and no effect is left.
    """
    last_ms = timeline.end_ms if to_ms is None else to_ms
    parts = []
    if key is not None:
        timeline = _of_key(timeline, key)
        parts.append(f"only the key {visible(key)}")
    if from_ms > 0 or last_ms < timeline.end_ms:
        timeline = _within(timeline, from_ms, last_ms)
        parts.append(f"only {from_ms} to {last_ms} ms of {timeline.end_ms} ms")
    if not timeline.points and not timeline.arrows:
        raise NothingLeft(f"nothing happened here: {', '.join(parts) or 'the run has no commands'}")
    return replace(timeline, left_out="; ".join(parts))


def _of_key(timeline: Timeline, key: bytes) -> Timeline:
    def concerns(dot: Dot) -> bool:
        effect = timeline.effects.get(dot)
        return effect is not None and effect.key in (None, key)

    points: list[Point] = []
    for point in timeline.points:
        dots = [dot for dot in point.dots() if concerns(dot)]
        runs = _runs([counter for _, counter in dots])
        if not runs and (point.kind == OWN or key not in point.keys):
            continue
        first, last = runs[0] if runs else (1, 0)
        points.append(replace(point, first=first, last=last))
        # Effects on other keys stand between those on this one (a MULTI): each run has a point.
        points += [
            replace(point, text="the same transaction", reply="", first=first, last=last)
            for first, last in runs[1:]
        ]
    arrows: list[Arrow] = []
    for arrow in timeline.arrows:
        counters = [
            counter
            for counter in range(arrow.first, arrow.last + 1)
            if concerns((arrow.origin, counter))
        ]
        removes = tuple(dot for dot in arrow.removes if dot in timeline.fates)
        removes = tuple(dot for dot in removes if timeline.fates[dot].key == key)
        arrows += [
            replace(arrow, first=first, last=last, removes=removes if place == 0 else ())
            for place, (first, last) in enumerate(_runs(counters))
        ]
    return replace(
        timeline,
        points=tuple(points),
        arrows=tuple(arrows),
        effects={dot: effect for dot, effect in timeline.effects.items() if concerns(dot)},
        fates={dot: fate for dot, fate in timeline.fates.items() if fate.key == key},
        finals=tuple(final for final in timeline.finals if final.key == key),
    )


def _runs(counters: list[int]) -> list[tuple[int, int]]:
    """Ascending counters as (first, last) runs without gaps."""
    runs: list[tuple[int, int]] = []
    for counter in counters:
        if runs and counter == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], counter
        else:
            runs.append((counter, counter))
    return runs


def _within(timeline: Timeline, from_ms: int, to_ms: int) -> Timeline:
    def meets(begin_ms: int, end_ms: Optional[int]) -> bool:
        return begin_ms <= to_ms and (end_ms is None or end_ms >= from_ms)

    return replace(
        timeline,
        points=tuple(one for one in timeline.points if from_ms <= one.when.ms <= to_ms),
        arrows=tuple(one for one in timeline.arrows if from_ms <= one.when.ms <= to_ms),
        marks=tuple(one for one in timeline.marks if from_ms <= one.when.ms <= to_ms),
        bands=tuple(one for one in timeline.bands if meets(one.begin.ms, one.end.ms)),
        gaps=tuple(one for one in timeline.gaps if meets(one.begin.ms, one.end and one.end.ms)),
        outages=tuple(
            one for one in timeline.outages if meets(one.begin.ms, one.end and one.end.ms)
        ),
    )
