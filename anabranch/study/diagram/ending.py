"""The end of the drawing: the last state of each key in each region, and the legend.

An entry that the region holds has a filled square before its ID. An entry that was removed is
struck through, and the effect that removed it stands behind it.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Dot
from anabranch.study.diagram.model import GROUP, Fate, LastState, Timeline
from anabranch.study.diagram.places import (
    CHARACTER,
    LINE,
    STRIP,
    Box,
    Column,
    Label,
    Layout,
    one_line,
)
from anabranch.study.diagram.style import LEGEND, meanings_in
from anabranch.study.diagram.texts import Run, columns_of, flowed, visible, word

ENTRIES_MAX: Final = 12
"""Entries of one key that a box lists, of those that stay and of those that were removed."""
KEYS_MAX: Final = 6
WHOLE_MAX: Final = 30
"""Columns of a struck text that is not broken over lines."""
BOX_AT: Final = 10
"""From the left end of a column to its boxes."""


def place_finals(timeline: Timeline, layout: Layout, top: float) -> float:
    """Places the boxes; returns the height reached."""
    keys = list(dict.fromkeys(final.key for final in timeline.finals))
    if not keys:
        return top
    for column, lane in zip(layout.columns, timeline.lanes, strict=True):
        text = f"{column.name} at the end{' is not known' if lane.is_unknown else ''}"
        layout.headings.append(one_line(0, column.left + BOX_AT, top, text, "name"))
    y = top + LINE + 6
    for key in keys[:KEYS_MAX]:
        ends = [
            _place_box(timeline, layout, column, final, y)
            for column in layout.columns
            for final in timeline.finals
            if (final.region, final.key) == (column.region, key)
        ]
        y = max(ends) + 8
    if len(keys) > KEYS_MAX:
        text = f"and {len(keys) - KEYS_MAX} more keys, which this drawing leaves out"
        layout.headings.append(one_line(0, layout.columns[0].left + BOX_AT, y, text, "note"))
        y += LINE
    return y


def _place_box(
    timeline: Timeline, layout: Layout, column: Column, final: LastState, top: float
) -> float:
    left = round(column.left + BOX_AT, 1)
    width = column.right - STRIP - left
    columns = int((width - 12) / CHARACTER)
    y = top + 4
    for runs in lines_of(timeline, final):
        lines, was_cut = flowed(runs, columns, 2)
        whole = " ".join(run.text for run in runs) if was_cut else ""
        label = Label(0, left + 6, y, tuple(map(tuple, lines)), whole)
        layout.headings.append(label)
        y += label.height()
    layout.boxes.append(Box(left, top, round(width, 1), y + 4 - top, "final"))
    return y + 4


def lines_of(timeline: Timeline, final: LastState) -> list[list[Run]]:
    """The lines of a box: the key, its entries, its groups, and the entries that were removed."""
    name = word(final.key)
    state = (
        "is hidden by its deadline"
        if final.is_hidden
        else ""
        if final.exists or final.note
        else "does not exist"
    )
    lines = [[Run(name, "key"), *([Run(state, "note")] if state else [])]]
    lines += _entries(timeline, list(final.entries), "stay hidden" if final.is_hidden else "stays")
    if final.exists and not final.entries and not final.note:
        lines.append([Run("no entries", "note")])
    if final.groups:
        names = ", ".join(visible(group) for group, _ in final.groups)
        lines.append([Run(f"group{'s' if len(final.groups) > 1 else ''} {names}", "command")])
    gone = [
        dot
        for dot, fate in timeline.fates.items()
        if fate.key == final.key
        and dot not in final.entries
        and any(region == final.region for region, _, _ in fate.removals)
    ]
    lines += _entries(timeline, gone, "gone")
    dead = [
        effect.text.removeprefix("creates ")
        for dot, effect in timeline.effects.items()
        if effect.kind == GROUP
        and effect.key == final.key
        and not any(dot in dots for _, dots in final.groups)
        and timeline.has_applied(final.region, dot)
    ]
    alive = {f"group {visible(group)}" for group, _ in final.groups}
    lines += [
        [Run("✕", "gone", True), Run(text, "struck", columns_of(text) < WHOLE_MAX)]
        for text in dict.fromkeys(dead)
        if text not in alive
    ]
    return [*lines, [Run(final.note, "note")]] if final.note else lines


def _entries(timeline: Timeline, dots: list[Dot], state: str) -> list[list[Run]]:
    shown = dots if len(dots) <= ENTRIES_MAX else [*dots[: ENTRIES_MAX // 2], *dots[-5:]]
    lines = []
    for place, dot in enumerate(shown):
        if len(shown) < len(dots) and place == ENTRIES_MAX // 2:
            lines.append([Run(f"… {len(dots) - len(shown)} more …", "note")])
        fate = timeline.fates.get(dot)
        text = _entry_text(fate) if fate is not None else "entry"
        name = timeline.run_name(*dot, dot[1])
        if state == "gone":
            by = ", ".join(
                timeline.run_name(*one, one[1]) for one in (fate.removed_by() if fate else ())
            )
            lines.append(
                [
                    Run("✕", "gone", True),
                    Run(text, "struck", columns_of(text) < WHOLE_MAX),
                    Run(f"{name}{' removed by ' + by if by else ' removed'}", "note"),
                ]
            )
        else:
            style = "kept" if state == "stays" else "note"
            mark = "■" if state == "stays" else "□"
            lines.append([Run(mark, style, True), Run(text, style), Run(name, "note")])
    return lines


def _entry_text(fate: Fate) -> str:
    """``110-1 a 1``: the ID and the fields as typed."""
    return " ".join([fate.entry_id, *(word(field) for field in fate.fields)])


def place_legend(timeline: Timeline, layout: Layout, top: float) -> float:
    """Places the meanings of the marks that the drawing uses; returns the height reached."""
    used = meanings_in(layout)
    x, y = 10.0, top
    for name, sample, text in LEGEND:
        if name not in used:
            continue
        width = (columns_of(sample) + 1 + columns_of(text)) * CHARACTER + 22
        if x > 10.0 and x + width > layout.width:
            x, y = 10.0, y + LINE + 2
        lines, _ = flowed([Run(sample, name, True), Run(text, "note", True)], 200, 1)
        layout.legend.append(Label(0, round(x, 1), y, tuple(map(tuple, lines))))
        x += width
    return y + LINE if layout.legend else y
