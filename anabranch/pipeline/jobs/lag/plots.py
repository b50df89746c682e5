"""The plots of the job `lag`, as SVG and PNG; they are legible in black and white."""

from __future__ import annotations

import math
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anabranch.pipeline.jobs.lag.report import Lag, hour_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES: Final = ("-", "--", ":", "-.")
_MARKERS: Final = ("o", "s", "^", "x", "d", "+")
_HATCHES: Final = ("", "//", "..", "xx", "\\\\", "++")
_BARS_MAX: Final = 24
_SIZE_INCHES: Final = (8.0, 4.5)


def draw(
    out: Path,
    curves: dict[tuple[str, str], list[int]],
    highest: list[tuple[str, str, int, int]],
    step_s: int,
    lag: Lag,
) -> list[Path]:
    """Draws three plots into a directory, and returns their paths.

    Args:
        out: The directory; it is made if need be.
        curves: For each origin and region, lags in ms at even shares of its arrivals, ascending.
        highest: Origin, region, second since the first arrival, and the highest lag in ms of the
            `step_s` seconds from there.
        step_s: Seconds between two points of `highest`.
        lag: The table by hour.
    """
    out.mkdir(parents=True, exist_ok=True)
    return [
        *_plot(out, "lags", lambda axes: _shares(axes, curves)),
        *_plot(out, "timeline", lambda axes: _timeline(axes, highest, step_s)),
        *_plot(out, "skipped", lambda axes: _skipped(axes, lag)),
    ]


def _plot(out: Path, name: str, fill: Any) -> list[Path]:
    # Imported here: matplotlib takes long to import. Figures without pyplot need no display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    fill(axes)
    axes.grid(True, color="0.85")
    axes.set_axisbelow(True)
    paths = [out / f"{name}.svg", out / f"{name}.png"]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _shares(axes: Axes, curves: dict[tuple[str, str], list[int]]) -> None:
    styles = cycle(_STYLES)
    for (origin, region), lags in sorted(curves.items()):
        shares = [100 * n / max(len(lags) - 1, 1) for n in range(len(lags))]
        # A logarithmic axis has no 0.
        shown = [max(one, 1) for one in lags]
        axes.plot(shown, shares, next(styles), color="black", label=f"{origin} → {region}")
    axes.set_xscale("log")
    axes.set_title("Lag of arrivals behind the region that added the entry")
    axes.set_xlabel("lag (ms); 0 is shown as 1")
    axes.set_ylabel("arrivals with this lag or less (%)")
    _legend(axes, bool(curves))


def _timeline(axes: Axes, highest: list[tuple[str, str, int, int]], step_s: int) -> None:
    styles = cycle(zip(cycle(_MARKERS), (*_STYLES, *_STYLES, *_STYLES), strict=False))
    pairs = sorted({(origin, region) for origin, region, _, _ in highest})
    for pair in pairs:
        marker, line = next(styles)
        points = {second: lag_ms for *both, second, lag_ms in highest if tuple(both) == pair}
        # A time without arrivals breaks the line.
        seconds = range(min(points), max(points) + 1, step_s)
        axes.plot(
            seconds,
            [points.get(second, math.nan) for second in seconds],
            line,
            marker=marker,
            markersize=4,
            color="black",
            label=f"{pair[0]} → {pair[1]}",
        )
    each = "second" if step_s == 1 else f"{step_s} s"
    axes.set_title(f"Highest lag in each {each}")
    axes.set_xlabel("time since the first arrival (s)")
    axes.set_ylabel("lag (ms)")
    _legend(axes, bool(pairs))


def _skipped(axes: Axes, lag: Lag) -> None:
    bars: dict[tuple[str, str], int] = {}
    for row in lag.hours:
        key = (f"{row['origin']} → {row['region']}", hour_text(row["hour"]))
        bars[key] = bars.get(key, 0) + int(row["skipped"])
    newest = sorted(bars, key=lambda key: (key[1], key[0]))[-_BARS_MAX:]
    pairs = sorted({pair for pair, _ in newest})
    for pair, hatch in zip(pairs, cycle(_HATCHES), strict=False):
        places = [n for n, key in enumerate(newest) if key[0] == pair]
        axes.bar(
            places,
            [bars[newest[n]] for n in places],
            color="white",
            edgecolor="black",
            hatch=hatch,
            label=pair,
        )
    axes.set_xticks(range(len(newest)), [hour for _, hour in newest], rotation=30, ha="right")
    axes.set_title("Entries that an XREAD cursor would have skipped")
    axes.set_xlabel("hour of the entry's ID (UTC)")
    axes.set_ylabel("entries")
    _legend(axes, bool(newest))


def _legend(axes: Axes, has_lines: bool) -> None:
    if has_lines:
        axes.legend(title="from → in", loc="upper left", bbox_to_anchor=(1.01, 1.0))
    else:
        axes.text(0.5, 0.5, "no arrivals", ha="center", va="center", transform=axes.transAxes)
