"""Dispatch of a command: lookup, checks, MULTI's queue, execution. Error texts are Redis's own."""

from __future__ import annotations

from typing import Final, Optional, Union

from anabranch.region.engine.batch import Batch
from anabranch.region.engine.refused import REFUSED
from anabranch.region.engine.replies import (
    NO_REPLY,
    QUEUED,
    CommandError,
    ErrorReply,
    NoReply,
    Reply,
    ReplyLater,
    SimpleString,
    shown,
    wrong_arity_text,
)
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import IS_QUEUED, IS_REFUSED, RUNS, Command
from anabranch.region.engine.writer import WriteRefused

NOAUTH_ERROR: Final = "NOAUTH Authentication required."
NO_MEMBER: Final = (
    "NOTMEMBER this region has no data, and no member of its cluster takes it for one: CRDT.PEERS"
    " says why"
)


def find_command(state: EngineState, argv: list[bytes]) -> Optional[Command[EngineState]]:
    """The command, or for a container the subcommand, of these words; None if unknown."""
    command = state.commands.get(argv[0].upper())
    if command is not None and command.subcommands and len(argv) > 1:
        return command.subcommands.get(argv[1].upper())
    return command


def run(
    state: EngineState, command: Command[EngineState], session: Session, argv: list[bytes]
) -> Reply:
    """Runs a command whose arity was checked. Client errors become error replies."""
    statistics = state.statistics
    statistics.calls[command.name] = statistics.calls.get(command.name, 0) + 1
    if not state.waiting.is_executing:
        state.writer.begin_command()
    state.journal.begin_command(command.shown)
    try:
        return command.handler(state, session, argv)
    except CommandError as error:
        statistics.failed[command.name] = statistics.failed.get(command.name, 0) + 1
        return ErrorReply(error.message, isinstance(error, WriteRefused))
    finally:
        state.journal.begin_command(b"")


def run_batch(
    state: EngineState, command: Command[EngineState], session: Session, batch: Batch
) -> tuple[list[Reply], int]:
    """Runs a command whose arity was checked, with as many of those after it as go with it.

    Returns the replies, and how many commands it has taken. While CLIENT REPLY suppresses replies,
    each command is run by itself.
    """
    packed = batch.packed
    if packed is None or session.reply_mode != "on":
        return [run(state, command, session, batch.first)], 1
    assert not state.waiting.is_executing
    kind = next(kind for kind in command.many if kind.shape is packed.shape)
    statistics = state.statistics
    state.writer.begin_command()
    state.journal.begin_command(command.shown)
    taken = 1
    try:
        replies, taken = kind.execute(state, session, batch.first, packed)
    except CommandError as error:
        statistics.failed[command.name] = statistics.failed.get(command.name, 0) + 1
        replies = [ErrorReply(error.message, isinstance(error, WriteRefused))]
    finally:
        state.journal.begin_command(b"")
        statistics.calls[command.name] = statistics.calls.get(command.name, 0) + taken
    statistics.commands += taken - 1
    return replies, taken


def admit(
    state: EngineState, session: Session, argv: list[bytes]
) -> Union[Command[EngineState], ErrorReply, SimpleString]:
    """The command to run now, or its reply if it is refused or queued inside MULTI."""
    state.statistics.commands += 1
    command = state.commands.get(argv[0])
    if command is None:
        command = state.commands.get(argv[0].upper())
        if command is None:
            session.last_command = b""
            return _refuse(state, session, _not_served(session, argv))
    if command.subcommands and len(argv) > 1:
        subcommand = command.subcommands.get(argv[1].upper())
        if subcommand is None:
            session.last_command = b""
            name = shown(argv[1][:128])
            text = f"ERR unknown subcommand '{name}'. Try {command.name.upper()} HELP."
            return _refuse(state, session, ErrorReply(text))
        command = subcommand
    session.last_command = command.shown
    length = len(argv)
    if length < -command.arity or (command.arity > 0 and length != command.arity):
        error = ErrorReply(wrong_arity_text(command.name))
        return _refuse(state, session, error, command)
    if command.needs_password and not session.authenticated:
        return _refuse(state, session, ErrorReply(NOAUTH_ERROR), command)
    if state.peers.refuse_this_region and command.asks_for_data and not state.lifecycle.has_served:
        return _refuse(state, session, ErrorReply(NO_MEMBER), command)
    if length > state.cached.command_max_keys:
        limit = state.cached.command_max_keys
        if command.keys.count(argv) > limit:
            state.statistics.command_max_keys_refused += 1
            text = f"ERR the command names more keys than crdt-command-max-keys ({limit})"
            return _refuse(state, session, ErrorReply(text), command)
    if session.transaction.queued is not None and command.in_multi != RUNS:
        return _queue(state, session, command, argv)
    return command


def _refuse(
    state: EngineState,
    session: Session,
    error: ErrorReply,
    command: Optional[Command[EngineState]] = None,
) -> ErrorReply:
    """Counts an error that precedes execution; inside MULTI it makes EXEC fail.

    An EXEC that is refused itself ends its transaction.
    """
    if command is not None and command.name == "exec":
        session.transaction.end()
        reason = error.message.removeprefix("ERR ")
        error = ErrorReply(f"EXECABORT Transaction discarded because of: {reason}")
    elif session.transaction.queued is not None:
        session.transaction.has_failed = True
    if command is not None:
        rejected = state.statistics.rejected
        rejected[command.name] = rejected.get(command.name, 0) + 1
    return error


def _queue(
    state: EngineState, session: Session, command: Command[EngineState], argv: list[bytes]
) -> Union[ErrorReply, SimpleString]:
    """Queues a command for EXEC, up to the bytes and the commands of a unit (S1.2)."""
    transaction = session.transaction
    assert transaction.queued is not None
    if command.in_multi == IS_REFUSED:
        error = ErrorReply("ERR Command not allowed inside a transaction")
        return _refuse(state, session, error, command)
    assert command.in_multi == IS_QUEUED
    transaction.queued_bytes += sum(len(word) for word in argv)
    limit = state.settings.integer("crdt-unit-max-bytes")
    if transaction.queued_bytes > limit:
        state.statistics.unit_max_bytes_refused += 1
        error = ErrorReply(f"ERR the transaction is larger than crdt-unit-max-bytes ({limit})")
        return _refuse(state, session, error, command)
    transaction.queued_commands += max(command.keys.count(argv), 1)
    limit = state.settings.integer("crdt-unit-max-commands")
    if transaction.queued_commands > limit:
        state.statistics.unit_max_commands_refused += 1
        text = f"ERR the transaction has more commands than crdt-unit-max-commands ({limit})"
        return _refuse(state, session, ErrorReply(text), command)
    transaction.queued.append(argv)
    return QUEUED


def _not_served(session: Session, argv: list[bytes]) -> ErrorReply:
    """The error for a name that the command table does not have."""
    reason = REFUSED.get(argv[0].upper())
    if reason is None:
        return _unknown(argv)
    return ErrorReply(reason if session.authenticated else NOAUTH_ERROR)


def _unknown(argv: list[bytes]) -> ErrorReply:
    name = shown(argv[0][:128])
    words = ""
    for word in argv[1:]:
        if len(words) >= 128:
            break
        words += f"'{shown(word[: 128 - len(words)])}' "
    return ErrorReply(f"ERR unknown command '{name}', with args beginning with: {words}")


def silenced(session: Session, reply: Reply) -> Reply:
    """Suppresses a reply by CLIENT REPLY OFF or SKIP. Late replies are suppressed in `Outbox`."""
    is_late = isinstance(reply, ReplyLater)
    if session.reply_mode == "skipping":
        session.reply_mode = "skip" if is_late else "on"
    elif session.reply_mode == "on":
        return reply
    return reply if is_late or isinstance(reply, NoReply) else NO_REPLY
