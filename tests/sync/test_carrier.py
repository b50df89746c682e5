"""What the carrier does with errors of grpc that belong to no link."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import grpc.aio
import pytest

from anabranch.sync.carrier import Listener, PeerStream

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
    """What is logged when something fails beside a listener."""

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
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("fail", [unretrieved, told])
def test_a_call_that_grpc_cannot_end_is_no_error(
    caplog: pytest.LogCaptureFixture, fail: Failure
) -> None:
    """A peer that went at the wrong moment left a traceback in the log of the region."""
    assert logged(caplog, fail, grpc.aio.InternalError('Failed "execute_batch"')) == []
    (text,) = logged(caplog, fail, RuntimeError("a bug"))
    assert "was never retrieved" in text or "raised in core" in text
