"""Measures how long commands take, with few readings of the clock. Sans-IO.

A turn executes many commands of one client. Two readings per command would cost a pipeline of adds
a tenth of its throughput. So a **run** of equal commands is measured as a whole: the clock is read
where the command changes, and at the end of the turn.
"""

from __future__ import annotations

from typing import Final

from anabranch.region.clock import Clock
from anabranch.region.engine.session import Session
from anabranch.region.engine.statistics import CommandStatistics


class CommandTimer:
    """The timer of the turn that is under way; turns of different clients never overlap."""

    def __init__(self, statistics: CommandStatistics, clock: Clock) -> None:
        self._statistics: Final = statistics
        # The method, because looking it up costs as much as calling it.
        self._steady_ns: Final = clock.steady_ns
        self._began_ns = 0
        # The first word of the commands of the run, and their number.
        self._word = b""
        self._commands = 0
        # The word is a container's: the next command may be another subcommand of it.
        self._is_container = False

    def begin(self) -> None:
        """A turn begins."""
        self._commands = 0
        self._began_ns = self._steady_ns()

    def before(self, session: Session, word: bytes) -> None:
        """A command is about to be executed; `word` is its first word.

        A container is timed anew each time, because the same word may be another subcommand.
        """
        if self._commands:
            if self._commands == 1:
                self._is_container = b"|" in session.last_command
            if word == self._word and not self._is_container:
                self._commands += 1
                return
            self.end(session)
        self._word = word
        self._commands = 1

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
            self._began_ns = now_ns
            self._commands = 0
