"""The turns of clients: commands that were parsed are executed, and their replies encoded. Sans-IO.

A turn stops early when it has lasted `TURN_MS` or produced much output, so that the pipeline of one
client does not starve the others. Commands that are alike and follow each other are executed
together (`Engine.execute_many`, `Engine.follow`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Optional, Protocol

from librt.strings import BytesWriter

from anabranch.region.driver.client_limits import ClientCounters, ClientLimits
from anabranch.region.driver.clock import Clock
from anabranch.region.driver.command_timer import CommandTimer, TimedEngine
from anabranch.region.engine.adds import AddedIds
from anabranch.region.engine.replies import EntriesReply, NoReply, PendingReply, Reply, ReplyLater
from anabranch.region.engine.session import Session
from anabranch.region.resp.encoder import encode, encode_error
from anabranch.region.resp.entries import put_ids
from anabranch.region.resp.like import LikeAdds
from anabranch.region.resp.parser import HttpRequest, ProtocolError, RequestParser

log = logging.getLogger(__name__)

TURN_MS: Final = 2
# Commands between two readings of the clock. After a reply that may be large, a list, the clock is
# read at once.
CLOCK_COMMANDS: Final = 32
# Adds of a run after the first. They take about as long as some four commands.
FOLLOWING_MAX: Final = 128
# Commands that are executed alone after none of those taken with one could be executed with it.
ALONE_AFTER: Final = 16
LARGE_REPLY_BYTES: Final = 4 << 10
TURN_LARGE_BYTES: Final = 1 << 20


class ExecutingEngine(TimedEngine, Protocol):
    """The methods of the engine that execute commands. `Engine` documents each."""

    @property
    def gathered(self) -> frozenset[bytes]: ...

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> Reply: ...

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
    leaves (S13.2), and `closes` whether the connection executes no more commands and closes.
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
        self._engine: Final = engine
        # The method, because looking it up costs as much as calling it.
        self._now_ms: Final = clock.now_ms
        self._limits: Final = limits
        self._counters: Final = counters
        # The end of a line of the log about a client, by its cause; None: no line (`LineLimit`).
        self._line: Final = line
        self._timer: Final = CommandTimer(engine, clock)
        # Names of commands that are executed together with those like them that follow.
        self._gathered: Final = engine.gathered
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
        self._timer.begin()
        self._ahead.begin()
        has_more = self._execute(session, parser, out)
        self._timer.end(session)
        return has_more

    def _execute(self, session: Session, parser: RequestParser, out: list[bytes]) -> bool:
        now_ms = session.active_ms = self._now_ms()
        end_ms = now_ms + TURN_MS
        engine = self._engine
        timer = self._timer
        until_clock = CLOCK_COMMANDS
        large_bytes = 0
        try:
            while True:
                parser.authenticated = session.authenticated
                command = parser.next()
                if command is None:
                    return False
                timer.before(session, command)
                reply = self._run(session, parser, command, now_ms, out)
                if isinstance(reply, ReplyLater):
                    return False
                if not isinstance(reply, NoReply):
                    encode(reply, session.protocol, out)
                    if not self.reflects:
                        self.reflects = engine.reflects(session, reply)
                if session.closing:
                    self.closes = True
                    return False
                until_clock -= 1
                if isinstance(reply, bytes):
                    if len(reply) > LARGE_REPLY_BYTES:
                        large_bytes += len(reply)
                    else:
                        self._follow(session, parser, out)
                elif isinstance(reply, EntriesReply):
                    large_bytes += reply.entries.size()
                    until_clock -= reply.entries.count
                elif isinstance(reply, (list, PendingReply)):
                    until_clock = 0
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
        except Exception:
            # A bug of the region, not an error of the client. The connection is closed, INFO counts
            # the error, and the region continues.
            if (more := self._line("internal error")) is not None:
                text = "a command of client %s failed with an internal error%s"
                log.exception(text, session.address, more)
            self._counters.internal_errors += 1
            out.append(encode_error("ERR internal error; the connection is closed"))
        self.closes = True
        return False

    def _run(
        self,
        session: Session,
        parser: RequestParser,
        command: list[bytes],
        now_ms: int,
        out: list[bytes],
    ) -> Reply:
        """Executes a command, and with some those that follow and differ in their last word only.

        Appends the replies of all but the last one to `out`, and returns that of the last one.
        """
        if command[0] not in self._gathered or not parser.has_more():
            return self._engine.execute(session, command, now_ms)
        most = self._ahead.most()
        words = parser.take_last_words(len(command), min(most, CLOCK_COMMANDS)) if most else []
        if not words:
            return self._engine.execute(session, command, now_ms)
        replies = self._engine.execute_many(session, command, words, now_ms)
        last = replies.pop()
        self._ahead.took(len(words), len(replies))
        parser.give_back(len(words) - len(replies))
        for reply in replies:
            encode(reply, session.protocol, out)
            if not self.reflects:
                self.reflects = self._engine.reflects(session, reply)
        self._timer.further(len(replies))
        return last

    def _follow(self, session: Session, parser: RequestParser, out: list[bytes]) -> None:
        """Executes XADDs that follow the last command, if that was one and they are like it."""
        alike = parser.count_alike()
        if alike == 2:
            self._follow_run(session, parser, out)
        elif alike == 1:
            self._follow_elsewhere(session, parser, out)

    def _follow_run(self, session: Session, parser: RequestParser, out: list[bytes]) -> None:
        """Executes the adds that follow the last command, if it began a run (`region/engine/adds.py`).

        Appends their replies to `out`.
        """
        engine = self._engine
        allowed, first_value, iid_at = engine.adds_may_follow(session, parser.buffered())
        if allowed == 0:
            return
        adds = LikeAdds(first_value, max(iid_at, 0), notes_each=iid_at >= 0)
        # Plain adds are never given back.
        most = FOLLOWING_MAX if iid_at < 0 else self._ahead.most()
        if most:
            parser.take_like(adds, min(allowed, most))
        if adds.count == 0:
            return
        if iid_at < 0:
            added = engine.follow(session, adds.data(), adds.count)
        else:
            added = engine.follow_idempotent(session, adds.data(), adds.ends, adds.others)
            self._ahead.took(adds.count, added.count)
            parser.give_back(adds.count - added.count)
        if added.count:
            replies = BytesWriter()
            put_ids(added.ms, added.first_seq, added.count, replies)
            out.append(replies.getvalue())
            self._timer.further(added.count)

    def _follow_elsewhere(self, session: Session, parser: RequestParser, out: list[bytes]) -> None:
        """Executes the XADDs after the last one that differ from it in key and values only.

        Appends their replies to `out`.
        """
        engine = self._engine
        most = self._ahead.most()
        if most == 0:
            return
        first_value = engine.adds_may_go_elsewhere(session, parser.buffered())
        if first_value == 0:
            return
        adds = LikeAdds(first_value, 1, notes_each=True, as_entries=False)
        parser.take_like(adds, most)
        if adds.count == 0:
            return
        replies = engine.follow_elsewhere(session, adds.others, adds.data(), adds.ends)
        self._ahead.took(adds.count, len(replies))
        parser.give_back(adds.count - len(replies))
        for reply in replies:
            encode(reply, session.protocol, out)
        self._timer.further(len(replies))
