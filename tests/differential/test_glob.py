"""Glob patterns, compared with KEYS of a real redis-server."""

from __future__ import annotations

import re

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.region.engine.glob import Glob

TEXT = st.lists(
    st.sampled_from(
        [b"a", b"b", b"c", b"-", b"]", b"[", b"^", b"\\", b"*", b"?", b"\x00", b"\xff"]
    ),
    max_size=6,
).map(b"".join)
PIECE = st.sampled_from(
    [
        b"a",
        b"b",
        b"c",
        b"*",
        b"**",
        b"?",
        b"[",
        b"]",
        b"^",
        b"-",
        b"\\",
        b"[ab]",
        b"[^a]",
        b"[a-c]",
        b"[c-a]",
        b"[^]",
        b"[]",
        b"[a-",
        b"[\\]]",
        b"\\*",
        b"\\",
        b"[^\\-a]",
        b"\x00",
        b"\xff",
        b"[\x80-\xff]",
    ]
)
# A range between an ASCII byte and a byte above 127. Redis compares C chars, which are signed on
# some machines; this region compares bytes from 0 to 255.
MIXED_RANGE = re.compile(rb"[\x80-\xff]-[\x00-\x7f]|[\x00-\x7f]-[\x80-\xff]")
PATTERN = (
    st.lists(PIECE, max_size=6)
    .map(b"".join)
    .filter(lambda pattern: not MIXED_RANGE.search(pattern))
)


@pytest.mark.oracle
@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    texts=st.lists(TEXT, min_size=1, max_size=20, unique=True),
    patterns=st.lists(PATTERN, min_size=1, max_size=20),
)
def test_as_keys_does(oracle: redis.Redis, texts: list[bytes], patterns: list[bytes]) -> None:
    pipeline = oracle.pipeline(transaction=False)
    pipeline.flushall()
    for text in texts:
        pipeline.set(text, b"")
    for pattern in patterns:
        pipeline.execute_command("KEYS", pattern)
    found = pipeline.execute()[1 + len(texts) :]
    for pattern, keys in zip(patterns, found, strict=True):
        # In Redis no pattern except * matches the empty string: its loop ends with the string,
        # before it looks at the remaining stars. So the empty string is left out.
        assert sorted(text for text in texts if text and Glob(pattern).matches(text)) == sorted(
            key for key in keys if key
        ), pattern
