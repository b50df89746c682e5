"""Gossip: lives, vectors, and questions and answers of recoveries (S1.3, S6.2, S13.7).

`compose` makes gossip to send, `hear` takes gossip from a peer.
"""

from __future__ import annotations

from anabranch.crdt.gossip import Gossip, Heard, PromisedAnswer, RecoveryAnswer, RecoveryQuestion
from anabranch.region.engine import rounds
from anabranch.region.engine.lifecycle import RECOVERY, SERVING
from anabranch.region.engine.state import EngineState


def compose(state: EngineState) -> Gossip:
    """The gossip to send: all that is known of each region. The own part describes the disk."""
    lifecycle = state.lifecycle
    own = Heard(
        state.members.region_id,
        lifecycle.life,
        lifecycle.state == SERVING,
        dict(state.disk.vector),
        state.disk.clock_ms,
        state.stability.time.is_asked(state.clock.steady_ms),
        state.disk.lost,
        state.clock.read_ms,
        state.peers.clocks.ahead(),
    )
    questions = list(lifecycle.questions.values())
    if lifecycle.state == RECOVERY:
        questions.append(lifecycle.question())
    answers = [
        answer for by_answerer in lifecycle.answers.values() for answer in by_answerer.values()
    ]
    return Gossip([own, *state.stability.heard.values()], questions, answers)


def hear(state: EngineState, gossip: Gossip) -> None:
    """Takes gossip from a peer."""
    for heard in gossip.heard:
        if heard.region_id in state.members.by_id:
            _hear_of_region(state, heard)
    for question in gossip.questions:
        if question.asker in state.members.by_id:
            _hear_question(state, question)
    for answer in gossip.answers:
        if answer.answerer not in state.members.by_id:
            continue
        if answer.asker == state.members.region_id and state.lifecycle.state == RECOVERY:
            state.raise_id_floor(answer.clock_ms)
            # A life that was unknown begins another asking, for which this answer does not count:
            # what that life has sent may wait unread at the answerer (S13.6).
            hear_lives(state, answer.lives)
        state.lifecycle.hear_answer(answer)


def hear_lives(state: EngineState, lives: dict[int, int]) -> None:
    """Takes the lives named in a question or in a handshake: region_id → life."""
    for region_id, life in lives.items():
        if region_id == state.members.region_id:
            state.lifecycle.hear_own_life(life, True)
        elif region_id in state.members.by_id:
            state.hear_life(region_id, life)


def _hear_of_region(state: EngineState, heard: Heard) -> None:
    lifecycle = state.lifecycle
    if heard.region_id == state.members.region_id:
        lifecycle.hear_own_life(heard.life, lifecycle.may_have_reported(heard, state.disk.vector))
        return
    state.hear_life(heard.region_id, heard.life)
    state.hear_clock(heard.region_id, heard.read_ms, heard.ahead)
    if state.stability.hear(heard) and heard.asks_stable:
        state.stability.time.note_wanted(state.clock.steady_ms)
    if not _is_outdated(state, heard):
        state.check_held_by_peer(heard.vector)
        if state.peers.delays.stated(heard, state.replication):
            link = state.peers.by_id[heard.region_id]
            clock_ms = heard.read_ms or heard.clock_ms
            link.clock_ahead_ms = max(clock_ms - state.clock.read_ms, 0)
    if heard.counts:
        lifecycle.forget_asker(heard.region_id, heard.life)


def _is_outdated(state: EngineState, heard: Heard) -> bool:
    """Whether a statement is about a lost member, or about a life that is over.

    Gossip carries such statements for a long time, and possibly no region holds the effects that
    they claim.
    """
    return state.members.by_id[heard.region_id].lost or heard.life < state.lifecycle.lives.get(
        heard.region_id, 0
    )


def _hear_question(state: EngineState, question: RecoveryQuestion) -> None:
    lifecycle = state.lifecycle
    hear_lives(state, {one: life for one, life in question.lives.items() if one != question.asker})
    if question.asker == state.members.region_id:
        lifecycle.hear_own_life(question.life, lifecycle.may_have_asked(question))
        return
    state.hear_life(question.asker, question.life)
    if not _is_over(state, question) and lifecycle.hear_question(question):
        _answer(state, question)


def _is_over(state: EngineState, question: RecoveryQuestion) -> bool:
    """Whether the asker is known to have served in the life in which it asked, or in a later one.

    Peers that do not know this yet still pass the question on.
    """
    known = state.stability.newest(question.asker)
    return known is not None and known.counts and known.life >= question.life


# -- answering


def answer_waiting(state: EngineState) -> None:
    """Makes the answers that waited until this region called more members lost (S13.8)."""
    lifecycle = state.lifecycle
    promised = {waiting.answer.asker for waiting in lifecycle.promised}
    for asker, question in lifecycle.questions.items():
        given = lifecycle.answers.get(asker, {})
        if asker not in promised and state.members.region_id not in given:
            _answer(state, question)


def _answer(state: EngineState, question: RecoveryQuestion) -> None:
    """Makes an answer with the vector applied now, to be given once it is on disk (S13.7).

    There is none while the asker calls a member lost that this region still takes effects from.
    """
    if not state.members.all_lost(question.lost):
        return
    lifecycle = state.lifecycle
    lifecycle.promised = [
        waiting for waiting in lifecycle.promised if waiting.answer.asker != question.asker
    ]
    attestation = rounds.attest(state, 0)
    answer = RecoveryAnswer(
        question.asker,
        question.life,
        question.number,
        state.members.region_id,
        attestation.vector,
        lifecycle.recovery,
        attestation.told_ms,
        state.disk.has_salvage,
        dict(lifecycle.lives),
    )
    lifecycle.promised.append(PromisedAnswer(answer, attestation.position))
    answer_from_disk(state)


def answer_from_disk(state: EngineState) -> None:
    """Gives the answers whose vectors are on disk.

    An answer names this region's recovery if the region was in recovery when it took the vector, or
    is in recovery now.
    """
    lifecycle = state.lifecycle
    promised = lifecycle.promised
    on_disk = state.disk.position
    lifecycle.promised = [waiting for waiting in promised if waiting.position > on_disk]
    for waiting in promised:
        if waiting.position <= on_disk:
            answer = waiting.answer
            answer.recovery = lifecycle.recovery or answer.recovery
            lifecycle.hear_answer(answer)
