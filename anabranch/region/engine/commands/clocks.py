"""CRDT.CLOCK: the operator's word about this region's clock (S10.2)."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR
from anabranch.region.engine.replies import OK, REPLY_LATER, CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import IS_REFUSED, Command


def clock(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.CLOCK TRUST: this region's clock is right, whatever the others' clocks read.

    CRDT.CLOCK RESET: IDs and deadlines go on from what the clock reads now, though this region had
    read a later time. The operator says so in every region.
    """
    word = argv[1].upper()
    if word == b"TRUST":
        state.peers.clocks.trust()
        state.note_clocks()
        return OK
    if word != b"RESET":
        raise CommandError(SYNTAX_ERROR)
    if state.lifecycle.clock_problem:
        raise CommandError(
            f"ERR the clock of region {state.members.name} is {state.lifecycle.clock_problem}: set"
            " it right first, or say CRDT.CLOCK TRUST"
        )
    state.reset_clock()
    state.answer_when_on_disk(session, OK)
    return REPLY_LATER


COMMANDS: Final = [
    Command(
        "crdt.clock",
        2,
        "admin",
        clock,
        "Declares that this region's clock is right, or takes back a leap of it.",
        reply="simple string",
        group="crdt",
        syntax="TRUST | RESET",
        in_multi=IS_REFUSED,
    )
]
