"""What a peer may claim: bounds that no honest region reaches. Sans-IO.

A region believes what its peers say of lives, vectors and third regions. A stranger who connects, a
member that is broken, and a member whose clock is wrong must not be able to harm it for long by one
message. So each message is checked before anything of it is taken:

- A life is a clock in ms (S1.3). More than a day ahead of the clock here, it does not count.
- No region issues 2^52 effects: at ten million a second that takes fourteen years.
- Once every member has answered its start, no other region holds effects of this region that it
  lacks (S13.6). Until then such a claim leads to a recovery, and afterwards it is false.
- While a member says something here itself, a third region's statement about its vector does not
  count. Only a life counts then, on whatever way it comes.

A peer that claims so of itself is refused. A claim that it passes on is left out: others may have
made it.
"""

from __future__ import annotations

import logging
from typing import Final, Optional, Union

from anabranch.crdt.block import Block
from anabranch.crdt.gossip import (
    Gossip,
    Heard,
    RecoveryAnswer,
    RecoveryQuestion,
    StartAnswer,
    StartQuestion,
)
from anabranch.crdt.vector import Vector
from anabranch.sync.session import messages as m
from anabranch.sync.session.connections import Connections
from anabranch.sync.session.interfaces import Engine
from anabranch.sync.session.links import PeerConnection
from anabranch.sync.session.question_rates import QuestionRates
from anabranch.sync.session.refusal_log import RefusalLog, Refused

LIFE_AHEAD_MAX_MS: Final = 24 * 60 * 60 * 1000
COUNTER_MAX: Final = 1 << 52
# A member says something itself here if it did within so many heartbeats.
_DIRECT_HEARTBEATS: Final = 5


class Claims:
    """The checks of what peers say of lives, vectors and third regions."""

    def __init__(self, engine: Engine, connections: Connections) -> None:
        self._engine: Final = engine
        self._connections: Final = connections
        self._lines: Final = RefusalLog()
        self._rates: Final = QuestionRates()

    # -- what a peer says of itself; LinkRefused if that is false

    def check(self, peer: int, message: object, now_ms: int) -> None:
        """Checks what a message after the handshake says of `peer` itself, and that not too many of
        its kind come. Raises `LinkRefused`.
        """
        self._rates.count(peer, message, self._connections.steady.at(now_ms))
        if isinstance(message, (m.VectorAcknowledgement, m.Heartbeat)):
            self.check_vector(peer, message.vector)
            for heard in message.gossip.heard if message.gossip is not None else []:
                if heard.region_id == peer:
                    self._check_life(peer, heard.life, now_ms)
                    self.check_vector(peer, heard.vector)
        elif isinstance(message, m.HoldingBack):
            self.check_vector(peer, message.vector)
        elif isinstance(message, StartQuestion):
            self._check_life(peer, message.lives.get(peer, 0), now_ms)
        elif isinstance(message, StartAnswer):
            self._check_life(peer, message.life, now_ms)
            self.check_vector(peer, message.vector)
            self.check_vector(peer, message.collected)

    def refuse_greeting(
        self, greeting: Union[m.Hello, m.Welcome], now_ms: int
    ) -> Optional[m.Refusal]:
        """The refusal for a life or a vector that cannot be true; None if both can."""
        try:
            self._check_life(greeting.region_id, greeting.life, now_ms)
            self.check_vector(greeting.region_id, greeting.vector)
        except m.LinkRefused as error:
            return m.Refusal(error.reason, error.text)
        return None

    def check_blocks(self, peer: int, blocks: list[Block]) -> None:
        """Checks that blocks of a peer bring no effects in this region's name."""
        for block in blocks:
            if block.origin == self._engine.region_id:
                self.check_vector(peer, {block.origin: block.last})

    def _check_life(self, peer: int, life: int, now_ms: int) -> None:
        if self._is_too_far(peer, life, now_ms):
            name = self._connections.name_of(peer)
            raise m.LinkRefused(
                "clock",
                f"{name} says that its life is {life}, {_ahead(life, now_ms)} ahead of the clock"
                f" of {self._engine.name}; at most a day is taken: set the clock that is wrong",
            )

    def _is_too_far(self, region_id: int, life: int, now_ms: int) -> bool:
        """Whether a life is too far ahead, and news: known ones are not judged again.

        After a start, or a leap, one of the two clocks of this region may be far behind: that of
        the machine, or the one that counts (`EngineClock`).
        """
        engine = self._engine
        own = region_id == engine.region_id
        known = engine.life if own else engine.peers.newest_life(region_id)
        return life > max(known, max(now_ms, engine.peers.clock_ms) + LIFE_AHEAD_MAX_MS)

    def check_vector(self, peer: int, vector: Vector) -> None:
        text = self._is_false(vector)
        if text:
            raise m.LinkRefused("malformed", f"{self._connections.name_of(peer)} claims {text}")

    def _is_false(self, vector: Vector) -> str:
        """What is false in a vector, for a message; empty if nothing is."""
        for region_id, counter in vector.items():
            if counter > COUNTER_MAX:
                name = self._connections.name_of(region_id)
                return f"to hold {counter} effects of {name}; no region issues more than 2^52"
        engine = self._engine
        claimed, own = vector.get(engine.region_id, 0), engine.vector.get(engine.region_id, 0)
        if claimed > own and engine.peers.holds_all_own:
            return (
                f"to hold {claimed} effects of {engine.name}, which has issued {own}: every member"
                " has answered its start, so no other has more"
            )
        return ""

    # -- what a peer passes on: what is false is left out

    def lives(
        self, connection: PeerConnection, lives: dict[int, int], now_ms: int
    ) -> dict[int, int]:
        """The lives that are not too far ahead."""
        if max(lives.values(), default=0) <= now_ms + LIFE_AHEAD_MAX_MS:
            return lives
        kept = {
            region_id: life
            for region_id, life in lives.items()
            if not self._is_life_ahead(connection, region_id, life, now_ms)
        }
        return lives if len(kept) == len(lives) else kept

    def own_life(self, connection: PeerConnection, life: int, now_ms: int) -> int:
        """The life of this region that a refusal names, or 0 if it is too far ahead."""
        region_id = self._engine.region_id
        return 0 if self._is_life_ahead(connection, region_id, life, now_ms) else life

    def gossip(self, connection: PeerConnection, gossip: Gossip, now_ms: int) -> Gossip:
        """The part of gossip that counts."""
        heard = [self._heard(connection, one, now_ms) for one in gossip.heard]
        questions = [one for one in gossip.questions if self._question(connection, one, now_ms)]
        answers = [one for one in gossip.answers if self._answer(connection, one, now_ms)]
        return Gossip([one for one in heard if one is not None], questions, answers)

    def _heard(self, connection: PeerConnection, heard: Heard, now_ms: int) -> Optional[Heard]:
        """A statement as far as it counts; None: not at all."""
        region_id, engine = heard.region_id, self._engine
        if self._is_life_ahead(connection, region_id, heard.life, now_ms):
            return None
        if region_id in (connection.peer, engine.region_id):
            return heard
        text = self._is_false(heard.vector)
        if text:
            name = self._connections.name_of(region_id)
            self._leave_out(connection, f"{name} claims {text}", now_ms)
            return None
        if not self._is_direct(region_id, now_ms):
            return heard
        if heard.life <= engine.peers.newest_life(region_id):
            return None
        return Heard(region_id, heard.life, False, {}, 0)

    def _question(
        self, connection: PeerConnection, question: RecoveryQuestion, now_ms: int
    ) -> bool:
        # No region asks with lives that do not count: the question is nobody's.
        if self.lives(connection, question.lives, now_ms) is not question.lives:
            return False
        life = max(question.life, question.recovery)
        return not self._is_life_ahead(connection, question.asker, life, now_ms)

    def _answer(self, connection: PeerConnection, answer: RecoveryAnswer, now_ms: int) -> bool:
        if self.lives(connection, answer.lives, now_ms) is not answer.lives:
            return False
        text = self._is_false(answer.vector)
        if text:
            name = self._connections.name_of(answer.answerer)
            self._leave_out(connection, f"{name} claims {text}", now_ms)
        life, answerer = answer.recovery, answer.answerer
        return not text and not self._is_life_ahead(connection, answerer, life, now_ms)

    def _is_life_ahead(
        self, connection: PeerConnection, region_id: int, life: int, now_ms: int
    ) -> bool:
        if not self._is_too_far(region_id, life, now_ms):
            return False
        name = self._connections.name_of(region_id)
        text = f"{name} has a life {life}, {_ahead(life, now_ms)} ahead of the clock here"
        self._leave_out(connection, text, now_ms)
        return True

    def _is_direct(self, region_id: int, now_ms: int) -> bool:
        """Whether that member itself said something here lately, which is not held back."""
        connections = self._connections
        interval_ms = connections.settings.integer("crdt-heartbeat-interval-ms")
        since_ms = connections.steady.at(now_ms) - _DIRECT_HEARTBEATS * interval_ms
        return any(
            one.peer == region_id and one.is_open and one.said_ms > since_ms
            for one in connections.by_number.values()
            if one.receiver is None or not connections.links[one.peer].held
        )

    def _leave_out(self, connection: PeerConnection, text: str, now_ms: int) -> None:
        """Tells the operator of a claim that does not count, in few lines (`refusal_log`)."""
        said = Refused(connection.peer, "sending to", "claim", text, connection.address)
        steady_ms = self._connections.steady.at(now_ms)
        for newest, count in self._lines.due(steady_ms):
            self._tell(newest, count)
        if self._lines.is_line(said, steady_ms):
            self._tell(said, 1)

    def _tell(self, said: Refused, count: int) -> None:
        peer = self._connections.name_of(said.peer)
        fields: dict[str, object] = {"peer": peer}
        if said.address:
            fields["address"] = said.address
        if count > 1:
            fields["count"] = count
        text = f"{peer} passes on what does not count: {said.text}"
        self._connections.tell(logging.WARNING, "claim_ignored", text, **fields)


def _ahead(life: int, now_ms: int) -> str:
    """A time in days for a message."""
    return f"{(life - now_ms) / LIFE_AHEAD_MAX_MS:.1f} days"


def life_of(peer: int, gossip: Gossip) -> int:
    """Returns the life that a peer reports of itself in its gossip; 0 if it reports none."""
    lives = [heard.life for heard in gossip.heard if heard.region_id == peer]
    lives += [question.life for question in gossip.questions if question.asker == peer]
    return max(lives, default=0)
