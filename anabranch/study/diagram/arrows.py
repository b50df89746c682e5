"""The text of an arrow: the dots that arrived, and what they do where they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anabranch.crdt.vector import Dot
from anabranch.study.diagram.model import ADD, REMOVAL, Arrow, Effect, Timeline
from anabranch.study.diagram.stages import Crossing
from anabranch.study.diagram.tags import PLAIN, Tag, text_of
from anabranch.study.diagram.tags import tags_of as tags_of_dots
from anabranch.study.diagram.texts import Run

ADDS: Final = "adds"
REMOVES: Final = "removes"
OTHER: Final = "other"
SNAPSHOT: Final = "snapshot"


def crossing_parts(timeline: Timeline, crossing: Crossing) -> tuple[list[Run], str, str]:
    """The text of an arrow, its kind, and its title, which says both times of each run."""
    kind = kind_of(timeline, crossing)
    runs = [Run("snapshot:", "effect")] if kind == SNAPSHOT else []
    removed: list[Dot] = []
    for arrow in crossing.arrows:
        removed += arrow.removes
        runs += _runs_of(timeline, arrow, kind)
    named = {
        dot
        for arrow in crossing.arrows
        for counter in range(arrow.first, arrow.last + 1)
        if (arrow.origin, counter) in timeline.effects
        for dot in timeline.effects[arrow.origin, counter].names
    }
    removed = [dot for dot in removed if dot not in named]
    if removed:
        names = ", ".join(timeline.run_name(*dot, dot[1]) for dot in dict.fromkeys(removed))
        runs.append(Run(f"removes {names}", "removal"))
    title = "; ".join(_times_of(timeline, arrow) for arrow in crossing.arrows)
    return runs, kind, title


def _runs_of(timeline: Timeline, arrow: Arrow, kind: str) -> list[Run]:
    """A tag for each part of the run, and words for the effects that are no adds."""
    dots = [(arrow.origin, counter) for counter in range(arrow.first, arrow.last + 1)]
    if kind == SNAPSHOT:
        whole = Tag(arrow.origin, arrow.first, arrow.last, PLAIN)
        return [Run(text_of(timeline, whole), f"tag {PLAIN}", True)]
    runs: list[Run] = []
    for tag in tags_of_dots(timeline, dots):
        runs.append(Run(text_of(timeline, tag), f"tag {tag.meaning}", True))
        effects = [
            timeline.effects[tag.origin, counter]
            for counter in range(tag.first, tag.last + 1)
            if (tag.origin, counter) in timeline.effects
        ]
        if effects:
            runs.append(Run(words_of(effects), "effect"))
    return runs


def words_of(effects: Sequence[Effect]) -> str:
    """Effects in words: ``adds 110-1, 120-1; creates group g``."""
    parts: list[str] = []
    is_add = False
    for effect in effects:
        if effect.kind == ADD and is_add:
            parts[-1] += f", {effect.text}"
        else:
            parts.append(f"adds {effect.text}" if effect.kind == ADD else effect.text)
        is_add = effect.kind == ADD
    return "; ".join(parts)


def kind_of(timeline: Timeline, crossing: Crossing) -> str:
    """The kind of an arrow, which decides how its line is drawn."""
    if any(arrow.is_snapshot for arrow in crossing.arrows):
        return SNAPSHOT
    kinds = {
        timeline.effects[arrow.origin, counter].kind
        for arrow in crossing.arrows
        for counter in range(arrow.first, arrow.last + 1)
        if (arrow.origin, counter) in timeline.effects
    }
    if REMOVAL in kinds:
        return REMOVES
    return ADDS if ADD in kinds or not kinds else OTHER


def _times_of(timeline: Timeline, arrow: Arrow) -> str:
    name = timeline.run_name(arrow.origin, arrow.first, arrow.last)
    via = f" from {timeline.name_of(arrow.via)}" if arrow.via != arrow.origin else ""
    to = timeline.name_of(arrow.to)
    issued = "at a time not known" if arrow.issued_ms is None else f"at {arrow.issued_ms} ms"
    return f"{name}: issued {issued}, applied in {to} at {arrow.when.ms} ms{via}"
