"""All links of one region, and the decisions across them. Sans-IO; a part of the driver.

In: connections that opened, messages, commits, answers of the log, ticks. Out: messages
(`next_message`) and all other tasks (`take_work`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final, Optional

from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.sync.session import leaving, link_requests
from anabranch.sync.session import messages as m
from anabranch.sync.session.announcements import Announcements
from anabranch.sync.session.claims import Claims, life_of
from anabranch.sync.session.connections import Connections
from anabranch.sync.session.interfaces import Engine, Settings, SteadyClock
from anabranch.sync.session.links import NOBODY, Link, OtherEnd, PeerConnection
from anabranch.sync.session.log_requests import CheckChains, Locate, ReadBlock, ReadLog, Request
from anabranch.sync.session.log_tail import LogTail
from anabranch.sync.session.merging import Merging
from anabranch.sync.session.opening import Opening
from anabranch.sync.session.receiver import Progress, Receiver, Staged
from anabranch.sync.session.sender import Sender
from anabranch.sync.session.work import HubWork


class Hub:
    """All links of one region. `peers`: the regions from which this one receives.

    `counts`: figures for INFO and metrics.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        peers: Iterable[int],
        tail: LogTail,
        clock: SteadyClock,
    ) -> None:
        self._engine: Final = engine
        self._connections: Final = Connections(engine, settings, peers, tail, clock)
        self._announcements: Final = Announcements(engine, self._connections)
        self._claims: Final = Claims(engine, self._connections)
        parts = (engine, self._connections, self._announcements, self._claims)
        self._opening: Final = Opening(*parts)
        self._merging: Final = Merging(*parts)
        self.counts: Final = self._connections.counts

    @property
    def links(self) -> dict[int, Link]:
        """The links that this region dials, by peer."""
        return self._connections.links

    @property
    def sending(self) -> dict[int, PeerConnection]:
        """The connections of the peers that receive from this region, by peer."""
        return self._connections.sending

    # -- connections

    def dial_opened(self, peer: int, now_ms: int, end: OtherEnd = NOBODY) -> Optional[int]:
        """A dial succeeded. Returns the connection's number; None if it is no longer wanted."""
        connection = self._connections.dialled(peer, now_ms, end)
        if connection is not None:
            assert connection.receiver is not None
            self._opening.greet(connection.receiver)
        self._end()
        return None if connection is None else connection.number

    def dial_failed(self, peer: int, text: str, now_ms: int) -> None:
        """Notes that the dial of `peer` failed, for the reason in `text`."""
        self._connections.dial_failed(peer, text, now_ms)

    def accepted(self, now_ms: int, end: OtherEnd = NOBODY) -> int:
        """Notes that another side dialled this region; returns the number of the connection."""
        number = self._connections.accepted(now_ms, end)
        self._end()
        return number

    def turned_away(self, address: str, reason: str, now_ms: int) -> None:
        """Notes that the carrier closed a connection from `address` before its Hello."""
        self._connections.turned_away(address, reason, now_ms)

    def closed(self, number: int, text: str, now_ms: int) -> None:
        """Notes that the carrier lost this connection or that the other side closed it."""
        self._connections.closed(number, text, now_ms)
        self._end()

    def leave(self) -> None:
        """Ends all links, because this region stops; see `leaving`."""
        leaving.leave(self._connections)
        self._end()

    def malformed(self, number: int, error: PeerError, now_ms: int) -> None:
        """Notes that the carrier could not decode a message."""
        self._connections.malformed(number, error, now_ms)
        self._end()

    def _end(self) -> None:
        """A call ends: what connections have taken along is dropped, and peers are told of it."""
        connections = self._connections
        if connections.has_detached:
            connections.has_detached = False
            if connections.puller.pulling is None:
                self._engine.peers.snapshots.drop_read_ahead()
            self._announcements.direct_changed()

    # -- messages

    def received(self, number: int, message: m.Message, now_ms: int) -> None:
        """Takes one message of a connection. The caller keeps their order."""
        connection = self._connections.by_number.get(number)
        if connection is None or connection.finishing:
            return
        steady_ms = self._connections.steady.at(now_ms)
        connection.heard_ms = connection.said_ms = steady_ms
        link = None if connection.receiver is None else self._connections.links[connection.peer]
        if link is not None and link.held.hold(message, steady_ms):
            return
        self._process(connection, message, now_ms)
        self._end()

    def _process(self, connection: PeerConnection, message: m.Message, now_ms: int) -> None:
        try:
            if connection.receiver is not None:
                for event in connection.receiver.received(message):
                    self._claims.check(connection.peer, event, now_ms)
                    self._handle_down(connection, connection.receiver, event, now_ms)
            else:
                assert connection.sender is not None
                for said in connection.sender.received(message):
                    self._claims.check(connection.peer, said, now_ms)
                    self._handle_up(connection, said, now_ms)
        except PeerError as error:
            self._connections.failed(connection, error, now_ms)

    def _handle_down(
        self, connection: PeerConnection, receiver: Receiver, event: object, now_ms: int
    ) -> None:
        peer, steady_ms = connection.peer, self._connections.steady.at(now_ms)
        if isinstance(event, m.Heartbeat):
            self._hear(connection, event.gossip, now_ms)
            if event.digest:
                self._engine.peers.compare_digest(event.vector, event.digest)
            self._connections.puller.heard(peer, event.vector, self._engine.vector, steady_ms)
            if event.stops:
                leaving.peer_leaves(self._connections, connection, now_ms)
            elif event.double:
                self._opening.doubles.told(peer, event.double)
        elif isinstance(event, m.Welcome):
            self._opening.welcomed(connection, receiver, event, now_ms)
        elif isinstance(event, m.HoldingBack):
            if event.holding:
                self._connections.puller.holds_back(peer, event.vector, steady_ms)
            else:
                self._connections.puller.ships_again(peer)
            self._announcements.direct_changed()
        elif isinstance(event, Progress):
            self._connections.puller.progress(steady_ms)
            if event.chunks and self._connections.puller.pulling == peer:
                self._engine.peers.snapshots.read_ahead(event.chunks)
        elif isinstance(event, Staged):
            self._merging.join(connection, event, now_ms)
        else:
            self._handle_common(connection, event, now_ms)

    def _handle_up(self, connection: PeerConnection, event: object, now_ms: int) -> None:
        if isinstance(event, m.VectorAcknowledgement):
            self._engine.peers.acknowledged(connection.peer, event.vector, now_ms)
            if event.gossip is not None:
                self._hear(connection, event.gossip, now_ms)
        elif isinstance(event, m.Hello):
            self._opening.hello(connection, event, now_ms)
        elif isinstance(event, m.SnapshotRequest):
            name = self._connections.name_of(connection.peer)
            self._connections.tell(
                logging.INFO, "snapshot_asked", f"{name} asks for a snapshot", peer=name
            )
            self._connections.snapshots.ask(connection, event.number)
            steady_ms = self._connections.steady.at(now_ms)
            self._connections.snapshots.serve(self._engine.peers.snapshots, steady_ms)
            self._announcements.send_committed()
        else:
            self._handle_common(connection, event, now_ms)

    def _handle_common(self, connection: PeerConnection, event: object, now_ms: int) -> None:
        """Handles the messages that go in both directions."""
        if isinstance(event, StartQuestion):
            self._engine.peers.hear_lives(
                self._claims.lives(connection, event.lives, now_ms), now_ms
            )
            self._peer_lives(connection, event.lives.get(connection.peer, 0), now_ms)
            self._connections.start_asking.asked(connection, event, now_ms)
            self._announcements.send_committed()
        elif isinstance(event, StartAnswer):
            lives = self._claims.lives(connection, event.lives, now_ms)
            self._engine.peers.start_answered(connection.peer, event.with_lives(lives), now_ms)
            self._peer_lives(connection, event.life, now_ms)
        else:
            assert isinstance(event, m.Refusal)
            self._refused(connection, event, now_ms)

    def _hear(self, connection: PeerConnection, gossip: Gossip, now_ms: int) -> None:
        """Takes in gossip.

        The engine may promise an answer to a recovery question here. The answer covers the effects
        applied by now. The same step drops all data of former lives (S13.7).
        """
        self._engine.peers.hear(self._claims.gossip(connection, gossip, now_ms), now_ms)
        self._peer_lives(connection, life_of(connection.peer, gossip), now_ms)

    def _peer_lives(self, connection: PeerConnection, life: int, now_ms: int) -> None:
        """Takes the life that the peer says it lives; a recovery may have begun it meanwhile."""
        connection.life = max(connection.life, life)
        self._connections.close_former_lives(now_ms)

    def _refused(self, connection: PeerConnection, refusal: m.Refusal, now_ms: int) -> None:
        """Handles a refusal: the peer closes the link for the reason given."""
        self._connections.drop(connection)
        if life := self._claims.own_life(connection, refusal.life, now_ms):
            self._engine.peers.hear_lives({self._engine.region_id: life}, now_ms)
        # Who dials may be anybody. The word of a member that is dialled comes from there.
        dialled = connection.receiver is not None or connection.peer not in self.links
        if refusal.reason == "lost" and dialled:
            self._engine.peers.called_lost(connection.peer)
        text = f"{self._connections.name_of(connection.peer)} says: {refusal.text}"
        self._connections.show_refusal(connection, refusal.reason, text, now_ms)

    # -- merging

    @property
    def wants_merge(self) -> bool:
        """Whether `merge_some` has work."""
        return self._merging.is_wanted()

    def merge_some(self, bytes_max: int, now_ms: int) -> bool:
        """Merges about `bytes_max` bytes of received blocks, one link after the other.

        Returns True when it merged blocks, so that the caller has to call it again.
        """
        merged = self._merging.merge_some(bytes_max, now_ms)
        self._end()
        return merged

    def merged_elsewhere(self) -> None:
        """Effects were merged that came over no link: a header that waits may be covered now."""
        self._merging.merged_elsewhere()

    # -- time and commits

    def committed(self, now_ms: int) -> None:
        """Notes that a commit is on disk. The caller has told the tail of the log before."""
        self._announcements.send_committed()
        self._announcements.announce(now_ms)

    def tick(self, now_ms: int) -> None:
        """Does everything that depends on time. The driver calls it every few milliseconds."""
        steady_ms = self._connections.steady.at(now_ms)
        for link in self._connections.links.values():
            while link.connection is not None and (message := link.held.due(steady_ms)) is not None:
                self._process(link.connection, message, now_ms)
            receiver = link.connection.receiver if link.connection is not None else None
            if receiver is not None and receiver.open:
                receiver.tick(steady_ms)
            if link.dial_due(steady_ms):
                link.dialling = True
                self._connections.work.dials.append(link.peer)
        self._connections.close_silent(now_ms, steady_ms)
        self._opening.decide(now_ms)
        self._connections.refuse_lost(now_ms)
        self._connections.start_asking.answer(now_ms)
        self._connections.tell_repeated_refusals(steady_ms)
        self._opening.doubles.tick(steady_ms)
        self._merging.pull(now_ms, steady_ms)
        self._connections.snapshots.serve(self._engine.peers.snapshots, steady_ms)
        self._announcements.send_committed()
        self._announcements.announce(now_ms)
        self._release_tail()
        self._end()

    def is_quiet(self) -> bool:
        """Whether no message is held back, no snapshot is under way, and all is acknowledged."""
        return (
            self._announcements.is_quiet()
            and self._connections.puller.pulling is None
            and self._connections.snapshots.is_quiet
            and not any(link.held for link in self._connections.links.values())
        )

    def _release_tail(self) -> None:
        """Releases the rows that every sender has read.

        A sender without a place in the log does not count: it begins with a read of the disk.
        """
        logs = [
            one.sender.log for one in self._connections.by_number.values() if one.sender is not None
        ]
        read = [log.cursor for log in logs if log.is_located]
        self._connections.tail.release(min(read, default=self._connections.tail.position))

    def apply_link_requests(self, now_ms: int) -> None:
        """Carries out CRDT.LINK requests.

        The driver calls this before a message is taken in or sent, so DOWN is in force from its
        reply on.
        """
        for request in self._engine.peers.links.take_requests():
            steady_ms = self._connections.steady.at(now_ms)
            link_requests.carry_out(self._connections, request, steady_ms)
            self._announcements.direct_changed()
        self._end()

    # -- output for the driver

    def ask_for_start(self) -> None:
        """Asks peers the questions of a start (S13.6). The driver calls it after other events."""
        self._connections.start_asking.ask(self._connections.by_number.values())

    def next_message(self, number: int) -> Optional[m.Message]:
        """Returns the next message to send on this connection; None when no message waits.

        The driver asks again after every step and after each message sent.
        """
        message = self._connections.next_message(number)
        self._end()
        if message is not None:
            # The sender may have used up the rows that it had read.
            connection = self._connections.by_number[number]
            if (
                connection.sender is not None
                and self._connections.sending.get(connection.peer) is connection
            ):
                self._collect_requests(number, connection.sender)
        return message

    def sent(self, number: int, size: int) -> None:
        """Counts a message of `size` bytes that was sent on this connection."""
        self._connections.sent(number, size)

    def arrived(self, number: int, size: int) -> None:
        """Counts a message of `size` bytes that arrived; see `Connections.arrived`."""
        self._connections.arrived(number, size)

    def reads_on(self, number: int) -> bool:
        """Whether the carrier is to read another message; False while a limited link is full."""
        return self._connections.reads_on(number)

    def finished(self, number: int) -> bool:
        """Whether the carrier is to close this connection. Call it when no message waits."""
        return self._connections.finished(number)

    @property
    def has_work(self) -> bool:
        """Whether tasks are known that wait for `take_work`."""
        work = self._connections.work
        return bool(work.requests or work.dials or work.closes or work.events)

    def find_work(self) -> bool:
        """Asks all senders for their questions to the log; returns whether any task waits."""
        for connection in self._connections.sending.values():
            assert connection.sender is not None
            self._collect_requests(connection.number, connection.sender)
        return self.has_work

    def take_work(self) -> HubWork:
        """Returns the tasks that arose since the last call."""
        self.find_work()
        work, self._connections.work = self._connections.work, HubWork()
        return work

    def _collect_requests(self, number: int, sender: Sender) -> None:
        """Adds the questions of a sender to the log to the work."""
        while (request := sender.request()) is not None:
            self._connections.work.requests.append((number, request))
            self.counts["log_reads"] += isinstance(request, ReadLog)

    def answered(self, number: int, request: Request, result: Any, now_ms: int) -> None:
        """Takes the result of a request; the class of the request defines the result."""
        connection = self._connections.by_number.get(number)
        if connection is None or connection.finishing:
            return
        if isinstance(request, CheckChains):
            self._opening.chains_checked(connection, request, result, now_ms)
            self._end()
            return
        sender, disk_vector = connection.sender, self._engine.disk_vector
        assert sender is not None
        if isinstance(request, Locate):
            sender.located(request, result, disk_vector)
        elif isinstance(request, ReadLog):
            sender.rows_read(request, result, disk_vector)
        else:
            assert isinstance(request, ReadBlock)
            self.counts["bodies_sent"] += result is not None
            sender.block_read(result, disk_vector)
