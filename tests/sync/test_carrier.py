"""What the carrier does with errors of grpc that belong to no link."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable

import grpc.aio
import pytest

from anabranch.sync.live.carrier import ConnectionLost, Listener, PeerStream, dial

# What grpc logs when it cannot send the status of a call.
GRPC_LOG = logging.getLogger("grpc._cython.cygrpc")


def unretrieved(error: Exception) -> None:
    """A task fails, and nobody asks for its result."""

    async def fail() -> None:
        raise error

    asyncio.get_running_loop().create_task(fail())


def told(error: Exception) -> None:
    """A task of grpc tells in its log of an error."""
    try:
        raise error
    except type(error):
        GRPC_LOG.exception("ExecuteBatchError raised in core by servicer method")


Failure = Callable[[Exception], None]


def logged(caplog: pytest.LogCaptureFixture, fail: Failure, error: Exception) -> list[str]:
    """What is logged of an error that something raises beside a listener.

    The calls of tests before may still end, and grpc logs that their loops are closed.
    """

    async def serve(stream: PeerStream) -> None:
        pass

    async def run() -> None:
        listener = Listener("127.0.0.1:0", serve)
        await listener.start()
        fail(error)
        # A task that was started now is over after one turn of the loop, and is freed.
        await asyncio.sleep(0)
        await listener.stop()

    caplog.clear()
    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    return [
        record.getMessage()
        for record in caplog.records
        if record.exc_info and record.exc_info[1] is error
    ]


@pytest.mark.parametrize("fail", [unretrieved, told])
def test_a_call_that_grpc_cannot_end_is_no_error(
    caplog: pytest.LogCaptureFixture, fail: Failure
) -> None:
    """A peer that went at the wrong moment left a traceback in the log of the region."""
    assert logged(caplog, fail, grpc.aio.InternalError('Failed "execute_batch"')) == []
    (text,) = logged(caplog, fail, RuntimeError("a bug"))
    assert "was never retrieved" in text or "raised in core" in text


class DeafPeer:
    """A path to a listener on which the peer stops to read, and then resets its connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Passes everything on to the listener, and its first bytes back."""
        answers, there = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, there]
        back = asyncio.create_task(_copied(answers, writer, most=200_000))
        await _copied(reader, there)
        await back

    def reset(self) -> None:
        """Breaks all connections off."""
        for one in self._writers:
            one.transport.abort()


async def _copied(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: float = math.inf
) -> None:
    count = 0
    with contextlib.suppress(ConnectionError):
        while count < most and (data := await reader.read(1 << 16)):
            writer.write(data)
            count += len(data)


async def full_and_ended(stream: PeerStream) -> None:
    """Sends until nobody takes any more, and then ends the call."""
    with contextlib.suppress(TimeoutError, ConnectionLost):
        while True:
            await asyncio.wait_for(stream.send(bytes(60_000)), 0.05)


async def deaf_peers(count: int) -> None:
    """So many peers stop to read what a listener sends; when it has ended the call, they go."""
    listener = Listener("127.0.0.1:0", full_and_ended)
    port = await listener.start()
    for _ in range(count):
        peer = DeafPeer(port)
        async with await asyncio.start_server(peer.accept, "127.0.0.1", 0) as server:
            address = server.sockets[0].getsockname()
            stream = await dial(f"{address[0]}:{address[1]}")
            await asyncio.sleep(0.3)
            peer.reset()
            await stream.close()
    await listener.stop()


def test_a_peer_that_reads_nothing_and_goes_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """The status of the call waits for what the peer does not read, and fails when it goes.

    A call of a test before may end meanwhile: grpc logs that the loop of that test is closed.
    """
    with caplog.at_level(logging.INFO):
        asyncio.run(deaf_peers(5))
    errors = [record.exc_info and str(record.exc_info[1]) for record in caplog.records]
    assert [error for error in errors if error != "Event loop is closed"] == []
