"""What regions pass on about each other, made and taken in: lives, vectors, questions and answers of recoveries (S1.3, S6.2, S13.7)."""

from __future__ import annotations

from anabranch.region.engine.core import Core
from anabranch.region.engine.gossip import Answer, Gossip, Heard, PromisedAnswer, Question
from anabranch.region.engine.lifecycle import RECOVERY, SERVING


def compose(core: Core) -> Gossip:
    """What to pass on; this region's own part speaks of its disk."""
    lifecycle = core.lifecycle
    own = Heard(
        core.region_id,
        lifecycle.life,
        lifecycle.state == SERVING,
        dict(core.disk_vector),
        core.disk_clock_ms,
    )
    questions = list(lifecycle.questions.values())
    if lifecycle.state == RECOVERY:
        questions.append(lifecycle.question())
    answers = [
        answer for by_answerer in lifecycle.answers.values() for answer in by_answerer.values()
    ]
    return Gossip([own, *core.stability.heard.values()], questions, answers)


def hear(core: Core, gossip: Gossip) -> None:
    """Takes in what a peer passes on."""
    lifecycle = core.lifecycle
    for heard in gossip.heard:
        if heard.region_id not in core.members:
            continue
        if heard.region_id == core.region_id:
            lifecycle.heard_own_life(
                heard.life, lifecycle.may_have_said(heard, core.disk_vector), core.clock_ms
            )
            continue
        core.stability.hear(heard)
        if _claims_more(core, heard):
            lifecycle.enter_recovery(core.clock_ms)
        if heard.counts:
            lifecycle.forget_asker(heard.region_id, heard.life)
    for question in gossip.questions:
        if question.asker == core.region_id:
            lifecycle.heard_own_life(
                question.life, lifecycle.may_have_asked(question), core.clock_ms
            )
        elif (
            question.asker in core.members
            and not _is_over(core, question)
            and lifecycle.hear_question(question)
        ):
            _note_question(core, question)
    for answer in gossip.answers:
        lifecycle.hear_answer(answer)


def _claims_more(core: Core, heard: Heard) -> bool:
    """Whether a member, in the newest of its lives, says that it holds more of this region's effects than this region (S13.7).

    What a lost one said, or one of a life that is over, is passed on for long: nobody may hold it any more.
    """
    known = core.stability.newest(heard.region_id)
    if core.members[heard.region_id].lost or (known is not None and heard.life < known.life):
        return False
    return heard.vector.get(core.region_id, 0) > core.keyspace.vector.get(core.region_id, 0)


def _is_over(core: Core, question: Question) -> bool:
    """Whether the asker is known to serve again in the life in which it asked: peers that do not know yet pass its question on."""
    known = core.stability.newest(question.asker)
    return known is not None and known.counts and known.life >= question.life


# -- answering -------------------------------------------------------------------------------------------------------


def _note_question(core: Core, question: Question) -> None:
    position = core.journal.next_position()
    promised = PromisedAnswer(
        question, dict(core.keyspace.vector), core.lifecycle.recovery, position
    )
    if position <= core.committed_position:
        _answer(core, promised)
    else:
        core.attest_wanted = True
        core.promised_answers = [
            waiting for waiting in core.promised_answers if waiting.question.asker != question.asker
        ]
        core.promised_answers.append(promised)


def answer_what_is_on_disk(core: Core) -> None:
    """Gives the answers whose vectors are on disk by now."""
    promised = core.promised_answers
    core.promised_answers = [
        waiting for waiting in promised if waiting.position > core.committed_position
    ]
    for waiting in promised:
        if waiting.position <= core.committed_position:
            _answer(core, waiting)


def _answer(core: Core, promised: PromisedAnswer) -> None:
    """An answer is one of a recovery if this region was in one when it took the vector, or is by now."""
    question = promised.question
    recovery = core.lifecycle.recovery or promised.recovery
    core.lifecycle.hear_answer(
        Answer(
            question.asker,
            question.life,
            question.number,
            core.region_id,
            promised.vector,
            recovery,
        )
    )
