"""OBJECT and MEMORY: how a key is held in memory, and about how many bytes it takes."""

from __future__ import annotations

from typing import Final

from anabranch.crdt.memory import about_memory
from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, container, help_reply, integer
from anabranch.region.engine.replies import CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

NO_LFU: Final = (
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that "
    "when switching between policies at runtime LRU and LFU data will take some time to adjust."
)


def encoding(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """OBJECT ENCODING key: `stream`, or null if the key does not exist."""
    return None if state.existing(argv[2]) is None else b"stream"


def refcount(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """OBJECT REFCOUNT key: 1, or null if the key does not exist."""
    return None if state.existing(argv[2]) is None else 1


def freq(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """OBJECT FREQ key: refused, because a region never evicts keys and counts no accesses."""
    if state.existing(argv[2]) is None:
        return None
    raise CommandError(NO_LFU)


def object_help(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """OBJECT HELP: describes the subcommands."""
    return help_reply(
        "OBJECT",
        [
            "ENCODING <key>",
            "    Return how the key is held in memory: stream.",
            "FREQ <key>",
            "    Refused: a region does not count accesses to keys.",
            "REFCOUNT <key>",
            "    Return 1.",
        ],
    )


def usage(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """MEMORY USAGE key [SAMPLES n]: about the bytes of memory that a stream takes; null without it.

    The region chooses by itself how many parts of a large stream it looks at.
    """
    for index in range(3, len(argv), 2):
        if argv[index].upper() != b"SAMPLES" or index + 1 == len(argv):
            raise CommandError(SYNTAX_ERROR)
        if integer(argv[index + 1]) < 0:
            raise CommandError(SYNTAX_ERROR)
    stream = state.existing(argv[2])
    return None if stream is None else about_memory(stream)


def memory_help(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """MEMORY HELP: describes the subcommands."""
    return help_reply(
        "MEMORY",
        [
            "USAGE <key> [SAMPLES <count>]",
            "    Return about how many bytes of memory a stream takes in this region.",
            "    The count is accepted, and changes nothing.",
        ],
    )


_OF_A_KEY: Final = (2, 2, 1)

_OBJECT: Final = [
    Command(
        "object|encoding",
        3,
        "readonly",
        encoding,
        "Returns stream, or null if the key does not exist.",
        keys=_OF_A_KEY,
        key_flags="RO",
        reply="bulk string or null",
        group="generic",
        since="2.2.3",
        syntax="key",
    ),
    Command(
        "object|freq",
        3,
        "readonly",
        freq,
        "Refused: a region does not count accesses to keys.",
        keys=_OF_A_KEY,
        key_flags="RO",
        reply="error or null",
        group="generic",
        since="4.0.0",
        syntax="key",
    ),
    Command(
        "object|refcount",
        3,
        "readonly",
        refcount,
        "Returns 1, or null if the key does not exist.",
        keys=_OF_A_KEY,
        key_flags="RO",
        reply="integer or null",
        group="generic",
        since="2.2.3",
        syntax="key",
    ),
    Command(
        "object|help",
        2,
        "loading stale",
        object_help,
        "Describes the subcommands of OBJECT.",
        categories="@keyspace",
        reply="array",
        group="generic",
        since="6.2.0",
    ),
]

_MEMORY: Final = [
    Command(
        "memory|usage",
        -3,
        "readonly",
        usage,
        "Returns about how many bytes of memory a stream takes in this region.",
        keys=_OF_A_KEY,
        key_flags="RO",
        reply="integer or null",
        group="server",
        since="4.0.0",
        syntax="key [SAMPLES count]",
    ),
    Command(
        "memory|help",
        2,
        "loading stale",
        memory_help,
        "Describes the subcommands of MEMORY.",
        reply="array",
        group="server",
        since="4.0.0",
    ),
]

COMMANDS: Final = [
    Command(
        "object",
        -2,
        "",
        container,
        "A container for commands about how a key is held.",
        group="generic",
        since="2.2.3",
        subcommands=_OBJECT,
    ),
    Command(
        "memory",
        -2,
        "",
        container,
        "A container for commands about memory.",
        group="server",
        since="4.0.0",
        subcommands=_MEMORY,
    ),
]
