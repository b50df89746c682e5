"""MULTI, EXEC, DISCARD, WATCH, UNWATCH (S1.2, S10.7): what EXEC runs is one unit."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.core import Core
from anabranch.region.engine.replies import NULL_ARRAY, OK, CommandError, ErrorReply, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.table import Command


def change_of(core: Core, key: bytes) -> int:
    """Number of the last change of a key as clients see it; 0 where there is none, or a deadline hides it."""
    stream = core.existing(key)
    return 0 if stream is None else stream.change


def multi(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """MULTI."""
    if session.queued is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    session.queued = []
    session.queued_bytes = 0
    session.queue_failed = False
    return OK


def end_transaction(session: Session) -> None:
    session.queued = None
    session.queued_bytes = 0
    session.queue_failed = False
    session.watched = {}


def discard(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """DISCARD."""
    if session.queued is None:
        raise CommandError("ERR DISCARD without MULTI")
    end_transaction(session)
    return OK


def watch(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """WATCH key…: merges count as changes, too (S10.7)."""
    if session.queued is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    for key in argv[1:]:
        session.watched.setdefault(key, change_of(core, key))
    return OK


def unwatch(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """UNWATCH."""
    session.watched = {}
    return OK


def exec_(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """EXEC: every command, or none when a watched key changed or a queued command was wrong."""
    queued = session.queued
    if queued is None:
        raise CommandError("ERR EXEC without MULTI")
    if session.queue_failed:
        end_transaction(session)
        return ErrorReply("EXECABORT Transaction discarded because of previous errors.")
    if any(change_of(core, key) != change for key, change in session.watched.items()):
        end_transaction(session)
        return NULL_ARRAY
    commands = [(core.find_command(words), words) for words in queued]
    if any(command is not None and command.issues for command, _ in commands):
        try:
            core.require_issue()  # may wait for the end of the start: then the transaction stays queued
        except CommandError:
            end_transaction(session)
            raise
    end_transaction(session)
    replies: list[Reply] = []
    core.is_executing = True
    try:
        for command, words in commands:
            assert command is not None
            replies.append(core.run(command, session, words))
    finally:
        core.is_executing = False
    return replies


_FLAGS: Final = "noscript loading stale fast allow_busy"

COMMANDS: Final = [
    Command("multi", 1, _FLAGS, multi, "Begins a transaction.", reply="simple string", group="transactions", since="1.2.0"),
    Command("exec", 1, "noscript loading stale skip_slowlog", exec_, "Runs a transaction as one unit.",
            reply="array or null", group="transactions", since="1.2.0"),
    Command("discard", 1, _FLAGS, discard, "Drops a transaction.", reply="simple string", group="transactions", since="2.0.0"),
    Command("watch", -2, _FLAGS, watch, "EXEC does nothing if one of the keys changes before it.", keys=(1, -1, 1),
            reply="simple string", group="transactions", since="2.2.0", syntax="key [key ...]"),
    Command("unwatch", 1, _FLAGS, unwatch, "Forgets the watched keys.", reply="simple string", group="transactions",
            since="2.2.0"),
]  # fmt: skip
