"""The tap at an engine: makes a value of each call that has ended (`sim.calls`)."""

from __future__ import annotations

from typing import Final, Optional, Union

from anabranch.crdt.block import NO_CHAIN, Block, read_effects
from anabranch.crdt.effects import dots_of
from anabranch.crdt.gossip import Gossip, StartAnswer
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.replies import listed
from anabranch.region.engine.rows import BlockRow, LogRow, RecordsRow, SnapshotRow
from anabranch.region.engine.state import EngineState
from anabranch.sim import calls
from anabranch.sim.calls import Call, EngineFacts, Issued, RowFacts
from anabranch.sim.world.watchers import EngineWatcher


class Tap:
    """Tells the watcher of an engine's calls.

    It knows how far it has told: own counter, position, late replies, state of the lifecycle.
    """

    def __init__(self, state: EngineState, watcher: EngineWatcher) -> None:
        self.state: Final = state
        self.watcher: Final = watcher
        self._counter = state.disk.vector.get(state.members.region_id, 0)
        self._position = state.disk.position
        self._replies = 0
        self._lifecycle = ""

    def call(self, kind: str, now_ms: int, made: Optional[list[LogRow]] = None) -> Call:
        """The value of the call that has just ended. `made`: the rows of the commit it took."""
        state = self.state
        journal = state.journal
        new = [row for row in made or journal.rows if row.position > self._position]
        own = state.members.region_id
        late = state.outbox.replies[self._replies :]
        facts = EngineFacts(
            dict(state.keyspace.vector),
            journal.position,
            journal.has_open(),
            state.clock.now_ms,
            state.clock.steady_ms,
            state.stability.time.id_floor_ms,
            state.lifecycle.shown,
            state.disk.error,
            journal.pending_bytes(),
            (own, *state.members.others()),
        )
        call = Call(
            own,
            kind,
            now_ms,
            facts,
            self._issued(new),
            [_row(row) for row in new],
            [(one.session.session_id, listed(one.reply)) for one in late],
            state.settings.values,
        )
        self._counter = facts.vector.get(own, 0)
        self._position = journal.position
        self._replies = len(state.outbox.replies)
        self._lifecycle = facts.state
        return call

    def _issued(self, new: list[LogRow]) -> list[Issued]:
        """The effects issued since the last call: those of new blocks, and of the open one."""
        state = self.state
        found: list[Issued] = []
        if state.keyspace.vector.get(state.members.region_id, 0) > self._counter:
            blocks = [row.block for row in new if isinstance(row, BlockRow) and row.source == 0]
            for block in [*blocks, *_opened(state.journal)]:
                first = block.first
                for effect in read_effects(block) if block.last > self._counter else []:
                    if first + dots_of(effect) - 1 > self._counter:
                        found.append((first, effect))
                    first += dots_of(effect)
        return found

    def is_quiet(self) -> bool:
        """Whether nothing has happened since the last call that was told."""
        state = self.state
        return (
            state.journal.position == self._position
            and len(state.outbox.replies) == self._replies
            and state.lifecycle.shown == self._lifecycle
            and state.keyspace.vector.get(state.members.region_id, 0) == self._counter
        )

    def tell(self, kind: str, now_ms: int) -> None:
        """Tells of a call without values of its own; of a tick always, else if it did anything."""
        if kind == calls.TICK or not self.is_quiet():
            self.watcher.called(self.call(kind, now_ms))

    def heard(self, source: int, heard: Union[Gossip, StartAnswer], now_ms: int) -> None:
        """Tells of gossip or an answer, if it did anything."""
        if not self.is_quiet():
            call = self.call(calls.HEAR, now_ms)
            call.source, call.heard = source, heard
            self.watcher.called(call)

    def replies_are_taken(self) -> None:
        """The late replies leave the engine.

        Answers from the log on disk are made outside the engine's calls (`Questions`).
        """
        if len(self.state.outbox.replies) > self._replies:
            self.tell(calls.OTHER, 0)
        self._replies = 0


def _opened(journal: Journal) -> list[Block]:
    """The open block as it stands, if there is one."""
    writer = journal.writer
    if writer is None:
        return []
    return [Block(writer.origin, writer.first, writer.last, writer.body(), NO_CHAIN)]


def _row(row: LogRow) -> RowFacts:
    if isinstance(row, BlockRow):
        block = row.block
        return RowFacts(row.position, "block", block.origin, block.first, block.last)
    kind = "records" if isinstance(row, RecordsRow) else "clock"
    return RowFacts(row.position, "snapshot" if isinstance(row, SnapshotRow) else kind)
