"""COMMAND: the command table as clients read it, and the keys of a command line."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, help_reply
from anabranch.region.engine.dispatch import find_command
from anabranch.region.engine.glob import Glob
from anabranch.region.engine.replies import CommandError, MapReply, Reply, SetReply, SimpleString
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

# Groups of the command table that are also ACL categories.
_GROUP_CATEGORIES: Final = {
    "stream": "@stream",
    "connection": "@connection",
    "transactions": "@transaction",
}


# -- describing one command


def categories(command: Command[EngineState]) -> list[str]:
    """The ACL categories of a command, derived from the table's columns as Redis derives them."""
    flags = command.flags
    group = command.docs.group
    found: list[str] = []
    if command.is_write:
        found.append("@write")
    if "readonly" in flags:
        found.append("@read")
    if "admin" in flags:
        found.append("@admin")
    if group == "generic" and command.keys.first:
        found.append("@keyspace")
    if group in _GROUP_CATEGORIES and not command.subcommands:
        found.append(_GROUP_CATEGORIES[group])
    elif command.name.startswith("command") or command.name == "wait":
        found.append("@connection")
    found.append("@fast" if "fast" in flags else "@slow")
    if "blocking" in flags:
        found.append("@blocking")
    if "admin" in flags:
        found.append("@dangerous")
    return found + [one for one in command.categories if one not in found]


def describe(command: Command[EngineState]) -> Reply:
    """A command as COMMAND shows it.

    The ten elements are: name, arity, flags, first key, last key, step, ACL categories, tips,
    key specifications, subcommands.
    """
    subcommands: list[Reply] = [describe(one) for one in command.subcommands.values()]
    return [
        command.name.encode(),
        command.arity,
        SetReply(_simple(command.flags)),
        command.keys.first,
        command.keys.last,
        command.keys.step,
        SetReply(_simple(categories(command))),
        SetReply([]),
        SetReply(_key_specifications(command)),
        subcommands,
    ]


def _simple(names: list[str]) -> list[Reply]:
    return [SimpleString(name.encode()) for name in names]


def key_flags(command: Command[EngineState]) -> list[Reply]:
    """The flags of a command's key specification, such as RO and access."""
    return _simple(command.keys.flags)


def _key_specifications(command: Command[EngineState]) -> list[Reply]:
    keys = command.keys
    if keys.keyword:
        begin = _typed(b"keyword", [b"keyword", keys.keyword, b"startfrom", keys.search_from])
        find = _typed(b"range", [b"lastkey", -1, b"keystep", 1, b"limit", 2])
        flags = SetReply(key_flags(command))
        return [MapReply([b"flags", flags, b"begin_search", begin, b"find_keys", find])]
    if not keys.first:
        return []
    if keys.second_flags:
        return [
            _keys_at(keys.first, 0, 1, _simple(keys.flags)),
            _keys_at(keys.first + 1, 0, 1, _simple(keys.second_flags)),
        ]
    last = keys.last if keys.last < 0 else keys.last - keys.first
    return [_keys_at(keys.first, last, keys.step, key_flags(command))]


def _keys_at(first: int, last: int, step: int, flags: list[Reply]) -> Reply:
    """The specification of keys from `first` on; `last` counts from there, or back from the end."""
    begin = _typed(b"index", [b"index", first])
    find = _typed(b"range", [b"lastkey", last, b"keystep", step, b"limit", 0])
    return MapReply([b"flags", SetReply(flags), b"begin_search", begin, b"find_keys", find])


def _typed(kind: bytes, specification: list[Reply]) -> Reply:
    return MapReply([b"type", kind, b"spec", MapReply(specification)])


def document(command: Command[EngineState]) -> Reply:
    """A command as COMMAND DOCS shows it."""
    docs = command.docs
    flat: list[Reply] = [
        b"summary",
        docs.summary.encode(),
        b"since",
        docs.since.encode(),
        b"group",
        docs.group.encode(),
    ]
    if docs.syntax:
        flat += [b"syntax", docs.syntax.encode()]
    if docs.reply:
        flat += [b"reply", docs.reply.encode()]
    if command.subcommands:
        inner: list[Reply] = []
        for one in command.subcommands.values():
            inner += [one.name.encode(), document(one)]
        flat += [b"subcommands", MapReply(inner)]
    return MapReply(flat)


# -- finding commands and keys


def lookup(state: EngineState, name: bytes) -> Optional[Command[EngineState]]:
    """The command of that name, or None; a subcommand has the name ``container|subcommand``."""
    container, separator, rest = name.upper().partition(b"|")
    command = state.commands.get(container)
    if command is None or not separator:
        return command
    return command.subcommands.get(rest)


def keys_of(command: Command[EngineState], words: list[bytes]) -> list[bytes]:
    """The keys in a command line. Raises `CommandError` if the arguments do not show the keys."""
    keys = command.keys
    if keys.keyword:
        return _keys_after(words, keys.keyword, keys.search_from)
    if not keys.first:
        return []
    last = keys.last if keys.last >= 0 else len(words) + keys.last
    return words[keys.first : last + 1 : keys.step]


def _keys_after(words: list[bytes], keyword: bytes, first: int) -> list[bytes]:
    """The first half of the words after the keyword; the second half are IDs."""
    for index in range(first, len(words)):
        if words[index].upper() == keyword:
            count = (len(words) - index - 1) // 2
            if count:
                return words[index + 1 : index + 1 + count]
            break
    raise CommandError("ERR Invalid arguments specified for command")


def _command_of(state: EngineState, words: list[bytes]) -> Command[EngineState]:
    """The command that a whole command line calls.

    Raises `CommandError` if it is unknown, has no keys, or has a wrong number of arguments.
    """
    command = find_command(state, words)
    if command is None:
        raise CommandError("ERR Invalid command specified")
    if not command.keys:
        raise CommandError("ERR The command has no key arguments")
    if len(words) < abs(command.arity) or (command.arity > 0 and len(words) != command.arity):
        raise CommandError("ERR Invalid number of arguments specified for command")
    return command


# -- handlers


def command_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND: describes every command."""
    return [describe(command) for command in state.commands.values()]


def count(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND COUNT: the number of commands, without subcommands."""
    return len(state.commands)


def info(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND INFO [name …]: describes the named commands, or all; null for an unknown name."""
    if len(argv) == 2:
        return command_(state, session, argv)
    reply: list[Reply] = []
    for name in argv[2:]:
        command = lookup(state, name)
        reply.append(None if command is None else describe(command))
    return reply


def docs(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND DOCS [name …]: documents the named commands, or all; omits unknown names."""
    flat: list[Reply] = []
    commands = list(state.commands.values())
    if len(argv) > 2:
        commands = [
            command for command in (lookup(state, name) for name in argv[2:]) if command is not None
        ]
    for command in commands:
        flat += [command.name.encode(), document(command)]
    return MapReply(flat)


def list_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]: names of commands.

    With a filter, subcommands are listed as well.
    """
    if len(argv) == 2:
        return [command.name.encode() for command in state.commands.values()]
    if len(argv) != 5 or argv[2].upper() != b"FILTERBY":
        raise CommandError(SYNTAX_ERROR)
    kind = argv[3].upper()
    if kind not in (b"MODULE", b"ACLCAT", b"PATTERN"):
        raise CommandError(SYNTAX_ERROR)
    if kind == b"MODULE":
        return []
    pattern = Glob(argv[4], True)
    category = "@" + argv[4].decode("latin-1").lower()
    names: list[Reply] = []
    for command in with_subcommands(state):
        name = command.name.encode()
        if (kind == b"PATTERN" and pattern.matches(name)) or (
            kind == b"ACLCAT" and category in categories(command)
        ):
            names.append(name)
    return names


def with_subcommands(state: EngineState) -> list[Command[EngineState]]:
    """All commands, each container before its subcommands."""
    return [
        command
        for container in state.commands.values()
        for command in [container, *container.subcommands.values()]
    ]


def getkeys(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND GETKEYS command …: the keys in a command line."""
    command = _command_of(state, argv[2:])
    keys: list[Reply] = []
    keys += keys_of(command, argv[2:])
    return keys


def getkeysandflags(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND GETKEYSANDFLAGS command …: each key in a command line with its flags."""
    command = _command_of(state, argv[2:])
    flags = [command.keys.flags]
    if command.keys.second_flags:
        flags.append(command.keys.second_flags)
    return [
        [key, SetReply(_simple(flags[min(place, len(flags) - 1)]))]
        for place, key in enumerate(keys_of(command, argv[2:]))
    ]


def help_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND HELP: describes the subcommands."""
    return help_reply(
        "COMMAND",
        [
            "(no subcommand)",
            "    Describe all commands: arity, flags and keys.",
            "COUNT",
            "    Return the number of commands.",
            "DOCS [<command-name> ...]",
            "    Document the named commands, or all.",
            "GETKEYS <full-command>",
            "    Return the keys in a command line.",
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys in a command line, with the flags of each key.",
            "INFO [<command-name> ...]",
            "    Describe the named commands, or all.",
            "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
            "    Return the names of commands.",
        ],
    )


_SHOWN: Final = "loading stale"

COMMANDS: Final = [
    Command(
        "command",
        -1,
        _SHOWN,
        command_,
        "Describes every command: arity, flags and keys.",
        reply="array",
        group="server",
        since="2.8.13",
        shows_data=False,
        subcommands=[
            Command(
                "command|count",
                2,
                _SHOWN,
                count,
                "Returns the number of commands.",
                reply="integer",
                group="server",
                since="2.8.13",
            ),
            Command(
                "command|docs",
                -2,
                _SHOWN,
                docs,
                "Documents the named commands, or all.",
                reply="map",
                group="server",
                since="7.0.0",
                syntax="[command-name ...]",
            ),
            Command(
                "command|getkeys",
                -3,
                _SHOWN,
                getkeys,
                "Returns the keys in a command line.",
                reply="array",
                group="server",
                since="2.8.13",
                syntax="command [arg ...]",
            ),
            Command(
                "command|getkeysandflags",
                -3,
                _SHOWN,
                getkeysandflags,
                "Returns the keys in a command line, with the flags of each key.",
                reply="array",
                group="server",
                since="7.0.0",
                syntax="command [arg ...]",
            ),
            Command(
                "command|info",
                -2,
                _SHOWN,
                info,
                "Describes the named commands, or all.",
                reply="array",
                group="server",
                since="2.8.13",
                syntax="[command-name ...]",
            ),
            Command(
                "command|list",
                -2,
                _SHOWN,
                list_,
                "Returns the names of commands.",
                reply="array",
                group="server",
                since="7.0.0",
                syntax="[FILTERBY MODULE name | ACLCAT category | PATTERN pattern]",
            ),
            Command(
                "command|help",
                2,
                _SHOWN,
                help_,
                "Describes the subcommands of COMMAND.",
                reply="array",
                group="server",
                since="5.0.0",
            ),
        ],
    )
]
