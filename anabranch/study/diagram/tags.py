"""The marks of dots: an entry that stays, one that was removed, a removal, anything else.

A shape carries each meaning, not a colour alone:

    STAYS     a filled box       the entry is in every region at the end
    PARTLY    a thick border     the entry is in some regions only
    REMOVED   struck through     the entry, or the group, is in no region at the end
    REMOVES   a dashed border    the effect removes
    LOST      a dotted border    a crash took the effect before any peer had it
    PLAIN     a thin border      any other effect
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from anabranch.crdt.vector import Dot
from anabranch.study.diagram.model import ADD, GROUP, REMOVAL, Effect, Timeline

STAYS: Final = "stays"
PARTLY: Final = "partly"
REMOVED: Final = "removed"
REMOVES: Final = "removes"
LOST: Final = "lost"
PLAIN: Final = "plain"


class Tag(NamedTuple):
    """A run of dots of one region with one meaning."""

    origin: int
    first: int
    last: int
    meaning: str


def meaning_of(timeline: Timeline, dot: Dot) -> str:
    """The meaning of one dot at the end of the timeline."""
    effect = timeline.effects.get(dot)
    if effect is not None and effect.kind == REMOVAL:
        return REMOVES
    if effect is not None and effect.kind == GROUP:
        return _meaning_of_create(timeline, dot, effect)
    if dot not in timeline.fates or (effect is not None and effect.kind != ADD):
        return PLAIN
    key = timeline.fates[dot].key
    finals = [final for final in timeline.finals if final.key == key]
    holding = [final for final in finals if dot in final.entries and not final.is_hidden]
    if not finals:
        return PLAIN
    if not holding:
        return REMOVED
    return STAYS if len(holding) == len(finals) else PARTLY


def _meaning_of_create(timeline: Timeline, dot: Dot, create: Effect) -> str:
    """A create that lives nowhere at the end is struck through, like an entry."""
    finals = [final for final in timeline.finals if final.key == create.key]
    lives = any(dot in dots for final in finals for _, dots in final.groups)
    return PLAIN if lives or not finals else REMOVED


def tags_of(timeline: Timeline, dots: Sequence[Dot], lost_from: int = 0) -> list[Tag]:
    """The dots as tags: neighbours with the same meaning share one.

    A crash took the dots with counters from `lost_from` on; 0: none.
    """
    tags: list[Tag] = []
    for dot in dots:
        is_lost = 0 < lost_from <= dot[1]
        meaning = LOST if is_lost else meaning_of(timeline, dot)
        last = tags[-1] if tags else None
        if last is not None and (last.origin, last.last + 1, last.meaning) == (*dot, meaning):
            tags[-1] = last._replace(last=dot[1])
        else:
            tags.append(Tag(*dot, dot[1], meaning))
    return tags


def text_of(timeline: Timeline, tag: Tag) -> str:
    """The text in the box of a tag."""
    return timeline.run_name(tag.origin, tag.first, tag.last)
