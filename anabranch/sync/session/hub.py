"""All links of one region, and the decisions across them. Sans-IO; a part of the driver.

In: connections that opened, messages, commits, answers of the log, ticks. Out: messages
(`next_message`) and all other tasks (`take_work`).

The hub is three classes, each derived from the one before: `Switchboard` (connections), `Opening`
(handshakes), `Hub` (messages on open links).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Optional

from anabranch.crdt.errors import ChainForked, PeerError
from anabranch.crdt.gossip import Gossip, StartAnswer, StartQuestion
from anabranch.crdt.vector import includes
from anabranch.sync.session import messages as m
from anabranch.sync.session.announcer import Announcer, own_gossip
from anabranch.sync.session.handshake import Identity, refusal_of_lost
from anabranch.sync.session.interfaces import (
    Attestation,
    Engine,
    LinkRequest,
    Settings,
    SteadyClock,
)
from anabranch.sync.session.links import PeerConnection
from anabranch.sync.session.log_requests import CheckChains, Locate, ReadBlock, ReadLog, Request
from anabranch.sync.session.log_tail import LogTail
from anabranch.sync.session.opening import Opening
from anabranch.sync.session.receiver import Progress, Receiver, Staged
from anabranch.sync.session.sender import Sender
from anabranch.sync.session.work import HubWork

# A connection is taken for dead after crdt-link-silence-ms without a message, but not before this
# number of heartbeats is missing.
_SILENCE_HEARTBEATS = 50


class Hub(Opening):
    """All links of one region. `peers`: the regions from which this one receives."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        peers: Iterable[int],
        tail: LogTail,
        clock: SteadyClock,
    ) -> None:
        super().__init__(engine, settings, peers, tail, clock)
        self._announcer = Announcer(settings, 0)
        self._snapshot_number = 0
        # A join applied effects: headers at which other links stopped may be covered now.
        self._merge_again = False
        self._merge_turn = 0

    def _detach(self, connection: PeerConnection) -> None:
        super()._detach(connection)
        if self._puller.pulling is None:
            self.engine.snapshots.drop_read_ahead()
        self._direct_changed()

    # -- messages

    def received(self, number: int, message: m.Message, now_ms: int) -> None:
        """Takes one message of a connection. The caller keeps their order."""
        connection = self._connections.get(number)
        if connection is None or connection.finishing:
            return
        steady_ms = connection.heard_ms = self._steady.at(now_ms)
        if connection.receiver is not None:
            if self.links[connection.peer].held.hold(message, steady_ms):
                return
        self._process(connection, message, now_ms)

    def _process(self, connection: PeerConnection, message: m.Message, now_ms: int) -> None:
        try:
            if connection.receiver is not None:
                for event in connection.receiver.received(message):
                    self._handle_down(connection, connection.receiver, event, now_ms)
            else:
                assert connection.sender is not None
                for said in connection.sender.received(message):
                    self._handle_up(connection, said, now_ms)
        except PeerError as error:
            self._failed(connection, error, now_ms)

    def _handle_down(
        self, connection: PeerConnection, receiver: Receiver, event: object, now_ms: int
    ) -> None:
        peer, steady_ms = connection.peer, self._steady.at(now_ms)
        if isinstance(event, m.Heartbeat):
            self._hear(connection, event.gossip, now_ms)
            if event.digest:
                self.engine.compare_digest(event.vector, event.digest)
            self._puller.heard(peer, event.vector, self.engine.vector, steady_ms)
        elif isinstance(event, m.Welcome):
            self._welcomed(connection, receiver, event, now_ms)
        elif isinstance(event, m.HoldingBack):
            if event.holding:
                self._puller.holds_back(peer, event.vector, steady_ms)
            else:
                self._puller.ships_again(peer)
            self._direct_changed()
        elif isinstance(event, Progress):
            self._puller.progress(steady_ms)
            if event.chunks and self._puller.pulling == peer:
                self.engine.snapshots.read_ahead(event.chunks)
        elif isinstance(event, Staged):
            self._join(connection, event, now_ms)
        else:
            self._handle_common(connection, event, now_ms)

    def _handle_up(self, connection: PeerConnection, event: object, now_ms: int) -> None:
        if isinstance(event, m.VectorAcknowledgement):
            self.engine.acknowledged(connection.peer, event.vector, now_ms)
            if event.gossip is not None:
                self._hear(connection, event.gossip, now_ms)
        elif isinstance(event, m.Hello):
            self._hello(connection, event, now_ms)
        elif isinstance(event, m.SnapshotRequest):
            name = self._name(connection.peer)
            self._tell(logging.INFO, "snapshot_asked", f"{name} asks for a snapshot", peer=name)
            self.snapshots.ask(connection, event.number)
            self.snapshots.serve(self.engine.snapshots, self._steady.at(now_ms))
            self._send_committed()
        else:
            self._handle_common(connection, event, now_ms)

    def _handle_common(self, connection: PeerConnection, event: object, now_ms: int) -> None:
        """Handles the messages that go in both directions."""
        if isinstance(event, StartQuestion):
            self.engine.hear_lives(event.lives, now_ms)
            self._peer_lives(connection, event.lives.get(connection.peer, 0), now_ms)
            self.start_asking.asked(connection, event, now_ms)
            self._send_committed()
        elif isinstance(event, StartAnswer):
            self.engine.start_answered(connection.peer, event, now_ms)
            self._peer_lives(connection, event.life, now_ms)
        elif isinstance(event, m.Refusal):
            self._refused(connection, event, now_ms)

    def _hear(self, connection: PeerConnection, gossip: Gossip, now_ms: int) -> None:
        """Takes in gossip.

        The engine may promise an answer to a recovery question here. The answer covers the effects
        applied by now. The same step drops all data of former lives (S13.7).
        """
        self.engine.hear(gossip, now_ms)
        self._peer_lives(connection, _life_of(connection.peer, gossip), now_ms)

    def _peer_lives(self, connection: PeerConnection, life: int, now_ms: int) -> None:
        """Takes the life that the connected peer reports of itself.

        A recovery may have begun a later life of the peer since the handshake.
        """
        connection.life = max(connection.life, life)
        self._drop_former_lives(now_ms)

    def _refused(self, connection: PeerConnection, refusal: m.Refusal, now_ms: int) -> None:
        """Handles a refusal: the peer closes the link for the reason given."""
        self._drop(connection)
        if refusal.life:
            self.engine.hear_lives({self.engine.region_id: refusal.life}, now_ms)
        if refusal.reason == "lost":
            self.engine.called_lost(connection.peer)
        self._show_refusal(
            connection,
            refusal.reason,
            f"{self._name(connection.peer)} says: {refusal.text}",
            now_ms,
        )

    # -- announcing the state on disk

    def _send_committed(self) -> None:
        """Sends every announcement and answer that waited for a commit now on disk (S2.4)."""
        position = self.engine.committed_position
        finished = self._announcer.finished(position)
        if finished is not None:
            self._send_announcement(*finished)
        self.start_asking.committed(position)
        self.snapshots.committed(position)

    def _send_announcement(self, attestation: Attestation, beat: bool) -> None:
        gossip = own_gossip(self.engine, attestation) if beat else None
        self._acknowledge(gossip)
        if gossip is not None:
            heartbeat = m.Heartbeat(dict(attestation.vector), attestation.digest, gossip)
            for connection in self.sending.values():
                if connection.sender is not None and connection.sender.open:
                    connection.sender.heartbeat(heartbeat)

    # -- merging

    @property
    def wants_merge(self) -> bool:
        """Whether `merge_some` has work."""
        return self._merge_again or any(
            link.connection is not None
            and link.connection.receiver is not None
            and link.connection.receiver.ready
            for link in self.links.values()
        )

    def merge_some(self, bytes_max: int, now_ms: int) -> bool:
        """Merges about `bytes_max` bytes of received blocks, one link after the other.

        Returns True when it merged blocks, so that the caller has to call it again.
        """
        self._merge_again = False
        links = list(self.links.values())
        self._merge_turn += 1
        merged = False
        for place in range(len(links)):
            link = links[(self._merge_turn + place) % len(links)]
            connection = link.connection
            if connection is None or connection.receiver is None or bytes_max <= 0:
                continue
            blocks = connection.receiver.take(
                self.engine.vector, bytes_max, self._steady.at(now_ms)
            )
            if not blocks:
                continue
            size = sum(len(block.body) for block in blocks)
            bytes_max -= size
            merged = True
            try:
                self.engine.merge(blocks, link.peer, now_ms)
                self.counts["blocks_merged"] += len(blocks)
                self.counts["bytes_merged"] += size
            except PeerError as error:
                self._failed(connection, error, now_ms)
        if merged:
            self._announcer.dirty = True
            self._announce(now_ms)
        return merged

    def merged_elsewhere(self) -> None:
        """Effects were merged that came over no link: a header that waits may be covered now."""
        self._announcer.dirty = True
        self._merge_again = True

    def _announce(self, now_ms: int) -> None:
        if self._connections:
            self._announcer.begin(self.engine, now_ms, self._steady.at(now_ms))
            self._send_committed()

    def _join(self, connection: PeerConnection, staged: Staged, now_ms: int) -> None:
        """Joins a staged snapshot in one step (S11.2), unless this region holds all of it by now.

        Raises ChainForked when a chain value of the snapshot differs from this region's.
        """
        for region_id, chain in staged.chains.items():
            same_place = self.engine.disk_vector.get(region_id) == staged.vector.get(region_id)
            if same_place and self.engine.disk_chains.get(region_id, chain) != chain:
                raise ChainForked(f"the snapshot has a different history of region {region_id}")
        if not includes(self.engine.vector, staged.vector):
            self.engine.snapshots.join(staged.chunks, connection.peer, now_ms)
            self.counts["snapshots_joined"] += 1
            self.engine.want_commit()
            name = self._name(connection.peer)
            text = f"joined a snapshot of {staged.bytes} bytes from {name}"
            self._tell(logging.INFO, "snapshot_joined", text, peer=name, bytes=staged.bytes)
        self._puller.joined(self._steady.at(now_ms))
        self.engine.snapshots.drop_read_ahead()
        self.merged_elsewhere()

    # -- time and commits

    def committed(self, now_ms: int) -> None:
        """Notes that a commit is on disk. The caller has told the tail of the log before."""
        self._send_committed()
        self._announce(now_ms)

    def tick(self, now_ms: int) -> None:
        """Does everything that depends on time. The driver calls it every few milliseconds."""
        steady_ms = self._steady.at(now_ms)
        for link in self.links.values():
            while link.connection is not None and (message := link.held.due(steady_ms)) is not None:
                self._process(link.connection, message, now_ms)
            receiver = link.connection.receiver if link.connection is not None else None
            if receiver is not None and receiver.open:
                receiver.tick(steady_ms)
            if link.dial_due(steady_ms):
                link.dialling = True
                self._work.dials.append(link.peer)
        self._close_silent(now_ms, steady_ms)
        self._refuse_lost(now_ms)
        self.start_asking.answer(now_ms)
        for refused, count in self._refusals.due(steady_ms):
            self._tell_refusal(refused, count)
        self._pull(now_ms, steady_ms)
        self.snapshots.serve(self.engine.snapshots, steady_ms)
        self._send_committed()
        self._announce(now_ms)
        self._release_tail()

    def is_quiet(self) -> bool:
        """Whether no message is held back, no snapshot is under way, and all is acknowledged."""
        return (
            not self._announcer.dirty
            and self._puller.pulling is None
            and self.snapshots.is_quiet
            and not any(link.held for link in self.links.values())
        )

    def _release_tail(self) -> None:
        """Releases the rows that every sender has read.

        A sender without a place in the log does not count: it begins with a read of the disk.
        """
        logs = [one.sender.log for one in self._connections.values() if one.sender is not None]
        read = [log.cursor for log in logs if log.is_located]
        self.tail.release(min(read, default=self.tail.position))

    def _refuse_lost(self, now_ms: int) -> None:
        """Refuses the connections of members that were said to be lost while connected (S13.8)."""
        own = Identity.of(self.engine)
        for connection in list(self._connections.values()) if own.lost else []:
            if connection.peer in own.lost and not connection.finishing:
                refusal = refusal_of_lost(self._name(connection.peer), own.name)
                self._refuse(connection, refusal, now_ms)

    def _close_silent(self, now_ms: int, steady_ms: int) -> None:
        silence_ms = max(
            self.settings.integer("crdt-link-silence-ms"),
            _SILENCE_HEARTBEATS * self.settings.integer("crdt-heartbeat-interval-ms"),
        )
        for link in self.links.values():
            # A message that is held back has come: the carrier may have been told to read no more.
            if link.connection is not None and link.held:
                link.connection.heard_ms = steady_ms
        for connection in list(self._connections.values()):
            if steady_ms - connection.heard_ms > silence_ms:
                self.closed(connection.number, f"nothing heard for {silence_ms} ms", now_ms)

    def _pull(self, now_ms: int, steady_ms: int) -> None:
        patience_ms = self.settings.integer("crdt-snapshot-patience-ms")
        stalled = self._puller.stalled(steady_ms, patience_ms)
        if stalled is not None:
            connection = self.links[stalled].connection
            assert connection is not None
            self.closed(connection.number, "no further chunk of its snapshot came", now_ms)
        peer = self._puller.decide(self.engine.vector, steady_ms, patience_ms)
        connection = self.links[peer].connection if peer is not None else None
        if connection is not None and connection.receiver is not None:
            name = self._name(connection.peer)
            text = f"pulls a snapshot from {name}, whose log no longer reaches back"
            self._tell(logging.INFO, "snapshot_begun", text, peer=name)
            self._snapshot_number += 1
            connection.receiver.ask_snapshot(self._snapshot_number)

    def apply_link_requests(self, now_ms: int) -> None:
        """Carries out CRDT.LINK requests.

        The driver calls this before a message is taken in or sent, so DOWN is in force from its
        reply on.
        """
        for request in self.engine.links.take_requests():
            self._link_request(request, self._steady.at(now_ms))

    def _link_request(self, request: LinkRequest, steady_ms: int) -> None:
        """Carries out one `CRDT.LINK peer UP | DOWN | DELAY ms | LIMIT bytes-per-second`."""
        link, action = self.links.get(request.peer), request.action.upper()
        if link is None:
            return
        if action == "DOWN":
            link.wanted = False
            if link.connection is not None:
                self._drop(link.connection)
            self._state(link, "down", "CRDT.LINK DOWN")
            self._tell_link(logging.WARNING, "link_cut", link.peer, "was cut by CRDT.LINK DOWN")
        elif action == "UP":
            if not link.wanted:
                self._tell_link(logging.INFO, "link_healed", link.peer, "is wanted again")
            link.wanted = True
            link.dial_now(steady_ms)
            if link.connection is None:
                self._state(link, "connecting")
        else:
            link.held.delay_ms = request.delay_ms
            link.held.limit_bytes_s = request.limit_bytes_s
            text = f"has a delay of {request.delay_ms} ms and a limit of {request.limit_bytes_s}"
            self._tell_link(
                logging.WARNING,
                "link_throttled",
                link.peer,
                f"{text} bytes/s (0: none)",
                delay_ms=request.delay_ms,
                limit_bytes_s=request.limit_bytes_s,
            )
            self._direct_changed()

    def reads_on(self, number: int) -> bool:
        """Whether the carrier is to read another message; False while a limited link is full."""
        connection = self._connections.get(number)
        if connection is None or connection.receiver is None:
            return True
        return not self.links[connection.peer].held.is_full

    # -- output for the driver

    def ask_for_start(self) -> None:
        """Asks peers the questions of a start (S13.6). The driver calls it after other events."""
        self.start_asking.ask(self._connections.values())

    def next_message(self, number: int) -> Optional[m.Message]:
        message = super().next_message(number)
        if message is not None:
            # The sender may have used up the rows that it had read.
            connection = self._connections[number]
            if connection.sender is not None and self.sending.get(connection.peer) is connection:
                self._collect_requests(number, connection.sender)
        return message

    @property
    def has_work(self) -> bool:
        """Whether tasks are known that wait for `take_work`."""
        work = self._work
        return bool(work.requests or work.dials or work.closes or work.events)

    def find_work(self) -> bool:
        """Asks all senders for their questions to the log; returns whether any task waits."""
        for connection in self.sending.values():
            if connection.sender is not None:
                self._collect_requests(connection.number, connection.sender)
        return self.has_work

    def take_work(self) -> HubWork:
        """Returns the tasks that arose since the last call."""
        self.find_work()
        work, self._work = self._work, HubWork()
        return work

    def _collect_requests(self, number: int, sender: Sender) -> None:
        """Adds the questions of a sender to the log to the work."""
        while (request := sender.request()) is not None:
            self._work.requests.append((number, request))
            self.counts["log_reads"] += isinstance(request, ReadLog)

    def answered(self, number: int, request: Request, result: Any, now_ms: int) -> None:
        """Takes the result of a request; the class of the request defines the result."""
        connection = self._connections.get(number)
        if connection is None or connection.finishing:
            return
        if isinstance(request, CheckChains):
            if result:
                self._forked(connection, result, request.vector.get(result, 0), now_ms)
            else:
                self._chains_fit(connection, now_ms)
            return
        sender, disk_vector = connection.sender, self.engine.disk_vector
        assert sender is not None
        if isinstance(request, Locate):
            sender.located(request, result, disk_vector)
        elif isinstance(request, ReadLog):
            sender.rows_read(request, result, disk_vector)
        elif isinstance(request, ReadBlock):
            self.counts["bodies_sent"] += result is not None
            sender.block_read(result, disk_vector)


def _life_of(peer: int, gossip: Gossip) -> int:
    """Returns the life that a peer reports of itself in its gossip; 0 if it reports none."""
    lives = [heard.life for heard in gossip.heard if heard.region_id == peer]
    lives += [question.life for question in gossip.questions if question.asker == peer]
    return max(lives, default=0)
