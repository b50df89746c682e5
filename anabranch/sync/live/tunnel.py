"""A connection of TLS to a peer, which grpc reaches over a local socket."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from typing import Final, Optional

from anabranch.sync.live.relay import Half, LocalSocket
from anabranch.sync.live.tls import HANDSHAKE_TIMEOUT_S, NoTls, RegionTls, why

# How long the other side has to take the last bytes of a connection.
_FLUSH_S: Final = 5.0
_CREDENTIALS: Final = struct.Struct("3i")


class Tunnel:
    """Passes the bytes of one channel of grpc on. `grpc_address`: where grpc connects.

    `outer`: the side of the network.
    """

    def __init__(self) -> None:
        self.outer: Final = Half(self.end)
        self._local: Final = LocalSocket()
        self._listener: Final = self._local.listen()
        self._inner: Optional[Half] = None
        self.grpc_address: Final = self._local.grpc_address

    async def carry(self) -> None:
        """Waits until grpc connects, and passes the bytes on from then on."""
        loop = asyncio.get_running_loop()
        one, _ = await loop.sock_accept(self._listener)
        while not _is_own(one):
            one.close()
            one, _ = await loop.sock_accept(self._listener)
        self._listener.close()
        inner = self._inner = Half(self.end)
        await loop.connect_accepted_socket(lambda: inner, one)
        self.outer.joins(inner)

    @property
    def problem(self) -> str:
        """Why the connection was lost, in words; empty if that is not known."""
        error = self.outer.error
        return why(error) if isinstance(error, OSError) else ""

    def end(self) -> None:
        """Closes both sides once their last bytes are taken, at the latest after some time."""
        for half in (self.outer, self._inner):
            if half is not None:
                half.finish()
        asyncio.get_running_loop().call_later(_FLUSH_S, self.close)

    def close(self) -> None:
        """Closes both sides at once."""
        self._listener.close()
        self._local.close()
        for half in (self.outer, self._inner):
            if half is not None:
                half.abort()


async def connect(address: str, tls: RegionTls, region: str) -> Tunnel:
    """Connects to `address` (HOST:PORT), where `region` must answer.

    Raises:
        NoTls: TLS cannot be used, or the certificate is not that of the region.
        OSError: The other side does not answer, or does not speak TLS.
    """
    context = tls.dialling()
    host, _, port = address.rpartition(":")
    tunnel = Tunnel()
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: tunnel.outer,
            host.strip("[]"),
            int(port),
            ssl=context,
            server_hostname="",
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
        )
        found = tls.region_of(tunnel.outer.certificate())
        if found != region:
            raise NoTls(f"{region} was dialled, and the certificate is that of {found}")
    except BaseException:
        tunnel.close()
        raise
    return tunnel


def _is_own(one: socket.socket) -> bool:
    """Whether a local socket is of this process. The names of others' sockets are no secret."""
    if sys.platform != "linux":
        return True  # The folder of the socket is this user's alone.
    size = _CREDENTIALS.size
    data = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return bool(_CREDENTIALS.unpack(data)[0] == os.getpid())
