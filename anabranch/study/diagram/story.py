"""A timeline in words, for readers who do not see the drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anabranch.study.diagram.arrows import kind_of
from anabranch.study.diagram.model import (
    LATE,
    LOGGED,
    OWN,
    WAITS,
    Band,
    LastState,
    Mark,
    Point,
    Timeline,
)
from anabranch.study.diagram.stages import Crossing, Edge, LaneRow, Line, Stage, Transfers
from anabranch.study.diagram.texts import cut, visible

CHARACTERS_MAX: Final = 1100
REPLY_MAX: Final = 60


def told(timeline: Timeline, stages: Sequence[Stage]) -> str:
    """The story in sentences: the beginning, then each event in order, then the end.

    A long story is cut in the middle, and says how many events it leaves out.
    """
    names = _joined([lane.name for lane in timeline.lanes])
    beginning = f"Space-time diagram of the regions {names}; time runs downwards."
    beginning = " ".join([beginning, *timeline.notes])
    ending = ended(timeline)
    sentences: list[str] = []
    left_out = 0
    room = CHARACTERS_MAX - len(beginning) - len(ending)
    for stage in stages:
        for sentence in _sentences(timeline, stage):
            if left_out or room < len(sentence):
                left_out += 1
            else:
                sentences.append(sentence)
                room -= len(sentence) + 1
    if left_out:
        sentences.append(f"Then {left_out} more events follow.")
    return " ".join([beginning, *sentences, ending]).strip()


def summary(timeline: Timeline) -> str:
    """One or two sentences, for the place where a page shows the drawing."""
    names = _joined([lane.name for lane in timeline.lanes])
    return f"Space-time diagram of {names}. {ended(timeline)}".strip()


def _sentences(timeline: Timeline, stage: Stage) -> list[str]:
    if isinstance(stage, LaneRow):
        return [
            _of_point(timeline, item)
            if isinstance(item, Point)
            else f"{timeline.name_of(item.regions[0])}: {item.text}."
            for items in stage.lanes.values()
            for item in items
        ]
    if isinstance(stage, Transfers):
        return [_of_crossing(timeline, crossing) for crossing in stage.crossings]
    if isinstance(stage, Line):
        return [_of_mark(stage.mark)]
    return _of_edge(timeline, stage)


def _of_point(timeline: Timeline, point: Point) -> str:
    name = timeline.name_of(point.region)
    issued = (
        f" It issues {timeline.run_name(point.region, point.first, point.last)}."
        if point.first <= point.last
        else ""
    )
    if point.kind == OWN:
        return f"{name}: {point.text} ({timeline.run_name(point.region, point.first, point.last)})."
    if point.kind == WAITS:
        return f"{name}: {point.text} waits."
    if point.kind == LOGGED:
        return f"{name}: {cut(point.text, REPLY_MAX)}.{issued}"
    reply = f" replies {cut(point.reply, REPLY_MAX)}" if point.reply else " has no reply"
    late = " now" if point.kind == LATE else ""
    return f"{name}: {cut(point.text, REPLY_MAX)}{late}{reply}.{issued}"


def _of_crossing(timeline: Timeline, crossing: Crossing) -> str:
    runs = _joined(
        [timeline.run_name(arrow.origin, arrow.first, arrow.last) for arrow in crossing.arrows]
    )
    kind = " as a snapshot" if kind_of(timeline, crossing) == "snapshot" else ""
    removed = [dot for arrow in crossing.arrows for dot in arrow.removes]
    effect = (
        f", which removes {_joined([timeline.run_name(*dot, dot[1]) for dot in removed])}"
        if removed
        else ""
    )
    to, via = timeline.name_of(crossing.to), timeline.name_of(crossing.via)
    return f"{to} applies {runs} from {via}{kind}{effect}."


def _of_mark(mark: Mark) -> str:
    return f"{mark.text[0].upper()}{mark.text[1:]}." if mark.text else ""


def _of_edge(timeline: Timeline, edge: Edge) -> list[str]:
    if isinstance(edge.of, Band) and edge.begins:
        names = _joined([timeline.name_of(region) for region in edge.of.regions])
        return [f"Sync of {names}."]
    return []


def ended(timeline: Timeline) -> str:
    """The last states: one sentence for each key, or for each region if they differ."""
    sentences = []
    for key in dict.fromkeys(final.key for final in timeline.finals):
        states: dict[tuple[str, str, str], list[str]] = {}
        for final in timeline.finals:
            if final.key == key:
                states.setdefault(_state(timeline, final), []).append(
                    timeline.name_of(final.region)
                )
        for (singular, plural, what), names in states.items():
            verb = singular if len(names) == 1 else plural
            sentences.append(f"At the end {_joined(names)} {verb} {what}.")
    return " ".join(sentences)


def _state(timeline: Timeline, final: LastState) -> tuple[str, str, str]:
    """A last state: the verb for one region and for several, and its object."""
    key = visible(final.key)
    if final.is_hidden:
        return "hides", "hide", f"{key}, whose deadline is over"
    if not final.exists and not final.note:
        return "has", "have", f"no key {key}"
    ids = [timeline.fates[dot].entry_id for dot in final.entries if dot in timeline.fates]
    note = f" ({final.note})" if final.note else ""
    return "holds", "hold", f"{_listed(ids)} in {key}{note}"


def _listed(ids: list[str]) -> str:
    if not ids:
        return "no entry"
    return ", ".join(ids) if len(ids) <= 8 else f"{', '.join(ids[:6])} and {len(ids) - 6} more"


def _joined(names: Sequence[str]) -> str:
    """``us``, ``us and eu``, ``us, eu and ap``."""
    unique = list(dict.fromkeys(names))
    if len(unique) < 2:
        return "".join(unique)
    return f"{', '.join(unique[:-1])} and {unique[-1]}"
