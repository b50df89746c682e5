"""The turns of clients: commands that were parsed are executed, and their replies encoded. Sans-IO.

A turn stops early when it has lasted `TURN_MS` or produced much output, so that the pipeline of one
client does not starve the others. A client that has not given the password gets few commands per
turn, and a wrong password ends it. Commands that are alike and follow each other are executed
together, as a batch (`region/engine/batch.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Optional, Protocol

from anabranch.region.driver.client_limits import ClientCounters, ClientLimits
from anabranch.region.driver.clock import Clock
from anabranch.region.driver.command_timer import CommandTimer, TimedEngine
from anabranch.region.engine.adds import FOLLOWING_MAX
from anabranch.region.engine.batch import Batch, Shape
from anabranch.region.engine.replies import EntriesReply, NoReply, PendingReply, Reply, ReplyLater
from anabranch.region.engine.session import Session
from anabranch.region.resp.encoder import encode, encode_error
from anabranch.region.resp.parser import HttpRequest, ProtocolError, RequestParser

log = logging.getLogger(__name__)

TURN_MS: Final = 2
# Batches between two readings of the clock. After a reply that may be large, a list, the clock is
# read at once.
CLOCK_COMMANDS: Final = 32
# Commands that are executed alone after none of those taken with one could be executed with it.
ALONE_AFTER: Final = 16
# Commands in a turn of a client that has not given the password.
STRANGER_COMMANDS: Final = 16
LARGE_REPLY_BYTES: Final = 4 << 10
TURN_LARGE_BYTES: Final = 1 << 20


class ExecutingEngine(TimedEngine, Protocol):
    """The methods of the engine that execute commands. `Engine` documents each."""

    @property
    def shapes(self) -> Mapping[bytes, Sequence[Shape]]: ...

    def execute_batch(
        self, session: Session, batch: Batch, now_ms: int
    ) -> tuple[list[Reply], int]: ...

    def reflects(self, session: Session, reply: Reply) -> bool: ...


class EngineInterface(ExecutingEngine, Protocol):
    """The methods of the engine that client connections use."""

    def connect(self, address: str, local_address: str, now_ms: int) -> Session: ...

    def disconnect(self, session: Session) -> None: ...

    def reply_position(self) -> int: ...


class Ahead:
    """How many of the commands that follow are parsed at once: fewer while they are given back.

    Commands that are given back are parsed again. A pipeline in which each of them is, such as adds
    to new keys, would have each command parsed as often as commands are taken at once.
    """

    def __init__(self) -> None:
        self._most = FOLLOWING_MAX
        # So many commands are executed alone before others are taken with one again.
        self._alone = 0

    def begin(self) -> None:
        """A turn begins, with the commands of another client."""
        self._most = FOLLOWING_MAX
        self._alone = 0

    def most(self) -> int:
        """How many commands to take with the present one, which may be none."""
        if self._alone:
            self._alone -= 1
            return 0
        return self._most

    def took(self, count: int, executed: int) -> None:
        """Of `count` commands that were taken, the first `executed` were executed."""
        if executed == count:
            self._most = min(2 * self._most, FOLLOWING_MAX)
        else:
            self._most = max(executed, 1)
            if not executed:
                self._alone = ALONE_AFTER


class CommandExecution:
    """Executes the turns of all clients, one after the other.

    After a turn, `reflects` says whether a reply depends on data that must be on disk before it
    leaves (S13.2), `closes` whether the connection executes no more commands and closes, and
    `failed_login` whether a client without the password has given a wrong one.

    An error of a client is a reply. Any other exception passes through, and the caller ends the
    process: a command that broke off may have changed memory and not the log (S13.10).
    """

    def __init__(
        self,
        engine: ExecutingEngine,
        clock: Clock,
        limits: ClientLimits,
        counters: ClientCounters,
        line: Callable[[str], Optional[str]],
    ) -> None:
        self.reflects = False
        self.closes = False
        self.failed_login = False
        self._engine: Final = engine
        # The method, because looking it up costs as much as calling it.
        self._now_ms: Final = clock.now_ms
        self._limits: Final = limits
        self._counters: Final = counters
        # The end of a line of the log about a client, by its cause; None: no line (`LineLimit`).
        self._line: Final = line
        self._timer: Final = CommandTimer(engine, clock)
        self._ahead: Final = Ahead()

    def turn(self, session: Session, parser: RequestParser, out: list[bytes]) -> bool:
        """Executes commands up to the limits of a turn, appending their replies to `out`.

        Returns True if more commands may be executed at once, in a further turn.
        """
        self._limits.refresh()
        parser.argument_bytes_max = self._limits.argument_bytes_max
        # Where no replies are held, the question is not asked for each command.
        self.reflects = not self._limits.holds_replies
        self.closes = False
        self.failed_login = False
        self._timer.begin()
        self._ahead.begin()
        has_more = self._execute(session, parser, out)
        self._timer.end(session)
        return has_more

    def _execute(self, session: Session, parser: RequestParser, out: list[bytes]) -> bool:
        now_ms = session.active_ms = self._now_ms()
        end_ms = now_ms + TURN_MS
        timer = self._timer
        until_clock = CLOCK_COMMANDS
        large_bytes = 0
        strangers = 0
        failures = 0 if session.authenticated else self._engine.statistics.wrong_passwords
        try:
            while True:
                is_known = parser.authenticated = session.authenticated
                batch = parser.next_batch(self._ahead.most())
                if batch is None:
                    return False
                timer.before(session, batch.first)
                replies, taken = self._engine.execute_batch(session, batch, now_ms)
                if batch.packed is not None:
                    self._took(parser, batch, taken)
                until_clock -= 1
                for reply in replies:
                    if isinstance(reply, ReplyLater):
                        return False
                    if not isinstance(reply, NoReply):
                        encode(reply, session.protocol, out)
                        if is_known and not self.reflects:
                            self.reflects = self._engine.reflects(session, reply)
                    if isinstance(reply, bytes):
                        if len(reply) > LARGE_REPLY_BYTES:
                            large_bytes += len(reply)
                    elif isinstance(reply, EntriesReply):
                        large_bytes += reply.entries.size()
                        until_clock -= reply.entries.count
                    elif isinstance(reply, (list, PendingReply)):
                        until_clock = 0
                if session.closing:
                    self.closes = True
                    return False
                if not is_known and not session.authenticated:
                    strangers += 1
                    self.failed_login = self._engine.statistics.wrong_passwords > failures
                    if self.failed_login or strangers == STRANGER_COMMANDS:
                        return True
                if until_clock <= 0:
                    until_clock = CLOCK_COMMANDS
                    now_ms = self._now_ms()
                    if now_ms >= end_ms:
                        return True
                if len(out) > self._limits.turn_pieces or large_bytes > TURN_LARGE_BYTES:
                    return True
        except ProtocolError as error:
            if isinstance(error, HttpRequest) and (more := self._line("HTTP")) is not None:
                text = "client %s closed: it sent an HTTP request to the port of Redis clients%s"
                log.warning(text, session.address, more)
            self._counters.protocol_errors += 1
            out.append(encode_error("ERR " + error.text))
        self.closes = True
        return False

    def _took(self, parser: RequestParser, batch: Batch, taken: int) -> None:
        """The engine has taken so many commands of the last batch; the rest is parsed again."""
        count = batch.count()
        self._timer.further(taken - 1)
        self._ahead.took(count - 1, taken - 1)
        if taken < count:
            parser.give_back(batch, taken)
