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

Replies that depend on data which must first be on disk (``appendfsync always``, S13.2) are held.
Every reply after a held reply is held as well, so that replies leave in order. The replies of one
turn leave or wait together.

After each call the transport performs the requests of the connection: `take_output`,
`wants_turn`, `is_reading`, `ending`.
"""

from __future__ import annotations

import logging
from typing import Final, Optional, Protocol

from librt.strings import BytesWriter

from anabranch.region.client_pressure import LineLimit, UnsentOutput
from anabranch.region.clock import Clock
from anabranch.region.command_timer import CommandTimer
from anabranch.region.engine.adds import AddedIds
from anabranch.region.engine.replies import EntriesReply, NoReply, PendingReply, Reply, ReplyLater
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.statistics import CommandStatistics
from anabranch.region.held_replies import HeldReplies, must_wait
from anabranch.region.resp.encoder import encode, encode_error
from anabranch.region.resp.entries import put_ids
from anabranch.region.resp.like import LikeAdds
from anabranch.region.resp.parser import ProtocolError, RequestParser

log = logging.getLogger(__name__)

TURN_MS: Final = 2
TURN_PIECES: Final = 8192
# Commands between two readings of the clock. After a reply that may be large, a list, the clock is
# read at once.
CLOCK_COMMANDS: Final = 32
# Adds of a run after the first. They take about as long as some four commands.
FOLLOWING_MAX: Final = 128
LARGE_REPLY_BYTES: Final = 4 << 10
TURN_LARGE_BYTES: Final = 1 << 20
# When the unsent replies of a client exceed the first limit, its commands are not executed until
# the unsent bytes fall below the second limit.
OUTPUT_HIGH_BYTES: Final = 16 << 20
OUTPUT_LOW_BYTES: Final = 4 << 20
# After output up to this size the transport need not report how much is unsent: the socket takes
# that much.
SMALL_OUTPUT_BYTES: Final = 16 << 10
# How long a closing connection may take to send its remaining output.
CLOSE_PATIENCE_MS: Final = 5000

# States of a connection: open; closes once all output is sent; closes at once.
OPEN: Final = 0
CLOSING: Final = 1
ABORTED: Final = 2


class EngineInterface(Protocol):
    """The methods of the engine that client connections use."""

    @property
    def committed_position(self) -> int: ...

    @property
    def statistics(self) -> CommandStatistics: ...

    def connect(self, address: str, local_address: str, now_ms: int) -> Session: ...

    def disconnect(self, session: Session) -> None: ...

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> Reply: ...

    @property
    def gathered(self) -> frozenset[bytes]: ...

    def execute_many(
        self, session: Session, argv: list[bytes], last_words: list[bytes], now_ms: int
    ) -> list[Reply]: ...

    def adds_may_follow(self, session: Session, input_bytes: int) -> tuple[int, int, int]: ...

    def follow(self, session: Session, data: bytes, count: int) -> AddedIds: ...

    def follow_idempotent(
        self, session: Session, data: bytes, ends: list[int], iids: list[bytes]
    ) -> AddedIds: ...

    def adds_may_go_elsewhere(self, session: Session, input_bytes: int) -> int: ...

    def follow_elsewhere(
        self, session: Session, keys: list[bytes], data: bytes, ends: list[int]
    ) -> list[bytes]: ...

    def reflects(self, session: Session, reply: Reply) -> bool: ...

    def reply_position(self) -> int: ...


class ClientLimits:
    """Copies of the settings that connections need, in bytes.

    `turn_pieces` bounds the encoded pieces of replies in one turn.
    """

    def __init__(self, settings: Settings, turn_pieces: int = TURN_PIECES) -> None:
        self._settings: Final = settings
        self.turn_pieces: Final = turn_pieces
        self._seen = -1
        self.argument_bytes_max = 0
        self.query_bytes_max = 0
        self.output_bytes_max = 0
        # Replies wait for commits (`appendfsync always`).
        self.holds_replies = False
        self.refresh()

    def refresh(self) -> None:
        """Copies the current values if a setting changed."""
        settings = self._settings
        if self._seen != settings.changes:
            self._seen = settings.changes
            self.argument_bytes_max = settings.integer("proto-max-bulk-len")
            self.query_bytes_max = settings.integer("client-query-buffer-limit")
            self.output_bytes_max = settings.integer("client-output-limit")
            self.holds_replies = settings.text("appendfsync") == "always"


class ClientCounters:
    """Counters of all clients since the start, for INFO."""

    def __init__(self) -> None:
        self.connections_received = 0
        self.rejected_connections = 0
        self.net_input_bytes = 0
        self.net_output_bytes = 0
        self.protocol_errors = 0
        self.internal_errors = 0
        self.query_limit_disconnections = 0
        self.output_limit_disconnections = 0
        self.idle_disconnections = 0


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
        self.timer: Final = CommandTimer(engine.statistics, clock)
        self.held: Final[HeldReplies[ClientConnection]] = HeldReplies()
        self.lines: Final = LineLimit()
        self.unsent: Final = UnsentOutput()
        self.by_session: Final[dict[int, ClientConnection]] = {}
        self.closing: Final[dict[ClientConnection, None]] = {}


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
        self._parser: Final = RequestParser(share.limits.argument_bytes_max)
        # Names of commands that are executed together with those like them that follow.
        self._gathered: Final = share.engine.gathered
        self.session: Optional[Session] = None
        # -- requests to the transport
        self.wants_turn = False
        self.is_reading = True
        self.ending = OPEN
        self._output: list[bytes] = []
        # After it wrote the newest output, the transport is to report how much is unsent.
        self.measures_output = False
        # -- reports of the transport
        self._output_full = False
        self._input_ended = False
        # -- state
        # No more commands are executed; the connection closes when its held replies have left.
        self._finishing = False
        self._held_replies = 0
        self._held_bytes = 0
        # Steady time (ms) at which a closing connection is aborted.
        self.patience_ends_ms = 0
        # A reply of the current turn depends on data, or no reply can wait.
        self._reflects = False

    def admit(self, session: Session) -> None:
        """The engine made a session for the client: its commands may be executed."""
        self.session = session
        self._share.by_session[session.session_id] = self

    def reject(self, text: bytes) -> None:
        """Sends the client an error and closes the connection."""
        self._write(b"-ERR " + text + b"\r\n")
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
        elif self._parser.buffered() > self._limits.query_bytes_max:
            self._stop_reading()

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
        self._measured(self._held_bytes + size)

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
        self._limits.refresh()
        self._parser.argument_bytes_max = self._limits.argument_bytes_max
        out: list[bytes] = []
        # Where no replies are held, the question is not asked for each command.
        self._reflects = not self._limits.holds_replies
        timer = self._share.timer
        timer.begin()
        if self._execute(session, out):
            self.wants_turn = True
        timer.end(session)
        if out:
            self._send(out[0] if len(out) == 1 else b"".join(out))
        self._settle()

    def _execute(self, session: Session, out: list[bytes]) -> bool:
        """Executes commands up to the limits of a turn, appending their replies to `out`.

        Returns True if more commands may be executed at once, in a further turn.
        """
        now_ms = session.active_ms = self._clock.now_ms()
        end_ms = now_ms + TURN_MS
        engine = self._engine
        parser = self._parser
        timer = self._share.timer
        until_clock = CLOCK_COMMANDS
        large_bytes = 0
        try:
            while True:
                parser.authenticated = session.authenticated
                command = parser.next()
                if command is None:
                    return False
                timer.before(session, command[0])
                reply = self._run(session, command, now_ms, out)
                if isinstance(reply, ReplyLater):
                    return False
                if not isinstance(reply, NoReply):
                    encode(reply, session.protocol, out)
                    if not self._reflects:
                        self._reflects = engine.reflects(session, reply)
                if session.closing:
                    self._finishing = True
                    return False
                until_clock -= 1
                if isinstance(reply, bytes):
                    if len(reply) > LARGE_REPLY_BYTES:
                        large_bytes += len(reply)
                    else:
                        self._follow(session, out)
                elif isinstance(reply, EntriesReply):
                    large_bytes += reply.entries.size()
                    until_clock -= reply.entries.count
                elif isinstance(reply, (list, PendingReply)):
                    until_clock = 0
                if until_clock <= 0:
                    until_clock = CLOCK_COMMANDS
                    now_ms = self._clock.now_ms()
                    if now_ms >= end_ms:
                        return True
                if len(out) > self._limits.turn_pieces or large_bytes > TURN_LARGE_BYTES:
                    return True
        except ProtocolError as error:
            self._counters.protocol_errors += 1
            out.append(encode_error("ERR " + error.text))
        except Exception:
            # A bug of the region, not an error of the client. The connection is closed, INFO counts
            # the error, and the region continues.
            if (more := self._line("internal error")) is not None:
                text = "a command of client %s failed with an internal error%s"
                log.exception(text, session.address, more)
            self._counters.internal_errors += 1
            out.append(encode_error("ERR internal error; the connection is closed"))
        self._finishing = True
        return False

    def _run(self, session: Session, command: list[bytes], now_ms: int, out: list[bytes]) -> Reply:
        """Executes a command, and with some those that follow and differ in their last word only.

        Appends the replies of all but the last one to `out`, and returns that of the last one.
        """
        parser = self._parser
        if command[0] not in self._gathered or not parser.has_more():
            return self._engine.execute(session, command, now_ms)
        words = parser.take_last_words(len(command), CLOCK_COMMANDS)
        if not words:
            return self._engine.execute(session, command, now_ms)
        replies = self._engine.execute_many(session, command, words, now_ms)
        parser.give_back(len(words) + 1 - len(replies))
        last = replies.pop()
        for reply in replies:
            encode(reply, session.protocol, out)
            if not self._reflects:
                self._reflects = self._engine.reflects(session, reply)
        self._share.timer.further(len(replies))
        return last

    def _follow(self, session: Session, out: list[bytes]) -> None:
        """Executes XADDs that follow the last command, if that was one and they are like it."""
        alike = self._parser.count_alike()
        if alike == 2:
            self._follow_run(session, out)
        elif alike == 1:
            self._follow_elsewhere(session, out)

    def _follow_run(self, session: Session, out: list[bytes]) -> None:
        """Executes the adds that follow the last command, if it began a run (`engine/adds.py`).

        Appends their replies to `out`.
        """
        parser, engine = self._parser, self._engine
        allowed, first_value, iid_at = engine.adds_may_follow(session, parser.buffered())
        if allowed == 0:
            return
        adds = LikeAdds(first_value, max(iid_at, 0), notes_each=iid_at >= 0)
        parser.take_like(adds, min(allowed, FOLLOWING_MAX))
        if adds.count == 0:
            return
        if iid_at < 0:
            added = engine.follow(session, adds.data(), adds.count)
        else:
            added = engine.follow_idempotent(session, adds.data(), adds.ends, adds.others)
            parser.give_back(adds.count - added.count)
        if added.count:
            replies = BytesWriter()
            put_ids(added.ms, added.first_seq, added.count, replies)
            out.append(replies.getvalue())
            self._share.timer.further(added.count)

    def _follow_elsewhere(self, session: Session, out: list[bytes]) -> None:
        """Executes the XADDs after the last one that differ from it in key and values only.

        Appends their replies to `out`.
        """
        parser, engine = self._parser, self._engine
        first_value = engine.adds_may_go_elsewhere(session, parser.buffered())
        if first_value == 0:
            return
        adds = LikeAdds(first_value, 1, notes_each=True, as_entries=False)
        parser.take_like(adds, FOLLOWING_MAX)
        if adds.count == 0:
            return
        replies = engine.follow_elsewhere(session, adds.others, adds.data(), adds.ends)
        parser.give_back(adds.count - len(replies))
        for reply in replies:
            encode(reply, session.protocol, out)
        self._share.timer.further(len(replies))

    def answer(self, reply: Reply) -> None:
        """Sends the reply of a command that had waited; the commands after it continue."""
        session = self.session
        if session is None:
            return
        if not isinstance(reply, NoReply):
            out: list[bytes] = []
            encode(reply, session.protocol, out)
            self._reflects = True
            self._send(b"".join(out))
        if session.closing:
            self._finishing = True
        self._request_turn()

    def _request_turn(self) -> None:
        """Requests a turn if commands may now be executed or the connection may now close."""
        if self._finishing or self._input_ended or self._parser.buffered() > 0:
            self.wants_turn = True

    # -- sending

    def _send(self, data: bytes) -> None:
        """Sends replies, or holds them until the state that they reflect is on disk."""
        position = self._engine.reply_position() if self._reflects else 0
        if must_wait(position, self._engine.committed_position, self._held_replies):
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
        limit = self._limits.output_bytes_max
        if 0 < limit < size:
            if (more := self._line("client-output-limit")) is not None:
                text = "client %s closed: its unsent replies exceed client-output-limit%s"
                log.warning(text, session.address, more)
            self._counters.output_limit_disconnections += 1
            self.abort()

    def _line(self, cause: str) -> Optional[str]:
        """The end of a line of the log about this client, or None: see `LineLimit.line`."""
        return self._share.lines.line(cause, self._clock.steady_ms())

    # -- reading and closing

    def _settle(self) -> None:
        """Decides after every event whether to read on and whether to close."""
        session = self.session
        if session is None:
            return
        idle = not self.wants_turn and not self._output_full and self._held_replies == 0
        if self._finishing or self._input_ended:
            if self._held_replies == 0 and (self._finishing or idle or session.waiting):
                self.close()
            return
        buffered = self._parser.buffered()
        session.query_bytes = buffered
        if buffered <= self._limits.query_bytes_max:
            self.is_reading = True
        elif idle and not session.waiting:
            if (more := self._line("client-query-buffer-limit")) is not None:
                text = "client %s closed: a request exceeds client-query-buffer-limit%s"
                log.warning(text, session.address, more)
            self._counters.query_limit_disconnections += 1
            self.close()
        else:
            self._stop_reading()

    def _stop_reading(self) -> None:
        if not self._input_ended:
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
            del self._share.by_session[session.session_id]
            self._engine.disconnect(session)
