"""A client that sends bytes and compares the bytes that it receives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.server.stub import StubRegion


class Client:
    """One connection to the server under test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def expect(self, data: bytes) -> None:
        assert await self.reader.readexactly(len(data)) == data

    async def expect_end(self) -> None:
        """The server closes the connection and sends nothing before that."""
        try:
            assert await self.reader.read() == b""
        except ConnectionResetError:
            pass

    def half_close(self) -> None:
        self.writer.write_eof()

    def reset(self) -> None:
        self.writer.transport.abort()


async def connect(region: StubRegion) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", region.server.port))


async def until(condition: Callable[[], object]) -> None:
    """Waits for `condition`; `play` limits the time of the whole story."""
    while not condition():
        await asyncio.sleep(0.002)
