"""The picture of a run as SVG: its faults, the adds per second of each region, and the lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Final

WIDTH: Final = 1100
LEFT: Final = 150
RIGHT: Final = 20
ROW: Final = 14
PANEL: Final = 150
GAP: Final = 34
_COLOURS: Final = (
    "#1b6ca8", "#c8553d", "#3a7d44", "#8d5a97", "#b58900",
    "#00838f", "#ad1457", "#5d4037", "#455a64",
)  # fmt: skip
_SVG: Final = "http://www.w3.org/2000/svg"
_FAULT: Final = "#d9a441"
_REGION_FAULT: Final = "#b04a4a"

# A point of a line: seconds, and the value; None breaks the line.
Points = list[tuple[float, float | None]]


@dataclass(frozen=True)
class Bar:
    """One fault in the picture. `text` is its tooltip."""

    kind: str
    begin_s: float
    end_s: float
    text: str
    is_of_link: bool


@dataclass
class Picture:
    """The contents of the picture. `marks`: moments with a name, such as the end of the faults."""

    title: str
    seconds: float
    bars: list[Bar] = field(default_factory=list)
    throughput: dict[str, Points] = field(default_factory=dict)
    lag: dict[str, Points] = field(default_factory=dict)
    marks: list[tuple[float, str]] = field(default_factory=list)


def svg(picture: Picture) -> str:
    """The picture as an SVG document."""
    kinds = list(dict.fromkeys(bar.kind for bar in sorted(picture.bars, key=lambda b: b.begin_s)))
    top = 40
    faults_end = top + ROW * max(len(kinds), 1)
    first, second = faults_end + GAP, faults_end + GAP + PANEL + GAP
    height = second + PANEL + 40
    seconds = max(picture.seconds, 1.0)

    def x(at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(at_s / seconds, 0.0), 1.0)

    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="{_SVG}" {size} font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="15">{escape(picture.title)}</text>',
        *_axis(seconds, height - 22, top, x),
        *_bars(picture.bars, kinds, top, x),
        *_panel("adds acknowledged per second", picture.throughput, first, x, picture.seconds),
        *_panel("effects that a region lacks", picture.lag, second, x, picture.seconds),
    ]
    for at_s, name in picture.marks:
        parts.append(
            f'<line x1="{x(at_s):.1f}" x2="{x(at_s):.1f}" y1="{top}" y2="{height - 34}"'
            f' stroke="#333" stroke-dasharray="4 3"><title>{escape(name)}</title></line>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bars(
    bars: Iterable[Bar], kinds: list[str], top: int, x: Callable[[float], float]
) -> list[str]:
    parts = [
        f'<text x="{LEFT - 8}" y="{top + ROW * row + 11}" text-anchor="end">{escape(kind)}</text>'
        for row, kind in enumerate(kinds)
    ]
    for bar in bars:
        left, y = x(bar.begin_s), top + ROW * kinds.index(bar.kind) + 2
        width = max(2.0, x(bar.end_s) - left)
        colour = _FAULT if bar.is_of_link else _REGION_FAULT
        parts.append(
            f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 4}" rx="2"'
            f' fill="{colour}" fill-opacity="0.75"><title>{escape(bar.text)}</title></rect>'
        )
    return parts


def _panel(
    title: str, lines: dict[str, Points], top: int, x: Callable[[float], float], seconds: float
) -> list[str]:
    values = [value for points in lines.values() for _, value in points if value is not None]
    highest = max([*values, 1.0])
    width = x(seconds) - LEFT
    frame = f'width="{width:.1f}" height="{PANEL}" fill="none" stroke="#bbb"'
    parts = [
        f'<text x="{LEFT}" y="{top - 6}">{escape(title)}</text>',
        f'<rect x="{LEFT}" y="{top}" {frame}/>',
        f'<text x="{LEFT - 8}" y="{top + 9}" text-anchor="end">{highest:.0f}</text>',
        f'<text x="{LEFT - 8}" y="{top + PANEL}" text-anchor="end">0</text>',
    ]
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(
            f'<text x="{12 + 46 * (number % 3)}" y="{top + 40 + 16 * (number // 3)}"'
            f' fill="{colour}" font-weight="bold">{escape(name)}</text>'
        )
        for run in _runs(points):
            path = " ".join(
                f"{x(at_s):.1f},{top + PANEL * (1 - value / highest):.1f}" for at_s, value in run
            )
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            )
    return parts


def _runs(points: Points) -> list[list[tuple[float, float]]]:
    """The parts of a line between its gaps."""
    runs: list[list[tuple[float, float]]] = [[]]
    for at_s, value in points:
        if value is None:
            runs.append([])
        else:
            runs[-1].append((at_s, value))
    return [run for run in runs if run]


def _axis(seconds: float, y: int, top: int, x: Callable[[float], float]) -> list[str]:
    step = next((one for one in (1, 2, 5, 10, 20, 30, 60, 120, 300) if seconds / one <= 16), 600)
    parts = []
    for number in range(int(seconds // step) + 1):
        at = x(number * step)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{y - 12}" stroke="#eee"/>')
        parts.append(f'<text x="{at:.1f}" y="{y}" text-anchor="middle">{number * step} s</text>')
    return parts
