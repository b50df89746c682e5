"""The parts of a drawing with their places, in px; y runs downwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from anabranch.study.diagram.texts import Piece, columns_of

WIDTH: Final = 800
GUTTER: Final = 54
"""The width of the column of times, at the left."""
COLUMN_MIN: Final = 165
"""The least width of a lane's column; more lanes make a drawing wider than `WIDTH`."""
LANE_AT: Final = 22
"""From the left end of a column to its lane line."""
TEXT_AT: Final = 34
"""From the left end of a column to the texts in it."""
STRIP: Final = 10
"""The width of the strip between two columns that shows whether they hear each other."""
LINE: Final = 16
"""From one line of text to the next."""
CHARACTER: Final = 7.0
"""The width of a character in a monospaced font of 11.6 px.

It is a whole number, because some programs round it to one.
"""
ASCENT: Final = 12
"""From the top of a line of text to its base line."""


@dataclass(frozen=True)
class Column:
    """A lane: its column from `left` to `right`, its line at `x`."""

    region: int
    name: str
    left: float
    right: float
    x: float

    def columns_of_text(self) -> int:
        """How many characters a line of text in this column takes."""
        return int((self.right - STRIP - self.left - TEXT_AT) / CHARACTER)


@dataclass(frozen=True)
class Label:
    """Lines of text; `x` and `y` are the left top corner, `title` the whole text if it was cut.

    `region` is the lane in which the label stands, 0 for none.
    """

    region: int
    x: float
    y: float
    lines: tuple[tuple[Piece, ...], ...]
    title: str = ""

    def width(self) -> float:
        """The width in px."""
        ends = [line[-1].column + columns_of(line[-1].text) for line in self.lines if line]
        return max(ends, default=0) * CHARACTER

    def height(self) -> float:
        """The height in px."""
        return len(self.lines) * LINE


@dataclass(frozen=True)
class PointPlace:
    """A point on a lane line; `kind` as in the model."""

    x: float
    y: float
    kind: str


@dataclass(frozen=True)
class ArrowPlace:
    """An arrow from (x0, y0) to (x1, y1). `kind`: adds, removes, other or snapshot."""

    x0: float
    y0: float
    x1: float
    y1: float
    kind: str
    label: Label
    title: str


@dataclass(frozen=True)
class Box:
    """A rectangle; `kind` names its meaning."""

    x: float
    y: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True)
class Segment:
    """A part of a line, between two points; `kind` names its meaning."""

    x0: float
    y0: float
    x1: float
    y1: float
    kind: str


@dataclass
class Layout:
    """Everything that the drawing shows. `names` are the kinds and meanings that occur."""

    width: float
    height: float = 0
    title: str = ""
    story: str = ""
    columns: list[Column] = field(default_factory=list)
    headings: list[Label] = field(default_factory=list)
    heads: list[Box] = field(default_factory=list)
    bands: list[Box] = field(default_factory=list)
    hatches: list[Box] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    points: list[PointPlace] = field(default_factory=list)
    arrows: list[ArrowPlace] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    times: list[Label] = field(default_factory=list)
    legend: list[Label] = field(default_factory=list)

    def tags(self) -> list[Piece]:
        """The tags in labels of lanes and arrows, without those of the end and the legend."""
        labels = [*self.labels, *(arrow.label for arrow in self.arrows)]
        return [
            piece
            for label in labels
            for line in label.lines
            for piece in line
            if piece.style.startswith("tag ")
        ]


def one_line(region: int, x: float, y: float, text: str, style: str, title: str = "") -> Label:
    """A label of one line in one style."""
    return Label(region, x, y, ((Piece(0, text, style, False),),), title)
