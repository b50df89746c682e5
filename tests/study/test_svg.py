"""Files are well-formed, equal for equal timelines, and say the same in words and shapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.study.diagram import draw
from anabranch.study.diagram.model import COMMAND, LastState, Moment, Point, Timeline
from tests.study.drawings import SVG, classes, parsed, texts
from tests.study.timelines import drawn_at_random, lanes, small


@pytest.mark.parametrize("seed", range(60))
def test_drawn_timelines_are_well_formed_and_repeatable(seed: int) -> None:
    text = draw(drawn_at_random(seed))
    root = parsed(text)
    assert root.tag == f"{SVG}svg" and root.get("role") == "img"
    assert text == draw(drawn_at_random(seed))


@given(st.binary(max_size=60), st.binary(max_size=60), st.text(max_size=60))
def test_any_bytes_make_a_well_formed_file(key: bytes, field: bytes, text: str) -> None:
    root = parsed(draw(small(key, text, field)))
    assert all(one.isprintable() for one in texts(root))


def test_keys_are_shown_escaped() -> None:
    timeline = small(b"<k>&\x00\n\xff", "XADD <k>&", b'"\x1b')
    text = draw(timeline)
    assert "<k>" not in text and "\x00" not in text and "\x1b" not in text
    shown = " ".join(texts(parsed(text)))
    assert "<k>&\\x00\\n\\xff" in shown and "\\x1b" in shown and "XADD <k>&" in shown


def test_meanings_have_shapes_of_their_own() -> None:
    """An entry that a DEL removed: its boxes are struck through, and the arrows differ in dash."""
    root = parsed(draw(small()))
    assert {"b", "bd", "x", "adds", "removes"} <= classes(root)
    style = root.find(f"{SVG}style")
    assert style is not None and style.text is not None
    assert ".removes{fill:none;stroke:#a12622;stroke-width:1.6;stroke-dasharray" in style.text
    assert ".adds{fill:none;stroke:#0b6a3c;stroke-width:1.6}" in style.text
    assert "prefers-color-scheme:dark" in style.text


def test_the_style_sheet_has_only_what_the_drawing_uses() -> None:
    text = draw(Timeline("empty", lanes(2)))
    assert ".removes" not in text and "<pattern" not in text


def test_the_words_tell_the_story() -> None:
    root = parsed(draw(small()))
    title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None and title.text == "A title"
    assert words is not None and words.text is not None
    assert words.text == (
        "Space-time diagram of the regions us and eu; time runs downwards."
        " us: XADD x 110 a 1 replies 110-1. It issues us:1."
        " Sync of us and eu. eu applies us:1 from us. eu: DEL x replies 1. It issues eu:1."
        " Sync of us and eu. us applies eu:1 from eu, which removes us:1."
        " At the end us and eu hold no entry in x."
    )
    assert root.get("aria-labelledby") == f"{title.get('id')} {words.get('id')}"


def test_a_long_story_says_how_much_it_leaves_out() -> None:
    points = tuple(
        Point(Moment(ms, ms), 1, COMMAND, f"XADD x {ms} a 1", f"{ms}-1") for ms in range(1, 201)
    )
    finals = (LastState(1, b"x", False),)
    words = parsed(draw(Timeline("long", lanes(2), points, finals=finals))).find(f"{SVG}desc")
    assert words is not None and words.text is not None
    assert len(words.text) < 1300 and words.text.endswith("At the end us has no key x.")
    shown = words.text.count("replies")
    assert f"Then {200 - shown} more events follow." in words.text


def test_a_text_that_was_cut_has_a_title() -> None:
    timeline = small(text="XADD x 110 value " + "long" * 60)
    root = parsed(draw(timeline))
    titles = [one.text or "" for one in root.iter(f"{SVG}title")]
    assert any("long" * 60 in one for one in titles)
    assert not any("long" * 60 in one for one in texts(root))
