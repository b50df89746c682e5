"""The engine: a deterministic state machine around the keyspace.

Its inputs are commands, blocks, gossip and ticks. Its outputs are values: replies, commits and
messages to peers (the idea is `Ready` of etcd-io/raft). The engine has no clock and makes no
callbacks: every call that needs the time gets it as an argument, and after each call the driver
takes the outputs (`ClientCalls.take_replies`, `DiskCalls.take_commit`, `LinkCalls.take_requests`).
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.vector import Vector
from anabranch.region.engine import rounds
from anabranch.region.engine.client_calls import ClientCalls
from anabranch.region.engine.contents import KEYS_PER_TICK
from anabranch.region.engine.disk_calls import DiskCalls
from anabranch.region.engine.lifecycle import APART, LOST, RECOVERY, SERVING
from anabranch.region.engine.link_calls import LinkCalls
from anabranch.region.engine.members import Member
from anabranch.region.engine.peer_calls import PeerCalls
from anabranch.region.engine.questions import Questions
from anabranch.region.engine.replies import NULL_ARRAY
from anabranch.region.engine.salvage_calls import SalvageCalls
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.snapshot_calls import SnapshotCalls
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.steps import Steps


class Engine:
    """The engine of one region: what it is and holds, and the calls of those who use it.

    `clients` has the calls of client connections, `peers` those of the hub, with those for links
    and snapshots in it, `disk` those of the order of transactions, `salvage` those of a recovery
    from damage. Time is given here. docs/architecture.md shows how the callers use the engine.
    """

    def __init__(self, state: EngineState) -> None:
        self.state: Final = state
        self.steps: Final = Steps(state)
        self.clients = ClientCalls(state, self.steps)
        self.disk = DiskCalls(state)
        self.peers = PeerCalls(
            state, self.steps, LinkCalls(state), SnapshotCalls(state, self.steps)
        )
        self.salvage = SalvageCalls(state, self.steps)
        # The random number of this process, and where it runs, for people; 0: peers are not told.
        self.process = 0
        self.place = ""

    def introduce(self, process: int, place: str) -> None:
        """Sets what peers are told of this process; see `__init__`."""
        self.process, self.place = process, place

    # -- what the region is, and what it holds

    @property
    def cluster(self) -> str:
        return self.state.members.cluster

    @property
    def region_id(self) -> int:
        return self.state.members.region_id

    @property
    def name(self) -> str:
        return self.state.members.name

    @property
    def members(self) -> dict[int, Member]:
        """The members by region_id."""
        return self.state.members.by_id

    @property
    def settings(self) -> Settings:
        return self.state.settings

    @property
    def keyspace(self) -> Keyspace:
        return self.state.keyspace

    @property
    def life(self) -> int:
        """The number of this region's life (S1.3)."""
        return self.state.lifecycle.life

    @property
    def vector(self) -> Vector:
        """The vector of all effects applied here, committed or not."""
        return self.state.keyspace.vector

    @property
    def disk_vector(self) -> Vector:
        """The vector of all effects on this region's disk."""
        return self.state.disk.vector

    @property
    def disk_chains(self) -> dict[int, bytes]:
        """The chain values at `disk_vector` (S13.5)."""
        return self.state.disk.chains

    @property
    def committed_position(self) -> int:
        """The position of the last row on disk."""
        return self.state.disk.position

    @property
    def collected(self) -> Vector:
        """All that was stable when this region collected, or joined from snapshots (S6.2)."""
        return self.state.keyspace.collected

    @property
    def questions(self) -> Questions:
        """The questions of clients to the log on disk."""
        return self.state.waiting.questions

    # -- time

    def tick(self, now_ms: int) -> None:
        """Handles time: time-outs of reads, deadlines of keys, start, recovery, collection."""
        state = self.state
        state.clock.read(now_ms)
        for blocked in state.waiting.reads.take_timed_out(state.clock.steady_ms):
            state.outbox.answer(blocked.session, NULL_ARRAY)
        lifecycle = state.lifecycle
        state.note_clocks()
        lifecycle.tick(state.members.others(), state.disk.vector, state.disk.has_salvage)
        self.steps.note_lifecycle()
        if lifecycle.shown in (RECOVERY, LOST, APART) and state.waiting.for_start:
            self.steps.run_waiting()
        state.stability.count(state.keyspace.vector)
        state.stable_time()
        rounds.keep_clock(state)
        if state.peers.lags.is_due(state.clock.steady_ms):
            state.note_lags()
        if state.contents.deadlines.are_unread:
            self.steps.upkeep.read_deadlines(state)
        hidden = self.steps.upkeep.hide(state)
        if state.writer.may_issue():
            self.steps.upkeep.work(state)
        state.journal.end_unit()
        state.contents.count_some(KEYS_PER_TICK, state.clock.now_ms)
        state.keyspace.free_some(KEYS_PER_TICK)
        if state.waiting.waiters:
            rounds.answer_waiters(state)
        self.steps.settle()
        if hidden and state.waiting.reads.by_key:
            self.steps.wake(hidden)

    def is_quiet(self, within_ms: int) -> bool:
        """Whether a tick in `within_ms` does the same as one at once, as far as others notice.

        That is so if everything is on disk, and no work waits for ticks that continue it.
        """
        state = self.state
        waiting = state.waiting
        keyspace = state.keyspace
        return (
            state.lifecycle.state == SERVING
            and self.disk.is_all_in_commits()
            and not waiting.waiters
            and not waiting.reads.has_deadline(state.clock.steady_ms + within_ms)
            and not (keyspace.acknowledgeable and state.peers.receiver_count)
            and not keyspace.unseen.uncounted
            and not keyspace.is_freeing()
        )

    # -- the process

    def has_urgent_output(self) -> bool:
        """Whether to take an output before the next tick. Cheap: it runs after each event."""
        return self.state.outbox.is_urgent()

    def take_sleep_ms(self) -> int:
        """DEBUG SLEEP: how long to block the process, in ms; 0 if not requested."""
        return self.state.outbox.take_sleep_ms()

    def shutdown_requested(self) -> bool:
        """Whether a client sent SHUTDOWN."""
        return self.state.outbox.shutdown_requested

    def may_lose(self) -> bool:
        """Whether a client sent SHUTDOWN NOSAVE or FORCE: what cannot be written may be lost."""
        return self.state.outbox.shutdown_may_lose

    def set_process_facts(self, facts: dict[str, str]) -> None:
        """Takes the facts that only the process knows.

        Those that INFO shows have the names of its fields. `tcp_bind` and `data_dir` are shown by
        CONFIG GET.
        """
        self.state.process_facts = facts
