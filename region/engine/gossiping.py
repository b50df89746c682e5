"""What regions pass on about each other, made and taken in: lives, vectors, questions and answers of recoveries (S1.3, S6.2, S13.7)."""

from __future__ import annotations

from anabranch.crdt.gossip import Answer, Gossip, Heard, PromisedAnswer, Question
from anabranch.region.engine.lifecycle import RECOVERY, SERVING
from anabranch.region.engine.state import EngineState


def compose(state: EngineState) -> Gossip:
    """What to pass on; this region's own part speaks of its disk."""
    lifecycle = state.lifecycle
    own = Heard(
        state.members.region_id,
        lifecycle.life,
        lifecycle.state == SERVING,
        dict(state.disk.vector),
        state.disk.clock_ms,
    )
    questions = list(lifecycle.questions.values())
    if lifecycle.state == RECOVERY:
        questions.append(lifecycle.question())
    answers = [
        answer for by_answerer in lifecycle.answers.values() for answer in by_answerer.values()
    ]
    return Gossip([own, *state.stability.heard.values()], questions, answers)


def hear(state: EngineState, gossip: Gossip) -> None:
    """Takes in what a peer passes on."""
    lifecycle = state.lifecycle
    for heard in gossip.heard:
        if heard.region_id not in state.members.by_id:
            continue
        if heard.region_id == state.members.region_id:
            lifecycle.heard_own_life(
                heard.life, lifecycle.may_have_said(heard, state.disk.vector), state.clock.now_ms
            )
            continue
        state.stability.hear(heard)
        if _claims_more(state, heard):
            lifecycle.enter_recovery(state.clock.now_ms)
        if heard.counts:
            lifecycle.forget_asker(heard.region_id, heard.life)
    for question in gossip.questions:
        if question.asker == state.members.region_id:
            lifecycle.heard_own_life(
                question.life, lifecycle.may_have_asked(question), state.clock.now_ms
            )
        elif (
            question.asker in state.members.by_id
            and not _is_over(state, question)
            and lifecycle.hear_question(question)
        ):
            _note_question(state, question)
    for answer in gossip.answers:
        lifecycle.hear_answer(answer)


def _claims_more(state: EngineState, heard: Heard) -> bool:
    """Whether a member, in the newest of its lives, says that it holds more of this region's effects than this region (S13.7).

    What a lost one said, or one of a life that is over, is passed on for long: nobody may hold it any more.
    """
    known = state.stability.newest(heard.region_id)
    if state.members.by_id[heard.region_id].lost or (known is not None and heard.life < known.life):
        return False
    return heard.vector.get(state.members.region_id, 0) > state.keyspace.vector.get(
        state.members.region_id, 0
    )


def _is_over(state: EngineState, question: Question) -> bool:
    """Whether the asker is known to serve again in the life in which it asked: peers that do not know yet pass its question on."""
    known = state.stability.newest(question.asker)
    return known is not None and known.counts and known.life >= question.life


# -- answering -------------------------------------------------------------------------------------------------------


def _note_question(state: EngineState, question: Question) -> None:
    position = state.journal.next_position()
    promised = PromisedAnswer(
        question, dict(state.keyspace.vector), state.lifecycle.recovery, position
    )
    if position <= state.disk.position:
        _answer(state, promised)
    else:
        state.schedule.commit_wanted = True
        state.lifecycle.promised = [
            waiting
            for waiting in state.lifecycle.promised
            if waiting.question.asker != question.asker
        ]
        state.lifecycle.promised.append(promised)


def answer_what_is_on_disk(state: EngineState) -> None:
    """Gives the answers whose vectors are on disk by now."""
    promised = state.lifecycle.promised
    state.lifecycle.promised = [
        waiting for waiting in promised if waiting.position > state.disk.position
    ]
    for waiting in promised:
        if waiting.position <= state.disk.position:
            _answer(state, waiting)


def _answer(state: EngineState, promised: PromisedAnswer) -> None:
    """An answer is one of a recovery if this region was in one when it took the vector, or is by now."""
    question = promised.question
    recovery = state.lifecycle.recovery or promised.recovery
    state.lifecycle.hear_answer(
        Answer(
            question.asker,
            question.life,
            question.number,
            state.members.region_id,
            promised.vector,
            recovery,
        )
    )
