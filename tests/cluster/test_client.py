"""The small client returns replies as they come."""

from __future__ import annotations

import socket

import pytest
import redis

from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ConnectionFailed
from anabranch.region.resp.decoder import ErrorText


def test_replies(oracle: redis.Redis) -> None:
    with RespClient("127.0.0.1", int(oracle.connection_pool.connection_kwargs["port"])) as client:
        assert client.call("PING") == b"PONG"
        assert client.call("XADD", "x", "1-1", b"f\r\n", b"\x00\xff") == b"1-1"
        assert client.call("XRANGE", "x", "-", "+") == [[b"1-1", [b"f\r\n", b"\x00\xff"]]]
        assert client.call("XLEN", "x") == 1
        assert client.call("XREAD", "STREAMS", "x", "5") is None
        assert client.call("XREADGROUP", "GROUP", "g", "a", "STREAMS", "x", ">") == ErrorText(
            "NOGROUP No such key 'x' or consumer group 'g' in XREADGROUP with GROUP option"
        )
        assert client.call("XINFO", "GROUPS", "missing") == ErrorText("ERR no such key")
        for command in (("MULTI",), ("XLEN", "x"), ("XGROUP", "CREATE", "x", "g"), ("XLEN", "x")):
            client.send(*command)
        assert [client.read() for _ in range(3)] == [
            b"OK",
            b"QUEUED",
            ErrorText("ERR wrong number of arguments for 'xgroup|create' command"),
        ]
        assert client.read() == b"QUEUED"
        assert isinstance(client.call("EXEC"), ErrorText)
        value = b"v" * 3_000_000
        assert client.call("ECHO", value) == value
        assert not client.readable(0.01)
        client.send("PING")
        assert client.readable(5.0) and client.read() == b"PONG"


def test_a_connection_that_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = RespClient("127.0.0.1", server.getsockname()[1], 5.0)
        accepted, _ = server.accept()
        accepted.sendall(b"+half")
        accepted.close()
        with pytest.raises(ConnectionFailed, match="closed by the region"):
            client.read()
        client.close()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionFailed):
        RespClient("127.0.0.1", port, 5.0)
