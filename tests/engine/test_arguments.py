"""Numbers in commands are read as Redis reads them."""

from __future__ import annotations

import pytest

from anabranch.region.engine.commands.arguments import INT64_MAX, INT64_MIN, integer
from anabranch.region.engine.replies import CommandError


@pytest.mark.parametrize("number", [0, 1, -1, 10, 900, INT64_MAX, INT64_MIN])
def test_an_integer_of_64_bits_is_read(number: int) -> None:
    assert integer(b"%d" % number) == number


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"-", b"+1", b" 1", b"1 ", b"1_0", b"1.0", b"x"),
        *(b"00", b"01", b"-0", b"-01"),
        *(b"%d" % (INT64_MAX + 1), b"%d" % (INT64_MIN - 1), b"1" * 20),
    ],
)
def test_what_redis_refuses_is_no_integer(text: bytes) -> None:
    with pytest.raises(CommandError, match="of its own"):
        integer(text, "ERR of its own")
