"""The driver: it alone decides the order of a region's actions. Sans-IO.

Theory of operation
-------------------
The driver contains the engine (decisions about data), the client connections, the hub (all links
with peers) and the checkpoints. Its inputs are events: a tick, bytes of a client, a message of a
peer, a transaction that was written or failed, an answer of the log. After each event the caller
asks `is_step_due`, and if so calls `step`. A step returns one value, `Work`, with all actions to
perform: client output, a transaction, reads, dials, hang-ups, notes. The caller (the process on
asyncio, the simulator on virtual time) performs them, reports the result of each, and decides
nothing.

Rules of order:

1. A reply leaves, and a row is shipped, only after `written` reports its commit (S13.2, S13.3):
   the engine hears of the commit first, then the clients that wait, then the hub, which ships.
2. One transaction is out at a time. When a commit and a slice of a checkpoint both wait, they
   alternate.
3. A key is captured in the step that closed the open block (`checkpoints`).
4. A commit that failed is retried until it succeeds (S13.4). A checkpoint that failed loses none
   of what it captured: a later checkpoint writes it.
5. A turn merges at most `TurnLimits.merge_bytes`. After a long turn, merging rests as long as the
   turn took, so that clients keep half of the time while a region catches up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Optional

from anabranch.crdt.errors import PeerError
from anabranch.region.driver.checkpoints import Checkpoints
from anabranch.region.driver.client_connection import ClientConnection
from anabranch.region.driver.clients import Clients
from anabranch.region.driver.clock import Clock
from anabranch.region.driver.disk_schedule import DiskSchedule
from anabranch.region.driver.effect_log import EffectLog
from anabranch.region.driver.event_log import EventLog
from anabranch.region.driver.histories import Histories
from anabranch.region.driver.salvaging import Salvaging
from anabranch.region.driver.turn_limits import TurnLimits
from anabranch.region.driver.work import DiskTransaction, LogRead, Work
from anabranch.region.engine.clock import SteadyClock
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.settings import Settings
from anabranch.region.storage.checkpoint import Checkpointer
from anabranch.region.storage.history import FindKey, ReadBlocks, ReadRows
from anabranch.region.storage.log import ReadOldest
from anabranch.region.storage.salvage import ReadSalvage
from anabranch.sync.session.hub import Hub
from anabranch.sync.session.links import NOBODY, OtherEnd
from anabranch.sync.session.log_requests import CheckChains
from anabranch.sync.session.messages import Message

# After a checkpoint that covers more log than this, free memory is returned to the system.
_BURST_BYTES: Final = 1 << 20
# After clients left so much output unsent, and took it or were disconnected, likewise.
_FREED_OUTPUT_BYTES: Final = 16 << 20


class Driver:
    """The driver of one region. `clients` holds the client connections, `hub` all links."""

    def __init__(
        self,
        engine: Engine,
        checkpointer: Checkpointer,
        log: EffectLog,
        peers: Iterable[int],
        clock: Clock,
        limits: TurnLimits,
    ) -> None:
        self.engine: Final = engine
        self.log: Final = log
        self.clients: Final = Clients(engine.clients, clock, engine.settings, limits.turn_pieces)
        steady = SteadyClock(clock.now_ms(), clock.steady_ms)
        self.hub: Final = Hub(engine, engine.settings, peers, log.tail, steady)
        self._clock: Final = clock
        self._limits: Final = limits
        self._disk: Final = DiskSchedule(
            engine, log, Checkpoints(engine, checkpointer, log), limits.retry_ms
        )
        self._step_wanted = True
        self._merge_planned = False
        # The last turn merged blocks: they may cover headers that wait on other links (S2.3).
        self._merge_again = False
        self._merge_rest_us = 0
        self._events: Final = EventLog(engine)
        self._salvaging: Final = Salvaging(engine, self._events, limits.retry_ms)
        self._histories: Final = Histories(engine, log)
        self._is_stopping = False
        # Steady time (ns) at which the transaction that is out was decided.
        self._transaction_ns = 0

    @property
    def settings(self) -> Settings:
        """The region's settings."""
        return self.engine.settings

    # -- time

    def tick(self) -> None:
        """Does the periodic work of all parts. Call it every few milliseconds."""
        now_ms = self._clock.now_ms()
        self.engine.tick(now_ms)
        if self._salvaging.merge(now_ms):
            self.hub.merged_elsewhere()
        self._apply_link_requests()
        if not self._is_stopping:
            self.hub.tick(now_ms)
        self.clients.tick()
        self._disk.tick(self._clock.steady_ms())
        self._events.tick()
        self._step_wanted = True

    def is_quiet(self, within_ms: int) -> bool:
        """Whether the next tick may be `within_ms` away: nothing is under way that it continues."""
        return (
            self._disk.is_at_rest
            and not self._is_stopping
            and not self._merge_again
            and self.hub.is_quiet()
            and self.engine.is_quiet(within_ms)
        )

    # -- peers

    def _apply_link_requests(self) -> None:
        """Carries out CRDT.LINK requests: DOWN is in force from its reply on.

        Call it before the hub takes in a message, merges or hands out a message.
        """
        if self.engine.peers.links.has_requests():
            self.hub.apply_link_requests(self._clock.now_ms())

    def dialled(self, peer: int, end: OtherEnd = NOBODY) -> Optional[int]:
        """A dial succeeded. Returns the connection's number; None if it is no longer wanted."""
        self._step_wanted = True
        return self.hub.dial_opened(peer, self._clock.now_ms(), end)

    def dial_failed(self, peer: int, text: str) -> None:
        """A dial failed, for the reason in `text`."""
        self._step_wanted = True
        self.hub.dial_failed(peer, text, self._clock.now_ms())

    def accepted(self, end: OtherEnd = NOBODY) -> int:
        """A peer has dialled this region. Returns the connection's number."""
        self._step_wanted = True
        return self.hub.accepted(self._clock.now_ms(), end)

    def turned_away(self, address: str, reason: str) -> None:
        """A connection from `address` was closed, because it had not said who it is."""
        self._step_wanted = True
        self.hub.turned_away(address, reason, self._clock.now_ms())

    def received(self, connection: int, message: Message, size: int = 0) -> None:
        """A message of a peer has arrived, of `size` bytes. Call it in the order of arrival."""
        self._step_wanted = True
        self._apply_link_requests()
        self.hub.received(connection, message, self._clock.now_ms())
        self.hub.arrived(connection, size)

    def reads_on(self, connection: int) -> bool:
        """Whether to read another message of a peer. Ask again after every step."""
        return self.hub.reads_on(connection)

    def malformed(self, connection: int, error: PeerError) -> None:
        """A peer sent bytes that are not a valid message."""
        self._step_wanted = True
        self.hub.malformed(connection, error, self._clock.now_ms())

    def disconnected(self, connection: int, text: str) -> None:
        """A peer's connection is gone."""
        self._step_wanted = True
        self.hub.closed(connection, text, self._clock.now_ms())

    def next_message(self, connection: int) -> Optional[Message]:
        """The next message to a peer; None if none waits.

        Call it when the transport has room, and again after every step.
        """
        self._apply_link_requests()
        message = self.hub.next_message(connection)
        if message is not None and self.hub.has_work:
            self._step_wanted = True
        return message

    def sent(self, connection: int, size: int) -> None:
        """Counts a message of `size` bytes that is sent to a peer."""
        self.hub.sent(connection, size)

    def compression(self) -> str:
        """The compression of messages to peers (setting ``crdt-compression``)."""
        return self.settings.text("crdt-compression")

    def is_over(self, connection: int) -> bool:
        """Whether to close a peer's connection, given that `next_message` returned None."""
        return self.hub.finished(connection)

    def merge(self) -> None:
        """Runs the turn of merging that `Work.merge_in_ms` requested."""
        self._merge_planned = False
        self._merge_rest_us = 0
        if self._is_stopping:
            return
        self._apply_link_requests()
        began_ns = self._clock.steady_ns()
        self._merge_again = self.hub.merge_some(self._limits.merge_bytes, self._clock.now_ms())
        if self._merge_again:
            taken_us = (self._clock.steady_ns() - began_ns) // 1000
            if taken_us > self._limits.merge_short_us:
                self._merge_rest_us = min(taken_us, self._limits.merge_rest_max_us)
        self._step_wanted = True

    # -- the disk

    def written(self, transaction: DiskTransaction) -> None:
        """A transaction is on disk.

        After a commit the engine hears of it first, then the clients that wait, then the hub, which
        ships (S13.2, S13.3).
        """
        self._step_wanted = True
        kind = "checkpoint" if transaction.commit is None else "commit"
        taken_us = (self._clock.steady_ns() - self._transaction_ns) // 1000
        self.engine.disk.transaction_took(kind, taken_us)
        commit = transaction.commit
        if commit is not None:
            self.log.committed(commit)
            self.engine.disk.committed(self._clock.now_ms())
            self.clients.released(commit.position)
            if not self._is_stopping:
                self.hub.committed(self._clock.now_ms())
            self._events.committed(commit.position)
        self._disk.written(transaction)

    def failed(self, transaction: DiskTransaction, error: str) -> None:
        """A transaction failed: none of its statements took effect."""
        self._step_wanted = True
        if transaction.commit is not None:
            self._events.commit_failed(transaction.commit.position, error)
            self.engine.disk.commit_failed(error)
            self.clients.commit_failed()
            self._histories.commit_failed(error)
        else:
            self._events.checkpoint_failed(error)
        self._disk.failed(transaction, self._clock.steady_ms())

    def read(self, read: LogRead, result: Any) -> None:
        """The log has answered. The class of the request decides the type of `result`."""
        self._step_wanted = True
        if isinstance(read.request, ReadOldest):
            self._disk.read(result)
        elif isinstance(read.request, ReadSalvage):
            if self._salvaging.read(result, self._clock.now_ms()):
                self.hub.merged_elsewhere()
        elif isinstance(read.request, (FindKey, ReadRows, ReadBlocks)):
            self._histories.read(read.request, result)
        else:
            self.hub.answered(read.connection, read.request, result, self._clock.now_ms())

    def cannot_read(self, read: LogRead, error: str, is_damaged: bool = False) -> None:
        """The log could not be read. `is_damaged`: a row of it is not as it was written."""
        self._step_wanted = True
        text = f"the log could not be read: {error}"
        self._events.log_unreadable(text)
        if isinstance(read.request, ReadSalvage):
            self._salvaging.cannot_read(error, is_damaged, self._clock.steady_ms())
            return
        if is_damaged:
            self._give_up_log(error)
        if isinstance(read.request, (FindKey, ReadRows, ReadBlocks)):
            self._histories.cannot_read(error)
        elif isinstance(read.request, ReadOldest):
            self._disk.drop_checkpoint(self._clock.steady_ms())
        elif is_damaged and isinstance(read.request, CheckChains):
            # Otherwise no link would open again, because each handshake reads that row.
            self.hub.answered(read.connection, read.request, 0, self._clock.now_ms())
        else:
            self.hub.closed(read.connection, text, self._clock.now_ms())

    def _give_up_log(self, error: str) -> None:
        """Ships nothing more from the log that is on disk now, because a row of it is damaged.

        Peers that lack effects get a snapshot, which is cut from memory.
        """
        engine = self.engine
        self.log.give_up(engine.disk_vector, engine.committed_position)
        engine.disk.note_damage(error, {"log_floor": self.log.encoded_floor()})
        self._events.damaged(error)

    def try_disk(self) -> None:
        """Commits at least the clock, so that an idle region knows whether its disk fails."""
        self.engine.disk.want_clock_commit()
        self._step_wanted = True

    # -- steps

    def is_step_due(self) -> bool:
        """Whether to call `step` before the next tick. Cheap, because it runs after every event."""
        if self._step_wanted or self.engine.has_urgent_output():
            return True
        return self._disk.is_free and self.engine.disk.wants_commit(self._clock.now_ms())

    def step(self) -> Work:
        """The work to perform now."""
        self._step_wanted = False
        work = Work()
        engine = self.engine
        for late in engine.clients.take_replies():
            self.clients.answer(late)
        for session_id in engine.clients.take_sessions_to_close():
            self.clients.close_session(session_id)
        work.sleep_ms = engine.take_sleep_ms()
        work.stop_wanted = engine.shutdown_requested()
        work.transaction = self._disk.next_transaction(self._clock.now_ms())
        read = self._disk.next_read()
        if read is not None:
            work.reads.append(LogRead(0, read))
        salvage = None if self._is_stopping else self._salvaging.next_read(self._clock.steady_ms())
        if salvage is not None:
            work.reads.append(LogRead(0, salvage))
        history = None if self._is_stopping else self._histories.next_read()
        if history is not None:
            work.reads.append(LogRead(0, history))
        if work.transaction is not None:
            self._transaction_ns = self._clock.steady_ns()
        if self._is_stopping:
            work.has_stopped = self._disk.has_stopped()
        else:
            self._add_hub_work(work)
        work.clients = self.clients.take_touched()
        work.notes = self._events.take()
        freed_output = self.clients.take_freed_output()
        burst = self._disk.take_burst()
        work.gives_back_memory = burst >= _BURST_BYTES or freed_output >= _FREED_OUTPUT_BYTES
        return work

    def _add_hub_work(self, work: Work) -> None:
        self._apply_link_requests()
        hub = self.hub
        hub.ask_for_start()
        if hub.find_work():
            hub_work = hub.take_work()
            work.reads += [LogRead(number, request) for number, request in hub_work.requests]
            work.dials = hub_work.dials
            work.hang_ups = hub_work.closes
            for event in hub_work.events:
                self._events.tell(event)
        if (hub.wants_merge or self._merge_again) and not self._merge_planned:
            self._merge_planned = True
            work.merge_in_ms = self._merge_rest_us / 1000

    # -- the end

    def leave(self) -> None:
        """Begins the end of all links: peers that receive from this region hear that it stops.

        Each of them then ends its link. Go on with `stop` when they have, or when they took too
        long.
        """
        self._step_wanted = True
        self.hub.leave()

    def stop(self) -> None:
        """Begins the end of the region: peers and further client commands are ignored.

        The driver writes and checkpoints all state that is not on disk yet, and sends the replies
        that wait for it. Then a step returns `Work.has_stopped`.
        """
        self._is_stopping = True
        self._step_wanted = True
        self.clients.finish_all()
        self._disk.stop()

    # -- figures

    def figures(self) -> dict[str, int]:
        """The figures of clients, log and sync for INFO and /metrics, by INFO field name."""
        sync = {f"crdt_sync_{name}": count for name, count in self.hub.counts.items()}
        return {**self.clients.figures(), **self.log.figures(), **sync}

    def connect(self, address: str, local_address: str) -> ClientConnection:
        """Makes the connection of a client that has connected; see `Clients.connect`."""
        return self.clients.connect(address, local_address)
