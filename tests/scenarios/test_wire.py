"""The RESP2 client of the scenario runner, which returns replies as they are on the wire."""

from __future__ import annotations

import socket

import pytest
import redis

from anabranch.sim.scenario.expectation import ErrorText
from anabranch.sim.scenario.wire import Wire, WireError


def test_replies(oracle: redis.Redis) -> None:
    with Wire("127.0.0.1", int(oracle.connection_pool.connection_kwargs["port"])) as wire:
        assert wire.call("PING") == b"PONG"
        assert wire.call("XADD", "x", "1-1", b"f\r\n", b"\x00\xff") == b"1-1"
        assert wire.call("XRANGE", "x", "-", "+") == [[b"1-1", [b"f\r\n", b"\x00\xff"]]]
        assert wire.call("XLEN", "x") == 1
        assert wire.call("XREAD", "STREAMS", "x", "5") is None
        assert wire.call("XREADGROUP", "GROUP", "g", "a", "STREAMS", "x", ">") == ErrorText(
            "NOGROUP No such key 'x' or consumer group 'g' in XREADGROUP with GROUP option"
        )
        assert wire.call("XINFO", "GROUPS", "missing") == ErrorText("ERR no such key")
        for command in (("MULTI",), ("XLEN", "x"), ("XGROUP", "CREATE", "x", "g"), ("XLEN", "x")):
            wire.send(command)
        assert [wire.read() for _ in range(3)] == [
            b"OK",
            b"QUEUED",
            ErrorText("ERR wrong number of arguments for 'xgroup|create' command"),
        ]
        assert wire.read() == b"QUEUED"
        assert isinstance(wire.call("EXEC"), ErrorText)
        value = b"v" * 3_000_000
        assert wire.call("ECHO", value) == value
        assert not wire.readable(0.01)
        wire.send(["PING"])
        assert wire.readable(5.0) and wire.read() == b"PONG"


def test_a_connection_that_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        wire = Wire("127.0.0.1", server.getsockname()[1], 5.0)
        accepted, _ = server.accept()
        accepted.sendall(b"+half")
        accepted.close()
        with pytest.raises(WireError, match="closed by the region"):
            wire.read()
        wire.close()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(WireError):
        Wire("127.0.0.1", port, 5.0)
