"""Replies of commands that had waited leave before those of the commands after them."""

from __future__ import annotations

import pytest

from tests.server.test_runs_of_adds import Region, command


@pytest.mark.parametrize(
    "waits",
    [
        command(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"),
        command(b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"0", b"STREAMS", b"s", b">"),
    ],
)
def test_a_command_that_comes_before_the_reply_is_taken_waits_for_it(waits: bytes) -> None:
    """A pipeline came in two reads, and the second between the engine's late reply and the step.

    The region then executed the second part at once, and its reply left first: the client took it
    for the reply to its blocked read. From simulator seed 33 with clients that pipeline.
    """
    region = Region()
    region.feed(command(b"XGROUP", b"CREATE", b"s", b"g", b"0", b"MKSTREAM"), "other")
    client, other = region.client("a"), region.client("other")
    client.received(waits)
    assert client.session is not None and client.session.waiting
    other.received(command(b"XADD", b"s", b"*", b"f", b"v"))
    client.received(command(b"PING"))
    region.collect()
    assert region.got["a"] == b""
    for late in region.engine.clients.take_replies():
        region.clients.answer(late)
    region.collect()
    assert region.got["a"].startswith(b"*1\r\n*2\r\n$1\r\ns\r\n")
    assert region.got["a"].endswith(b"$1\r\nv\r\n+PONG\r\n")
