"""Answers to CRDT.HISTORY, CRDT.EXPLAIN and CRDT.EFFECTS from the log on disk. Sans-IO.

One question is answered at a time, and its rows are read in slices, so that the region goes on
serving. A question first waits until everything that it may tell is on disk (S2.4). Of the history
of a key, rows in stretches of the log that cannot change the key are not read
(`region.storage.key_index`). Effects of one region are found by the index of the log by region.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Optional, Union

from anabranch.crdt.encoding import Malformed
from anabranch.region.driver.effect_log import EffectLog
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.questions import EffectsQuestion, HistoryQuestion, Question
from anabranch.region.storage.history import FindKey, Reach, ReadBlocks, ReadRows

# Bytes of bodies read and searched at once.
_SLICE_BYTES: Final = 128 << 10

Read = Union[FindKey, ReadRows, ReadBlocks]


class Histories:
    """The questions that wait for an answer from the log."""

    def __init__(self, engine: Engine, log: EffectLog) -> None:
        self._engine: Final = engine
        self._log: Final = log
        self._waiting: Final[deque[Question]] = deque()
        # Of the first question: the answer to FindKey, and the position up to which rows are taken.
        # For the effects of a region: whether the last read found blocks.
        self._reach: Optional[Reach] = None
        self._position = 0
        self._has_more = True
        self._is_reading = False

    def next_read(self) -> Optional[Read]:
        """The read to perform now; None if none is due."""
        self._waiting.extend(self._engine.questions.take())
        while self._waiting and not self._is_reading:
            question = self._waiting[0]
            if not self._engine.questions.is_wanted(question):
                self._engine.questions.fail(question, "the client is gone")
                self._next_question()
                continue
            if self._engine.committed_position < question.last_position:
                self._engine.disk.want_commit()
                return None
            read = self._read_for(question)
            self._is_reading = read is not None
            if read is not None:
                return read
            self._answer(question)
        return None

    def _read_for(self, question: Question) -> Optional[Read]:
        """The next read that a question needs; None if everything is read."""
        if isinstance(question, EffectsQuestion):
            effects = question.effects
            if effects.is_full or not self._has_more:
                return None
            return ReadBlocks(effects.origin, effects.up_to, question.last_position, _SLICE_BYTES)
        assert isinstance(question, HistoryQuestion)
        if self._reach is None:
            wanted = question.history.wanted
            return FindKey(wanted.key, wanted.entry_id, wanted.has_entries)
        last = self._skip(question.last_position)
        return ReadRows(self._position, last, _SLICE_BYTES) if self._position < last else None

    def _skip(self, last_position: int) -> int:
        """Skips the stretches that begin here; returns the position before the next one."""
        assert self._reach is not None
        for first, last in self._reach.excluded:
            if first > self._position + 1:
                return min(first - 1, last_position)
            self._position = max(self._position, last)
        return last_position

    def read(self, request: Read, result: Any) -> None:
        """The disk has answered a read."""
        self._is_reading = False
        question = self._waiting[0]
        if isinstance(question, EffectsQuestion):
            self._has_more = bool(result)
            try:
                question.effects.take(result)
            except Malformed as error:
                self.cannot_read(str(error))
            return
        assert isinstance(question, HistoryQuestion)
        if isinstance(request, FindKey):
            self._reach = result
            self._position = max(question.first_position, result.oldest) - 1
            question.history.reaches(self._log.tail.floor)
            return
        assert isinstance(request, ReadRows)
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

    def _answer(self, question: Question) -> None:
        floor = self._log.tail.floor
        if isinstance(question, EffectsQuestion):
            self._engine.questions.answer_effects(question, floor)
        else:
            assert isinstance(question, HistoryQuestion)
            reach = self._reach
            assert reach is not None
            self._engine.questions.answer(question, reach.oldest, reach.oldest_ms, floor)
        self._next_question()

    def _next_question(self) -> None:
        self._waiting.popleft()
        self._reach = None
        self._has_more = True
