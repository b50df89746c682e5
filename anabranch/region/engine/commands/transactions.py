"""MULTI, EXEC, DISCARD, WATCH and UNWATCH (S1.2, S10.7).

The effects of all commands that one EXEC runs form one unit.
"""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.dispatch import find_command, run
from anabranch.region.engine.replies import NULL_ARRAY, OK, CommandError, ErrorReply, NoReply, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import RUNS, Command


def change_of(state: EngineState, key: bytes) -> int:
    """The number of a key's last change visible to clients; 0 if the key is absent or hidden."""
    stream = state.existing(key)
    return 0 if stream is None else stream.change


def multi(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """MULTI: begins a transaction."""
    if session.transaction.queued is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    session.transaction.begin()
    return OK


def discard(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """DISCARD: drops the queued commands and the watched keys."""
    if session.transaction.queued is None:
        raise CommandError("ERR DISCARD without MULTI")
    session.transaction.end()
    return OK


def watch(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """WATCH key…: makes EXEC run nothing if a key changes, also by a merge (S10.7)."""
    if session.transaction.queued is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    for key in argv[1:]:
        session.transaction.watched.setdefault(key, change_of(state, key))
    return OK


def unwatch(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """UNWATCH: forgets the watched keys."""
    session.transaction.watched = {}
    return OK


def exec_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """EXEC: runs the queued commands, and returns their replies.

    If a watched key has changed, no command runs and the reply is null. If a queued command was
    wrong, no command runs and the reply is the error EXECABORT.
    """
    transaction = session.transaction
    queued = transaction.queued
    if queued is None:
        raise CommandError("ERR EXEC without MULTI")
    if transaction.has_failed:
        transaction.end()
        return ErrorReply("EXECABORT Transaction discarded because of previous errors.")
    if any(change_of(state, key) != change for key, change in transaction.watched.items()):
        transaction.end()
        return NULL_ARRAY
    commands = [(find_command(state, words), words) for words in queued]
    if any(command is not None and command.issues_effects for command, _ in commands):
        try:
            # NotYet passes: the transaction stays queued and EXEC runs after the start (S13.6).
            state.writer.require_issue()
        except CommandError:
            transaction.end()
            raise
    transaction.end()
    replies: list[Reply] = []
    state.waiting.is_executing = True
    try:
        for command, words in commands:
            assert command is not None
            reply = run(state, command, session, words)
            # CLIENT REPLY OFF has no reply, and an ON after it lets the array go out.
            replies.append(None if isinstance(reply, NoReply) else reply)
    finally:
        state.waiting.is_executing = False
    return replies


_FLAGS: Final = "noscript loading stale fast allow_busy"

COMMANDS: Final = [
    Command(
        "multi",
        1,
        _FLAGS,
        multi,
        "Begins a transaction.",
        in_multi=RUNS,
        reply="simple string",
        group="transactions",
        since="1.2.0",
    ),
    Command(
        "exec",
        1,
        "noscript loading stale skip_slowlog",
        exec_,
        "Runs a transaction as one unit.",
        in_multi=RUNS,
        reply="array or null",
        group="transactions",
        since="1.2.0",
    ),
    Command(
        "discard",
        1,
        _FLAGS,
        discard,
        "Drops a transaction.",
        in_multi=RUNS,
        reply="simple string",
        group="transactions",
        since="2.0.0",
    ),
    Command(
        "watch",
        -2,
        _FLAGS,
        watch,
        "Makes EXEC run nothing if one of the keys changes before it.",
        key_flags="RO",
        in_multi=RUNS,
        keys=(1, -1, 1),
        reply="simple string",
        group="transactions",
        since="2.2.0",
        syntax="key [key ...]",
    ),
    Command(
        "unwatch",
        1,
        _FLAGS,
        unwatch,
        "Forgets the watched keys.",
        reply="simple string",
        group="transactions",
        since="2.2.0",
    ),
]
