"""SLOWLOG: the last commands that took long (`region.engine.slow_log`)."""

from __future__ import annotations

from itertools import islice
from typing import Final, cast

from anabranch.region.engine.commands.arguments import container, help_reply, integer, option_error
from anabranch.region.engine.replies import OK, CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.slow_log import SlowCommand
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

_DEFAULT_COUNT: Final = 10
_WRONG_COUNT: Final = "ERR count should be greater than or equal to -1"


def get(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """SLOWLOG GET [count]: the newest entries, 10 by default; -1: all."""
    if len(argv) > 3:
        raise option_error(argv)
    count = _DEFAULT_COUNT if len(argv) == 2 else integer(argv[2], _WRONG_COUNT)
    if count < -1:
        raise CommandError(_WRONG_COUNT)
    entries = state.statistics.slow_log.entries
    return [_entry(one) for one in islice(entries, len(entries) if count == -1 else count)]


def _entry(entry: SlowCommand) -> Reply:
    return [
        entry.number,
        entry.time_s,
        entry.duration_us,
        cast("list[Reply]", entry.arguments),
        entry.address.encode(),
        entry.name,
    ]


def length(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """SLOWLOG LEN: the number of entries."""
    return len(state.statistics.slow_log.entries)


def reset(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """SLOWLOG RESET: removes all entries; the numbers of further entries go on."""
    state.statistics.slow_log.clear()
    return OK


def slowlog_help(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """SLOWLOG HELP: describes the subcommands."""
    return help_reply(
        "SLOWLOG",
        [
            "GET [<count>]",
            "    Return the newest entries (default: 10, -1 means all). An entry has:",
            "    id, time in seconds since 1970, duration in microseconds, arguments,",
            "    address and name of the client",
            "LEN",
            "    Return the number of entries.",
            "RESET",
            "    Remove all entries.",
        ],
    )


_ADMIN: Final = "admin loading stale"

# The rows show data: arguments of commands that may not be on disk yet.
COMMANDS: Final = [
    Command(
        "slowlog",
        -2,
        "",
        container,
        "A container for commands about the slow log.",
        group="server",
        since="2.2.12",
        subcommands=[
            Command(
                "slowlog|get",
                -2,
                _ADMIN,
                get,
                "Returns the last commands that took long, the newest first.",
                reply="array",
                group="server",
                since="2.2.12",
                syntax="[count]",
            ),
            Command(
                "slowlog|len",
                2,
                _ADMIN,
                length,
                "Returns the number of entries of the slow log.",
                reply="integer",
                group="server",
                since="2.2.12",
            ),
            Command(
                "slowlog|reset",
                2,
                _ADMIN,
                reset,
                "Removes all entries of the slow log.",
                reply="simple string",
                group="server",
                since="2.2.12",
            ),
            Command(
                "slowlog|help",
                2,
                "loading stale",
                slowlog_help,
                "Describes the subcommands of SLOWLOG.",
                reply="array",
                group="server",
                since="6.2.0",
            ),
        ],
    )
]
