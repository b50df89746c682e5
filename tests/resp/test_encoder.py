"""The reply encoder: every type in both protocols, and decoding by hiredis."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.crdt.ids import MAX_ID
from anabranch.crdt.merge import forward
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.region.engine.replies import (
    NO_REPLY,
    NULL_ARRAY,
    OK,
    REPLY_LATER,
    EntriesReply,
    ErrorReply,
    MapReply,
    Reply,
    SetReply,
    VerbatimText,
)
from anabranch.region.resp.encoder import DEPTH_MAX, encode


def encoded(reply: Reply, protocol: int) -> bytes:
    """The reply as bytes, in RESP 2 or 3."""
    out: list[bytes] = []
    encode(reply, protocol, out)
    return b"".join(out)


@pytest.mark.parametrize(
    "reply, resp2, resp3",
    [
        (None, b"$-1\r\n", b"_\r\n"),
        (NULL_ARRAY, b"*-1\r\n", b"_\r\n"),
        (OK, b"+OK\r\n", b"+OK\r\n"),
        (7, b":7\r\n", b":7\r\n"),
        (-1, b":-1\r\n", b":-1\r\n"),
        (5000, b":5000\r\n", b":5000\r\n"),
        (True, b":1\r\n", b"#t\r\n"),
        (False, b":0\r\n", b"#f\r\n"),
        (3.0, b"$1\r\n3\r\n", b",3\r\n"),
        (0.1, b"$3\r\n0.1\r\n", b",0.1\r\n"),
        (float("-inf"), b"$4\r\n-inf\r\n", b",-inf\r\n"),
        (b"", b"$0\r\n\r\n", b"$0\r\n\r\n"),
        (b"a\r\nb", b"$4\r\na\r\nb\r\n", b"$4\r\na\r\nb\r\n"),
        ([], b"*0\r\n", b"*0\r\n"),
        (
            [b"1-0", [b"f", b"v"]],
            b"*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n",
            b"*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n",
        ),
        (MapReply([b"k", 1]), b"*2\r\n$1\r\nk\r\n:1\r\n", b"%1\r\n$1\r\nk\r\n:1\r\n"),
        (SetReply([1, 2]), b"*2\r\n:1\r\n:2\r\n", b"~2\r\n:1\r\n:2\r\n"),
        (VerbatimText(b"abc"), b"$3\r\nabc\r\n", b"=7\r\ntxt:abc\r\n"),
        (ErrorReply("ERR a\r\nb\nc"), b"-ERR a  b c\r\n", b"-ERR a  b c\r\n"),
        (ErrorReply("ERR 'é\udcff'"), b"-ERR '\xc3\xa9\xff'\r\n", b"-ERR '\xc3\xa9\xff'\r\n"),
    ],
)
def test_every_type(reply: Reply, resp2: bytes, resp3: bytes) -> None:
    assert encoded(reply, 2) == resp2
    assert encoded(reply, 3) == resp3


values = st.recursive(
    st.one_of(
        st.none(),
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.binary(max_size=40),
        st.just(b"x" * 5000),
    ),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=20,
)


@given(values, st.sampled_from([2, 3]))
def test_hiredis_reads_back_what_was_written(value: Reply, protocol: int) -> None:
    reader = hiredis.Reader()
    reader.feed(encoded(value, protocol))
    assert reader.gets() == value
    assert reader.gets() is False


@given(st.text(), st.binary())
def test_an_error_is_always_one_line(text: str, raw: bytes) -> None:
    for message in (
        text.encode("utf-8", "replace").decode(),
        raw.decode("utf-8", "surrogateescape"),
    ):
        line = encoded(ErrorReply("ERR " + message), 2)
        assert line.startswith(b"-ERR ") and line.endswith(b"\r\n")
        assert b"\r" not in line[:-2] and b"\n" not in line[:-2]


def test_long_arrays() -> None:
    assert encoded([1] * 2000, 2) == b"*2000\r\n" + b":1\r\n" * 2000


@pytest.mark.parametrize("reply", [REPLY_LATER, NO_REPLY])
def test_what_is_no_reply_has_no_bytes(reply: Reply) -> None:
    """REPLY_LATER and NO_REPLY cannot be encoded."""
    with pytest.raises(TypeError):
        encoded(reply, 2)


def test_nesting_is_bounded() -> None:
    reply: Reply = 1
    for _ in range(DEPTH_MAX + 2):
        reply = [reply]
    with pytest.raises(AssertionError):
        encoded(reply, 2)


def test_entries_within_another_reply_are_encoded_as_when_they_are_alone() -> None:
    log = RegionLog(1, NodeLimits())
    log.append(5, 1, 1, encode_names([b"f"]), encode_values([b"v"]))
    entries = EntriesReply(forward({1: log}, 0, MAX_ID, -1))
    alone = encoded(entries, 2)
    assert alone == b"*1\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    assert encoded([b"x", entries], 2) == b"*2\r\n$1\r\nx\r\n" + alone
