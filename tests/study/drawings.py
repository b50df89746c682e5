"""An SVG file as a test looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from anabranch.study.diagram.layout import laid_out
from anabranch.study.diagram.model import Timeline
from anabranch.study.diagram.places import CHARACTER, Label, Layout

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    """The tree of the file; ParseError if it is not well-formed."""
    return ElementTree.fromstring(text)


def texts(root: ElementTree.Element) -> list[str]:
    """All texts that are drawn, each with its parts."""
    return ["".join(_drawn(one)) for one in root.iter(f"{SVG}text")]


def _drawn(element: ElementTree.Element) -> Iterator[str]:
    """The text of an element without its titles."""
    yield element.text or ""
    for child in element:
        if child.tag != f"{SVG}title":
            yield " "
            yield from _drawn(child)
        yield child.tail or ""


def classes(root: ElementTree.Element) -> set[str]:
    """The classes of all shapes and texts."""
    return {one.get("class", "") for one in root.iter()}


def overlaps(timeline: Timeline) -> list[tuple[Label, Label]]:
    """Pairs of texts of lanes and arrows that overlap."""
    layout = laid_out(timeline)
    labels = [*layout.labels, *(arrow.label for arrow in layout.arrows), *layout.times]
    return [
        (one, other)
        for place, one in enumerate(labels)
        for other in labels[place + 1 :]
        if meet(one, other)
    ]


def meet(one: Label, other: Label) -> bool:
    """Whether two texts overlap."""
    beside = one.x + one.width() <= other.x or other.x + other.width() <= one.x
    below = one.y + one.height() <= other.y or other.y + other.height() <= one.y
    return not beside and not below


def beyond_columns(layout: Layout) -> list[Label]:
    """Texts of lanes that leave their column."""
    ends = {column.region: column.right for column in layout.columns}
    return [
        label
        for label in layout.labels
        if label.region and label.x + label.width() > ends[label.region] - CHARACTER
    ]
