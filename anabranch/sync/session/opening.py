"""The handshake of a connection: Hello, comparison of chains (S13.5), Welcome. Sans-IO.

The dialler sends Hello as soon as the connection is up. The region that was dialled checks the
Hello, compares chain values, and sends Welcome. The dialler checks the Welcome in the same way.
Before any message is sent on a new connection of a peer, the former connection of that direction is
closed and dropped (S2.2).
"""

from __future__ import annotations

import logging
from typing import Final

from anabranch.crdt.vector import Vector
from anabranch.sync.session import messages as m
from anabranch.sync.session.announcements import Announcements
from anabranch.sync.session.claims import Claims
from anabranch.sync.session.connections import Connections
from anabranch.sync.session.contested import Contested
from anabranch.sync.session.doubles import Doubles
from anabranch.sync.session.handshake import (
    Identity,
    refuse_certified,
    refuse_hello,
    refuse_welcome,
)
from anabranch.sync.session.interfaces import Engine
from anabranch.sync.session.links import PeerConnection
from anabranch.sync.session.log_requests import CheckChains
from anabranch.sync.session.receiver import Receiver


class Opening:
    """The handshakes of all connections."""

    def __init__(
        self, engine: Engine, connections: Connections, announcements: Announcements, claims: Claims
    ) -> None:
        self._engine: Final = engine
        self._connections: Final = connections
        self._announcements: Final = announcements
        self.doubles: Final = Doubles(connections)
        self._claims: Final = claims
        self._contested: Final = Contested(engine, connections.settings, connections.by_number)

    # -- the side that was dialled

    def hello(self, connection: PeerConnection, hello: m.Hello, now_ms: int) -> None:
        """Checks the Hello of a peer. One that would end living connections waits (S2.2)."""
        if self._is_refused(connection, hello, now_ms):
            return
        steady_ms = self._connections.steady.at(now_ms)
        if not self._contested.must_wait(connection, hello, steady_ms):
            self._take(connection, hello, now_ms)

    def decide(self, now_ms: int) -> None:
        """Takes or refuses the newcomers that have waited long enough."""
        for one, is_taken in self._contested.decided(self._connections.steady.at(now_ms)):
            connection, hello = one.connection, one.hello
            if self._is_refused(connection, hello, now_ms):
                continue
            if is_taken:
                self._take(connection, hello, now_ms)
            else:
                connection.peer = hello.region_id
                self._connections.refuse(connection, self.doubles.newcomer(hello, now_ms), now_ms)

    def _is_refused(self, connection: PeerConnection, hello: m.Hello, now_ms: int) -> bool:
        """Refuses a Hello that is wrong, and returns whether it was."""
        refusal = refuse_certified(connection.certified, hello)
        if refusal is None:
            refusal = refuse_hello(Identity.of(self._engine), hello)
        if refusal is None:
            refusal = self._claims.refuse_greeting(hello, now_ms)
        newest = self._engine.peers.newest_life(hello.region_id)
        if refusal is None and hello.life < newest:
            # Either that life is over, or the peer does not know of its later life yet (S1.3).
            refusal = m.Refusal(
                "superseded", f"{hello.name} has begun a later life than {hello.life}", newest
            )
        if refusal is not None:
            connection.peer = hello.region_id if hello.region_id in self._engine.members else 0
            self._connections.refuse(connection, refusal, now_ms)
        return refusal is not None

    def _take(self, connection: PeerConnection, hello: m.Hello, now_ms: int) -> None:
        """Takes a connection for that of the peer, and ends the former one."""
        former = self._connections.sending.get(hello.region_id)
        if former is not None:
            self._connections.drop(former)
        connection.peer = hello.region_id
        connection.greeting, connection.life = hello, hello.life
        self.doubles.taken(connection, hello)
        self._connections.unnamed.remove(connection.number)
        self._connections.sending[hello.region_id] = connection
        self._hear_life(hello.region_id, hello.life, now_ms)
        self._check_chains(connection, hello.vector, hello.chains, now_ms)

    def _send_welcome(self, connection: PeerConnection) -> None:
        assert connection.sender is not None
        own, engine = Identity.of(self._engine), self._engine
        welcome = m.Welcome(
            m.VERSION,
            own.cluster,
            own.members,
            own.region_id,
            own.name,
            engine.life,
            dict(engine.disk_vector),
            dict(engine.disk_chains),
            engine.process,
            engine.place,
        )
        connection.sender.welcome(welcome)
        engine.peers.links.receiver_opened(connection.peer)
        self._connections.tell_accepted(connection)

    # -- the dialler

    def greet(self, receiver: Receiver) -> None:
        """Sends Hello on a connection that this region has dialled."""
        receiver.greet(self._own_hello(receiver))

    def _own_hello(self, receiver: Receiver) -> m.Hello:
        own, engine = Identity.of(self._engine), self._engine
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
            self._announcements.direct,
            receiver.limits.window_bytes,
            engine.process,
            engine.place,
        )

    def welcomed(
        self, connection: PeerConnection, receiver: Receiver, welcome: m.Welcome, now_ms: int
    ) -> None:
        """Checks the Welcome of a peer."""
        peer = connection.peer
        refusal = refuse_welcome(Identity.of(self._engine), welcome, peer)
        if refusal is None:
            refusal = self._claims.refuse_greeting(welcome, now_ms)
        if refusal is None:
            refusal = self.doubles.refusal(connection, welcome, now_ms)
        if refusal is not None:
            self._connections.refuse(connection, refusal, now_ms)
        elif welcome.life < self._engine.peers.newest_life(peer):
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
        link = self._connections.links[connection.peer]
        self._connections.detach(connection)
        connection.finishing = True
        receiver.close_with_gossip(self._engine.disk_vector, self._engine.peers.gossip())
        link.back_off(self._connections.steady.at(now_ms))
        self._connections.set_state(
            link,
            "connecting",
            f"{self._connections.name_of(connection.peer)} has begun another life",
        )

    # -- both sides

    def _hear_life(self, peer: int, life: int, now_ms: int) -> None:
        self._engine.peers.hear_lives({peer: life}, now_ms)
        self._connections.close_former_lives(now_ms)

    def _check_chains(
        self, connection: PeerConnection, vector: Vector, chains: dict[int, bytes], now_ms: int
    ) -> None:
        """Compares the chain values that this region's log reaches (S13.5).

        Those at the end of a region's effects are in memory. The log is asked for the others.
        """
        disk_vector = self._engine.disk_vector
        comparable: dict[int, bytes] = {}
        for region_id, chain in chains.items():
            counter = vector.get(region_id, 0)
            held = disk_vector.get(region_id, 0)
            if held > counter:
                comparable[region_id] = chain
            elif held == counter and self._engine.disk_chains.get(region_id, chain) != chain:
                self._forked(connection, region_id, counter, now_ms)
                return
        if comparable:
            self._connections.work.requests.append(
                (connection.number, CheckChains(vector, comparable))
            )
        else:
            self._chains_fit(connection, now_ms)

    def chains_checked(
        self, connection: PeerConnection, request: CheckChains, forked: int, now_ms: int
    ) -> None:
        """The log has compared chain values: those of the region `forked` differ, 0: of none."""
        if forked:
            self._forked(connection, forked, request.vector.get(forked, 0), now_ms)
        else:
            self._chains_fit(connection, now_ms)

    def _forked(
        self, connection: PeerConnection, region_id: int, counter: int, now_ms: int
    ) -> None:
        """Closes a link whose other side has another history of a region."""
        text = (
            f"region {region_id} has two different histories up to {counter}: "
            "this link stays closed (see docs/operations-repair.md)"
        )
        self._connections.refuse(connection, m.Refusal("forked", text), now_ms)

    def _chains_fit(self, connection: PeerConnection, now_ms: int) -> None:
        """Opens the link, because the chains agree; the vector of the other side now counts."""
        greeting = connection.greeting
        assert greeting is not None
        self._engine.peers.peer_holds(connection.peer, greeting.vector, now_ms)
        self._connections.works(connection.peer)
        if connection.receiver is not None:
            link = self._connections.links[connection.peer]
            link.welcomed()
            connection.receiver.open = True
            self._connections.set_state(link, "up")
            self._engine.peers.links.is_encrypted(link.peer, bool(connection.certified))
            self._connections.tell_link(
                logging.INFO,
                "link_up",
                link.peer,
                "is up",
                life=connection.life,
                **connection.address_field(),
            )
            self._announcements.direct_changed()
        else:
            self._send_welcome(connection)
