"""Measures how long commands take, with few readings of the clock. Sans-IO.

A turn executes many commands of one client. Two readings per command would cost a pipeline of adds
a tenth of its throughput. So a **run** of equal commands is measured as a whole: the clock is read
where the command changes, and at the end of the turn.
"""

from __future__ import annotations

from typing import Final, Optional, Protocol

from anabranch.region.driver.clock import Clock
from anabranch.region.engine.session import Session
from anabranch.region.engine.statistics import CommandStatistics

_NO_COMMAND: Final[list[bytes]] = []


class TimedEngine(Protocol):
    """What the timer needs of the engine. `Engine` documents it."""

    @property
    def statistics(self) -> CommandStatistics: ...

    def note_slow(
        self,
        session: Session,
        argv: list[bytes],
        queued: Optional[list[list[bytes]]],
        calls: int,
        time_us: int,
        now_ms: int,
    ) -> None: ...


class CommandTimer:
    """The timer of the turn that is under way; turns of different clients never overlap."""

    def __init__(self, engine: TimedEngine, clock: Clock) -> None:
        self._engine: Final = engine
        self._statistics: Final = engine.statistics
        self._slow_log: Final = engine.statistics.slow_log
        self._clock: Final = clock
        # The method, because looking it up costs as much as calling it.
        self._steady_ns: Final = clock.steady_ns
        self._began_ns = 0
        # The first word of the commands of the run, and their number.
        self._word = b""
        self._commands = 0
        # The last command of the run that was read by itself, and what MULTI had queued before the
        # run. They are kept for the slow log.
        self._command = _NO_COMMAND
        self._queued: Optional[list[list[bytes]]] = None
        # The word is a container's: the next command may be another subcommand of it.
        self._is_container = False

    def begin(self) -> None:
        """A turn begins."""
        self._commands = 0
        self._began_ns = self._steady_ns()

    def before(self, session: Session, command: list[bytes]) -> None:
        """A command is about to be executed.

        A container is timed anew each time, because the same word may be another subcommand.
        """
        word = command[0]
        if self._commands:
            if self._commands == 1:
                self._is_container = b"|" in session.last_command
            if word == self._word and not self._is_container:
                self._commands += 1
                self._command = command
                return
            self.end(session)
        self._word = word
        self._commands = 1
        self._command = command
        self._queued = session.transaction.queued

    def further(self, count: int) -> None:
        """So many commands with the word of the last one were executed."""
        self._commands += count

    def end(self, session: Session) -> None:
        """The run is over: the turn ends, or another command follows.

        Commands that MULTI queues are not counted: EXEC takes their time.
        """
        if self._commands:
            now_ns = self._steady_ns()
            if session.last_command and session.transaction.queued is None:
                time_us = (now_ns - self._began_ns) // 1000
                self._statistics.count_time(session.last_command, self._commands, time_us)
                if time_us >= self._slow_log.least_us:
                    self._note_slow(session, time_us)
            self._began_ns = now_ns
            self._commands = 0
            self._command = _NO_COMMAND
            self._queued = None

    def _note_slow(self, session: Session, time_us: int) -> None:
        """The run was slow.

        The slow log shows its last command: a turn ends soon after a slow command. So if one
        command of the run took long, it was most likely one of the last.
        """
        now_ms = self._clock.now_ms()
        self._engine.note_slow(
            session, self._command, self._queued, self._commands, time_us, now_ms
        )
