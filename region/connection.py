"""One client's connection: its socket's events, its turns at the engine, its replies.

Theory of operation
-------------------
A `Connection` is what asyncio calls a protocol (uvloop and asyncio go by its methods; no base class, so that it compiles). Bytes go
into its parser; a **turn** executes what is parsed, writes all replies at once, and tells the region that it stepped. A turn ends
early, and goes on in the next round of the loop, when it has lasted `TURN_MS` or made a good deal of output: one client's pipeline
starves nobody.

A connection executes nothing while its session waits (the answer comes through `Server.deliver`), while a turn is already due, or
while too much output is unsent. Its input then stays in the parser; above ``client-query-buffer-limit`` nothing more is read from
the socket. A single request above that limit could never be read to its end: its client is disconnected.

Replies whose effects must first be on disk (``appendfsync always``, S13.2) are held by the server; what a connection says after a held
reply is held as well, so its replies leave in order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, Optional, Protocol

from anabranch.region.engine.replies import NoReply, Reply, Waiting
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.held import must_wait
from anabranch.region.resp.encoder import encode, encode_error
from anabranch.region.resp.parser import ProtocolError, RequestParser

if TYPE_CHECKING:
    from anabranch.region.server import Server

log = logging.getLogger(__name__)

TURN_MS: Final = 2
TURN_PIECES: Final = 8192
# Commands between two readings of the clock; one whose reply may be large counts for all of them.
CLOCK_COMMANDS: Final = 32
LARGE_REPLY_BYTES: Final = 4 << 10
TURN_LARGE_BYTES: Final = 1 << 20
# A client whose unsent replies exceed this has no more of its commands executed until they fall below the second figure.
OUTPUT_HIGH_BYTES: Final = 16 << 20
OUTPUT_LOW_BYTES: Final = 4 << 20
# After writes up to this size nobody asks how much is unsent: the socket takes them.
SMALL_WRITE_BYTES: Final = 16 << 10
# How long a closing connection may take to send what it still has to.
CLOSE_PATIENCE_S: Final = 5.0


class EngineDoors(Protocol):
    """What the server asks of the engine (docs/architecture.md)."""

    @property
    def committed_position(self) -> int: ...

    def connect(self, address: str, local_address: str, now_ms: int) -> Session: ...

    def disconnect(self, session: Session) -> None: ...

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> Reply: ...

    def reply_position(self) -> int: ...


class RegionDoors(Protocol):
    """What the server asks of the process."""

    @property
    def engine(self) -> EngineDoors: ...

    @property
    def settings(self) -> Settings: ...

    def now_ms(self) -> int: ...

    def stepped(self) -> None: ...


class Connection:
    """One client's socket, from accepting to closing."""

    def __init__(self, server: Server) -> None:
        self.server: Final = server
        self.region: Final = server.region
        self.engine: Final = server.region.engine
        self.parser: Final = RequestParser(server.argument_bytes_max)
        self.transport: Optional[asyncio.Transport] = None
        # None before the engine knows of the client, and once it has been told that the client is gone.
        self.session: Optional[Session] = None
        # A turn is due in the loop's next round.
        self.scheduled = False
        # The transport has more unsent than it should.
        self.output_full = False
        self.reading_paused = False
        # The client sends no more.
        self.input_ended = False
        # Nothing more is executed; the connection closes when its held replies have left.
        self.closing = False
        # Replies in `Server.held`.
        self.held_replies = 0
        self.held_bytes = 0
        # The transport was told to close; until `abort_at_s` (time.monotonic) it may still send.
        self.closed = False
        self.abort_at_s = 0.0
        # A command was executed in this turn.
        self.executed = False

    # What the loop calls

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Takes the client in, or turns it away above ``maxclients``."""
        self.transport = transport
        self.server.admit(self, transport)

    def data_received(self, data: bytes) -> None:
        """Takes bytes, and executes what they complete."""
        self.server.net_input_bytes += len(data)
        if self.closing:
            return
        self.parser.feed(data)
        if not self.scheduled:
            self._turn()
        elif self.parser.buffered() > self.server.query_bytes_max:
            self._pause_reading()

    def eof_received(self) -> bool:
        """The client sends no more: what it has sent is still answered; whoever waits for an answer is taken to be gone."""
        self.input_ended = True
        self._settle()
        return not self.closed

    def connection_lost(self, error: Optional[Exception]) -> None:
        """The socket is gone."""
        self.transport = None
        self.leave()
        self.server.lingering.discard(self)

    def pause_writing(self) -> None:
        """The transport holds `OUTPUT_HIGH_BYTES`."""
        self.output_full = True

    def resume_writing(self) -> None:
        """The transport has sent all but `OUTPUT_LOW_BYTES`."""
        self.output_full = False
        self._go_on()

    # Executing

    def _turn(self) -> None:
        session = self.session
        if session is None:
            return
        if (
            self.closing
            or session.waiting
            or self.output_full
            or self.held_bytes > OUTPUT_HIGH_BYTES
        ):
            self._settle()
            return
        server = self.server
        if server.settings_seen != server.settings.changes:
            server.read_settings()
        self.parser.argument_bytes_max = server.argument_bytes_max
        out: list[bytes] = []
        due = self._execute(session, out)
        if out:
            self.send(session, out[0] if len(out) == 1 else b"".join(out))
        if self.executed:
            self.executed = False
            self.region.stepped()
        if due:
            self._schedule()
        self._settle()

    def _execute(self, session: Session, out: list[bytes]) -> bool:
        """Executes a turn's measure of commands, appending their replies to `out`; True if there may be more to execute at once."""
        now_ms = self.region.now_ms()
        end_ms = now_ms + TURN_MS
        session.active_ms = now_ms
        engine = self.engine
        parser = self.parser
        until_clock = CLOCK_COMMANDS
        large_bytes = 0
        try:
            while True:
                parser.authenticated = session.authenticated
                command = parser.next()
                if command is None:
                    return False
                self.executed = True
                reply = engine.execute(session, command, now_ms)
                if isinstance(reply, Waiting):
                    return False
                if not isinstance(reply, NoReply):
                    encode(reply, session.protocol, out)
                if session.closing:
                    self.closing = True
                    return False
                until_clock -= 1
                if isinstance(reply, bytes):
                    if len(reply) > LARGE_REPLY_BYTES:
                        large_bytes += len(reply)
                elif isinstance(reply, list):
                    until_clock = 0
                if until_clock <= 0:
                    until_clock = CLOCK_COMMANDS
                    now_ms = self.region.now_ms()
                    if now_ms >= end_ms:
                        return True
                if len(out) > TURN_PIECES or large_bytes > TURN_LARGE_BYTES:
                    return True
        except ProtocolError as error:
            self.server.protocol_errors += 1
            out.append(encode_error("ERR " + error.text))
        except Exception:
            # A fault of ours, never the client's: its connection ends, the region goes on, and INFO counts it.
            log.exception("a command of client %s failed inside", session.address)
            self.server.internal_errors += 1
            out.append(encode_error("ERR internal error; the connection is closed"))
        self.closing = True
        return False

    def answer(self, session: Session, reply: Reply) -> None:
        """Sends the answer of a command that had waited, and goes on with the commands behind it."""
        if not isinstance(reply, NoReply):
            out: list[bytes] = []
            encode(reply, session.protocol, out)
            self.send(session, b"".join(out))
        if session.closing:
            self.closing = True
        self._go_on()

    def _go_on(self) -> None:
        """After something that had kept commands waiting: takes a turn soon, if there is cause for one."""
        if not self.scheduled and (self.closing or self.input_ended or self.parser.buffered() > 0):
            self._schedule()

    def _schedule(self) -> None:
        self.scheduled = True
        self.server.loop.call_soon(self._scheduled_turn)

    def _scheduled_turn(self) -> None:
        self.scheduled = False
        self._turn()

    # Sending

    def send(self, session: Session, data: bytes) -> None:
        """Writes replies, or holds them until what they reflect is on disk."""
        server = self.server
        position = self.engine.reply_position()
        if must_wait(position, self.engine.committed_position, self.held_replies):
            server.held.hold(position, self, data)
            self.held_replies += 1
            self.held_bytes += len(data)
            session.output_bytes = self.held_bytes
        else:
            self.write(data)
            if session.output_bytes > 0 or len(data) > SMALL_WRITE_BYTES:
                self.measure_output()
        limit = server.output_bytes_max
        if 0 < limit < session.output_bytes:
            log.warning(
                "client %s closed: its unsent replies exceed client-output-limit", session.address
            )
            server.output_limit_disconnections += 1
            self.abort()

    def write(self, data: bytes) -> None:
        """Hands bytes to the transport."""
        if self.transport is not None and not self.closed:
            self.server.net_output_bytes += len(data)
            self.transport.write(data)

    def release(self, data: bytes) -> None:
        """Writes replies that were held; they are on disk now."""
        self.held_replies -= 1
        self.held_bytes -= len(data)
        self.write(data)
        self.measure_output()
        if self.held_replies == 0:
            self._go_on()

    def measure_output(self) -> None:
        """Brings `session.output_bytes` up to date."""
        if self.session is not None and self.transport is not None:
            self.session.output_bytes = self.held_bytes + self.transport.get_write_buffer_size()

    # Reading and closing

    def _settle(self) -> None:
        """After every event: reads on or not, closes or not."""
        session = self.session
        if session is None:
            return
        idle = not self.scheduled and not self.output_full and self.held_replies == 0
        if self.closing or self.input_ended:
            if self.held_replies == 0 and (self.closing or idle or session.waiting):
                self.close()
            return
        buffered = self.parser.buffered()
        session.query_bytes = buffered
        if buffered > self.server.query_bytes_max:
            if idle and not session.waiting:
                log.warning(
                    "client %s closed: a request exceeds client-query-buffer-limit", session.address
                )
                self.server.query_limit_disconnections += 1
                self.close()
            else:
                self._pause_reading()
        elif self.reading_paused and self.transport is not None:
            self.reading_paused = False
            self.transport.resume_reading()

    def _pause_reading(self) -> None:
        if not self.reading_paused and not self.input_ended and self.transport is not None:
            self.reading_paused = True
            self.transport.pause_reading()

    def close(self) -> None:
        """Closes once everything written has been sent, or after a few seconds."""
        self.closing = True
        self.leave()
        if self.transport is not None and not self.closed:
            self.closed = True
            self.abort_at_s = time.monotonic() + CLOSE_PATIENCE_S
            self.server.lingering.add(self)
            self.transport.close()

    def abort(self) -> None:
        """Closes without sending anything more."""
        self.closing = True
        self.leave()
        if self.transport is not None:
            self.closed = True
            self.transport.abort()

    def leave(self) -> None:
        """Tells the engine that the client is gone, once."""
        session = self.session
        if session is not None:
            self.session = None
            self.server.connections.pop(session.session_id, None)
            self.engine.disconnect(session)
