"""Real engines in taps, driven by hand, with the judge that follows their calls.

A test says which command a region executes, and when blocks are carried.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.block import Block
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.region_log import NodeLimits
from anabranch.region.engine import registry
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.journal import Journal
from anabranch.region.engine.lifecycle import Lifecycle
from anabranch.region.engine.members import Member, Members
from anabranch.region.engine.replies import ErrorReply, Reply, listed
from anabranch.region.engine.rows import BlockRow
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.state import EngineState
from anabranch.sim.calls import Call
from anabranch.sim.history import Setup
from anabranch.sim.twin.judge import Twin
from anabranch.sim.world.tapped import TappedEngine
from tests.support.engines import execute

NAMES = {1: "us", 2: "eu", 3: "ap"}
NOW_MS = 1000


def new_state(
    region: int, regions: int, settings: Optional[Settings] = None, patience_ms: int = 0
) -> EngineState:
    """The state of a region with nothing on its disk, one of `regions` members.

    `patience_ms`: how long its start waits for answers.
    """
    settings = settings or Settings()
    clock = EngineClock(NOW_MS)
    limits = PairLimits()
    limits.maxsize = settings.integer("stream-idmp-maxsize")
    keyspace = Keyspace(region, NodeLimits(), limits)
    members = [Member(one, NAMES[one]) for one in range(1, regions + 1)]
    return EngineState(
        Members("test", region, NAMES[region], members),
        settings,
        keyspace,
        Journal(keyspace, 0, clock),
        Lifecycle(region, NOW_MS, 0, clock, patience_ms),
        NOW_MS,
        registry.commands(),
    )


class Tapped:
    """One region. It is the watcher of its engine."""

    def __init__(self, twin: Twin, region: int, state: EngineState) -> None:
        self.twin = twin
        self.region = region
        self.now_ms = NOW_MS
        self.blocks: list[Block] = []
        tapped_engine = TappedEngine(state, self)
        tapped_engine.began()
        self.engine: Engine = tapped_engine
        self.connect()

    def connect(self) -> None:
        """The following commands come over a new connection."""
        self.session = self.engine.clients.connect("test", "test", self.now_ms)

    def __call__(self, command: str) -> Reply:
        return execute(self.engine, self.session, command.encode().split(), self.now_ms)

    def ok(self, command: str) -> Reply:
        """The reply to a command that must succeed, with lists in place of entries."""
        reply = listed(self(command))
        assert not isinstance(reply, ErrorReply), reply.message
        return reply

    def at(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.engine.tick(now_ms)

    def commit(self) -> None:
        commit = self.engine.disk.take_commit(self.now_ms)
        if commit is not None:
            self.engine.disk.committed(self.now_ms)
            self.blocks += [row.block for row in commit.rows if isinstance(row, BlockRow)]

    def round(self) -> None:
        """A sync round: announcements, then a commit."""
        self.at(self.now_ms + 1000)
        peer = next(iter(self.engine.state.peers.by_id))
        self.engine.peers.links.receiver_opened(peer)
        self.commit()
        self.engine.peers.links.receiver_closed(peer)

    def take(self, other: Tapped) -> None:
        """Merges what the other region has committed."""
        own = self.engine.vector
        lacking = [one for one in other.blocks if one.last > own.get(one.origin, 0)]
        self.engine.peers.merge(lacking, other.region, self.now_ms)
        self.commit()

    # -- the watcher

    def called(self, call: Call) -> None:
        call.at_ms = self.now_ms
        self.twin.called(call)

    def new_cut(self) -> int:
        return 1

    def cut_sent(self, digest: bytes, cut: int) -> None:
        """No snapshot is sent."""

    def cut_of(self, digest: bytes) -> int:
        return 0

    def failed(self, error: Exception) -> None:
        raise error


def tapped(regions: int = 1, patience_ms: int = 0, **values: str) -> tuple[Twin, list[Tapped]]:
    """The judge, and regions with these settings. `patience_ms`: see `new_state`."""
    numbers = tuple(range(1, regions + 1))
    twin = Twin(Setup(0, numbers, {}, (b"k",), lambda region, argv: None))
    places: list[Tapped] = []
    for region in numbers:
        settings = Settings()
        for name, value in values.items():
            settings.set(name.replace("_", "-"), value)
        state = new_state(region, regions, settings, patience_ms)
        places.append(Tapped(twin, region, state))
    return twin, places
