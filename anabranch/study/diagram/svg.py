"""A layout as the text of an SVG file.

The text is UTF-8, well-formed XML, and the same for equal layouts. A point is a disc; an open disc
is a command that waits, a diamond an effect of the region's own, a cross the end of a process, a
triangle its start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import hypot
from typing import Final
from xml.sax.saxutils import escape as _escape_text

from anabranch.study.diagram.model import FAULT, OWN, START, STOP, WAITS
from anabranch.study.diagram.places import (
    ASCENT,
    CHARACTER,
    LINE,
    ArrowPlace,
    Box,
    Label,
    Layout,
    PointPlace,
    Segment,
)
from anabranch.study.diagram.style import BOX_OF_TAG, CLASSES, FILL_OF_STRIP, PATTERNS, style_sheet
from anabranch.study.diagram.texts import Piece, columns_of

_HEAD_OF_ARROW: Final = {"adds": "aa", "removes": "ar", "other": "ao", "snapshot": "ao"}
_LINES: Final = {
    "lane runs": "v",
    "lane pauses": "p",
    "lane unknown": "p",
    "cutline": "cut",
    "fault": "cut",
    "healline": "heal",
}
"""kind of line → its class"""


def written(layout: Layout) -> str:
    """The whole file."""
    width, height = _number(layout.width), _number(layout.height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-labelledby="t d">'
    )
    shapes = [
        *(_box(box) for box in layout.bands),
        *(_strip(box) for box in layout.hatches),
        *(_segment(segment) for segment in layout.segments),
        *(_box(box) for box in (*layout.heads, *layout.boxes)),
        *(_arrow(arrow) for arrow in layout.arrows),
        *(_point(point) for point in layout.points),
    ]
    for label in (*layout.headings, *layout.times, *layout.labels):
        shapes += _label(label)
    for arrow in layout.arrows:
        shapes += _label(arrow.label)
    for label in layout.legend:
        shapes += _legend(label)
    patterns = "".join(PATTERNS[kind] for kind in sorted({box.kind for box in layout.hatches}))
    classes = set(re.findall(r'class="(\w+)"', "".join([patterns, *shapes])))
    parts = [
        head,
        f'<title id="t">{escape(layout.title)}</title><desc id="d">{escape(layout.story)}</desc>',
        f"<style>{style_sheet(classes)}</style>",
        *([f"<defs>{patterns}</defs>"] if patterns else []),
        *shapes,
    ]
    return "\n".join([*parts, "</svg>", ""])


def escape(text: str) -> str:
    """Text for XML, in elements and attributes; it holds no control characters any more."""
    visible = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    return _escape_text(visible, {'"': "&quot;"})


def _number(value: float) -> str:
    """A number with at most one digit behind the point."""
    return f"{value:.1f}".removesuffix(".0")


def _box(box: Box) -> str:
    place = " ".join(
        f'{name}="{_number(value)}"'
        for name, value in (
            ("x", box.x),
            ("y", box.y),
            ("width", box.width),
            ("height", box.height),
        )
    )
    corner = ' rx="4"' if box.kind in ("head", "final", "band") else ""
    return f'<rect class="{box.kind}" {place}{corner}/>'


def _strip(box: Box) -> str:
    """The hatching between two columns."""
    return (
        f'<rect fill="{FILL_OF_STRIP[box.kind]}" x="{_number(box.x)}" y="{_number(box.y)}"'
        f' width="{_number(box.width)}" height="{_number(box.height)}"/>'
    )


def _segment(segment: Segment) -> str:
    kind = _LINES[segment.kind]
    ends = " ".join(map(_number, (segment.x0, segment.y0, segment.x1, segment.y1))).split()
    return f'<path class="{kind}" d="M{ends[0]} {ends[1]}L{ends[2]} {ends[3]}"/>'


def _arrow(arrow: ArrowPlace) -> str:
    dx, dy = arrow.x1 - arrow.x0, arrow.y1 - arrow.y0
    length = hypot(dx, dy) or 1.0
    ux, uy = dx / length, dy / length
    x, y = arrow.x1 - 8 * ux, arrow.y1 - 8 * uy
    head = [(arrow.x1, arrow.y1), (x - 4 * uy, y + 4 * ux), (x + 4 * uy, y - 4 * ux)]
    points = "L".join(f"{_number(one)} {_number(other)}" for one, other in head)
    line = f"M{_number(arrow.x0)} {_number(arrow.y0)}L{_number(x)} {_number(y)}"
    return (
        f"<g><title>{escape(arrow.title)}</title>"
        f'<path class="{arrow.kind}" d="{line}"/>'
        f'<path class="{_HEAD_OF_ARROW[arrow.kind]}" d="M{points}z"/></g>'
    )


def _point(point: PointPlace) -> str:
    x, y = point.x, point.y
    if point.kind == STOP:
        return f'<path class="x" d="M{_at(x - 5, y - 5)}l10 10M{_at(x + 5, y - 5)}l-10 10"/>'
    if point.kind == START:
        return f'<path class="q" d="M{_at(x - 5, y - 4)}h10l-5 9z"/>'
    if point.kind == OWN:
        return f'<path class="o" d="M{_at(x, y - 5)}l5 5l-5 5l-5-5z"/>'
    if point.kind == FAULT:
        return f'<path class="o" d="M{_at(x - 4, y - 4)}h8v8h-8z"/>'
    filled = "o" if point.kind == WAITS else "q"
    return f'<circle class="{filled}" cx="{_number(x)}" cy="{_number(y)}" r="4"/>'


def _at(x: float, y: float) -> str:
    return f"{_number(x)} {_number(y)}"


def _label(label: Label) -> Iterator[str]:
    """The boxes and lines of a label; a label that was cut has its whole text as a title."""
    title = f"<title>{escape(label.title)}</title>" if label.title else ""
    pitch = 20 if label.lines[0][0].style == "title" else LINE
    for number, line in enumerate(label.lines):
        top = label.y + number * pitch
        marks = "".join(_behind(label.x, top, piece) for piece in line)
        (first, _, text), *further = _joined(line)
        spans = "".join(
            f'<tspan class="{named}" x="{_number(label.x + column * CHARACTER)}">{escape(text)}'
            "</tspan>"
            for named, column, text in further
        )
        base = _number(top + (16 if pitch == 20 else ASCENT))
        yield (
            f'{marks}<text class="{first}" x="{_number(label.x)}" y="{base}">{escape(text)}'
            f"{spans}{title}</text>" + "".join(_before(label.x, top, piece) for piece in line)
        )


def _joined(line: Sequence[Piece]) -> list[tuple[str, int, str]]:
    """(class, column, text) of the parts of a line; neighbours of one class are one part.

    Tags stay by themselves, because each has a box at its place.
    """
    parts: list[tuple[str, int, str]] = []
    is_tag = False
    for piece in line:
        named = CLASSES[piece.style]
        was_tag, is_tag = is_tag, piece.style.startswith("tag ")
        if parts and named == parts[-1][0] and not is_tag and not was_tag:
            former = parts.pop()
            parts.append((named, former[1], f"{former[2]} {piece.text}"))
        else:
            parts.append((named, piece.column, piece.text))
    return parts


def _behind(x: float, top: float, piece: Piece) -> str:
    """The box of a tag."""
    if not piece.style.startswith("tag "):
        return ""
    left, width = x + piece.column * CHARACTER, columns_of(piece.text) * CHARACTER
    return (
        f'<rect class="{BOX_OF_TAG[piece.style]}" x="{_number(left - 2)}" y="{_number(top + 1.5)}"'
        f' width="{_number(width + 4)}" height="13" rx="3"/>'
    )


def _before(x: float, top: float, piece: Piece) -> str:
    """The line through a text that is struck out."""
    if piece.style not in ("tag removed", "struck"):
        return ""
    left, width = x + piece.column * CHARACTER, columns_of(piece.text) * CHARACTER
    return f'<path class="x" d="M{_at(left - 3, top + 8)}h{_number(width + 6)}"/>'


def _legend(label: Label) -> Iterator[str]:
    sample, text = label.lines[0]
    x, y = label.x, label.y
    if sample.style.startswith("tag "):
        yield from _label(label)
        return
    if sample.style.startswith("arrow "):
        kind = sample.style.partition(" ")[2]
        yield _arrow(ArrowPlace(x, y + 8, x + 26, y + 8, kind, label, text.text))
    elif sample.style in ("pauses", "unknown"):
        yield _segment(Segment(x + 6, y, x + 6, y + LINE, f"lane {sample.style}"))
    else:
        yield _strip(Box(x, y + 1, 12, LINE - 2, sample.style))
    at = _number(x + text.column * CHARACTER)
    yield f'<text class="m" x="{at}" y="{_number(y + ASCENT)}">{escape(text.text)}</text>'
