"""Visible text of any bytes, and lines of limited length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anabranch.study.diagram.texts import Run, columns_of, cut, flowed, short_time, visible, word


def test_what_cannot_be_seen_is_escaped() -> None:
    assert visible(b"plain \xc3\xa9") == "plain é"
    assert visible(b"a\nb\x00\x1b[31m\xff\\") == "a\\nb\\x00\\x1b[31m\\xff\\\\"
    assert visible("\u202eright to left\u2028") == "\\u202eright to left\\u2028"


@given(st.binary(max_size=40))
def test_visible_text_is_printable_and_unambiguous(value: bytes) -> None:
    assert visible(value).isprintable()
    assert visible(value) != visible(value + b"\n")


def test_words_are_quoted_as_one_types_them() -> None:
    assert word(b"x") == "x" and word(b"") == '""' and word(b'two "words"') == '"two \\"words\\""'


def test_long_times_take_seven_columns() -> None:
    day_ms = 86_400_000
    times = [0, 9_999, 10_000, 99_999, 100_000, 5_999_999, 6_000_000, 4 * day_ms, 999 * day_ms]
    shown = [short_time(ms) for ms in times]
    assert shown == [
        "0 ms",
        "9999 ms",
        "10.00 s",
        "99.99 s",
        "1m 40s",
        "99m 59s",
        "1h 40m",
        "96h 00m",
        "999d 0h",
    ]
    assert all(len(one) <= 7 for one in shown)


def test_wide_characters_count_two_columns() -> None:
    assert columns_of("日本") == 4 and columns_of("e\u0301") == 1
    assert cut("日本語", 4) == "日…" and cut("abc", 3) == "abc" and cut("abcd", 3) == "ab…"


@given(
    st.lists(st.tuples(st.text("ab 日", max_size=30), st.booleans()), min_size=1, max_size=6),
    st.integers(4, 30),
    st.integers(1, 4),
)
def test_lines_fit_and_whole_runs_are_never_left_out(
    parts: list[tuple[str, bool]], columns: int, lines_max: int
) -> None:
    runs = [Run(text, "tag" if whole else "plain", whole) for text, whole in parts]
    lines, was_cut = flowed(runs, columns, lines_max)
    for line in lines:
        ends = [piece.column + columns_of(piece.text) for piece in line]
        assert all(end <= columns for end in ends)
        begins = [piece.column for piece in line]
        assert all(begin >= end for begin, end in zip(begins[1:], ends, strict=False))
    wholes = [piece.text for line in lines for piece in line if piece.is_whole]
    assert wholes == [cut(text, columns) for text, whole in parts if whole]
    if not was_cut:
        shown = " ".join(piece.text for line in lines for piece in line)
        assert shown.split() == " ".join(text for text, _ in parts).split()
