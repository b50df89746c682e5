"""Answers of CRDT.HISTORY and CRDT.EXPLAIN, read from the log on disk. Sans-IO; part of the driver.

One question is answered at a time, and its rows are read in slices, so that the region goes on
serving. A question first waits until everything that it may tell is on disk (S2.4). Rows in
stretches of the log that cannot change its key are not read (`region.storage.key_index`).
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Optional, Union

from anabranch.crdt.encoding import Malformed
from anabranch.region.effect_log import EffectLog
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.questions import HistoryQuestion
from anabranch.region.storage.history import FindKey, Reach, ReadRows

# Bytes of bodies read and searched at once.
_SLICE_BYTES: Final = 128 << 10


class Histories:
    """The questions that wait for an answer from the log."""

    def __init__(self, engine: Engine, log: EffectLog) -> None:
        self._engine: Final = engine
        self._log: Final = log
        self._waiting: Final[deque[HistoryQuestion]] = deque()
        # Of the first question: the answer to FindKey, and the position up to which rows are taken.
        self._reach: Optional[Reach] = None
        self._position = 0
        self._is_reading = False

    def next_read(self) -> Optional[Union[FindKey, ReadRows]]:
        """The read to perform now; None if none is due."""
        self._waiting.extend(self._engine.questions.take())
        while self._waiting and not self._is_reading:
            question = self._waiting[0]
            if not self._engine.questions.is_wanted(question):
                self._engine.questions.fail(question, "the client is gone")
                self._next_question()
                continue
            if self._engine.committed_position < question.last_position:
                self._engine.want_commit()
                return None
            if self._reach is None:
                self._is_reading = True
                return FindKey(question.history.wanted.key)
            last = self._skip(question.last_position)
            if self._position >= last:
                self._answer(question)
                continue
            self._is_reading = True
            return ReadRows(self._position, last, _SLICE_BYTES)
        return None

    def _skip(self, last_position: int) -> int:
        """Skips the stretches that begin here; returns the position before the next one."""
        assert self._reach is not None
        for first, last in self._reach.excluded:
            if first > self._position + 1:
                return min(first - 1, last_position)
            self._position = max(self._position, last)
        return last_position

    def read(self, request: Union[FindKey, ReadRows], result: Any) -> None:
        """The disk has answered a read."""
        self._is_reading = False
        question = self._waiting[0]
        if isinstance(request, FindKey):
            self._reach = result
            self._position = max(question.first_position, result.oldest) - 1
            question.history.reaches(self._log.tail.floor)
            return
        self._position = result[-1].position if result else request.last
        try:
            is_more_wanted = question.history.take(result)
        except Malformed as error:
            self.cannot_read(str(error))
            return
        if not is_more_wanted:
            self._answer(question)

    def cannot_read(self, error: str) -> None:
        """The read failed: the client hears why."""
        self._is_reading = False
        self._engine.questions.fail(self._waiting[0], error)
        self._next_question()

    def commit_failed(self, error: str) -> None:
        """A commit failed: the questions that wait for it are not answered (S13.4)."""
        while self._waiting and not self._is_reading:
            self.cannot_read(error)

    def _answer(self, question: HistoryQuestion) -> None:
        reach = self._reach
        assert reach is not None
        self._engine.questions.answer(question, reach.oldest, reach.oldest_ms, self._log.tail.floor)
        self._next_question()

    def _next_question(self) -> None:
        self._waiting.popleft()
        self._reach = None
