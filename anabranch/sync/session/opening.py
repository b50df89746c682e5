"""The handshake of a connection: Hello, comparison of chains (S13.5), Welcome. Sans-IO.

The dialler sends Hello as soon as the connection is up. The region that was dialled checks the
Hello, compares chain values, and sends Welcome. The dialler checks the Welcome in the same way.
Before any message is sent on a new connection of a peer, the former connection of that direction is
closed and dropped (S2.2). `hub` builds on this module.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Optional

from anabranch.crdt.gossip import Gossip
from anabranch.crdt.vector import Vector
from anabranch.sync.session import messages as m
from anabranch.sync.session.handshake import Identity, refuse_hello, refuse_welcome
from anabranch.sync.session.interfaces import Engine, Settings, SteadyClock
from anabranch.sync.session.links import Link, PeerConnection
from anabranch.sync.session.log_requests import CheckChains
from anabranch.sync.session.log_tail import LogTail
from anabranch.sync.session.receiver import Receiver
from anabranch.sync.session.switchboard import Switchboard


class Opening(Switchboard):
    """The handshakes of all connections."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        peers: Iterable[int],
        tail: LogTail,
        clock: SteadyClock,
    ) -> None:
        super().__init__(engine, settings, peers, tail, clock)
        # The regions that this one receives from directly (S2.3).
        self._direct: frozenset[int] = frozenset()

    def dial_opened(self, peer: int, now_ms: int) -> Optional[int]:
        number = super().dial_opened(peer, now_ms)
        if number is not None:
            connection = self._connections[number]
            assert connection.receiver is not None
            connection.receiver.greet(self._own_hello(connection.receiver))
        return number

    def _own_hello(self, receiver: Receiver) -> m.Hello:
        own, engine = Identity.of(self.engine), self.engine
        return m.Hello(
            m.VERSION,
            own.cluster,
            own.members,
            own.region_id,
            own.name,
            receiver.peer,
            engine.life,
            dict(engine.disk_vector),
            dict(engine.disk_chains),
            self._direct,
            receiver.limits.window_bytes,
        )

    # -- the side that was dialled

    def _hello(self, connection: PeerConnection, hello: m.Hello, now_ms: int) -> None:
        refusal = refuse_hello(Identity.of(self.engine), hello)
        newest = self.engine.newest_life(hello.region_id)
        if refusal is None and hello.life < newest:
            # Either that life is over, or the peer does not know of its later life yet (S1.3).
            refusal = m.Refusal(
                "superseded", f"{hello.name} has begun a later life than {hello.life}", newest
            )
        if refusal is not None:
            connection.peer = hello.region_id if hello.region_id in self.engine.members else 0
            self._refuse(connection, refusal, now_ms)
            return
        former = self.sending.get(hello.region_id)
        if former is not None:
            self._drop(former)
        connection.peer = hello.region_id
        connection.greeting, connection.life = hello, hello.life
        self.sending[hello.region_id] = connection
        self._hear_life(hello.region_id, hello.life, now_ms)
        self._check_chains(connection, hello.vector, hello.chains, now_ms)

    def _send_welcome(self, connection: PeerConnection) -> None:
        assert connection.sender is not None
        own, engine = Identity.of(self.engine), self.engine
        welcome = m.Welcome(
            m.VERSION,
            own.cluster,
            own.members,
            own.region_id,
            own.name,
            engine.life,
            dict(engine.disk_vector),
            dict(engine.disk_chains),
        )
        connection.sender.welcome(welcome)
        engine.links.receiver_opened(connection.peer)

    # -- the dialler

    def _welcomed(
        self, connection: PeerConnection, receiver: Receiver, welcome: m.Welcome, now_ms: int
    ) -> None:
        peer = connection.peer
        refusal = refuse_welcome(Identity.of(self.engine), welcome, peer)
        if refusal is not None:
            self._refuse(connection, refusal, now_ms)
        elif welcome.life < self.engine.newest_life(peer):
            self._outlived(connection, receiver, now_ms)
        else:
            connection.life = welcome.life
            connection.greeting = welcome
            self._hear_life(peer, welcome.life, now_ms)
            self._check_chains(connection, welcome.vector, welcome.chains, now_ms)

    def _outlived(self, connection: PeerConnection, receiver: Receiver, now_ms: int) -> None:
        """Handles a Welcome of a life below the newest one that this region knows of the peer.

        Either that life is over, or the peer does not know of its later life yet. This region sends
        its gossip to the peer and dials again (S1.3).
        """
        link = self.links[connection.peer]
        self._detach(connection)
        connection.finishing = True
        receiver.close_with_gossip(self.engine.disk_vector, self.engine.gossip())
        link.back_off(self._steady.at(now_ms))
        self._state(link, "connecting", f"{self._name(connection.peer)} has begun another life")

    # -- both sides

    def _hear_life(self, peer: int, life: int, now_ms: int) -> None:
        self.engine.hear_lives({peer: life}, now_ms)
        self._drop_former_lives(now_ms)

    def _check_chains(
        self, connection: PeerConnection, vector: Vector, chains: dict[int, bytes], now_ms: int
    ) -> None:
        """Compares the chain values that this region's log reaches (S13.5).

        Those at the end of a region's effects are in memory. The log is asked for the others.
        """
        disk_vector = self.engine.disk_vector
        comparable: dict[int, bytes] = {}
        for region_id, chain in chains.items():
            counter = vector.get(region_id, 0)
            held = disk_vector.get(region_id, 0)
            if held > counter:
                comparable[region_id] = chain
            elif held == counter and self.engine.disk_chains.get(region_id, chain) != chain:
                self._forked(connection, region_id, counter, now_ms)
                return
        if comparable:
            self._work.requests.append((connection.number, CheckChains(vector, comparable)))
        else:
            self._chains_fit(connection, now_ms)

    def _forked(
        self, connection: PeerConnection, region_id: int, counter: int, now_ms: int
    ) -> None:
        """Closes a link whose other side has another history of a region."""
        text = (
            f"region {region_id} has two different histories up to {counter}: "
            "this link stays closed (see docs/operations.md)"
        )
        self._refuse(connection, m.Refusal("forked", text), now_ms)

    def _chains_fit(self, connection: PeerConnection, now_ms: int) -> None:
        """Opens the link, because the chains agree; the vector of the other side now counts."""
        greeting = connection.greeting
        assert greeting is not None
        self.engine.peer_holds(connection.peer, greeting.vector, now_ms)
        self._refusals.works(connection.peer)
        if connection.receiver is not None:
            link = self.links[connection.peer]
            link.welcomed()
            connection.receiver.open = True
            self._state(link, "up")
            self._tell_link(logging.INFO, "link_up", link.peer, "is up", life=connection.life)
            self._direct_changed()
        else:
            self._send_welcome(connection)

    # -- receiving directly

    def _direct_changed(self) -> None:
        """Tells peers from which regions this one receives directly (S2.3).

        A link whose peer holds back does not count, nor a link that CRDT.LINK delays for longer
        than crdt-body-patience-ms.
        """
        patience_ms = self.settings.integer("crdt-body-patience-ms")
        direct = set()
        for link, receiver in self._open_receivers():
            if not receiver.holding_back and link.held.delay_ms <= patience_ms:
                direct.add(link.peer)
        if direct != self._direct:
            self._direct = frozenset(direct)
            self._acknowledge(None)

    def _acknowledge(self, gossip: Optional[Gossip]) -> None:
        """Sends peers the vector on this region's disk (S2.4)."""
        for _, receiver in self._open_receivers():
            receiver.acknowledge(self.engine.disk_vector, self._direct, gossip)
            self.engine.links.reports_vector(receiver.peer)

    def _open_receivers(self) -> Iterator[tuple[Link, Receiver]]:
        for link in self.links.values():
            receiver = link.connection.receiver if link.connection is not None else None
            if receiver is not None and receiver.open:
                yield link, receiver
