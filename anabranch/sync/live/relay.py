"""Bytes between a socket of the network and grpc, which listens and dials on local sockets only."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Optional, cast


class LocalSocket:
    """The names of the sockets between front and grpc.

    On Linux they are abstract, so that no file of them is left after a kill.
    """

    def __init__(self) -> None:
        self._folder: Optional[str] = None
        if sys.platform == "linux":
            name = f"anabranch-{secrets.token_hex(16)}"
            self.grpc_address = f"unix-abstract:{name}"
            self._prefix = f"\0{name}"
        else:
            self._folder = tempfile.mkdtemp(prefix="anabranch-")
            self._prefix = f"{self._folder}/sync"
            self.grpc_address = f"unix:{self._prefix}"

    def listen(self) -> socket.socket:
        """Listens for one connection of grpc in this process."""
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        one.setblocking(False)
        one.bind(self._prefix)
        one.listen(1)
        return one

    async def connect(self, number: int) -> socket.socket:
        """Connects to grpc under the name of the connection `number`. OSError if that fails."""
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            one.setblocking(False)
            one.bind(f"{self._prefix}-{number}")
            await asyncio.get_running_loop().sock_connect(one, self._prefix)
        except BaseException:
            one.close()
            raise
        return one

    def number_of(self, peer: str) -> int:
        """The number of the connection that grpc calls `peer`; 0 if it is none of the front."""
        stem, _, number = peer.rpartition("-")
        return int(number) if stem == self.grpc_address and number.isdigit() else 0

    def forget(self, number: int) -> None:
        """The connection `number` is closed."""
        if self._folder is not None:
            Path(f"{self._prefix}-{number}").unlink(missing_ok=True)

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class Half(asyncio.Protocol):
    """One side of a connection, whose bytes go to the other side once it is joined to it.

    `error`: why it was lost; None while it is there, or after an end in order.
    """

    def __init__(self, closed: Callable[[], None]) -> None:
        self.error: Optional[Exception] = None
        self._closed: Final = closed
        self._transport: Optional[asyncio.Transport] = None
        self._other: Optional[Half] = None
        # Bytes that came before the other side was there.
        self._early: list[bytes] = []

    def joins(self, other: Half) -> None:
        """From now on the bytes go to `other`, and those of `other` come here."""
        self._other, other._other = other, self
        for one, its_other in ((self, other), (other, self)):
            for data in one._early:
                its_other.send(data)
            one._early.clear()
            if one._transport is None:
                one._closed()
            else:
                one._transport.resume_reading()

    def certificate(self) -> dict[str, Any]:
        """The verified certificate of the other end; empty without TLS."""
        assert self._transport is not None
        return self._transport.get_extra_info("peercert") or {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop have the methods, and not the class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._other is not None:
            self._other.send(data)
            return
        self._early.append(data)
        if self._transport is not None:
            self._transport.pause_reading()

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.resume_reading()

    def eof_received(self) -> bool:
        """The transport closes, and the connection with it."""
        return False

    def connection_lost(self, error: Optional[Exception]) -> None:
        self._transport, self.error = None, error
        self._closed()

    def finish(self) -> None:
        """Closes this side once its last bytes are taken."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
