"""The start protocol on links: questions, answers, and what a question drops (S13.6)."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.crdt.block import NO_CHAIN, Block, chain_after
from anabranch.crdt.gossip import Gossip, RecoveryQuestion, StartAnswer, StartQuestion
from anabranch.region.engine.clock import SteadyClock
from anabranch.region.engine.lifecycle import SERVING
from anabranch.region.engine.settings import Settings
from anabranch.sync.session.hub import Hub
from anabranch.sync.session.messages import (
    VERSION,
    Batch,
    Hello,
    Refusal,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotEnd,
    VectorAcknowledgement,
    Welcome,
)
from tests.sync.fakes import NAMES, FakeEngine, StartingEngine, World, mesh


def said(world: World, source: int, target: int, kind: type) -> list[Any]:
    """The messages of one kind from one region to another."""
    return [
        message
        for one, other, message in world.said
        if (one, other) == (source, target) and isinstance(message, kind)
    ]


# -- asking


@pytest.mark.parametrize(
    ("links", "connections"), [([(1, 2)], 1), ([(2, 1)], 1), ([(1, 2), (2, 1)], 2)]
)
def test_a_start_asks_on_connections_of_both_directions(
    links: list[tuple[int, int]], connections: int
) -> None:
    """A region may be dialled and not dial, or the other way round: it asks on what there is."""
    world = World(links)
    world.engines[1].question = StartQuestion(1, {1: 1})
    world.run(500)
    questions = said(world, 1, 2, StartQuestion)
    assert [question.number for question in questions] == [1] * connections
    assert questions[0].lives == {1: 1}
    answers = world.engines[1].start_answers
    assert [(peer, answer.number) for peer, answer in answers] == [(2, 1)] * connections


def test_each_asking_is_said_once_on_each_connection() -> None:
    world = World([(1, 2)])
    engine = world.engines[1]
    engine.question = StartQuestion(1, {1: 1})
    world.run(300)
    engine.question = StartQuestion(2, {1: 1, 2: 1})
    world.run(300)
    questions = said(world, 1, 2, StartQuestion)
    assert [(question.number, question.lives) for question in questions] == [
        (1, {1: 1}),
        (2, {1: 1, 2: 1}),
    ]
    assert [answer.number for _, answer in engine.start_answers] == [1, 2]
    engine.question = None
    world.drop(1, 2)
    world.run(500)
    assert len(said(world, 1, 2, StartQuestion)) == 2


def test_a_new_connection_is_asked_on_again() -> None:
    world = World([(1, 2)])
    world.engines[1].question = StartQuestion(1, {1: 1})
    world.run(300)
    world.drop(1, 2)
    world.run(500)
    assert [question.number for question in said(world, 1, 2, StartQuestion)] == [1, 1]
    assert len(world.engines[1].start_answers) == 2


# -- answering


def test_an_answer_says_who_answers_and_what_it_holds() -> None:
    world = World([(1, 2)])
    eu = world.engines[2]
    eu.life = 77
    eu.collected = {2: 1}
    eu.write("one")
    eu.write("two")
    world.run(100)
    world.engines[1].question = StartQuestion(5, {1: 1})
    world.run(100)
    ((peer, answer),) = world.engines[1].start_answers
    assert (peer, answer.number, answer.life) == (2, 5, 77)
    assert (answer.vector, answer.collected) == ({2: 2}, {2: 1})
    assert world.now_ms - 100 <= answer.clock_ms <= world.now_ms


@pytest.mark.parametrize("links", [[(1, 2)], [(2, 1)]])
def test_an_answer_waits_for_all_that_was_applied_when_the_question_came(
    links: list[tuple[int, int]],
) -> None:
    """Otherwise the asker issues an effect, and the member commits another with its counter."""
    world = World(links)
    world.run(200)
    eu = world.engines[2]
    real_commit, eu.commit = eu.commit, list  # type: ignore[method-assign]
    eu.write("applied, not on disk")
    world.engines[1].question = StartQuestion(1, {1: 1})
    world.run(500)
    assert said(world, 1, 2, StartQuestion) and not said(world, 2, 1, StartAnswer)
    eu.commit = real_commit  # type: ignore[method-assign]
    eu.write("applied later")
    world.run(100)
    (answer,) = said(world, 2, 1, StartAnswer)
    assert answer.vector == {2: 1}
    assert [one for _, one in world.engines[1].start_answers] != []


def test_only_the_newest_question_of_a_connection_is_answered() -> None:
    world = World([(1, 2)])
    world.run(200)
    us, eu = world.engines[1], world.engines[2]
    real_commit, eu.commit = eu.commit, list  # type: ignore[method-assign]
    eu.write("applied, not on disk")
    for number in (1, 2):
        us.question = StartQuestion(number, {1: 1})
        world.run(100)
    eu.commit = real_commit  # type: ignore[method-assign]
    world.run(100)
    assert [answer.number for answer in said(world, 2, 1, StartAnswer)] == [2]


def test_a_question_waits_for_the_word_that_a_member_is_lost() -> None:
    """S13.8: us waits for ap no longer. eu answers once it takes nothing from ap any more."""
    world = World([(1, 2), (2, 3)])
    world.run(200)
    us, eu, ap = world.engines[1], world.engines[2], world.engines[3]
    us.question = StartQuestion(1, {1: 1}, [3])
    world.run(200)
    ap.write("given to eu meanwhile")
    world.run(500)
    assert said(world, 1, 2, StartQuestion) and not said(world, 2, 1, StartAnswer)
    eu.members[3].lost = True
    world.run(200)
    assert [answer.vector for answer in said(world, 2, 1, StartAnswer)] == [{3: 1}]


def test_a_question_that_waits_ends_with_its_connection() -> None:
    world = World([(1, 2), (2, 3)])
    world.run(200)
    world.engines[1].question = StartQuestion(9, {1: 1}, [3])
    world.run(100)
    assert said(world, 1, 2, StartQuestion)
    world.put_back(1, life=2)
    world.engines[1].question = StartQuestion(1, {1: 2}, [3])
    world.until(lambda: len(said(world, 1, 2, StartQuestion)) == 2)
    world.engines[2].members[3].lost = True
    world.run(200)
    assert [answer.number for answer in said(world, 2, 1, StartAnswer)] == [1]


def test_a_promise_ends_with_its_connection() -> None:
    """The answer to a former life of the asker, or on a former connection, is never sent."""
    world = World([(1, 2)])
    world.run(200)
    us, eu = world.engines[1], world.engines[2]
    real_commit, eu.commit = eu.commit, list  # type: ignore[method-assign]
    eu.write("applied, not on disk")
    us.question = StartQuestion(9, {1: 1})
    world.run(100)
    assert said(world, 1, 2, StartQuestion)
    world.put_back(1, life=2)
    world.engines[1].question = StartQuestion(1, {1: 2})
    world.until(lambda: len(said(world, 1, 2, StartQuestion)) == 2)
    eu.commit = real_commit  # type: ignore[method-assign]
    world.run(200)
    assert [answer.number for answer in said(world, 2, 1, StartAnswer)] == [1]
    assert [answer.number for _, answer in world.engines[1].start_answers] == [1]


# -- what is dropped before an answer

TABLE = {1: "us", 2: "eu", 3: "ap"}


def block(origin: int, payload: str) -> Block:
    """The first block of a region."""
    body = b'{"deps": {}, "payload": "%s"}' % payload.encode()
    return Block(origin, 1, 1, body, chain_after(NO_CHAIN, body))


class Answerer:
    """The hub of eu, message by message: it has dialled us, and ap has dialled it."""

    def __init__(self) -> None:
        self.engine = FakeEngine(2, TABLE)
        self.hub = Hub(self.engine, Settings(), [1, 3], self.engine.log.tail, SteadyClock(0))
        for peer in (1, 3):
            self.take(self.hub.dial_opened(peer, 0), self._welcome(peer))
        self.to_us = self.number_of(1)
        self.to_ap = self.number_of(3)
        self.from_ap = self.greeted(3, 1)

    def greeted(self, peer: int, life: int) -> int:
        """A connection that the peer dialled in that life."""
        number = self.hub.accepted(0)
        name = NAMES[peer]
        hello = Hello(VERSION, "c", TABLE, peer, name, 2, life, {}, {}, frozenset(), 1 << 20)
        self.take(number, hello)
        self.read(number)
        return number

    def _welcome(self, peer: int) -> Welcome:
        return Welcome(VERSION, "c", TABLE, peer, NAMES[peer], 1, {}, {})

    def number_of(self, peer: int) -> int:
        connection = self.hub.links[peer].connection
        assert connection is not None
        return connection.number

    def take(self, connection: int | None, message: Any) -> None:
        assert connection is not None
        self.hub.received(connection, message, 0)

    def step(self) -> list[int]:
        """Merges and commits; returns the connections to hang up."""
        while self.hub.merge_some(1 << 20, 0):
            pass
        self.engine.commit()
        self.hub.committed(0)
        return self.hub.take_work().closes

    def read(self, connection: int) -> list[Any]:
        messages = []
        while (message := self.hub.next_message(connection)) is not None:
            messages.append(message)
        return messages

    def answers(self, connection: int) -> list[StartAnswer]:
        return [one for one in self.read(connection) if isinstance(one, StartAnswer)]


def test_what_was_read_and_not_merged_of_a_former_life_is_dropped() -> None:
    eu = Answerer()
    eu.take(eu.to_us, Batch([block(1, "lost")]))
    eu.take(eu.from_ap, StartQuestion(1, {3: 1, 1: 2}))
    assert eu.hub.links[1].connection is None
    assert eu.step() == [eu.to_us]
    (answer,) = eu.answers(eu.from_ap)
    assert answer.vector == {} == eu.engine.vector


def test_what_was_merged_before_the_question_is_in_the_answer() -> None:
    eu = Answerer()
    eu.take(eu.to_us, Batch([block(1, "kept")]))
    assert eu.hub.merge_some(1 << 20, 0)
    eu.take(eu.from_ap, StartQuestion(1, {3: 1, 1: 2}))
    assert eu.step() == [eu.to_us]
    (answer,) = eu.answers(eu.from_ap)
    assert answer.vector == {1: 1}


def test_a_life_that_is_known_drops_nothing() -> None:
    eu = Answerer()
    eu.take(eu.to_us, Batch([block(1, "here")]))
    eu.take(eu.from_ap, StartQuestion(1, {3: 1, 1: 1}))
    assert eu.step() == []
    (answer,) = eu.answers(eu.from_ap)
    assert answer.vector == {}, "it was not applied when the question came"
    assert eu.engine.vector == {1: 1}


def test_a_snapshot_of_a_former_life_is_dropped() -> None:
    eu = Answerer()
    receiver = eu.hub.links[1].connection.receiver  # type: ignore[union-attr]
    assert receiver is not None
    receiver.ask_snapshot(1)
    eu.take(eu.to_us, SnapshotBegin(1, {1: 1}, {}))
    eu.take(eu.to_us, SnapshotChunk(1, 0, b"state"))
    eu.take(eu.from_ap, StartQuestion(1, {3: 1, 1: 2}))
    eu.take(eu.to_us, SnapshotEnd(1, 1))
    eu.step()
    assert eu.engine.joins == 0 and eu.engine.vector == {}


def test_a_question_of_a_recovery_drops_what_former_lives_left() -> None:
    """S13.7: its questions name lives, too, and are passed on by others."""
    eu = Answerer()
    eu.take(eu.to_us, Batch([block(1, "lost")]))
    gossip = Gossip([], [RecoveryQuestion(3, 5, 1, 5, {3: 5, 1: 2})], [])
    eu.take(eu.from_ap, VectorAcknowledgement({}, frozenset(), gossip))
    assert eu.hub.links[1].connection is None
    eu.step()
    assert eu.engine.vector == {}


def test_a_peer_that_names_a_later_life_of_its_own_keeps_that_connection() -> None:
    """A recovery may begin a life on open connections: the one that says so leads to that life."""
    eu = Answerer()
    eu.take(eu.to_ap, Batch([block(3, "unread")]))
    eu.take(eu.to_ap, StartQuestion(1, {3: 2}))
    assert eu.hub.links[3].connection is not None
    assert eu.step() == [eu.from_ap], "this one may still lead to the life before"
    assert len(eu.answers(eu.to_ap)) == 1
    other = Answerer()
    other.take(other.from_ap, StartQuestion(2, {3: 3}))
    assert other.step() == [other.to_ap]
    assert len(other.answers(other.from_ap)) == 1


def test_what_a_former_life_acknowledged_does_not_count() -> None:
    """ap was put back to a backup, and no longer has what it says here that it has."""
    eu = Answerer()
    eu.engine.write("one")
    eu.step()
    eu.take(eu.to_us, StartQuestion(1, {1: 1, 3: 2}))
    assert set(eu.step()) == {eu.from_ap, eu.to_ap}
    eu.take(eu.from_ap, VectorAcknowledgement({2: 1}, frozenset(), None))
    assert 3 not in eu.engine.peer_acks


def test_a_region_that_dials_in_a_lower_life_hears_of_its_higher_one() -> None:
    """S1.3: its clock was set back. It is refused, and told why, so it begins a later life."""
    eu = Answerer()
    eu.engine.hear_lives({1: 9}, 0)
    number = eu.hub.accepted(0)
    eu.take(number, Hello(VERSION, "c", TABLE, 1, "us", 2, 5, {}, {}, frozenset(), 1 << 20))
    (refusal,) = eu.read(number)
    assert (refusal.reason, refusal.life) == ("superseded", 9)
    assert eu.hub.finished(number) and 1 not in eu.hub.sending
    us = Answerer()
    us.take(us.to_ap, Refusal("superseded", "eu has begun a later life than 1", 7))
    assert us.engine.lives[us.engine.region_id] == 7


# -- a whole story


@pytest.mark.parametrize("seed", range(8))
def test_two_regions_put_back_to_backups_that_nobody_told_of(seed: int) -> None:
    """S13.6: ap has received, and not applied, an effect of us that a former life of eu relayed.

    us and eu are put back, and neither has it any more. ap does not hear from eu that eu lives
    again: the question of us tells it, in its second asking.
    """
    world = World(mesh(1, 2, 3), seed=seed)
    world.run(100)
    world.cut(1, 3)
    world.engines[3].link(2, "DELAY", 60_000)
    world.engines[1].write("lost")
    world.run(200)
    assert world.hubs[3].links[2].held and not world.engines[3].vector
    world.put_back(1, life=2, starts=True)
    world.put_back(2, life=2)
    world.cut_links = {(2, 3), (3, 2), (1, 2), (2, 1)}
    us = world.engines[1]
    assert isinstance(us, StartingEngine)
    world.until(lambda: any(peer == 3 for peer, _ in us.start_answers))
    world.heal(1, 2)
    world.until(lambda: us.lifecycle.state == SERVING)
    assert max(answer.number for peer, answer in us.start_answers if peer == 3) > 1
    us.write("new")
    world.engines[3].link(2, "DELAY", 0)
    world.heal(2, 3)
    world.settle()
    assert world.engines[3].held == {(1, 1, "new")}
    assert "forked" not in {state for state, _ in world.engines[3].states.values()}
