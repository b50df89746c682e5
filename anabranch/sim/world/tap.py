"""An engine that tells of its calls, in their true order, as values (`sim.calls`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Optional, Union

from xxhash import xxh3_128

from anabranch.crdt.block import NO_CHAIN, Block, read_effects
from anabranch.crdt.effects import dots_of
from anabranch.crdt.gossip import Gossip, StartAnswer
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.snapshot import SnapshotCut
from anabranch.region.engine.batch import Batch, Packed
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.replies import Reply, listed
from anabranch.region.engine.rows import BlockRow, Commit, RecordsRow, SnapshotRow
from anabranch.region.engine.rows import Row as LogRow
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.sim import calls
from anabranch.sim.calls import Call, Facts, Following, Issued, Row, Vector
from anabranch.sim.world.watchers import EngineWatcher, JudgeFailed


class TappedCut(SnapshotCut):
    """A cut of a region that tells the digest of its chunks once they are made."""

    def __init__(self, cut: SnapshotCut, watcher: EngineWatcher) -> None:
        super().__init__(Keyspace(0, NodeLimits()), cut.position)
        self.vector, self.chains = cut.vector, cut.chains
        self.number: Final = watcher.new_cut()
        self._cut: Final = cut
        self._watcher: Final = watcher

    def chunks(self, bytes_max: int) -> Iterator[bytes]:
        digest = xxh3_128()
        waiting: Optional[bytes] = None
        for chunk in self._cut.chunks(bytes_max):
            if waiting is not None:
                yield waiting
            digest.update(chunk)
            waiting = chunk
        self._watcher.cut_sent(digest.digest(), self.number)
        assert waiting is not None
        yield waiting


class TappedEngine(Engine):
    """The real engine with unchanged behaviour."""

    def __init__(self, state: EngineState, watcher: EngineWatcher) -> None:
        self._watcher: Final = watcher
        # Own counter, position and replies that were told, and the state of the lifecycle.
        self._told_counter = state.disk.vector.get(state.members.region_id, 0)
        self._told_position = state.disk.position
        self._told_replies = 0
        self._told_state = ""
        super().__init__(state)

    # -- calls

    def _call(self, kind: str, now_ms: int, made: Optional[list[LogRow]] = None) -> Call:
        """The value of the call that has just ended. `made`: the rows of the commit it took."""
        state = self.state
        journal = state.journal
        new = [row for row in made or journal.rows if row.position > self._told_position]
        own = self.region_id
        counter = state.keyspace.vector.get(own, 0)
        issued: list[Issued] = []
        if counter > self._told_counter:
            blocks = [row.block for row in new if isinstance(row, BlockRow) and row.source == 0]
            for block in [*blocks, *_opened(journal)]:
                first = block.first
                for effect in read_effects(block) if block.last > self._told_counter else []:
                    if first + dots_of(effect) - 1 > self._told_counter:
                        issued.append((first, effect))
                    first += dots_of(effect)
        late = state.outbox.replies[self._told_replies :]
        facts = Facts(
            dict(state.keyspace.vector),
            journal.position,
            journal.has_open(),
            state.clock.now_ms,
            state.clock.steady_ms,
            state.stability.time.id_floor_ms,
            state.lifecycle.state,
            state.disk.error,
            journal.pending_bytes(),
        )
        call = Call(
            own,
            kind,
            now_ms,
            facts,
            issued,
            [_row(row) for row in new],
            [(one.session.session_id, listed(one.reply)) for one in late],
            state.settings.values,
        )
        self._told_counter = counter
        self._told_position = journal.position
        self._told_replies = len(state.outbox.replies)
        self._told_state = facts.state
        return call

    def _is_quiet(self) -> bool:
        """Whether nothing has happened since the last call that was told."""
        state = self.state
        return (
            state.journal.position == self._told_position
            and len(state.outbox.replies) == self._told_replies
            and state.lifecycle.state == self._told_state
            and state.keyspace.vector.get(self.region_id, 0) == self._told_counter
        )

    def _tell(self, kind: str, now_ms: int) -> None:
        """Tells of a call without values of its own; of a tick always, else if it did anything."""
        if kind == calls.TICK or not self._is_quiet():
            self._watcher.called(self._call(kind, now_ms))

    def began(self) -> None:
        """Tells of the start, which may have issued effects. The watcher has heard of it."""
        found = self.state.disk.position
        call = self._call(calls.START, self.state.clock.now_ms)
        call.position = found
        self._watcher.called(call)

    def execute_batch(self, session: Session, batch: Batch, now_ms: int) -> tuple[list[Reply], int]:
        try:
            replies, taken = super().execute_batch(session, batch, now_ms)
        except Exception as error:
            self._watcher.failed(error)
            raise
        try:
            call = self._call(calls.EXECUTE, now_ms)
            call.session, call.argv = session.session_id, tuple(batch.first)
            if batch.packed is not None and taken > 1:
                call.following = _following(batch.packed, taken - 1)
            # Judges see lists in place of entries. So the bytes that the client then gets are also
            # compared with those of the lists.
            call.replies = [listed(reply) for reply in replies]
            self._watcher.called(call)
        except Exception as error:
            raise JudgeFailed(error) from error
        return replies, taken

    def disconnect(self, session: Session) -> None:
        super().disconnect(session)
        call = self._call(calls.DISCONNECT, 0)
        call.session = session.session_id
        self._watcher.called(call)

    def take_replies(self) -> list[LateReply]:
        # Answers from the log on disk are made outside the engine's calls (`Questions`).
        if len(self.state.outbox.replies) > self._told_replies:
            self._tell(calls.OTHER, 0)
        self._told_replies = 0
        return super().take_replies()

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        self._tell(calls.TICK, now_ms)

    def take_commit(self, now_ms: int) -> Optional[Commit]:
        commit = super().take_commit(now_ms)
        if not (commit is None and self._is_quiet()):
            call = self._call(calls.COMMIT, now_ms, commit.rows if commit is not None else None)
            call.position = commit.position if commit is not None else None
            self._watcher.called(call)
        return commit

    def committed(self, now_ms: int) -> None:
        super().committed(now_ms)
        self._tell(calls.COMMITTED, now_ms)

    def cut_block(self) -> None:
        super().cut_block()
        self._tell(calls.OTHER, 0)

    def snapshot_cut(self) -> SnapshotCut:
        cut = TappedCut(super().snapshot_cut(), self._watcher)
        call = self._call(calls.CUT, 0)
        call.cut = cut.number
        self._watcher.called(call)
        return cut

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        is_taken = self._is_taken_from(source)
        try:
            super().merge(blocks, source, now_ms)
        finally:
            call = self._call(calls.MERGE, now_ms)
            call.source, call.blocks, call.is_taken = source, list(blocks), is_taken
            self._watcher.called(call)

    def merge_salvage(self, items: list[Block], now_ms: int) -> int:
        try:
            return super().merge_salvage(items, now_ms)
        finally:
            call = self._call(calls.MERGE, now_ms)
            call.source, call.blocks = self.region_id, list(items)
            self._watcher.called(call)

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        is_taken = self._is_taken_from(source)
        try:
            super().join(chunks, source, now_ms)
        finally:
            digest = xxh3_128()
            for chunk in chunks:
                digest.update(chunk)
            call = self._call(calls.JOIN, now_ms)
            call.source, call.is_taken = source, is_taken
            call.cut = self._watcher.cut_of(digest.digest())
            self._watcher.called(call)

    def hear_lives(self, lives: dict[int, int], now_ms: int) -> None:
        super().hear_lives(lives, now_ms)
        self._tell(calls.OTHER, now_ms)

    def peer_holds(self, peer: int, vector: Vector, now_ms: int) -> None:
        super().peer_holds(peer, vector, now_ms)
        self._tell(calls.OTHER, now_ms)

    def start_answered(self, peer: int, answer: StartAnswer, now_ms: int) -> None:
        super().start_answered(peer, answer, now_ms)
        self._heard(peer, answer, now_ms)

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        super().hear(gossip, now_ms)
        self._heard(0, gossip, now_ms)

    def _heard(self, source: int, heard: Union[Gossip, StartAnswer], now_ms: int) -> None:
        if not self._is_quiet():
            call = self._call(calls.HEAR, now_ms)
            call.source, call.heard = source, heard
            self._watcher.called(call)

    def link_refused(self, reason: str) -> None:
        super().link_refused(reason)
        call = self._call(calls.REFUSED, 0)
        call.how = reason
        self._watcher.called(call)

    def acknowledged(self, peer: int, vector: Vector, now_ms: int) -> None:
        super().acknowledged(peer, vector, now_ms)
        self._tell(calls.OTHER, now_ms)


def _opened(journal: Journal) -> list[Block]:
    """The open block as it stands, if there is one."""
    writer = journal.writer
    if writer is None:
        return []
    return [Block(writer.origin, writer.first, writer.last, writer.body(), NO_CHAIN)]


def _following(packed: Packed, count: int) -> Following:
    """The first `count` commands of those that follow the first one of a batch."""
    places = packed.places
    return Following(
        packed.shape.name,
        count,
        places.word,
        places.first_value,
        places.as_entries,
        packed.words,
        packed.data,
        packed.ends,
    )


def _row(row: LogRow) -> Row:
    if isinstance(row, BlockRow):
        block = row.block
        return Row(row.position, "block", block.origin, block.first, block.last)
    kind = "records" if isinstance(row, RecordsRow) else "clock"
    return Row(row.position, "snapshot" if isinstance(row, SnapshotRow) else kind)
