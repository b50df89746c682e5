"""An engine that tells of its calls, in their true order, as values (`sim.calls`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Optional

from xxhash import xxh3_128

from anabranch.crdt.block import Block
from anabranch.crdt.gossip import Gossip, StartAnswer
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.snapshot import SnapshotCut
from anabranch.crdt.vector import Vector
from anabranch.region.engine.batch import Batch, Packed
from anabranch.region.engine.client_calls import ClientCalls
from anabranch.region.engine.disk_calls import DiskCalls
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.link_calls import LinkCalls
from anabranch.region.engine.outbox import LateReply
from anabranch.region.engine.peer_calls import PeerCalls
from anabranch.region.engine.replies import Reply, listed
from anabranch.region.engine.rows import Commit
from anabranch.region.engine.salvage_calls import SalvageCalls
from anabranch.region.engine.session import Session
from anabranch.region.engine.snapshot_calls import SnapshotCalls
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.steps import Steps
from anabranch.sim import calls
from anabranch.sim.calls import Following
from anabranch.sim.world.planted_error import has_struck
from anabranch.sim.world.tap import Tap
from anabranch.sim.world.watchers import EngineWatcher, JudgeFailed


class TappedEngine(Engine):
    """The real engine with unchanged behaviour."""

    def __init__(self, state: EngineState, watcher: EngineWatcher) -> None:
        tap = Tap(state, watcher)
        super().__init__(state)
        self._tap: Final = tap
        steps = self.steps
        self.clients = TappedClients(state, steps, tap)
        self.disk = TappedDisk(state, tap)
        self.peers = TappedPeers(state, steps, tap)
        self.salvage = TappedSalvage(state, steps, tap)

    def began(self) -> None:
        """Tells of the start, which may have issued effects. The watcher has heard of it."""
        found = self.state.disk.position
        call = self._tap.call(calls.START, self.state.clock.now_ms)
        call.position = found
        self._tap.watcher.called(call)

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        self._tap.tell(calls.TICK, now_ms)


class TappedClients(ClientCalls):
    """Tells of batches of commands, of late replies, and of clients that are gone."""

    def __init__(self, state: EngineState, steps: Steps, tap: Tap) -> None:
        super().__init__(state, steps)
        self._tap: Final = tap

    def execute_batch(self, session: Session, batch: Batch, now_ms: int) -> tuple[list[Reply], int]:
        watcher = self._tap.watcher
        try:
            replies, taken = super().execute_batch(session, batch, now_ms)
        except Exception as error:
            if not has_struck():
                watcher.failed(error)
            raise
        try:
            call = self._tap.call(calls.EXECUTE, now_ms)
            call.session, call.argv = session.session_id, tuple(batch.first)
            if batch.packed is not None and taken > 1:
                call.following = _following(batch.packed, taken - 1)
            # Judges see lists in place of entries. So the bytes that the client then gets are also
            # compared with those of the lists.
            call.replies = [listed(reply) for reply in replies]
            watcher.called(call)
        except Exception as error:
            raise JudgeFailed(error) from error
        return replies, taken

    def disconnect(self, session: Session) -> None:
        super().disconnect(session)
        call = self._tap.call(calls.DISCONNECT, 0)
        call.session = session.session_id
        self._tap.watcher.called(call)

    def take_replies(self) -> list[LateReply]:
        self._tap.replies_are_taken()
        return super().take_replies()


class TappedDisk(DiskCalls):
    """Tells of commits, and of blocks that are cut for checkpoints."""

    def __init__(self, state: EngineState, tap: Tap) -> None:
        super().__init__(state)
        self._tap: Final = tap

    def take_commit(self, now_ms: int) -> Optional[Commit]:
        commit = super().take_commit(now_ms)
        if commit is not None or not self._tap.is_quiet():
            call = self._tap.call(calls.COMMIT, now_ms, None if commit is None else commit.rows)
            call.position = None if commit is None else commit.position
            self._tap.watcher.called(call)
        return commit

    def committed(self, now_ms: int) -> None:
        super().committed(now_ms)
        self._tap.tell(calls.COMMITTED, now_ms)

    def cut_block(self) -> None:
        super().cut_block()
        self._tap.tell(calls.OTHER, 0)


class TappedPeers(PeerCalls):
    """Tells of blocks, gossip and answers of peers."""

    def __init__(self, state: EngineState, steps: Steps, tap: Tap) -> None:
        super().__init__(state, steps, TappedLinks(state, tap), TappedSnapshots(state, steps, tap))
        self._tap: Final = tap

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        is_taken = self.state.is_taken_from(source)
        try:
            super().merge(blocks, source, now_ms)
        finally:
            if not has_struck():
                call = self._tap.call(calls.MERGE, now_ms)
                call.source, call.blocks, call.is_taken = source, list(blocks), is_taken
                self._tap.watcher.called(call)

    def hear_lives(self, lives: dict[int, int], now_ms: int) -> None:
        super().hear_lives(lives, now_ms)
        self._tap.tell(calls.OTHER, now_ms)

    def peer_holds(self, peer: int, vector: Vector, now_ms: int) -> None:
        super().peer_holds(peer, vector, now_ms)
        self._tap.tell(calls.OTHER, now_ms)

    def start_answered(self, peer: int, answer: StartAnswer, now_ms: int) -> None:
        super().start_answered(peer, answer, now_ms)
        self._tap.heard(peer, answer, now_ms)

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        super().hear(gossip, now_ms)
        self._tap.heard(0, gossip, now_ms)

    def acknowledged(self, peer: int, vector: Vector, now_ms: int) -> None:
        super().acknowledged(peer, vector, now_ms)
        self._tap.tell(calls.OTHER, now_ms)


class TappedLinks(LinkCalls):
    """Tells of links that are closed."""

    def __init__(self, state: EngineState, tap: Tap) -> None:
        super().__init__(state)
        self._tap: Final = tap

    def refused(self, reason: str) -> None:
        super().refused(reason)
        call = self._tap.call(calls.REFUSED, 0)
        call.how = reason
        self._tap.watcher.called(call)


class TappedSnapshots(SnapshotCalls):
    """Tells of cuts and joins."""

    def __init__(self, state: EngineState, steps: Steps, tap: Tap) -> None:
        super().__init__(state, steps)
        self._tap: Final = tap

    def cut(self) -> SnapshotCut:
        cut = TappedCut(super().cut(), self._tap.watcher)
        call = self._tap.call(calls.CUT, 0)
        call.cut = cut.number
        self._tap.watcher.called(call)
        return cut

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        is_taken = self.state.is_taken_from(source)
        try:
            super().join(chunks, source, now_ms)
        finally:
            if not has_struck():
                digest = xxh3_128()
                for chunk in chunks:
                    digest.update(chunk)
                call = self._tap.call(calls.JOIN, now_ms)
                call.source, call.is_taken = source, is_taken
                call.cut = self._tap.watcher.cut_of(digest.digest())
                self._tap.watcher.called(call)


class TappedSalvage(SalvageCalls):
    """Tells of the blocks of a salvage, which the region takes as if it had sent them itself."""

    def __init__(self, state: EngineState, steps: Steps, tap: Tap) -> None:
        super().__init__(state, steps)
        self._tap: Final = tap

    def merge(self, items: list[Block], now_ms: int) -> int:
        try:
            return super().merge(items, now_ms)
        finally:
            if not has_struck():
                call = self._tap.call(calls.MERGE, now_ms)
                call.source, call.blocks = self.state.members.region_id, list(items)
                self._tap.watcher.called(call)


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
