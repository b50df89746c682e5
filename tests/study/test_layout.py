"""No two texts overlap, and each dot is drawn once in each place where it happened."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from anabranch.sim.scenario.drawing import run_recorded
from anabranch.sim.scenario.parser import load
from anabranch.sim.scenario.running import scenario_files
from anabranch.study.diagram import draw
from anabranch.study.diagram.layout import laid_out
from anabranch.study.diagram.model import (
    LOGGED,
    NOTE,
    Arrow,
    Lane,
    LastState,
    Mark,
    Moment,
    Point,
    Timeline,
)
from anabranch.study.diagram.places import Label, Layout
from anabranch.study.diagram.stages import LaneRow, Transfers, staged
from tests.study.drawings import beyond_columns, meet, overlaps, parsed, texts
from tests.study.timelines import drawn_at_random, lanes, small

SIM = Path(__file__).resolve().parents[2] / "anabranch" / "sim"
FILES = scenario_files([SIM / "scenarios", SIM / "stories"])


def tags_in(label: Label) -> list[str]:
    """The texts of the tags in a label."""
    return [piece.text for line in label.lines for piece in line if piece.style.startswith("tag ")]


def dots_of(timeline: Timeline, tags: list[str]) -> Counter[tuple[int, int]]:
    """Each dot that the tags ``us:1`` and ``us:1–3`` name, and how often."""
    by_name = {lane.name: lane.region_id for lane in timeline.lanes}
    found: Counter[tuple[int, int]] = Counter()
    for tag in tags:
        name, _, counters = tag.partition(":")
        first, _, last = counters.partition("–")
        found.update(
            (by_name[name], counter) for counter in range(int(first), int(last or first) + 1)
        )
    return found


def check_dots(timeline: Timeline, layout: Layout) -> None:
    """Each issued dot stands once at a point, and once at an arrow for each region it reached."""
    issued = Counter(dot for point in timeline.points for dot in point.dots())
    at_points = [tag for label in layout.labels for tag in tags_in(label)]
    assert dots_of(timeline, at_points) == issued
    carried = Counter(
        (arrow.origin, counter)
        for arrow in timeline.arrows
        for counter in range(arrow.first, arrow.last + 1)
    )
    at_arrows = [tag for arrow in layout.arrows for tag in tags_in(arrow.label)]
    assert dots_of(timeline, at_arrows) == carried


@pytest.mark.parametrize("seed", range(150))
def test_drawn_timelines(seed: int) -> None:
    timeline = drawn_at_random(seed)
    layout = laid_out(timeline)
    assert overlaps(timeline) == []
    assert beyond_columns(layout) == []
    check_dots(timeline, layout)
    assert layout.height > max(label.y + label.height() for label in layout.headings)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario_files(path: Path) -> None:
    timeline, mismatches, _ = run_recorded(load(path))
    assert timeline is not None and not mismatches
    layout = laid_out(timeline)
    assert overlaps(timeline) == []
    assert beyond_columns(layout) == []
    check_dots(timeline, layout)
    assert layout.width == 800


def test_overlaps_would_be_seen() -> None:
    """Two texts at one place: the check of the other tests is not blind."""
    layout = laid_out(small())
    one = layout.labels[0]
    assert len({(label.x, label.y) for label in layout.labels}) == len(layout.labels)
    assert meet(one, one) and not meet(one, layout.labels[1])


def test_time_runs_downwards() -> None:
    layout = laid_out(small())
    add, delete = layout.points
    first, second = layout.arrows
    assert add.y < first.y0 < first.y1 < delete.y < second.y0 < second.y1
    assert first.x0 < first.x1 and second.x0 > second.x1
    assert [band.y for band in layout.bands] == sorted(band.y for band in layout.bands)
    assert layout.bands[0].y < first.y0 < layout.bands[0].y + layout.bands[0].height


def test_effects_are_passed_on_below_the_arrow_that_brought_them() -> None:
    """Before, arrows between neighbours shared one height, and one text, whatever they carried."""

    def arrow(order: int, origin: int, first: int, via: int, to: int) -> Arrow:
        return Arrow(Moment(order, order), origin, first, first, 0, via, to)

    relayed = Timeline("t", lanes(3), arrows=(arrow(1, 1, 1, 1, 2), arrow(2, 1, 1, 2, 3)))
    first, second = laid_out(relayed).arrows
    assert first.y1 < second.y0
    apart = Timeline("t", lanes(3), arrows=(arrow(1, 1, 1, 1, 2), arrow(2, 2, 1, 2, 3)))
    first, second = laid_out(apart).arrows
    assert first.y0 == second.y0
    # The second effect comes to us from ap, so it does not join the first arrow from us to eu.
    joined = (arrow(1, 1, 1, 1, 2), arrow(2, 3, 1, 3, 1), arrow(3, 3, 1, 1, 2))
    one, brought, passed_on = laid_out(Timeline("t", lanes(3), arrows=joined)).arrows
    assert one.y0 < brought.y0 and brought.y1 < passed_on.y0


def test_notes_and_lanes_that_are_not_known() -> None:
    known, other = lanes(2)
    unknown = Lane(other.region_id, other.name, is_unknown=True)
    note = Mark(Moment(0, 1), NOTE, (2,), "did not answer")
    point = Point(Moment(12_345, 2), 1, LOGGED, "DEL x")
    final = LastState(1, b"x", False, note="more may be there")
    timeline = Timeline(
        "t", (known, unknown), (point,), marks=(note,), finals=(final,), notes=("One note.",)
    )
    layout = laid_out(timeline)
    assert [segment.kind for segment in layout.segments] == ["lane runs", "lane unknown"]
    assert len(layout.points) == 1
    (time,) = layout.times
    assert (time.lines[0][0].text, time.title) == ("12.34 s", "12345 ms")
    shown = texts(parsed(draw(timeline)))
    assert {"One note.", "did not answer", "its log is not known", "more may be there"} <= set(
        shown
    )
    assert "eu at the end is not known" in shown and not any("not exist" in one for one in shown)
    assert "One note. " in layout.story and "has no reply" not in layout.story


def test_a_drawing_of_many_regions_is_wider() -> None:
    widths = [laid_out(Timeline("many", lanes(count))).width for count in (1, 4, 5, 8)]
    assert widths[:2] == [800, 800] and widths[2] > 800 and widths[3] > widths[2]


def test_a_region_without_a_lane_is_an_error() -> None:
    timeline = Timeline("wrong", lanes(2), arrows=(Arrow(Moment(1, 1), 1, 1, 1, 0, 1, 3),))
    with pytest.raises(ValueError, match="region 3 has no lane"):
        laid_out(timeline)


def test_events_of_two_lanes_share_a_row_only_without_an_arrow_between() -> None:
    def point(order: int, region: int, row: str) -> Point:
        return Point(Moment(5, order), region, "command", "PING", row=row)

    together = Timeline("t", lanes(2), points=(point(1, 1, "t1"), point(2, 2, "t1")))
    assert [len(stage.lanes) for stage in staged(together) if isinstance(stage, LaneRow)] == [2]
    arrow = Arrow(Moment(5, 2), 1, 1, 1, 5, 1, 2)
    apart = Timeline("t", lanes(2), points=(point(1, 1, ""), point(3, 2, "")), arrows=(arrow,))
    assert [type(stage) for stage in staged(apart)] == [LaneRow, Transfers, LaneRow]
