"""No control character of a key, a group or an argument reaches the terminal."""

from __future__ import annotations

import io
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.cli.terminal import Output, columns, harmless, shell_word, shown, wrapped
from anabranch.plural import counted

CONTROLS = [chr(code) for code in (*range(32), *range(127, 160), 0x2028, 0x2029, 0x202E, 0x2066)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"plain key", "plain key"),
        ("grün 日本".encode(), "grün 日本"),
        (b"esc\x1b[31mred\x07", "esc\\x1b[31mred\\x07"),
        (b"two\nlines\r\t", "two\\nlines\\r\\t"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"back\\slash", "back\\\\slash"),
        ("\u0085\u202e".encode(), "\\u0085\\u202e"),
        ("a\udcffb", "a\\xffb"),
    ],
)
def test_values_are_shown_with_escapes(value: bytes | str, text: str) -> None:
    assert shown(value) == text


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_different_values_look_different(one: bytes, other: bytes) -> None:
    assert (shown(one) == shown(other)) == (one == other)
    assert not any(character in shown(one) for character in CONTROLS)
    shown(one).encode()


@pytest.mark.parametrize("control", CONTROLS)
def test_output_keeps_lines_and_tabs_only(control: str) -> None:
    kept = control in "\n\t"
    assert (control in harmless(f"a{control}b")) == kept
    raw = io.BytesIO()
    stream = Output(raw, "utf-8", "backslashreplace")
    assert stream.write(f"a{control}b") == 3
    stream.flush()
    assert (control.encode() in raw.getvalue()) == kept


@pytest.mark.parametrize(
    "value",
    [b"plain", b"two words", b"it's", b"$HOME", b"\xff\xfe", b"\x1b[31m'\\", "ü\n1".encode()],
)
def test_a_word_for_the_shell_is_the_value(value: bytes) -> None:
    """`diff` prints commands to paste, with keys of any bytes."""
    word = shell_word(value)
    assert not any(character in word for character in CONTROLS)
    line = ["bash", "-c", f"printf %s {word}"]
    assert subprocess.run(line, capture_output=True, check=True).stdout == value


def test_counts_and_columns() -> None:
    assert counted(1, "region") == "1 region" and counted(0, "region") == "0 regions"
    assert counted(2, "entry", "entries") == "2 entries"
    assert columns([["a", "bbb"], ["cc", "1"]], frozenset({1})) == ["a   bbb", "cc    1"]


def test_sentences_break_between_words_at_the_width() -> None:
    lines = ["Entry 1-1 is there in us.", "  XADD in us (effect 1 of us) added it, at 12:00 on it."]
    assert wrapped(lines, None) == lines
    assert wrapped(lines, 40) == [
        "Entry 1-1 is there in us.",
        "  XADD in us (effect 1 of us) added it,",
        "    at 12:00 on it.",
    ]
    # A word stays whole, and an empty line stays.
    assert wrapped(["x" * 50, ""], 40) == ["x" * 50, ""]
