"""One client's connection, sans-IO: bytes in, turns at the engine, bytes out.

Theory of operation
-------------------
Bytes go into the connection's parser. A **turn** executes the parsed commands and collects their
replies. A turn stops early, and a later turn continues, when it has lasted `TURN_MS` or produced
much output, so that the pipeline of one client does not starve the others.

A connection executes nothing while its session waits (the answer comes through `answer`), while a
turn is due, or while too much output is unsent. Its input then stays in the parser. Above
``client-query-buffer-limit`` the transport stops reading. A single request above that limit could
never be read completely, so its client is disconnected.

A client that has not given the password has lower limits (`ClientLimits`), and may have to wait
because wrong passwords came from its address (`LoginDelays`). Its unsent output is measured before
its next turn, because a transport may write at the end of the iteration of its loop.

Replies that depend on data which must first be on disk (``appendfsync always``, S13.2) are held.
Every reply after a held reply is held as well, so that replies leave in order. The replies of one
turn leave or wait together.

After each call the transport performs the requests of the connection: `take_output`,
`wants_turn`, `is_reading`, `ending`.
"""

from __future__ import annotations

import logging
from typing import Final, Optional

from anabranch.region.driver.client_limits import ClientCounters, ClientLimits
from anabranch.region.driver.client_pressure import LineLimit, UnsentOutput
from anabranch.region.driver.clock import Clock
from anabranch.region.driver.command_execution import CommandExecution, EngineInterface
from anabranch.region.driver.held_replies import HeldReplies
from anabranch.region.driver.login_delays import LoginDelays
from anabranch.region.engine.replies import NoReply, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.resp.encoder import encode
from anabranch.region.resp.parser import RequestParser

log = logging.getLogger(__name__)

# When the unsent replies of a client exceed the first limit, its commands are not executed until
# the unsent bytes fall below the second limit.
OUTPUT_HIGH_BYTES: Final = 16 << 20
OUTPUT_LOW_BYTES: Final = 4 << 20
# After output up to this size the transport need not report how much is unsent: the socket takes
# that much.
SMALL_OUTPUT_BYTES: Final = 16 << 10
# How long a closing connection may take to send its remaining output.
CLOSE_PATIENCE_MS: Final = 5000

# Whether a client without the password may be served: it may; it waits; it has waited.
FREE: Final = 0
DELAYED: Final = 1
LET_IN: Final = 2

# States of a connection: open; closes once all output is sent; closes at once.
OPEN: Final = 0
CLOSING: Final = 1
ABORTED: Final = 2


class ClientShare:
    """State that all connections of a region share.

    `by_session` holds the connections that have a session in the engine. `closing` holds those
    that still send their last output.
    """

    def __init__(
        self, engine: EngineInterface, clock: Clock, settings: Settings, turn_pieces: int
    ) -> None:
        self.engine: Final = engine
        self.clock: Final = clock
        self.limits: Final = ClientLimits(settings, turn_pieces)
        self.counters: Final = ClientCounters()
        self.held: Final[HeldReplies[ClientConnection]] = HeldReplies()
        self._lines: Final = LineLimit()
        self.execution: Final = CommandExecution(
            engine, clock, self.limits, self.counters, self.line
        )
        self.logins: Final[LoginDelays[ClientConnection]] = LoginDelays()
        self.unsent: Final = UnsentOutput()
        # Bytes of input of all clients that wait to be executed.
        self.query_bytes = 0
        self.by_session: Final[dict[int, ClientConnection]] = {}
        self.closing: Final[dict[ClientConnection, None]] = {}

    def line(self, cause: str) -> Optional[str]:
        """The end of a line of the log about a client, or None: see `LineLimit.line`."""
        return self._lines.line(cause, self.clock.steady_ms())

    def tell_closed(self, session: Session, what: str, setting: str) -> None:
        """Tells the log that a client is closed because of a limit, which `setting` names."""
        if (more := self.line(setting)) is not None:
            limit = setting if session.authenticated else "the limit before the password is given"
            log.warning("client %s closed: %s %s%s", session.address, what, limit, more)

    def login_failed(self, session: Session) -> None:
        """A client has given a wrong password: the next ones of its address may have to wait."""
        self.logins.failed(session.address, self.clock.steady_ms())
        if (more := self.line("password")) is not None:
            log.warning("client %s gave a wrong password or user%s", session.address, more)


class ClientConnection:
    """One client connection, from admission to its end.

    `session` is None before the admission, and again once the engine has closed the session.
    """

    def __init__(self, share: ClientShare) -> None:
        self._share: Final = share
        self._engine: Final = share.engine
        self._clock: Final = share.clock
        self._limits: Final = share.limits
        self._counters: Final = share.counters
        self._parser: Final = RequestParser(
            share.limits.argument_bytes_max, shapes=share.engine.shapes
        )
        self.session: Optional[Session] = None
        # -- requests to the transport
        self.wants_turn = False
        self.is_reading = True
        self.ending = OPEN
        self._output: list[bytes] = []
        # The transport is to report how much is unsent: after it wrote the newest output, or before
        # it hands over input or runs a turn.
        self.measures_output = False
        self.measures_before = False
        # -- reports of the transport
        self._output_full = False
        self._input_ended = False
        # -- state
        # No more commands are executed; the connection closes when its held replies have left.
        self._finishing = False
        # After wrong passwords of its address, a client without the password waits until `let_in`.
        self._login = FREE
        self._held_replies = 0
        self._held_bytes = 0
        # Steady time (ms) at which a closing connection is aborted.
        self.patience_ends_ms = 0

    def admit(self, session: Session) -> None:
        """The engine made a session for the client: its commands may be executed."""
        self.session = session
        self._share.by_session[session.session_id] = self

    def reject(self, text: bytes) -> None:
        """Sends the client an error, which begins with its code, and closes the connection."""
        self._write(b"-" + text + b"\r\n")
        self.close()

    # -- reports of the transport

    def received(self, data: bytes) -> None:
        """Takes bytes, and executes the commands that they complete."""
        self._counters.net_input_bytes += len(data)
        if self._finishing:
            return
        self._parser.feed(data)
        if not self.wants_turn:
            self._turn()
        elif self.session is not None:
            if self._parser.buffered() > self._limits.query_bytes_of(self.session):
                self._holds_too_much(self.session, False)

    def turn(self) -> None:
        """Runs the turn that `wants_turn` requested."""
        self.wants_turn = False
        self._turn()

    def input_ended(self) -> None:
        """The client has ended its output.

        Commands already received are still answered. A client that waits for a blocked command
        counts as gone.
        """
        self._input_ended = True
        self._settle()

    def lost(self) -> None:
        """The connection is gone."""
        self._end_session()
        self._end()

    def output_is_full(self) -> None:
        """The transport holds `OUTPUT_HIGH_BYTES`."""
        self._output_full = True

    def output_has_room(self) -> None:
        """The transport has sent all but `OUTPUT_LOW_BYTES`."""
        self._output_full = False
        self._request_turn()

    def measure(self) -> None:
        """Makes the transport report how much output is unsent."""
        self.measures_output = True

    def unsent(self, size: int) -> None:
        """The transport holds `size` bytes of unsent output."""
        self.measures_output = False
        self.measures_before = False
        self._measured(self._held_bytes + size)

    def memory(self) -> int:
        """Bytes of input, output and queued commands that the client holds."""
        session = self.session
        if session is None:
            return 0
        return session.query_bytes + session.output_bytes + session.transaction.queued_bytes

    # -- output for the transport

    def take_output(self) -> bytes:
        """Bytes to write now; empty if there are none."""
        output = self._output
        if not output:
            return b""
        self._output = []
        data = output[0] if len(output) == 1 else b"".join(output)
        self._counters.net_output_bytes += len(data)
        session = self.session
        self.measures_output = session is not None and (
            session.output_bytes > 0 or len(data) > SMALL_OUTPUT_BYTES
        )
        if session is not None and not session.authenticated:
            self.measures_output = False
            self.measures_before = True
        return data

    # -- executing

    def _turn(self) -> None:
        session = self.session
        if session is None:
            return
        too_much_held = self._held_bytes > OUTPUT_HIGH_BYTES
        if self._finishing or session.waiting or self._output_full or too_much_held:
            self._settle()
            return
        knew_password = session.authenticated
        if not knew_password and self._must_wait(session):
            self._settle()
            return
        out: list[bytes] = []
        execution = self._share.execution
        if execution.turn(session, self._parser, out):
            self.wants_turn = True
        if execution.failed_login:
            self._share.login_failed(session)
        elif not knew_password and session.authenticated:
            self._share.logins.passed(session.address)
        if execution.closes:
            self._finishing = True
        if out:
            self._send(out[0] if len(out) == 1 else b"".join(out), execution.reflects)
        self._settle()

    def _must_wait(self, session: Session) -> bool:
        """Whether the client must wait because wrong passwords came from its address."""
        logins, now_ms = self._share.logins, self._clock.steady_ms()
        asks = self._login != LET_IN and self._parser.buffered() > 0
        is_delayed = asks and logins.must_wait(session.address, self, now_ms)
        self._login = DELAYED if is_delayed else FREE
        return is_delayed

    def let_in(self) -> None:
        """The delay is over: the next command may be executed."""
        self._login = LET_IN
        self._request_turn()

    def answer(self, reply: Reply) -> None:
        """Sends the reply of a command that had waited; the commands after it continue."""
        session = self.session
        if session is None:
            return
        if not isinstance(reply, NoReply):
            out: list[bytes] = []
            encode(reply, session.protocol, out)
            self._send(b"".join(out), True)
        if session.closing:
            self._finishing = True
        self._request_turn()

    def _request_turn(self) -> None:
        """Requests a turn if commands may now be executed or the connection may now close."""
        if self._finishing or self._input_ended or self._parser.buffered() > 0:
            self.wants_turn = True

    # -- sending

    def _send(self, data: bytes, reflects: bool) -> None:
        """Sends replies, or holds them until the state that they reflect is on disk."""
        position = self._engine.reply_position() if reflects else 0
        # A reply never overtakes held ones of its client.
        if self._held_replies > 0 or position > 0:
            self._share.held.hold(position, self, data)
            self._held_replies += 1
            self._held_bytes += len(data)
            self._measured(self._held_bytes)
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self.ending == OPEN:
            self._output.append(data)

    def release(self, data: bytes) -> None:
        """Sends a held reply whose commit is now on disk."""
        self._held_replies -= 1
        self._held_bytes -= len(data)
        self._write(data)
        if self._held_replies == 0:
            self._request_turn()

    def _measured(self, size: int) -> None:
        """Notes `size` unsent bytes; above ``client-output-limit`` the client is disconnected."""
        session = self.session
        if session is None:
            return
        self._share.unsent.change(session.output_bytes, size)
        session.output_bytes = size
        limit = self._limits.output_bytes_of(session)
        if 0 < limit < size:
            self._share.tell_closed(session, "its unsent replies exceed", "client-output-limit")
            self._counters.output_limit_disconnections += 1
            self.abort()

    # -- reading and closing

    def _settle(self) -> None:
        """Decides after every event whether to read on and whether to close."""
        session = self.session
        if session is None:
            return
        idle = not self.wants_turn and not self._output_full and self._held_replies == 0
        idle = idle and self._login != DELAYED
        if self._finishing or self._input_ended:
            if self._held_replies == 0 and (self._finishing or idle or session.waiting):
                self.close()
            return
        buffered = self._parser.buffered()
        if buffered != session.query_bytes:
            self._share.query_bytes += buffered - session.query_bytes
            session.query_bytes = buffered
        if buffered <= self._limits.query_bytes_of(session):
            self.is_reading = True
        else:
            self._holds_too_much(session, idle and not session.waiting)

    def _holds_too_much(self, session: Session, is_one_request: bool) -> None:
        """Reads on no further, or disconnects the client: a request would never be whole, or the
        password was not given, so that a further read could bring more than the limit.
        """
        if is_one_request or not session.authenticated:
            self._share.tell_closed(session, "a request exceeds", "client-query-buffer-limit")
            self._counters.query_limit_disconnections += 1
            self.close()
        elif not self._input_ended:
            self.is_reading = False

    def finish(self) -> None:
        """Executes no more commands, and closes once the held replies have left."""
        self._finishing = True
        self._settle()

    def close(self) -> None:
        """Closes once all output has been sent, or after `CLOSE_PATIENCE_MS`."""
        self._finishing = True
        self._end_session()
        if self.ending == OPEN:
            self.ending = CLOSING
            self.patience_ends_ms = self._clock.steady_ms() + CLOSE_PATIENCE_MS
            self._share.closing[self] = None

    def abort(self) -> None:
        """Closes without sending anything more."""
        self._finishing = True
        self._end_session()
        self._end()

    def _end(self) -> None:
        self.ending = ABORTED
        self._output = []
        self._share.closing.pop(self, None)

    def _end_session(self) -> None:
        """Ends the session in the engine, once."""
        session, self.session = self.session, None
        if session is not None:
            self._share.unsent.change(session.output_bytes, 0)
            self._share.query_bytes -= session.query_bytes
            self._share.logins.forget(self)
            del self._share.by_session[session.session_id]
            self._engine.disconnect(session)
