"""The style sheet and the legend.

Each meaning has a shape, a dash or a sign of its own, so that a print in black and white says the
same. Colours follow the reader's preference for light or dark. A drawing holds only the rules that
it uses.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from anabranch.study.diagram.places import Layout

# style name → class of the drawing; short, because each text names one.
CLASSES: Final = {
    "title": "h",
    "name": "n",
    "time": "m",
    "note": "m",
    "command": "c",
    "client": "m",
    "late": "c",
    "reply": "r",
    "mark": "k",
    "effect": "r",
    "removal": "d",
    "key": "n",
    "kept": "s",
    "struck": "m",
    "gone": "d",
    "tag stays": "ts",
    "tag partly": "c",
    "tag removed": "m",
    "tag removes": "d",
    "tag lost": "d",
    "tag plain": "c",
}
BOX_OF_TAG: Final = {
    "tag stays": "bs",
    "tag partly": "bp",
    "tag removed": "b",
    "tag removes": "bd",
    "tag lost": "bl",
    "tag plain": "b",
}
"""style of a tag → class of its box"""

_INK, _GREY, _BLUE, _RED, _GREEN, _PAPER, _SYNC = (
    ("#1a1a1a", "#e6e6e6"),
    ("#5c5c5c", "#a3a8b0"),
    ("#14427d", "#9cc3ff"),
    ("#a12622", "#ff9a92"),
    ("#0b6a3c", "#6fd6a0"),
    ("#fff", "#14171c"),
    ("#e9eff7", "#1e2835"),
)
_Colour = tuple[str, str]
_NONE: Final = ("none", "none")
_NO_RULE: Final = ("", "")

# class → (fill, stroke, further declarations); colours are (on light, on dark).
_RULES: Final[dict[str, tuple[_Colour, _Colour, str]]] = {
    "h": (_INK, _NO_RULE, "font:600 15px sans-serif"),
    "n": (_INK, _NO_RULE, "font-weight:700"),
    "c": (_INK, _NO_RULE, "font-weight:400"),
    "m": (_GREY, _NO_RULE, "font-weight:400"),
    "r": (_BLUE, _NO_RULE, "font-weight:400"),
    "d": (_RED, _NO_RULE, "font-weight:400"),
    "k": (_RED, _NO_RULE, "font-style:italic"),
    "s": (_GREEN, _NO_RULE, "font-weight:700"),
    "ts": (_PAPER, _NO_RULE, "font-weight:400"),
    "head": (_PAPER, _INK, "stroke-width:1.5"),
    "final": (_PAPER, _GREY, ""),
    "band": (_SYNC, _GREY, "stroke-width:.5"),
    "b": (_NONE, _GREY, ""),
    "bs": (_GREEN, _GREEN, ""),
    "bp": (_NONE, _GREEN, "stroke-width:2"),
    "bd": (_NONE, _RED, "stroke-dasharray:3 2"),
    "bl": (_NONE, _RED, "stroke-dasharray:1 2"),
    "v": (_NONE, _INK, "stroke-width:2"),
    "p": (_NONE, _INK, "stroke-width:2;stroke-dasharray:2 4"),
    "x": (_NONE, _RED, "stroke-width:1.4"),
    "cut": (_NONE, _RED, "stroke-dasharray:6 3"),
    "heal": (_NONE, _GREEN, ""),
    "adds": (_NONE, _GREEN, "stroke-width:1.6"),
    "removes": (_NONE, _RED, "stroke-width:1.6;stroke-dasharray:7 3"),
    "other": (_NONE, _BLUE, "stroke-width:1.4;stroke-dasharray:2 3"),
    "snapshot": (_NONE, _BLUE, "stroke-width:4"),
    "aa": (_GREEN, _NO_RULE, ""),
    "ar": (_RED, _NO_RULE, ""),
    "ao": (_BLUE, _NO_RULE, ""),
    "q": (_INK, _INK, "stroke-width:1.5"),
    "o": (_PAPER, _INK, "stroke-width:1.5"),
    "hx": (_NONE, ("#a08a8a", "#7a6a6a"), ""),
}
PATTERNS: Final = {
    "apart": '<pattern id="x" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<path class="hx" d="M0 0L6 6M6 0L0 6"/></pattern>',
    "halfapart": '<pattern id="y" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<path class="hx" d="M0 6L6 0"/></pattern>',
}
"""kind of strip → its hatching"""
FILL_OF_STRIP: Final = {"apart": "url(#x)", "halfapart": "url(#y)"}


def style_sheet(classes: Set[str]) -> str:
    """The rules for these classes, on light and on dark."""
    light = [f"svg{{background:{_PAPER[0]}}}text{{font:11.6px monospace}}"]
    dark = [f"svg{{background:{_PAPER[1]}}}"]
    for name, (fill, stroke, further) in _RULES.items():
        if name not in classes:
            continue
        for sheet, place in ((light, 0), (dark, 1)):
            parts = [f"fill:{fill[place]}"] if place == 0 or fill is not _NONE else []
            parts += [f"stroke:{stroke[place]}"] if stroke[place] else []
            parts += [further] if further and place == 0 else []
            if parts:
                sheet.append(f".{name}{{{';'.join(parts)}}}")
    return f"{''.join(light)}@media(prefers-color-scheme:dark){{{''.join(dark)}}}"


LEGEND: Final = (
    ("tag stays", "us:1", "entry that stays"),
    ("tag removed", "us:1", "entry or group removed in the end"),
    ("tag partly", "us:1", "entry in some regions only"),
    ("tag removes", "us:1", "a removal"),
    ("tag plain", "us:1", "another effect"),
    ("tag lost", "us:1", "an effect that a crash took"),
    ("arrow adds", "    ", "carries adds"),
    ("arrow removes", "    ", "carries a removal"),
    ("arrow other", "    ", "carries other effects"),
    ("arrow snapshot", "    ", "a snapshot"),
    ("apart", "  ", "do not hear each other"),
    ("halfapart", "  ", "one does not hear the other"),
    ("pauses", "  ", "stands still"),
    ("unknown", "  ", "its log is not known"),
)
"""(mark, sample, meaning): the first column is a style, an arrow or a kind of strip."""


def meanings_in(layout: Layout) -> set[str]:
    """The marks of the legend that the drawing uses."""
    found = {piece.style for piece in layout.tags()}
    found |= {f"arrow {arrow.kind}" for arrow in layout.arrows}
    found |= {box.kind for box in layout.hatches}
    for name in ("pauses", "unknown"):
        found |= {name for segment in layout.segments if segment.kind == f"lane {name}"}
    return found
