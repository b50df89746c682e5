"""Messages over gRPC, one bidirectional stream per link: bytes in, bytes out.

This module does not read the contents of messages. Channels and servers take no proxies from the
environment, share no sockets, and notice a dead peer by keepalive.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, Optional, Protocol

import grpc
import grpc.aio

from anabranch.sync.live.front import Front, Passage
from anabranch.sync.live.tls import NO_TLS, OFF, OPTIONAL, NoTls, RegionTls, why
from anabranch.sync.live.tunnel import Tunnel, connect
from anabranch.sync.session.fields import MESSAGE_BYTES_MAX
from anabranch.sync.session.links import OtherEnd

_log: Final = logging.getLogger("anabranch.sync")
# The loggers that tell of tasks of grpc that failed.
_LOGS_OF_TASKS: Final = ("grpc._cython.cygrpc", "asyncio")

METHOD: Final = "/anabranch.sync.v1.Sync/Link"
_KEEPALIVE_MS: Final = 5000
_KEEPALIVE_TIMEOUT_MS: Final = 5000
_DIAL_TIMEOUT_S: Final = 5.0
# Time for which a closing side waits until its last messages are read.
_CLOSE_TIMEOUT_S: Final = 1.0

_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.so_reuseport", 0),
]
# Of the side that accepts: connections that say nothing, or no call, are closed. A peer opens its
# call at once, and keeps it.
_LISTENER_OPTIONS: Final[list[tuple[str, Any]]] = [
    *_OPTIONS,
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 10_000),
    # A peer has one call at a time on each of its connections. The front limits the connections;
    # grpc limits them, too, because other programs of this machine may find its local socket.
    ("grpc.max_concurrent_streams", 8),
    ("grpc.max_allowed_incoming_connections", 256),
]


class ConnectionLost(Exception):
    """The transport failed, or the peer could not be reached; the text is for the operator."""


class PeerStream(Protocol):
    """One connection, in both directions."""

    @property
    def end(self) -> OtherEnd: ...

    def greeted(self) -> None:
        """Notes that the other side has said who it is."""

    async def send(self, data: bytes) -> None:
        """Sends; returns when the transport has room for more. ConnectionLost when it failed."""

    async def receive(self) -> Optional[bytes]:
        """Returns the next message; None when the other side ended the stream.

        Raises ConnectionLost when the transport failed.
        """

    async def finish(self) -> None:
        """Ends the stream after the messages already sent."""

    async def close(self) -> None:
        """Ends the stream at once, without waiting for messages in flight."""


class DialledStream:
    """The dialler's end, with a channel of its own."""

    def __init__(
        self, channel: grpc.aio.Channel, call: Any, end: OtherEnd, tunnel: Optional[Tunnel]
    ) -> None:
        self.end: Final = end
        self._channel = channel
        self._call = call
        self._tunnel = tunnel

    def greeted(self) -> None:
        """Does nothing: this region has dialled, so it knows the other side."""

    async def send(self, data: bytes) -> None:
        try:
            await self._call.write(data)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise ConnectionLost(self._why(error)) from error

    async def receive(self) -> Optional[bytes]:
        try:
            data = await self._call.read()
        except grpc.RpcError as error:
            raise ConnectionLost(self._why(error)) from error
        return None if data is grpc.aio.EOF else bytes(data)

    async def finish(self) -> None:
        try:
            await self._call.done_writing()
            await asyncio.wait_for(self._call.code(), _CLOSE_TIMEOUT_S)
        except (grpc.RpcError, asyncio.InvalidStateError, TimeoutError):
            # The stream is about to be closed, so a failure changes nothing.
            pass

    async def close(self) -> None:
        self._call.cancel()
        await self._channel.close()
        if self._tunnel is not None:
            self._tunnel.end()

    def _why(self, error: BaseException) -> str:
        problem = "" if self._tunnel is None else self._tunnel.problem
        return f"TLS: {problem}" if problem else _why(error)


class AcceptedStream:
    """The end of the region that was dialled."""

    def __init__(self, context: Any, passage: Passage) -> None:
        self.end: Final = OtherEnd(passage.address, passage.region)
        self._context = context
        self._passage = passage

    def greeted(self) -> None:
        """The connection no longer counts among those that have not said who they are."""
        self._passage.greeted()

    async def send(self, data: bytes) -> None:
        try:
            await self._context.write(data)
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            raise ConnectionLost(_why(error)) from error

    async def receive(self) -> Optional[bytes]:
        try:
            data = await self._context.read()
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            raise ConnectionLost(_why(error)) from error
        return None if data is grpc.aio.EOF else bytes(data)

    async def finish(self) -> None:
        """Does nothing: the return of the handler ends the stream."""

    async def close(self) -> None:
        """Does nothing: the return of the handler ends the stream."""


def _why(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name.lower()}: {error.details()}"
    return str(error) or type(error).__name__


async def dial(address: str, tls: RegionTls = NO_TLS, region: str = "") -> DialledStream:
    """Opens a stream to `address` (HOST:PORT), where `region` answers.

    ConnectionLost when the peer does not answer, or TLS says that it is another one.
    """
    try:
        async with asyncio.timeout(_DIAL_TIMEOUT_S):
            tunnel = await _tunnel(address, tls, region)
            return await _open(address, tunnel, region)
    except TimeoutError as error:
        raise ConnectionLost(f"{address} did not answer within {_DIAL_TIMEOUT_S:g} s") from error
    except grpc.RpcError as error:
        raise ConnectionLost(_why(error)) from error
    except NoTls as error:
        raise ConnectionLost(f"TLS: {error}") from error


async def _tunnel(address: str, tls: RegionTls, region: str) -> Optional[Tunnel]:
    """A connection of TLS, if there is to be one."""
    mode = tls.mode
    if mode == OFF:
        return None
    try:
        return await connect(address, tls, region)
    except TimeoutError:
        raise
    except OSError as error:
        if mode == OPTIONAL and not isinstance(error, ssl.SSLCertVerificationError):
            return None
        raise NoTls(f"{address}: {why(error)}") from error


async def _open(address: str, tunnel: Optional[Tunnel], region: str) -> DialledStream:
    """Opens the stream, over the tunnel if there is one."""
    target = address if tunnel is None else tunnel.grpc_address
    channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
    try:
        call = channel.stream_stream(METHOD)()
        if tunnel is None:
            await call.wait_for_connection()
            return DialledStream(channel, call, OtherEnd(address), None)
        carrying = asyncio.ensure_future(tunnel.carry())
        try:
            await call.wait_for_connection()
            await carrying
        except grpc.RpcError as error:
            # The other side sees this side's certificate after this side has seen its.
            reason = tunnel.problem or "it closed the connection"
            raise NoTls(f"{address} may not take this region's certificate: {reason}") from error
        finally:
            carrying.cancel()
        return DialledStream(channel, call, OtherEnd(address, region), tunnel)
    except BaseException:
        await channel.close()
        if tunnel is not None:
            tunnel.close()
        raise


class _EndsOfCalls(logging.Filter):
    """Drops what is logged when grpc cannot end a call of a peer.

    A task of grpc sends the status of a call. If the peer goes in that moment, the task fails. grpc
    logs a traceback for what is the end of a connection, and so does asyncio, because nobody awaits
    the task.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, grpc.aio.InternalError):
            return True
        _log.debug("a call could not be ended: %s", error)
        return False


_ENDS_OF_CALLS: Final = _EndsOfCalls()


def _tell_turned_away(address: str, reason: str) -> None:
    _log.info("a connection from %s is closed: %s", address, reason)


class Listener:
    """Accepts links. `serve` runs once per connection; its return ends the connection.

    `turned_away` is told of connections that are closed without a Hello: the address, and why.
    """

    def __init__(
        self,
        listen: str,
        serve: Callable[[PeerStream], Awaitable[None]],
        turned_away: Callable[[str, str], None] = _tell_turned_away,
        tls: RegionTls = NO_TLS,
    ) -> None:
        self._tls = tls
        self._listen = listen
        self._serve = serve
        self._turned_away = turned_away
        self._server: Optional[grpc.aio.Server] = None
        self._front: Optional[Front] = None

    async def start(self) -> int:
        """Listens and returns the port; RuntimeError when the address is in use."""
        self._front = front = Front(self._listen, self._turned_away, self._tls)
        try:
            port = front.listen()
        except OSError as error:
            front.close()
            raise RuntimeError(f"cannot listen on {self._listen}: {error}") from error

        async def link(_: Any, context: Any) -> None:
            # With the first message, grpc would send the initial metadata. If that send is
            # cancelled, grpc sends the metadata again with the status, fails, and logs a traceback.
            try:
                await context.send_initial_metadata(())
            except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError):
                return  # The dialler is gone.
            passage = front.passage(context.peer())
            if passage is None:
                return  # The dialler is gone, or it has found the local socket of grpc.
            try:
                await self._serve(AcceptedStream(context, passage))
            finally:
                passage.ended()

        for name in _LOGS_OF_TASKS:
            # A filter that a logger has already is not added again.
            logging.getLogger(name).addFilter(_ENDS_OF_CALLS)
        self._server = grpc.aio.server(options=_LISTENER_OPTIONS)
        service, method = METHOD[1:].split("/")
        handlers = {method: grpc.stream_stream_rpc_method_handler(link)}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, handlers),)
        )
        if self._server.add_insecure_port(front.local.grpc_address) == 0:
            raise RuntimeError(f"cannot listen on {front.local.grpc_address}")
        await self._server.start()
        front.start()
        return port

    async def stop(self) -> None:
        if self._front is not None:
            self._front.stop_listening()
        if self._server is not None:
            await self._server.stop(grace=_CLOSE_TIMEOUT_S)
            self._server = None
        if self._front is not None:
            self._front.close()
            self._front = None
