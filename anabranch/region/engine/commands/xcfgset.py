"""XCFGSET, and XIDMP, another spelling of it (S9.4)."""

from __future__ import annotations

from typing import Final

from anabranch.crdt.effects import Configure
from anabranch.region.engine.commands.arguments import (
    NO_SUCH_KEY,
    SYNTAX_ERROR,
    help_reply,
    integer,
    wrong_arity,
)
from anabranch.region.engine.idempotency import configuration
from anabranch.region.engine.replies import OK, CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command


def xcfgset(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XCFGSET (S9.4): sets the duration and the number of IDMP pairs of a stream.

    A change replaces the configurations that this region has seen and clears the pairs that it
    has seen. If the values stay as they are, no effect is issued.
    """
    stream = state.existing(argv[1])
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    current = configuration(state, stream)
    duration_s, maxsize = current
    seen: set[bytes] = set()
    index = 2
    while index < len(argv):
        option = argv[index].upper()
        if option not in (b"IDMP-DURATION", b"IDMP-MAXSIZE") or index + 1 >= len(argv):
            raise CommandError(SYNTAX_ERROR)
        if option in seen:
            raise CommandError(f"ERR {option.decode()} specified multiple times")
        seen.add(option)
        value = integer(argv[index + 1])
        if option == b"IDMP-DURATION":
            if not 1 <= value <= 86400:
                raise CommandError("ERR IDMP-DURATION must be between 1 and 86400 seconds")
            duration_s = value
        else:
            if not 1 <= value <= 10000:
                raise CommandError("ERR IDMP-MAXSIZE must be between 1 and 10000 entries")
            maxsize = value
        index += 2
    if not seen:
        raise CommandError("ERR At least one parameter must be specified")
    if (duration_s, maxsize) != current:
        state.writer.require_issue()
        state.writer.issue(
            Configure(
                argv[1],
                duration_s,
                maxsize,
                list(stream.configurations),
                dict(state.keyspace.vector),
            )
        )
    return OK


def xidmp(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XIDMP CFGSET | CFGGET key [DURATION d] [MAXSIZE m]: another spelling of XCFGSET."""
    subcommand = argv[1].upper()
    if subcommand == b"HELP":
        return help_reply(
            "XIDMP",
            ["CFGSET <key> [DURATION <s>] [MAXSIZE <n>]", "CFGGET <key> [DURATION] [MAXSIZE]"],
        )
    if len(argv) < 3:
        raise wrong_arity("xidmp|" + subcommand.decode("latin-1").lower())
    if subcommand == b"CFGSET":
        names = {b"DURATION": b"IDMP-DURATION", b"MAXSIZE": b"IDMP-MAXSIZE"}
        return xcfgset(
            state,
            session,
            [argv[0], argv[2]] + [names.get(word.upper(), word) for word in argv[3:]],
        )
    if subcommand == b"CFGGET":
        stream = state.existing(argv[2])
        if stream is None:
            raise CommandError(NO_SUCH_KEY)
        duration_s, maxsize = configuration(state, stream)
        wanted = {word.upper() for word in argv[3:]} or {b"DURATION", b"MAXSIZE"}
        if not wanted <= {b"DURATION", b"MAXSIZE"}:
            raise CommandError(SYNTAX_ERROR)
        reply: list[Reply] = []
        if b"DURATION" in wanted:
            reply += [b"duration", duration_s]
        if b"MAXSIZE" in wanted:
            reply += [b"maxsize", maxsize]
        return reply
    raise CommandError(SYNTAX_ERROR)


COMMANDS: Final = [
    Command(
        "xcfgset",
        -2,
        "write fast",
        xcfgset,
        "Sets how long a stream keeps idempotency pairs, and how many.",
        keys=(1, 1, 1),
        reply="simple string",
        since="8.6.0",
        syntax="key [IDMP-DURATION seconds] [IDMP-MAXSIZE entries]",
    ),
    Command(
        "xidmp",
        -2,
        "write fast",
        xidmp,
        "Sets or returns the configuration of XCFGSET, in the older spelling.",
        keys=(2, 2, 1),
        reply="simple string or array",
        since="8.6.0",
        syntax="CFGSET | CFGGET key [DURATION seconds] [MAXSIZE entries]",
    ),
]
