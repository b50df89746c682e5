"""Glob patterns, piece by piece; `tests/differential/test_glob.py` asks the real server."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.region.engine.glob import Glob


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (b"", [b""], [b"a"]),
        (b"*", [b"", b"a", b"abc"], []),
        (b"a*c", [b"ac", b"abc", b"acbc"], [b"a", b"acb", b"bac"]),
        (b"?", [b"a", b"?"], [b"", b"ab"]),
        (b"[ab]c", [b"ac", b"bc"], [b"cc", b"c", b"ab]c"]),
        (b"[^ab]", [b"c", b"]"], [b"a", b"b", b""]),
        (b"[a-c]", [b"a", b"b", b"c"], [b"d", b"-"]),
        (b"[c-a]", [b"a", b"b", b"c"], [b"d"]),
        (b"[a^]", [b"a", b"^"], [b"]", b"b"]),
        (b"[\\]^]", [b"]", b"^"], [b"\\"]),
        (b"[a][b]?*", [b"abc", b"abcd"], [b"ab", b"bac"]),
        (b"\\*", [b"*"], [b"a", b"\\*"]),
        (b"a\\", [b"a\\"], [b"a"]),
        (b"[a", [b"a"], [b"[a"]),
        (b"\xff*", [b"\xff", b"\xff\x00"], [b"\xfe"]),
    ],
)
def test_what_matches(pattern: bytes, yes: list[bytes], no: list[bytes]) -> None:
    assert [text for text in yes if not Glob(pattern).matches(text)] == []
    assert [text for text in no if Glob(pattern).matches(text)] == []


PIECES = {
    b"a": "a",
    b"b": "b",
    b"*": ".*",
    b"?": ".",
    b"[ab]": "[ab]",
    b"[^a]": "[^a]",
    b"[a-b]": "[ab]",
    b"\\*": r"\*",
    b"\\?": r"\?",
}


@settings(max_examples=300)
@given(st.lists(st.sampled_from(sorted(PIECES)), max_size=6), st.text("ab*?", max_size=6))
def test_as_regular_expressions_do(pieces: list[bytes], text: str) -> None:
    expression = "".join(PIECES[piece] for piece in pieces)
    assert Glob(b"".join(pieces)).matches(text.encode()) == bool(
        re.fullmatch(expression, text, re.DOTALL)
    )


def test_case_is_ignored_on_request() -> None:
    assert Glob(b"MAX*[A-D]", True).matches(b"maxmemoryC")
    assert not Glob(b"MAX*").matches(b"maxmemory")


def test_no_pattern_takes_long() -> None:
    """Stars that are retried within stars would take longer than the universe."""
    begin = time.perf_counter()
    assert not Glob(b"a*" * 200 + b"b").matches(b"a" * 20000)
    assert time.perf_counter() - begin < 5
