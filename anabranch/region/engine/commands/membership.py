"""CRDT.MEMBER: what the operator says of the members of the cluster (S13.8)."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR
from anabranch.region.engine.commands.replication import named_member
from anabranch.region.engine.idempotency import remove_all_losers
from anabranch.region.engine.replies import OK, REPLY_LATER, CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import IS_REFUSED, Command


def member(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.MEMBER LOST | KEEP name: a region is gone for good, or is not (S13.8).

    The operator says LOST in every other region. In the region itself LOST confirms the word of a
    member, and KEEP takes back all such words.
    """
    action = argv[1].upper()
    if action not in (b"LOST", b"KEEP"):
        raise CommandError(SYNTAX_ERROR)
    named = named_member(state, argv[2])
    if named.region_id == state.members.region_id:
        _say_of_itself(state, action == b"LOST")
    elif action == b"KEEP":
        raise CommandError(
            f"ERR only region {named.name} itself can take back that it was said to be lost"
        )
    else:
        if not named.lost:
            named.lost = True
            state.note_lost()
            state.note_said_lost()
            remove_all_losers(state)
        ids = [str(known.region_id) for known in state.members.by_id.values() if known.lost]
        state.store_meta("lost", ",".join(ids).encode())
    state.answer_when_on_disk(session, OK)
    return REPLY_LATER


def _say_of_itself(state: EngineState, is_lost: bool) -> None:
    """The operator confirms that this region is lost, or takes it back. Raises `CommandError`."""
    name, lifecycle = state.members.name, state.lifecycle
    if is_lost and not lifecycle.lost_words.by:
        raise CommandError(
            f"ERR region {name} cannot declare itself lost; run CRDT.MEMBER LOST in the other "
            "regions"
        )
    if is_lost:
        lifecycle.call_lost([state.members.region_id])
    elif not lifecycle.lost_words.by:
        raise CommandError(f"ERR no member says that region {name} is lost")
    else:
        lifecycle.take_back_lost()
    state.note_called_lost()


COMMANDS: Final = [
    Command(
        "crdt.member",
        3,
        "admin",
        member,
        "Declares that a region is gone for good, or in that region that it is not.",
        reply="simple string",
        group="crdt",
        syntax="LOST | KEEP name",
        in_multi=IS_REFUSED,
    )
]
