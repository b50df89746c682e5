"""An engine that reports the calls that matter to judges, in their true order.

It reports twice. `executed`, `moved` and `answered` tell what clients and vectors show. `called`
tells of each call as a value (`sim.calls`), with what the region was given and what it issued; it
is told only if a judge asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Optional, Union

from xxhash import xxh3_128

from anabranch.crdt.block import Block, read_effects
from anabranch.crdt.effects import dots_of
from anabranch.crdt.gossip import Gossip, StartAnswer
from anabranch.crdt.ids import format_id
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.scan import Scan
from anabranch.crdt.snapshot import SnapshotCut, SnapshotRecords
from anabranch.region.engine.adds import AddedIds
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.lifecycle import RECOVERY
from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.replies import Reply, listed
from anabranch.region.engine.rows import BlockRow, Commit, RecordsRow, SnapshotRow
from anabranch.region.engine.rows import Row as LogRow
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.sim import calls
from anabranch.sim.calls import Call, Facts, Issued, Row
from anabranch.sim.history import Vector, Words
from anabranch.sim.world.watchers import EngineWatcher, JudgeFailed


def _first_add(data: bytes, start: int) -> tuple[bytes, bytes, int]:
    """The first add from `start` on in the bytes of a run, its values, and where it ends."""
    scan = Scan(data[start:], 0)
    assert scan.step()
    end = start + int(scan.next)
    return data[start:end], scan.payload(), end


class TappedCut(SnapshotCut):
    """A cut that tells the digest of its chunks once they are made."""

    def __init__(
        self,
        keyspace: Keyspace,
        position: int,
        made: Optional[SnapshotRecords],
        watcher: EngineWatcher,
    ) -> None:
        super().__init__(keyspace, position, made)
        self.number: Final = watcher.new_cut()
        self._watcher: Final = watcher

    def chunks(self, bytes_max: int) -> Iterator[bytes]:
        digest = xxh3_128()
        waiting: Optional[bytes] = None
        for chunk in super().chunks(bytes_max):
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
        self._seen: Vector = {}
        self._replies_seen = 0
        # The same for the calls: own counter, position and replies that were told.
        self._told_counter = state.disk.vector.get(state.members.region_id, 0)
        self._told_position = state.disk.position
        self._told_replies = 0
        self._told_state = ""
        super().__init__(state)
        # A start without patience serves at once. It may issue effects before this line, and
        # `began` reports them.
        self._seen = dict(state.disk.vector)

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
            opened = journal.open_block()
            for block in [*blocks, opened] if opened is not None else blocks:
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
        if self._watcher.follows_calls() and (kind == calls.TICK or not self._is_quiet()):
            self._watcher.called(self._call(kind, now_ms))

    def began(self) -> None:
        """Reports what the start has issued. The watcher has heard of the start."""
        if self._watcher.follows_calls():
            found = self.state.disk.position
            call = self._call(calls.START, self.state.clock.now_ms)
            call.position = found
            self._watcher.called(call)
        self._look("tick")

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> Reply:
        before = self._seen
        words = tuple(argv)
        try:
            reply = super().execute(session, argv, now_ms)
        except Exception as error:
            self._watcher.failed(error)
            raise
        if self.state.keyspace.vector != before:
            self._seen = dict(self.state.keyspace.vector)
        self._tell_executed(session, words, reply, before, now_ms)
        return reply

    def execute_many(
        self, session: Session, argv: list[bytes], last_words: list[bytes], now_ms: int
    ) -> list[Reply]:
        """Executes the first command alone, so that each is told of as the command that it was."""
        return [self.execute(session, argv, now_ms)]

    def _tell_executed(
        self, session: Session, words: Words, reply: Reply, before: Vector, now_ms: int
    ) -> None:
        """Tells of a command that has run. Raises JudgeFailed if the watcher raises."""
        try:
            # Judges see lists in place of entries. So the bytes that the client then gets are also
            # compared with those of the lists.
            shown = listed(reply)
            if self._watcher.follows_calls():
                call = self._call(calls.EXECUTE, now_ms)
                call.session, call.argv, call.reply = session.session_id, words, shown
                self._watcher.called(call)
            self._watcher.executed(session, words, shown, before)
            self._look("tick")
        except Exception as error:
            raise JudgeFailed(error) from error

    def follow(self, session: Session, data: bytes, count: int) -> AddedIds:
        """Issues the adds one by one, so that each is told of as the command that it was."""
        end = 0
        first: Optional[AddedIds] = None
        for _ in range(count):
            piece, values, end = _first_add(data, end)
            before = self._seen
            words = self.state.writer.run.words(values)
            try:
                added = super().follow(session, piece, 1)
            except Exception as error:
                self._watcher.failed(error)
                raise
            self._seen = dict(self.state.keyspace.vector)
            reply = format_id(added.ids()[0])
            self._tell_executed(session, words, reply, before, self.state.clock.read_ms)
            first = first or added
        assert first is not None
        return AddedIds(first.ms, first.first_seq, count)

    def follow_idempotent(
        self, session: Session, data: bytes, ends: list[int], iids: list[bytes]
    ) -> AddedIds:
        """As `follow`."""
        end = 0
        first: Optional[AddedIds] = None
        count = 0
        for place in range(len(ends)):
            piece, values, end = _first_add(data, end)
            before = self._seen
            iid = iids[place : place + 1]
            words = self.state.writer.run.words(values, iid[0] if iid else b"")
            try:
                added = super().follow_idempotent(session, piece, [len(piece)], iid)
            except Exception as error:
                self._watcher.failed(error)
                raise
            first = first or added
            if added.count == 0:
                break
            count += 1
            self._seen = dict(self.state.keyspace.vector)
            reply = format_id(added.ids()[0])
            self._tell_executed(session, words, reply, before, self.state.clock.read_ms)
        assert first is not None
        return AddedIds(first.ms, first.first_seq, count)

    def follow_elsewhere(
        self, session: Session, keys: list[bytes], data: bytes, ends: list[int]
    ) -> list[bytes]:
        """As `follow`."""
        replies: list[bytes] = []
        begin = 0
        for key, end in zip(keys, ends, strict=True):
            values, begin = data[begin:end], end
            before = self._seen
            words = self.state.writer.run.words_elsewhere(key, values)
            try:
                added = super().follow_elsewhere(session, [key], values, [len(values)])
            except Exception as error:
                self._watcher.failed(error)
                raise
            if not added:
                break
            self._seen = dict(self.state.keyspace.vector)
            self._tell_executed(session, words, added[0], before, self.state.clock.read_ms)
            replies += added
        return replies

    def disconnect(self, session: Session) -> None:
        super().disconnect(session)
        if self._watcher.follows_calls():
            call = self._call(calls.DISCONNECT, 0)
            call.session = session.session_id
            self._watcher.called(call)

    def _look(
        self, how: str, source: int = 0, blocks: tuple[tuple[int, int, int], ...] = ()
    ) -> None:
        """Reports movements of the vector and late replies since the last look.

        `source`: the peer whose blocks or snapshot the call took; `blocks`: see `Moved`.
        """
        replies = self.state.outbox.replies
        late = [LateReply(one.session, listed(one.reply)) for one in replies[self._replies_seen :]]
        self._replies_seen = len(replies)
        if self.state.keyspace.vector != self._seen:
            before, self._seen = self._seen, dict(self.state.keyspace.vector)
            own = self.region_id
            # A region that receives effects of its own is in recovery from then on, and issues
            # none.
            learned = self._seen.get(own, 0) > before.get(own, 0) and (
                self.state.lifecycle.state == RECOVERY
            )
            self._watcher.moved(how, before, self._seen, learned, late, source, blocks)
        for one in late:
            self._watcher.answered(one, self._seen)

    def take_replies(self) -> list[LateReply]:
        # Answers from the log on disk are made outside the engine's calls (`Questions`).
        if len(self.state.outbox.replies) > self._told_replies:
            self._tell(calls.OTHER, 0)
        self._look("tick")
        self._replies_seen = 0
        self._told_replies = 0
        return super().take_replies()

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        self._tell(calls.TICK, now_ms)
        self._look("tick")

    def take_commit(self, now_ms: int) -> Optional[Commit]:
        commit = super().take_commit(now_ms)
        if self._watcher.follows_calls() and not (commit is None and self._is_quiet()):
            call = self._call(calls.COMMIT, now_ms, commit.rows if commit is not None else None)
            call.position = commit.position if commit is not None else None
            self._watcher.called(call)
        self._look("tick")
        return commit

    def committed(self, now_ms: int) -> None:
        super().committed(now_ms)
        self._tell(calls.COMMITTED, now_ms)
        self._look("tick")

    def cut_block(self) -> None:
        super().cut_block()
        self._tell(calls.OTHER, 0)

    def snapshot_cut(self) -> SnapshotCut:
        cut = super().snapshot_cut()
        if isinstance(cut, TappedCut):
            call = self._call(calls.CUT, 0)
            call.cut = cut.number
            self._watcher.called(call)
        return cut

    def _new_cut(self, made: Optional[SnapshotRecords]) -> SnapshotCut:
        if not self._watcher.follows_calls():
            return super()._new_cut(made)
        return TappedCut(self.keyspace, self.state.journal.position, made, self._watcher)

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        is_taken = self._is_taken_from(source)
        try:
            super().merge(blocks, source, now_ms)
        finally:
            if self._watcher.follows_calls():
                call = self._call(calls.MERGE, now_ms)
                call.source, call.blocks, call.is_taken = source, list(blocks), is_taken
                self._watcher.called(call)
            self._look("merge", source, _given(blocks))

    def merge_salvage(self, items: list[Block], now_ms: int) -> int:
        try:
            return super().merge_salvage(items, now_ms)
        finally:
            if self._watcher.follows_calls():
                call = self._call(calls.MERGE, now_ms)
                call.source, call.blocks = self.region_id, list(items)
                self._watcher.called(call)
            self._look("merge", self.region_id, _given(items))

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        is_taken = self._is_taken_from(source)
        try:
            super().join(chunks, source, now_ms)
        finally:
            if self._watcher.follows_calls():
                digest = xxh3_128()
                for chunk in chunks:
                    digest.update(chunk)
                call = self._call(calls.JOIN, now_ms)
                call.source, call.is_taken = source, is_taken
                call.cut = self._watcher.cut_of(digest.digest())
                self._watcher.called(call)
            self._look("join", source)

    def hear_lives(self, lives: dict[int, int], now_ms: int) -> None:
        super().hear_lives(lives, now_ms)
        self._tell(calls.OTHER, now_ms)
        self._look("merge")

    def peer_holds(self, peer: int, vector: Vector, now_ms: int) -> None:
        super().peer_holds(peer, vector, now_ms)
        self._tell(calls.OTHER, now_ms)
        self._look("merge")

    def start_answered(self, peer: int, answer: StartAnswer, now_ms: int) -> None:
        super().start_answered(peer, answer, now_ms)
        self._heard(peer, answer, now_ms)
        self._look("merge")

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        super().hear(gossip, now_ms)
        self._heard(0, gossip, now_ms)
        self._look("merge")

    def _heard(self, source: int, heard: Union[Gossip, StartAnswer], now_ms: int) -> None:
        if self._watcher.follows_calls() and not self._is_quiet():
            call = self._call(calls.HEAR, now_ms)
            call.source, call.heard = source, heard
            self._watcher.called(call)

    def link_refused(self, reason: str) -> None:
        super().link_refused(reason)
        if self._watcher.follows_calls():
            call = self._call(calls.REFUSED, 0)
            call.how = reason
            self._watcher.called(call)

    def acknowledged(self, peer: int, vector: Vector, now_ms: int) -> None:
        super().acknowledged(peer, vector, now_ms)
        self._tell(calls.OTHER, now_ms)
        self._look("merge")


def _given(blocks: list[Block]) -> tuple[tuple[int, int, int], ...]:
    """The blocks of a merge as `Moved` has them."""
    return tuple([(block.origin, block.first, block.last) for block in blocks])


def _row(row: LogRow) -> Row:
    if isinstance(row, BlockRow):
        block = row.block
        return Row(row.position, "block", block.origin, block.first, block.last)
    kind = "records" if isinstance(row, RecordsRow) else "clock"
    return Row(row.position, "snapshot" if isinstance(row, SnapshotRow) else kind)
