"""The request parser, compared with redis-server: parsed commands, errors, and closing.

Every command begins with a name that Redis does not know. The error reply of Redis repeats the
arguments that it parsed.
"""

from __future__ import annotations

import socket

import pytest
import redis
from hypothesis import HealthCheck, given, settings

from anabranch.region.resp.encoder import encode_error
from anabranch.region.resp.parser import ProtocolError, RequestParser
from tests.resp.streams import streams

pytestmark = pytest.mark.oracle


def answer_of_redis(port: int, stream: bytes) -> bytes:
    """All bytes that Redis sends in reply to `stream` until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(stream)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    return answer


def expected_answer(stream: bytes) -> bytes:
    """The reply that Redis must give if it parses `stream` as the request parser does."""
    parser = RequestParser(512 << 20)
    parser.feed(stream)
    answer = b""
    try:
        while (command := parser.next()) is not None:
            answer += encode_error(unknown_command(command))
    except ProtocolError as error:
        answer += encode_error("ERR " + error.text)
    return answer


def unknown_command(command: list[bytes]) -> str:
    """The error text of Redis for an unknown command."""
    told = b""
    for argument in command[1:]:
        if len(told) >= 128:
            break
        told += b"'" + argument[: 128 - len(told)] + b"' "
    return (
        b"ERR unknown command '%b', with args beginning with: %b" % (command[0][:128], told)
    ).decode("utf-8", "surrogateescape")


# Without NUL: Redis does not find the end of a line that contains one, and its error texts, made
# with %s, end there.
@settings(
    max_examples=500,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(streams(forbidden=b"\0"))
def test_redis_understands_the_same(oracle: redis.Redis, stream: bytes) -> None:
    port = oracle.connection_pool.connection_kwargs["port"]
    assert answer_of_redis(port, stream) == expected_answer(stream)


@pytest.mark.parametrize(
    "stream",
    [
        b"*abc\r\n",
        b"*1\r\n+x\r\n",
        b"*1\r\n$a\r\n",
        b"*1\r\n$-1\r\n",
        b"*2147483648\r\n",
        b"*1\r\n$536870913\r\n",
        b"*1\r\n$536870912\r\n",
        b"*\r\n",
        b"*01\r\n",
        b"*1\r\n\r\nabc\r\n",
        b"*1\r\n\xffa\r\n",
        b"*1\r\n$4\nPING\r\n",
        b'"abc\r\n',
        b"'abc\r\n",
        b'zz "a"b\r\n',
        b"zz 'a\\'\r\n",
        b'zz "\\x4g\\x41"\r\n',
        b"zz" + b"a" * (1 << 16),
        b"*" + b"1" * (1 << 16),
        b"*1\r\n$" + b"1" * (1 << 16),
        b"*1\r\n" + b"x" * (1 << 16 | 1),
    ],
)
def test_protocol_errors_have_the_texts_of_redis(oracle: redis.Redis, stream: bytes) -> None:
    port = oracle.connection_pool.connection_kwargs["port"]
    assert answer_of_redis(port, b"zz first\r\n" + stream) == expected_answer(
        b"zz first\r\n" + stream
    )
