"""All links of one region and the decisions across them. Sans-IO: the process and the simulator drive the same hub.

In: connections that opened, messages, commits, answers of the log, ticks. Out, each taken when the driver is ready for it: messages
(`next_message`), questions to the log (`take_requests`), peers to dial (`take_dials`), connections to close (`take_closes`), lines for the
operator (`take_notes`). The hub calls the engine, which is as deterministic as it is; after a batch of calls the driver lets the
region step (commits, answers).

A connection's life: opened → what this region has is attested and committed (S2.4, S13.6) → Hello or Welcome → chains compared
(S13.5) → open. Before anything is said on a new connection of a peer, the former of that direction is closed and forgotten (S2.2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Optional

from crdt.vector import Vector, includes
from region.engine.errors import ChainForked, NotAMember, PeerError, SyncGap
from region.engine.gossip import Gossip
from region.engine.settings import Settings
from sync import messages as m
from sync.attesting import Announcer, SteadyClock, comparable, own_gossip
from sync.doors import Attestation, Engine, Row, SnapshotCut
from sync.handshake import Identity, Limits, refuse_hello, refuse_welcome
from sync.links import Connection, Link
from sync.puller import Puller
from sync.receiver import Progress, Receiver, Staged
from sync.sender import CheckChains, Locate, ReadBlock, ReadLog, Request, Sender

# A connection that says nothing for so long is taken for dead; heartbeats come far more often.
_SILENCE_MS_MIN = 10_000
_SILENCE_HEARTBEATS = 50


class Hub:
    """`peers`: the regions that this one receives from. `counts`: figures for INFO and metrics."""

    def __init__(self, engine: Engine, settings: Settings, peers: Iterable[int], now_ms: int) -> None:
        self.engine = engine
        self.settings = settings
        pauses = settings.integer("crdt-reconnect-min-ms"), settings.integer("crdt-reconnect-max-ms")
        self.links = {peer: Link(peer, *pauses, 0) for peer in sorted(peers)}
        self.sending: dict[int, Connection] = {}  # by peer: who receives from here
        self.counts = dict.fromkeys(
            ["gaps", "forks", "refusals", "bodies_sent", "snapshots_joined", "snapshots_sent", "blocks_merged", "bytes_merged"], 0
        )
        self._steady = SteadyClock(now_ms)
        self._connections: dict[int, Connection] = {}
        self._number = 0
        self._greetings: list[tuple[Attestation, Connection]] = []  # handshakes that wait for a commit
        self._announcer = Announcer(settings, 0)
        self._puller = Puller()
        self._snapshot_number = 0
        self._snapshot_asked: deque[tuple[Connection, int]] = deque()  # peers that want a snapshot from here: one at a time
        self._cut: Optional[tuple[SnapshotCut, Connection, int]] = None  # a cut that waits for its commit
        self._snapshot_sender: Optional[Connection] = None
        self._jump_position = 0  # where the commit of the newest join lies; 0 when it is on disk
        self._poked = False  # something that headers may wait for came by other ways than a merge
        self._merge_turn = 0
        self._direct: frozenset[int] = frozenset()
        self._dials: list[int] = []
        self._closes: list[int] = []
        self._checks: list[tuple[int, Request]] = []
        self._notes: list[str] = []
        for link in self.links.values():
            self._state(link, "connecting")

    # ---- Connections open and close

    def dial_opened(self, peer: int, now_ms: int) -> Optional[int]:
        """The dialling of `peer` succeeded: the connection's number, None when it is no longer wanted."""
        link = self.links[peer]
        link.dialling = False
        if not link.wanted or link.connection is not None:
            return None
        for former in list(self._connections.values()):
            if former.receiver is not None and former.peer == peer:
                self._drop(former)
        link.connection = connection = self._connection(now_ms, receiver=Receiver(peer, Limits(self.settings)))
        self._greet(connection, now_ms)
        return connection.number

    def dial_failed(self, peer: int, text: str, now_ms: int) -> None:
        link = self.links[peer]
        link.dialling = False
        link.back_off(self._steady.at(now_ms))
        if link.wanted:
            self._state(link, link.state, text)

    def accepted(self, now_ms: int) -> int:
        """Somebody dialled this region: the connection's number."""
        return self._connection(now_ms, sender=Sender(self.engine.region_id, Limits(self.settings))).number

    def closed(self, number: int, text: str, now_ms: int) -> None:
        """The carrier lost this connection, or the other side closed it."""
        connection = self._connections.get(number)
        if connection is None:
            return
        link = self.links.get(connection.peer) if connection.receiver is not None else None
        current = link is not None and link.connection is connection
        self._drop(connection)
        if link is not None and current:
            link.back_off(self._steady.at(now_ms))
            self._state(link, "connecting", text)

    def malformed(self, number: int, error: PeerError, now_ms: int) -> None:
        """The carrier could not read a message."""
        connection = self._connections.get(number)
        if connection is not None and not connection.finishing:
            self._failed(connection, error, now_ms)

    def _connection(self, now_ms: int, receiver: Optional[Receiver] = None, sender: Optional[Sender] = None) -> Connection:
        self._number += 1
        connection = Connection(self._number, self._steady.at(now_ms), receiver=receiver, sender=sender)
        self._connections[connection.number] = connection
        return connection

    def _drop(self, connection: Connection) -> None:
        """Forgets a connection and all that it holds, and has it closed without another word."""
        self._detach(connection)
        if self._connections.pop(connection.number, None) is not None:
            self._closes.append(connection.number)

    def _detach(self, connection: Connection) -> None:
        """No link any more: what it holds is dropped; its last words may still be on their way."""
        if connection.receiver is not None:
            link = self.links[connection.peer]
            if link.connection is connection:
                link.connection = None
                link.delayed.clear()
                self._puller.closed(connection.peer)
                self._direct_changed()
            return
        if self.sending.get(connection.peer) is connection:
            del self.sending[connection.peer]
            if connection.sender is not None and connection.sender.open:
                self.engine.receiver_closed(connection.peer)
        self._snapshot_asked = deque(asked for asked in self._snapshot_asked if asked[0] is not connection)
        if self._snapshot_sender is connection:
            self._snapshot_sender = self._cut = None

    def _refuse(self, connection: Connection, refusal: m.Refusal, now_ms: int) -> None:
        """Says why, and closes once that is said. Both sides show the reason."""
        self._detach(connection)
        connection.finishing = True
        session = connection.receiver or connection.sender
        assert session is not None
        session.refuse(refusal)
        self._show_refusal(connection, refusal.reason, refusal.text, now_ms)

    def _show_refusal(self, connection: Connection, reason: str, text: str, now_ms: int) -> None:
        self.counts["refusals"] += 1
        self.counts["forks"] += reason == "forked"
        self.counts["gaps"] += reason == "gap"
        direction = "receiving from" if connection.receiver is not None else "sending to"
        self._notes.append(f"{direction} {self._name(connection.peer)}: {reason}: {text}")
        if connection.receiver is not None:
            link = self.links[connection.peer]
            if not link.wanted:
                return
            if reason == "superseded":
                link.back_off(self._steady.at(now_ms))
                self._state(link, "connecting", text)
                return
            link.back_off_longest(self._steady.at(now_ms))
            self._state(link, "forked" if reason == "forked" else "refused", f"{reason}: {text}")

    def _failed(self, connection: Connection, error: PeerError, now_ms: int) -> None:
        """A peer broke the protocol (or a check of the engine's says so)."""
        if isinstance(error, m.LinkRefused):
            reason = error.reason
        elif isinstance(error, ChainForked):
            reason = "forked"
        elif isinstance(error, SyncGap):
            reason = "gap"
        else:
            reason = "not-a-member" if isinstance(error, NotAMember) else "malformed"
        self._refuse(connection, m.Refusal(reason, str(error)), now_ms)

    # ---- Messages

    def received(self, number: int, message: m.Message, now_ms: int) -> None:
        """One message of a connection, in order."""
        connection = self._connections.get(number)
        if connection is None or connection.finishing:
            return
        steady_ms = connection.heard_ms = self._steady.at(now_ms)
        if connection.receiver is not None and self.links[connection.peer].hold(message, steady_ms):
            return
        self._process(connection, message, now_ms)

    def _process(self, connection: Connection, message: m.Message, now_ms: int) -> None:
        try:
            if connection.receiver is not None:
                for event in connection.receiver.received(message):
                    self._came_down(connection, connection.receiver, event, now_ms)
            else:
                assert connection.sender is not None
                for said in connection.sender.received(message):
                    self._came_up(connection, connection.sender, said, now_ms)
        except PeerError as error:
            self._failed(connection, error, now_ms)

    def _came_down(self, connection: Connection, receiver: Receiver, event: object, now_ms: int) -> None:
        peer, steady_ms = connection.peer, self._steady.at(now_ms)
        if isinstance(event, m.Heartbeat):
            self.engine.hear(event.gossip, now_ms)
            if event.digest:
                self.engine.compare_digest(peer, event.vector, event.digest)
            self._puller.heard(peer, event.vector, self.engine.vector, steady_ms)
        elif isinstance(event, m.Welcome):
            refusal = refuse_welcome(Identity.of(self.engine), event, peer)
            if refusal is not None:
                self._refuse(connection, refusal, now_ms)
                return
            connection.greeting = event
            self._check_chains(connection, event.vector, event.chains, now_ms)
        elif isinstance(event, m.HoldingBack):
            if event.holding:
                self._puller.holds_back(peer, event.vector, steady_ms)
            else:
                self._puller.ships_again(peer)
            self._direct_changed()
        elif isinstance(event, Progress):
            self._puller.progress(steady_ms)
        elif isinstance(event, Staged):
            self._join(connection, event, now_ms)
        elif isinstance(event, m.Refusal):
            self._refused(connection, event, now_ms)

    def _came_up(self, connection: Connection, sender: Sender, event: object, now_ms: int) -> None:
        if isinstance(event, m.Acknowledge):
            self.engine.acknowledged(connection.peer, event.vector, now_ms)
            if event.gossip is not None:
                self.engine.hear(event.gossip, now_ms)
        elif isinstance(event, m.Hello):
            self._hello(connection, event, now_ms)
        elif isinstance(event, m.SnapshotRequest):
            self._snapshot_asked.append((connection, event.number))
            self._serve_snapshot(now_ms)
        elif isinstance(event, m.Refusal):
            self._refused(connection, event, now_ms)

    def _refused(self, connection: Connection, refusal: m.Refusal, now_ms: int) -> None:
        """The peer closes the link and says why."""
        self._drop(connection)
        self._show_refusal(connection, refusal.reason, f"{self._name(connection.peer)} says: {refusal.text}", now_ms)

    # ---- Handshake

    def _greet(self, connection: Connection, now_ms: int) -> None:
        self._greetings.append((self.engine.attest(False, now_ms), connection))
        self._on_disk(now_ms)

    def _hello(self, connection: Connection, hello: m.Hello, now_ms: int) -> None:
        refusal = refuse_hello(Identity.of(self.engine), hello)
        if refusal is None:
            former = self.sending.get(hello.region_id)
            if former is not None and former.greeting is not None and former.greeting.life > hello.life:
                refusal = m.Refusal("superseded", f"{hello.name} is connected with a later life than {hello.life}")
        if refusal is not None:
            connection.peer = hello.region_id if hello.region_id in self.engine.members else 0
            self._refuse(connection, refusal, now_ms)
            return
        if former is not None:
            self._drop(former)
        connection.peer = hello.region_id
        connection.greeting = hello
        self.sending[hello.region_id] = connection
        self._check_chains(connection, hello.vector, hello.chains, now_ms)
        if not connection.finishing:
            self._greet(connection, now_ms)

    def _check_chains(self, connection: Connection, vector: Vector, chains: dict[int, bytes], now_ms: int) -> None:
        chains = comparable(vector, chains, self.engine.disk_vector)
        if chains:
            self._checks.append((connection.number, CheckChains(vector, chains)))
        else:
            self._chains_fit(connection, now_ms)

    def _chains_fit(self, connection: Connection, now_ms: int) -> None:
        """The other side has the same past. What it holds counts from here on (S13.6)."""
        connection.checked = True
        greeting = connection.greeting
        assert greeting is not None
        self.engine.peer_holds(connection.peer, greeting.life, greeting.vector, now_ms)
        if connection.receiver is not None:
            link = self.links[connection.peer]
            link.welcomed()
            connection.receiver.open = True
            self._state(link, "up")
            self._direct_changed()
        else:
            self._welcome(connection)

    def _welcome(self, connection: Connection) -> None:
        if not (connection.checked and connection.attested) or connection.sender is None or connection.finishing:
            return
        own, engine = Identity.of(self.engine), self.engine
        welcome = m.Welcome(
            m.VERSION, own.cluster, own.members, own.region_id, own.name, engine.life, dict(engine.disk_vector), dict(engine.disk_chains)
        )
        connection.sender.welcome(welcome, engine.committed_position)
        engine.receiver_opened(connection.peer)

    def _on_disk(self, now_ms: int) -> None:
        """Says all that waited for a commit that is now on disk."""
        position = self.engine.committed_position
        waiting, self._greetings = self._greetings, []
        for attestation, connection in waiting:
            if connection.number not in self._connections or connection.finishing:
                continue
            if attestation.position > position:
                self._greetings.append((attestation, connection))
                continue
            connection.attested = True
            if connection.receiver is not None:
                connection.receiver.greet(self._own_hello(connection))
            else:
                self._welcome(connection)
        finished = self._announcer.finished(position)
        if finished is not None:
            self._say(*finished)
        if self._cut is not None and self._cut[0].position <= position:
            cut, connection, number = self._cut
            self._cut = None
            assert connection.sender is not None
            chunks = cut.chunks(connection.sender.limits.batch_bytes)
            connection.sender.send_snapshot(number, cut.vector, cut.chains, chunks)
            self.counts["snapshots_sent"] += 1

    def _own_hello(self, connection: Connection) -> m.Hello:
        own, engine = Identity.of(self.engine), self.engine
        assert connection.receiver is not None
        return m.Hello(
            m.VERSION, own.cluster, own.members, own.region_id, own.name, connection.peer, engine.life, dict(engine.disk_vector),
            dict(engine.disk_chains), self._direct, connection.receiver.limits.window_bytes,
        )  # fmt: skip

    # ---- Acknowledgements and heartbeats

    def _say(self, attestation: Attestation, beat: bool) -> None:
        gossip = own_gossip(self.engine, attestation) if beat else None
        self._acknowledge(gossip)
        if gossip is not None:
            heartbeat = m.Heartbeat(dict(attestation.vector), attestation.digest, gossip)
            for connection in self.sending.values():
                if connection.sender is not None and connection.sender.open:
                    connection.sender.heartbeat(heartbeat)

    def _acknowledge(self, gossip: Optional[Gossip]) -> None:
        for link in self.links.values():
            receiver = link.connection.receiver if link.connection is not None else None
            if receiver is not None and receiver.open:
                receiver.acknowledge(self.engine.disk_vector, self._direct, gossip)

    def _direct_changed(self) -> None:
        """Whom this region receives directly (S2.3): not a link that holds back, nor one that is late on purpose."""
        patience_ms = self.settings.integer("crdt-body-patience-ms")
        direct = set()
        for link in self.links.values():
            receiver = link.connection.receiver if link.connection is not None else None
            if receiver is not None and receiver.open and not receiver.holding_back and link.delay_ms <= patience_ms:
                direct.add(link.peer)
        if direct != self._direct:
            self._direct = frozenset(direct)
            self._acknowledge(None)

    # ---- Merging

    @property
    def wants_merge(self) -> bool:
        """Whether `merge_some` has something to do."""
        return self._poked or any(
            link.connection is not None and link.connection.receiver is not None and link.connection.receiver.ready
            for link in self.links.values()
        )

    def merge_some(self, bytes_max: int, now_ms: int) -> bool:
        """Merges about `bytes_max` of what came, links in turn; True when it is to be called again."""
        self._poked = False
        links = list(self.links.values())
        self._merge_turn += 1
        merged = False
        for place in range(len(links)):
            link = links[(self._merge_turn + place) % len(links)]
            connection = link.connection
            if connection is None or connection.receiver is None or bytes_max <= 0:
                continue
            blocks = connection.receiver.take(self.engine.vector, bytes_max, self._steady.at(now_ms))
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

    def _announce(self, now_ms: int) -> None:
        if self._connections:
            self._announcer.begin(self.engine, now_ms, self._steady.at(now_ms))
            self._on_disk(now_ms)

    def _join(self, connection: Connection, staged: Staged, now_ms: int) -> None:
        """Joins a staged snapshot in one step (S11.2), unless all of it came another way meanwhile."""
        for region_id, chain in staged.chains.items():
            same_place = self.engine.disk_vector.get(region_id) == staged.vector.get(region_id)
            if same_place and self.engine.disk_chains.get(region_id, chain) != chain:
                raise ChainForked(f"the snapshot has another past of region {region_id}")
        if not includes(self.engine.vector, staged.vector):
            self.engine.join(staged.chunks, connection.peer, now_ms)
            self.counts["snapshots_joined"] += 1
            self._jump_position = self.engine.attest(False, now_ms).position
            self._notes.append(f"joined a snapshot of {staged.bytes} bytes from {self._name(connection.peer)}")
        self._puller.joined(self._steady.at(now_ms))
        self._announcer.dirty = True
        self._poked = True

    def _serve_snapshot(self, now_ms: int) -> None:
        """Cuts for the next peer that asked, once the one before was sent: a cut costs memory (S14)."""
        busy = self._snapshot_sender
        if busy is not None and busy.sender is not None and (self._cut is not None or busy.sender.sending_snapshot):
            return
        self._snapshot_sender = None
        if self._snapshot_asked:
            connection, number = self._snapshot_asked.popleft()
            self._cut = (self.engine.snapshot_cut(), connection, number)
            self._snapshot_sender = connection
            self._on_disk(now_ms)

    # ---- Time and commits

    def committed(self, position: int, now_ms: int, rows: Optional[Sequence[Row]] = None) -> None:
        """The log is on disk up to `position`; `rows` are the block rows of just this commit, if they are at hand."""
        if self._jump_position:
            rows = None
        for connection in self.sending.values():
            if connection.sender is not None:
                if self._jump_position:
                    connection.sender.log_jumped()
                connection.sender.committed(position, rows)
        if position >= self._jump_position:
            self._jump_position = 0
        self._on_disk(now_ms)
        self._announce(now_ms)

    def tick(self, now_ms: int) -> None:
        """Everything that time brings: call it every few milliseconds."""
        steady_ms = self._steady.at(now_ms)
        for request in self.engine.link_requests():
            self._link_request(request.peer, request.action.upper(), request.delay_ms, steady_ms)
        for link in self.links.values():
            while link.connection is not None and (message := link.due(steady_ms)) is not None:
                self._process(link.connection, message, now_ms)
            receiver = link.connection.receiver if link.connection is not None else None
            if receiver is not None and receiver.open:
                receiver.tick(steady_ms)
            if link.dial_due(steady_ms):
                link.dialling = True
                self._dials.append(link.peer)
        self._silence(now_ms, steady_ms)
        self._pull(now_ms, steady_ms)
        self._serve_snapshot(now_ms)
        self._announce(now_ms)

    def _silence(self, now_ms: int, steady_ms: int) -> None:
        silence_ms = max(_SILENCE_MS_MIN, _SILENCE_HEARTBEATS * self.settings.integer("crdt-heartbeat-interval-ms"))
        for connection in list(self._connections.values()):
            if steady_ms - connection.heard_ms > silence_ms:
                self.closed(connection.number, f"nothing heard for {silence_ms} ms", now_ms)

    def _pull(self, now_ms: int, steady_ms: int) -> None:
        patience_ms = self.settings.integer("crdt-snapshot-patience-ms")
        stalled = self._puller.stalled(steady_ms, patience_ms)
        if stalled is not None:
            connection = self.links[stalled].connection
            assert connection is not None
            self.closed(connection.number, "its snapshot came to a stop", now_ms)
        peer = self._puller.decide(self.engine.vector, steady_ms, patience_ms)
        connection = self.links[peer].connection if peer is not None else None
        if connection is not None and connection.receiver is not None:
            self._snapshot_number += 1
            connection.receiver.ask_snapshot(self._snapshot_number)

    def _link_request(self, peer: int, action: str, delay_ms: int, steady_ms: int) -> None:
        """CRDT.LINK peer UP | DOWN | DELAY ms."""
        link = self.links.get(peer)
        if link is None:
            return
        if action == "DOWN":
            link.wanted = False
            if link.connection is not None:
                self._drop(link.connection)
            self._state(link, "down", "CRDT.LINK DOWN")
        elif action == "UP":
            link.wanted = True
            link.dial_now(steady_ms)
            if link.connection is None:
                self._state(link, "connecting")
        else:
            link.delay_ms = delay_ms
            self._direct_changed()

    # ---- What the driver takes

    def next_message(self, number: int, now_ms: int) -> Optional[m.Message]:
        """What to send next on this connection; None when nothing waits. Ask again after every step, and after each message sent."""
        connection = self._connections.get(number)
        if connection is None:
            return None
        try:
            return connection.next_message()
        except PeerError as error:  # our own log does not fit what the peer says that it has
            self._failed(connection, error, now_ms)
            return connection.next_message()

    def finished(self, number: int) -> bool:
        """Whether the carrier is to close this connection, now that nothing more waits."""
        connection = self._connections.get(number)
        return connection is None or connection.finishing

    def take_requests(self) -> list[tuple[int, Request]]:
        """Questions to the log, each with its connection; answer with `answered`."""
        requests, self._checks = self._checks, []
        for connection in self.sending.values():
            sender = connection.sender
            while sender is not None and (request := sender.request()) is not None:
                requests.append((connection.number, request))
        return requests

    def answered(self, number: int, request: Request, result: Any, now_ms: int) -> None:
        """`result` answers `request`; what it is, the request's class says."""
        connection = self._connections.get(number)
        if connection is None or connection.finishing:
            return
        if isinstance(request, CheckChains):
            if result:
                counter = request.vector.get(result, 0)
                text = f"region {result} has two different histories up to {counter}: this link stays closed (S13.5)"
                self._refuse(connection, m.Refusal("forked", text), now_ms)
            else:
                self._chains_fit(connection, now_ms)
            return
        sender, disk_vector = connection.sender, self.engine.disk_vector
        assert sender is not None
        if isinstance(request, Locate):
            sender.located(result, disk_vector)
        elif isinstance(request, ReadLog):
            sender.rows_read(request, result, disk_vector)
        elif isinstance(request, ReadBlock):
            self.counts["bodies_sent"] += result is not None
            sender.block_read(result, disk_vector)

    def take_dials(self) -> list[int]:
        """Peers to dial now; each is answered by `dial_opened` or `dial_failed`."""
        dials, self._dials = self._dials, []
        return dials

    def take_closes(self) -> list[int]:
        """Connections to close at once, whatever they still carry."""
        closes, self._closes = self._closes, []
        return closes

    def take_notes(self) -> list[str]:
        """Lines for the log: refusals, forks, joins."""
        notes, self._notes = self._notes, []
        return notes

    def _state(self, link: Link, state: str, detail: str = "") -> None:
        link.state, link.detail = state, detail
        self.engine.link_state(link.peer, state, detail)

    def _name(self, peer: int) -> str:
        member = self.engine.members.get(peer)
        return member.name if member is not None else f"region {peer}" if peer else "an unknown region"
