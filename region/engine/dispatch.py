"""From words to a command: what is found, checked and queued before anything runs, with Redis's own error texts."""

from __future__ import annotations

from typing import Final, Optional, Union

from anabranch.region.engine.commands.connection import NOAUTH_ALLOWED, NOAUTH_ERROR
from anabranch.region.engine.core import Core
from anabranch.region.engine.replies import (
    NO_REPLY,
    QUEUED,
    ErrorReply,
    NoReply,
    Reply,
    SimpleString,
    Waiting,
)
from anabranch.region.engine.session import Session
from anabranch.region.engine.table import Command

# What may be said inside MULTI without being queued.
NOT_QUEUED: Final = frozenset({b"EXEC", b"DISCARD", b"MULTI", b"WATCH", b"QUIT", b"RESET"})


def admit(
    core: Core, session: Session, argv: list[bytes]
) -> Union[Command, ErrorReply, SimpleString]:
    """The command to run now; or its reply, when it is refused, or queued inside MULTI."""
    core.statistics.commands += 1
    command = core.commands.get(argv[0])
    if command is None:
        command = core.commands.get(argv[0].upper())
        if command is None:
            return _refuse(core, session, _unknown(argv))
    if command.subcommands and len(argv) > 1:
        subcommand = command.subcommands.get(argv[1].upper())
        if subcommand is None:
            shown = argv[1][:128].decode("utf-8", "replace")
            return _refuse(
                core,
                session,
                ErrorReply(f"ERR unknown subcommand '{shown}'. Try {command.name.upper()} HELP."),
            )
        command = subcommand
    session.last_command = command.shown
    length = len(argv)
    if length < -command.arity or (command.arity > 0 and length != command.arity):
        return _refuse(
            core,
            session,
            ErrorReply(f"ERR wrong number of arguments for '{command.name}' command"),
            command,
        )
    if not session.authenticated and command.key not in NOAUTH_ALLOWED:
        return _refuse(core, session, ErrorReply(NOAUTH_ERROR), command)
    if session.queued is not None and command.key not in NOT_QUEUED:
        return _queue(core, session, command, argv)
    return command


def _refuse(
    core: Core, session: Session, error: ErrorReply, command: Optional[Command] = None
) -> ErrorReply:
    """An error that comes before the command runs: inside MULTI it spoils the transaction."""
    if session.queued is not None:
        session.queue_failed = True
    if command is not None:
        rejected = core.statistics.rejected
        rejected[command.name] = rejected.get(command.name, 0) + 1
    return error


def _queue(
    core: Core, session: Session, command: Command, argv: list[bytes]
) -> Union[ErrorReply, SimpleString]:
    """Keeps a command for EXEC, within the bytes of a unit (S1.2)."""
    assert session.queued is not None
    if not command.in_multi:
        return _refuse(
            core, session, ErrorReply("ERR Command not allowed inside a transaction"), command
        )
    session.queued_bytes += sum(len(word) for word in argv)
    limit = core.settings.integer("crdt-unit-max-bytes")
    if session.queued_bytes > limit:
        core.statistics.unit_max_bytes_refused += 1
        return _refuse(
            core,
            session,
            ErrorReply(f"ERR the transaction is larger than crdt-unit-max-bytes ({limit})"),
            command,
        )
    session.queued.append(argv)
    return QUEUED


def _unknown(argv: list[bytes]) -> ErrorReply:
    name = argv[0][:128].decode("utf-8", "replace")
    shown = ""
    for word in argv[1:]:
        if len(shown) >= 128:
            break
        shown += f"'{word[: 128 - len(shown)].decode('utf-8', 'replace')}' "
    return ErrorReply(f"ERR unknown command '{name}', with args beginning with: {shown}")


def silenced(session: Session, mode: str, reply: Reply) -> Reply:
    """CLIENT REPLY OFF and SKIP; what waits is silenced when it is answered."""
    if isinstance(reply, Waiting):
        return reply
    if mode == "skip":
        session.reply_mode = "on"
        return NO_REPLY
    return reply if session.reply_mode == "on" or isinstance(reply, NoReply) else NO_REPLY
