"""One key, a range of time, and drawings that are too large."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.sim.timeline.files import DrawingError, Part, drawn, part_of, targets, write
from anabranch.study.diagram import draw
from anabranch.study.diagram.layout import laid_out
from anabranch.study.diagram.model import ADD, COMMAND, Arrow, Effect, Moment, Point, Timeline
from anabranch.study.diagram.narrowing import NothingLeft, TooManyEvents, narrowed
from tests.study.timelines import lanes, small


def two_keys() -> Timeline:
    """A MULTI adds to x, y and x again; eu applies the three effects in one step."""
    keys = (b"x", b"y", b"x")
    return Timeline(
        "two keys",
        lanes(2),
        points=(
            Point(Moment(1, 1), 1, COMMAND, "MULTI", "[…]", 1, 3, (b"x", b"y")),
            Point(Moment(5, 3), 2, COMMAND, "XLEN y", "1", keys=(b"y",)),
        ),
        arrows=(Arrow(Moment(4, 2), 1, 1, 3, 1, 1, 2),),
        effects={
            (1, place): Effect((1, place), ADD, f"{place}-1", key, 1)
            for place, key in enumerate(keys, 1)
        },
        end_ms=9,
    )


def test_only_one_key() -> None:
    timeline = narrowed(two_keys(), b"x")
    assert [(arrow.first, arrow.last) for arrow in timeline.arrows] == [(1, 1), (3, 3)]
    assert [(point.text, point.first, point.last) for point in timeline.points] == [
        ("MULTI", 1, 1),
        ("the same transaction", 3, 3),
    ]
    assert sorted(timeline.effects) == [(1, 1), (1, 3)]
    assert timeline.left_out == "only the key x"
    heading = [piece.text for label in laid_out(timeline).headings for piece in label.lines[0]]
    assert "This drawing shows only the key x." in heading
    other = narrowed(two_keys(), b"y")
    assert [point.text for point in other.points] == ["MULTI", "XLEN y"]


def test_only_a_range_of_time() -> None:
    timeline = narrowed(small(), None, 8, 10)
    assert [point.text for point in timeline.points] == ["DEL x"]
    assert timeline.arrows == () and len(timeline.bands) == 1
    assert timeline.left_out == "only 8 to 10 ms of 20 ms"
    assert narrowed(small(), None, 0, 20).left_out == ""
    assert len(draw(timeline)) < len(draw(small()))


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(NothingLeft, match="only the key nobody"):
        narrowed(small(), b"nobody")
    with pytest.raises(NothingLeft, match="only 15 to 20 ms"):
        narrowed(small(), None, 15)


def test_too_many_events_name_the_ways_out() -> None:
    point = small().points[0]
    many = tuple(replace(point, when=Moment(ms, ms)) for ms in range(1, 300))
    timeline = replace(small(), points=many)
    with pytest.raises(TooManyEvents, match="303 events are too many"):
        draw(timeline)
    with pytest.raises(DrawingError) as one_key:
        drawn(timeline, Part())
    assert "--svg-time FROM:TO" in str(one_key.value) and "--svg-key" not in str(one_key.value)
    effects = {**timeline.effects, (2, 1): replace(timeline.effects[2, 1], key=b"other key")}
    with pytest.raises(DrawingError, match=r'--svg-key \("other key", x\)'):
        drawn(replace(timeline, effects=effects), Part())


def test_ranges() -> None:
    assert part_of("k\udcff", "20:") == Part(b"k\xff", 20, None)
    assert part_of(None, " 0:5") == Part(None, 0, 5)
    for wrong in ("5", "a:b", "-1:5", "9:5"):
        with pytest.raises(DrawingError, match="range of time"):
            part_of(None, wrong)


def test_targets(tmp_path: Path) -> None:
    """`--svg FILE` once replaced the very scenario file that it was to draw."""
    one, other = Path("a/one.md"), Path("b/one.md")
    assert targets([one], tmp_path / "x.svg", True) == {one: tmp_path / "x.svg"}
    with pytest.raises(DrawingError, match="is a directory"):
        targets([one], tmp_path, True)
    assert targets([one], tmp_path, False) == {one: tmp_path / "one.svg"}
    with pytest.raises(DrawingError, match="two files are called one"):
        targets([one, other], tmp_path, False)
    named = tmp_path / "one.svg"
    for held, is_drawing in ((b"", True), (b"<svg>", True), (b" <?xml ", True), (b"# one", False)):
        named.write_bytes(held)
        if is_drawing:
            assert targets([one], tmp_path, False) == {one: named}
        else:
            with pytest.raises(DrawingError, match="one.svg exists and is no drawing"):
                targets([one], named, True)
            with pytest.raises(DrawingError, match="one.svg exists and is no drawing"):
                write("<svg>", named)
        assert named.read_bytes() == held
    hidden = tmp_path / "hidden.svg"
    hidden.symlink_to("/proc/self/mem")  # a file that nobody can read from its beginning
    with pytest.raises(DrawingError, match="hidden.svg cannot be read: "):
        targets([one], hidden, True)
    with pytest.raises(DrawingError, match="- is none: name one"):
        targets([one], Path("-"), True)
    (tmp_path / "file").touch()
    with pytest.raises(DrawingError, match="is a file: name a directory"):
        targets([one], tmp_path / "file", False)
