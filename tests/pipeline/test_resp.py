"""The small client of regions, against a socket whose bytes the test chooses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from anabranch.pipeline.errors import PipelineError
from anabranch.pipeline.resp import (
    Connection,
    RefusedCommand,
    RegionGone,
    ReplyValue,
    encoded,
    int_of,
    named,
    printable,
    shown,
)


@pytest.fixture
def answering() -> Iterator[Callable[..., Connection]]:
    """Makes a connection to a server that sends the given pieces, and then closes."""
    made: list[Callable[[], None]] = []

    def make(*pieces: bytes) -> Connection:
        listener = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                for piece in pieces:
                    client.sendall(piece)
                client.shutdown(socket.SHUT_WR)
                while client.recv(1 << 16):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        connection = Connection(("127.0.0.1", listener.getsockname()[1]), "", "", 10)

        def close() -> None:
            connection.close()
            thread.join()
            listener.close()

        made.append(close)
        return connection

    yield make
    for close in made:
        close()


def test_replies_of_every_kind(answering: Callable[..., Connection]) -> None:
    connection = answering(
        b"+OK\r\n:-5\r\n$-1\r\n*-1\r\n$0\r\n\r\n*2\r\n:1\r\n*1\r\n$2\r\n\r\n\r\n"
    )
    assert [connection.receive() for _ in range(6)] == [b"OK", -5, None, None, b"", [1, [b"\r\n"]]]
    with pytest.raises(RegionGone, match="closed"):
        connection.receive()


@pytest.mark.parametrize("length", [1, 1000, 1 << 18, (1 << 18) + 1, 3_000_000])
def test_bulk_strings_of_every_length(answering: Callable[..., Connection], length: int) -> None:
    body = bytes(range(256)) * (length // 256 + 1)
    body = body[:length]
    connection = answering(b"*2\r\n:7\r\n$%d\r\n" % length, body, b"\r\n+next\r\n")
    assert connection.receive() == [7, body]
    assert connection.receive() == b"next"


def test_a_refusal_within_an_array_leaves_the_next_reply_whole(
    answering: Callable[..., Connection],
) -> None:
    connection = answering(b"*2\r\n-ERR one\r\n:2\r\n-ERR two\r\n:3\r\n")
    for text in ("ERR one", "ERR two"):
        with pytest.raises(RefusedCommand, match=text):
            connection.receive()
    assert connection.receive() == 3


@pytest.mark.parametrize("cut", [b"$5\r\nab", b"*2\r\n:1\r\n", b":1", b"$500000\r\nab"])
def test_a_connection_that_ends_within_a_reply(
    answering: Callable[..., Connection], cut: bytes
) -> None:
    with pytest.raises(RegionGone, match="closed"):
        answering(cut).receive()


def test_another_protocol(answering: Callable[..., Connection]) -> None:
    with pytest.raises(RegionGone, match="not RESP"):
        answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").receive()


def test_a_closed_port(free_port: int) -> None:
    with pytest.raises(RegionGone, match="refused"):
        Connection(("127.0.0.1", free_port), "", "", 1)


def test_names_that_are_not_utf8_survive() -> None:
    for name in (b"plain", b"\xff\x00", "naïve".encode()):
        assert encoded(shown(name)) == name


def test_printable_names() -> None:
    """The same for bytes and for the text that `shown` makes of them."""
    for name, text in ((b"plain", "plain"), (b"\xffa", "\ufffda"), ("naïve".encode(), "naïve")):
        assert printable(name) == printable(shown(name)) == text


def test_maps_of_resp2() -> None:
    assert named([b"one", 1, b"\xff", [b"two", 2]]) == {"one": 1, "\udcff": [b"two", 2]}
    assert named([]) == {}


@pytest.mark.parametrize("reply", [None, 1, b"bytes", [1, 2], [b"one", 1, b"two"]])
def test_a_reply_that_is_no_map(reply: ReplyValue) -> None:
    with pytest.raises(PipelineError, match="a region gave an unexpected answer"):
        named(reply)


def test_a_reply_that_is_no_number() -> None:
    with pytest.raises(PipelineError, match="unexpected answer: b'1'"):
        int_of(b"1")
