"""A command line becomes the words that redis-cli sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.console.replies import quoted
from anabranch.console.words import WrongQuoting, split


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  \t ", []),
        ("XADD s * a 1", [b"XADD", b"s", b"*", b"a", b"1"]),
        ('"two words" x', [b"two words", b"x"]),
        (r'"\x00\xff\n\r\t\a\b\"\\" "\q"', [b'\x00\xff\n\r\t\a\b"\\', b"q"]),
        (r'"\xg1"', [b"xg1"]),
        (r"'a\nb' 'it\'s'", [b"a\\nb", b"it's"]),
        ("\"\" ''", [b"", b""]),
        ("grün", ["grün".encode()]),
        ('a"b"', [b"ab"]),
    ],
)
def test_words(line: str, words: list[bytes]) -> None:
    assert split(line) == words


@pytest.mark.parametrize("line", ['"open', "'open", '"a"b', "'a'b", '"\\"'])
def test_quotes_that_do_not_match_are_refused(line: str) -> None:
    with pytest.raises(WrongQuoting):
        split(line)


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5))
def test_words_as_redis_cli_quotes_them_are_read_back(words: list[bytes]) -> None:
    assert split(" ".join(quoted(word) for word in words)) == words
