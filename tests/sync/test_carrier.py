"""What the carrier does with errors of grpc that belong to no link."""

from __future__ import annotations

import asyncio
import logging

import grpc.aio
import pytest

from anabranch.sync.carrier import Listener, PeerStream


def logged(caplog: pytest.LogCaptureFixture, error: Exception) -> list[str]:
    """What is logged when a task of which nobody asks for the result fails beside a listener."""

    async def serve(stream: PeerStream) -> None:
        pass

    async def fail() -> None:
        raise error

    async def run() -> None:
        listener = Listener("127.0.0.1:0", serve)
        await listener.start()
        task = asyncio.get_running_loop().create_task(fail())
        await asyncio.wait([task])
        del task
        await listener.stop()

    caplog.clear()
    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    return [record.getMessage() for record in caplog.records]


def test_a_call_that_grpc_cannot_end_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A peer that went at the wrong moment left a traceback in the log of the region."""
    assert logged(caplog, grpc.aio.InternalError('Failed "execute_batch"')) == []
    (text,) = logged(caplog, RuntimeError("a bug"))
    assert "was never retrieved" in text
