"""The decoder of replies gives what the naive reader of the differential tests gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.region.resp.decoder import INCOMPLETE, ErrorText, ReplyDecoder, WrongProtocol
from anabranch.region.resp.request import command
from tests.differential.replies import Typed, read
from tests.resp.streams import divided

MAKERS = {
    kind.encode(): lambda content, kind=kind: Typed(kind, content) for kind in ("+", "-", "%", "~")
}


def naive(data: bytes) -> list[Any]:
    """The replies in the bytes, as a decoder with `MAKERS` gives them."""
    found, at = [], 0
    while at < len(data):
        reply, at = read(data, at)
        found.append(plain(reply))
    return found


def plain(reply: Typed) -> Any:
    value = [plain(one) for one in reply.value] if isinstance(reply.value, list) else reply.value
    return Typed(reply.kind, value) if reply.kind.encode() in MAKERS else value


def given_by(decoder: ReplyDecoder, *pieces: bytes) -> list[Any]:
    """All replies that a decoder gives for the pieces."""
    found = []
    for piece in pieces:
        decoder.feed(piece)
        while (reply := decoder.next()) is not INCOMPLETE:
            found.append(reply)
    return found


lines = st.binary(max_size=6).map(lambda text: text.replace(b"\r", b"").replace(b"\n", b""))
strings = st.one_of(st.binary(max_size=5), st.just(b"\r\n"), st.just(b"long" * 300))
scalars = st.one_of(
    st.tuples(st.sampled_from([b"+", b"-"]), lines).map(lambda pair: b"%b%b\r\n" % pair),
    st.integers(-(1 << 63), (1 << 63) - 1).map(lambda number: b":%d\r\n" % number),
    strings.map(lambda text: b"$%d\r\n%b\r\n" % (len(text), text)),
    st.sampled_from([b"$-1\r\n", b"*-1\r\n", b"_\r\n", b"*0\r\n", b"%0\r\n", b"~0\r\n"]),
)


def aggregates(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    members = st.lists(inner, max_size=4)
    pairs = st.lists(st.tuples(inner, inner).map(b"".join), max_size=3)
    return st.one_of(
        st.tuples(st.sampled_from([b"*", b"~"]), members).map(
            lambda one: b"%b%d\r\n" % (one[0], len(one[1])) + b"".join(one[1])
        ),
        pairs.map(lambda one: b"%%%d\r\n" % len(one) + b"".join(one)),
    )


streams = st.lists(st.recursive(scalars, aggregates, max_leaves=12), max_size=5).map(b"".join)


@given(streams, st.lists(st.integers(0, 1 << 16), max_size=12))
def test_any_division_gives_what_the_naive_reader_gives(stream: bytes, cuts: list[int]) -> None:
    decoder = ReplyDecoder(MAKERS)
    assert given_by(decoder, *divided(stream, cuts)) == naive(stream)
    assert decoder.held_bytes == 0


@given(streams)
def test_a_byte_at_a_time(stream: bytes) -> None:
    pieces = [stream[at : at + 1] for at in range(len(stream))]
    assert given_by(ReplyDecoder(MAKERS), *pieces) == naive(stream)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"+OK\r\n", b"OK"),
        (b"-ERR \xff\r\n", ErrorText("ERR \ufffd")),
        (b"!6\r\nERR \r\n\r\n", ErrorText("ERR \r\n")),
        (b"=8\r\ntxt:a\nb\x07\r\n", b"a\nb\x07"),
        (b"#t\r\n", True),
        (b"#f\r\n", False),
        (b",1.5\r\n", b"1.5"),
        (b"(12345678901234567890\r\n", b"12345678901234567890"),
        (b"%1\r\n+a\r\n:1\r\n", [b"a", 1]),
        (b">2\r\n+message\r\n:1\r\n", [b"message", 1]),
        (b"|1\r\n+ttl\r\n:1\r\n:7\r\n", 7),
        (b"*2\r\n|1\r\n+ttl\r\n*0\r\n:1\r\n|0\r\n:2\r\n", [1, 2]),
    ],
)
def test_values_without_makers(data: bytes, value: object) -> None:
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        assert given_by(ReplyDecoder(), *pieces) == [value]


def test_a_reply_in_pieces_is_taken_once_it_is_whole() -> None:
    data = b"*2\r\n$5\r\nhello\r\n%1\r\n+a\r\n~2\r\n:1\r\n_\r\n"
    decoder = ReplyDecoder()
    for size, byte in enumerate(data[:-1]):
        assert decoder.held_bytes == size
        decoder.feed(bytes([byte]))
        assert decoder.next() is INCOMPLETE and decoder.has_bytes
    decoder.feed(data[-1:] + b"+next\r\n")
    assert decoder.next() == [b"hello", [b"a", [1, None]]]
    assert decoder.has_bytes, "the next reply was fed"
    assert decoder.next() == b"next" and decoder.next() is INCOMPLETE
    assert not decoder.has_bytes


def test_each_byte_of_a_long_reply_is_looked_at_once() -> None:
    """A reply of 4 MiB was parsed again for each 64 KiB, and took 15 s."""
    entry = b"*2\r\n$3\r\n1-1\r\n%1\r\n$1\r\na\r\n$-1\r\n"
    data = b"*500\r\n" + entry * 500
    decoder = ReplyDecoder()
    for begin in range(0, len(data), 100):
        assert decoder.next() is INCOMPLETE and decoder.held_bytes == begin
        assert len(decoder._buffer) - decoder._at < 100, "it goes on where it was"
        decoder.feed(data[begin : begin + 100])
    reply = decoder.next()
    assert isinstance(reply, list) and len(reply) == 500
    assert decoder.held_bytes == 0 and decoder.next() is INCOMPLETE


@pytest.mark.parametrize("data", [b"HTTP/1.1 200\r\n", b"*x\r\n", b"\r\n", b"$?\r\n"])
def test_bytes_that_are_no_reply_are_refused_after_those_that_are(data: bytes) -> None:
    decoder = ReplyDecoder()
    decoder.feed(b":1\r\n+two\r\n" + data)
    assert decoder.next() == 1 and decoder.next() == b"two"
    for _ in range(2):
        with pytest.raises(WrongProtocol):
            decoder.next()
        decoder.feed(b":3\r\n")


def test_a_command_is_encoded() -> None:
    assert command("A", b"", b"\r\n") == b"*3\r\n$1\r\nA\r\n$0\r\n\r\n$2\r\n\r\n\r\n"
    assert command("\udcff", 12) == b"*2\r\n$1\r\n\xff\r\n$2\r\n12\r\n"
