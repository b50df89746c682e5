"""A few engines, driven by hand.

A test says when commits, blocks and gossip are carried. A region can lose its memory or its disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from anabranch.crdt.apply import apply_block
from anabranch.crdt.block import Block
from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.crdt.idempotency import NO_LIMIT, PairLimits
from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import apply_local, read_records
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.snapshot import read_snapshot
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.lifecycle import Lifecycle
from anabranch.region.engine.members import Member, Members
from anabranch.region.engine.replies import ErrorReply, Reply, ReplyLater, listed
from anabranch.region.engine.rows import BlockRow, Commit, LogRow, RecordsRow, SnapshotRow
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.stable_time import StableTime
from anabranch.sync.session.handshake import LinkLimits
from anabranch.sync.session.links import PeerConnection
from anabranch.sync.session.receiver import Receiver
from anabranch.sync.session.start_asking import StartAsking
from tests.support.engines import engine_on, execute

# The meta rows of `StableTime`, in the order of its arguments.
_STABLE_ROWS = ("id_floor", "patience", "lost_at")
NAMES = {1: "us", 2: "eu", 3: "ap"}


class Place:
    """One region: its engine, and what a disk would hold of it."""

    def __init__(
        self,
        region_id: int,
        regions: int,
        now_ms: int,
        patience_ms: int = 0,
        steady: Optional[Callable[[], int]] = None,
        **settings: str,
    ) -> None:
        self.region_id = region_id
        self.members = [Member(one, NAMES[one]) for one in range(1, regions + 1)]
        self.settings = Settings()
        for name, value in settings.items():
            self.settings.set(name.replace("_", "-"), value)
        self.now_ms = now_ms
        self.rows: list[LogRow] = []
        self.meta: dict[str, bytes] = {}
        self.patience_ms = patience_ms
        self._steady = steady
        self.engine = self._start(0)
        self.session = self.engine.clients.connect("test", "test", now_ms)

    def _start(self, recovery: int) -> Engine:
        pair_limits = PairLimits()
        pair_limits.maxsize = self.settings.integer("stream-idmp-maxsize")
        pair_limits.retired_max = NO_LIMIT
        keyspace = Keyspace(self.region_id, NodeLimits(), pair_limits)
        disk_clock_ms = int(self.meta.get("clock", b"0"))
        for row in self.rows:
            self._replay(keyspace, row)
            disk_clock_ms = max(disk_clock_ms, row.clock_ms)
        clock = EngineClock(max(self.now_ms, disk_clock_ms), self._steady)
        life = max(clock.now_ms, int(self.meta.get("life", b"0")) + 1)
        recovery = recovery or int(self.meta.get("recovery", b"0"))
        self.meta.update(life=b"%d" % life, recovery=b"%d" % recovery)
        lost = self.meta.get("lost", b"").split(b",")
        members = [
            Member(member.region_id, member.name, b"%d" % member.region_id in lost)
            for member in self.members
        ]
        return engine_on(
            keyspace,
            Members("test", self.region_id, NAMES[self.region_id], members),
            self.settings,
            Lifecycle(self.region_id, life, recovery, clock, self.patience_ms),
            clock,
            disk_clock_ms,
            StableTime(*(int(self.meta.get(name, b"0")) for name in _STABLE_ROWS)),
        )

    def _replay(self, keyspace: Keyspace, row: LogRow) -> None:
        if isinstance(row, BlockRow):
            apply_block(keyspace, row.block, row.clock_ms, row.source == 0)
        elif isinstance(row, SnapshotRow):
            join(keyspace, read_snapshot(row.chunks, keyspace.limits), row.clock_ms)
        elif isinstance(row, RecordsRow):
            for record in read_records(row.records):
                apply_local(keyspace, record)
        keyspace.position = row.position

    def restart(self, now_ms: int, rows: Optional[int] = None, restored: bool = False) -> None:
        """A crash: everything that was not committed is gone.

        `rows`: the disk is that of a backup with so many rows, without a floor of IDs and without
        a clock but that of the rows. `restored`: as with --restored.
        """
        self.now_ms = now_ms
        if rows is not None:
            self.rows = self.rows[:rows]
            for name in ("clock", *_STABLE_ROWS):
                self.meta.pop(name, None)
        self.engine = self._start(
            max(now_ms, int(self.meta.get("life", b"0")) + 1) if restored else 0
        )
        self.session = self.engine.clients.connect("test", "test", now_ms)

    def at(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.engine.tick(now_ms)

    def __call__(self, *words: object) -> Reply:
        """Runs a command; what waits for the disk is committed and answered."""
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        reply = execute(self.engine, self.session, argv, self.now_ms)
        if isinstance(reply, ReplyLater) and self.engine.state.outbox.held:
            self.commit()
            return listed(self.engine.clients.take_replies()[-1].reply)
        return listed(reply)

    def ok(self, *words: object) -> Reply:
        reply = self(*words)
        assert not isinstance(reply, ErrorReply), reply.message
        return reply

    def commit(self) -> Optional[Commit]:
        commit = self.engine.disk.take_commit(self.now_ms)
        if commit is not None:
            self.rows += commit.rows
            self.meta.update(commit.meta)
            self.engine.disk.committed(self.now_ms)
        return commit

    def round(self) -> None:
        """A sync round for somebody who receives: acknowledgements, then a commit."""
        self.now_ms += 10
        peer = next(iter(self.engine.state.peers.by_id))
        self.engine.peers.links.receiver_opened(peer)
        self.commit()
        self.engine.peers.links.receiver_closed(peer)

    def lacking(self, vector: dict[int, int]) -> list[Block]:
        return [
            row.block
            for row in self.rows
            if isinstance(row, BlockRow) and row.block.last > vector.get(row.block.origin, 0)
        ]

    def ids(self, key: str) -> list[str]:
        reply = self("XRANGE", key, "-", "+")
        assert isinstance(reply, list)
        return [item[0].decode() for item in reply]  # type: ignore[index,union-attr]

    def digest(self) -> Reply:
        return self("CRDT.DIGEST")


def greet(one: Place, other: Place) -> None:
    """The handshake of a link: each side names its life and tells what it has on disk."""
    for hearing, named in ((one, other), (other, one)):
        hearing.engine.peers.hear_lives({named.region_id: named.engine.life}, hearing.now_ms)
        held = dict(named.engine.disk_vector)
        hearing.engine.peers.peer_holds(named.region_id, held, hearing.now_ms)


def ask_start(asker: Place, answerer: Place) -> Optional[StartAnswer]:
    """The start of `asker` asks, and takes the answer (S13.6).

    None when it has nothing to ask, or when there is no answer yet.
    """
    question = asker.engine.peers.start_question()
    if question is None:
        return None
    answer = answer_of(answerer, asker, question)
    if answer is None:
        return None
    asker.engine.peers.start_answered(answerer.region_id, answer, asker.now_ms)
    return answer


def answer_of(answerer: Place, asker: Place, question: StartQuestion) -> Optional[StartAnswer]:
    """What `answerer` says to a question once it is on its disk; None: nothing yet."""
    receiver = Receiver(asker.region_id, LinkLimits(answerer.settings))
    receiver.open = True
    connection = PeerConnection(1, 0, receiver=receiver)
    asking = StartAsking(answerer.engine)
    answerer.engine.peers.hear_lives(question.lives, answerer.now_ms)
    asking.asked(connection, question, answerer.now_ms)
    answerer.commit()
    asking.committed(answerer.engine.committed_position)
    answer = connection.next_message()
    assert answer is None or isinstance(answer, StartAnswer)
    return answer


def carry(source: Place, target: Place, gossip: bool = True) -> None:
    """Everything of `source`'s disk that `target` lacks, then a heartbeat."""
    source.commit()
    target.engine.peers.merge(source.lacking(target.engine.vector), source.region_id, target.now_ms)
    target.commit()
    if gossip:
        tell(source, target)


def tell(source: Place, target: Place) -> None:
    """A heartbeat."""
    source.commit()
    target.engine.peers.hear(source.engine.peers.gossip(), target.now_ms)
    target.commit()


def sync(*places: Place) -> None:
    """Blocks, then acknowledgements, then gossip, until nothing moves any more."""
    for _ in range(2):
        for place in places:
            place.round()
        for source in places:
            for target in places:
                if source is not target:
                    carry(source, target, gossip=False)
    for _ in range(2):
        for source in places:
            for target in places:
                if source is not target:
                    tell(source, target)


def cluster(regions: int, now_ms: int = 1000, **settings: str) -> list[Place]:
    settings = {"crdt_collect_interval_ms": "1", **settings}
    places = [
        Place(region_id, regions, now_ms, 0, None, **settings)
        for region_id in range(1, regions + 1)
    ]
    for place in places:
        place.at(now_ms)
        place.commit()
    return places


def code(reply: Reply) -> str:
    """The first word of an error."""
    return reply.message.split()[0] if isinstance(reply, ErrorReply) else f"no error: {reply!r}"
