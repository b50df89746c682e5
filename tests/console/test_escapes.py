"""The page names keys by their shown text; the server finds the key again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.escapes import original, shown


@given(st.one_of(st.binary(max_size=30), st.text(max_size=20).map(lambda one: one.encode())))
def test_what_is_shown_is_the_key(key: bytes) -> None:
    assert original(shown(key)) == key


@pytest.mark.parametrize("text", ["a\\", "\\q", "\\x4", "\\xZZ", "\\u12"])
def test_a_text_that_is_never_shown_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="backslash"):
        original(text)
