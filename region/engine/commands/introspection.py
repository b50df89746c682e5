"""COMMAND: the table as clients read it, and which keys a command names."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, help_reply
from anabranch.region.engine.core import Core
from anabranch.region.engine.glob import Glob
from anabranch.region.engine.replies import CommandError, MapReply, Reply, SetReply, SimpleString
from anabranch.region.engine.session import Session
from anabranch.region.engine.table import Command

# Commands whose keys stand after a word: the word, and where the search for it begins.
_KEYS_AFTER: Final = {b"XREAD": (b"STREAMS", 1), b"XREADGROUP": (b"STREAMS", 4)}
# Groups of the table that are also categories.
_GROUP_CATEGORIES: Final = {
    "stream": "@stream",
    "connection": "@connection",
    "transactions": "@transaction",
}
# A second key of another kind: its position and flags.
_SECOND_KEYS: Final = {"rename": (2, ["OW", "update"]), "renamenx": (2, ["OW", "insert"])}
# What a command does with its keys, where "read" or "write and perhaps read" does not say it: flags of its key specification.
_KEY_FLAGS: Final[dict[str, list[str]]] = {
    "rename": ["RW", "access", "delete"],
    "renamenx": ["RW", "access", "delete"],
    "xlen": ["RO"],
    "xdel": ["RW", "delete"],
    "xtrim": ["RW", "delete"],
    "xsetid": ["RW", "update"],
    "xadd": ["RW", "update"],
    "xgroup|create": ["RW", "insert"],
    "xgroup|createconsumer": ["RW", "insert"],
    "xgroup|delconsumer": ["RW", "delete"],
    "xgroup|destroy": ["RW", "delete"],
    "xgroup|setid": ["RW", "update"],
    "xack": ["RW", "update"],
    "xclaim": ["RW", "update"],
    "xautoclaim": ["RW", "delete"],
    "xread": ["RO", "access"],
    "xreadgroup": ["RO", "access"],
    "xrange": ["RO", "access"],
    "xrevrange": ["RO", "access"],
    "xpending": ["RO", "access"],
    "xinfo|stream": ["RO", "access"],
    "xinfo|groups": ["RO", "access"],
    "xinfo|consumers": ["RO", "access"],
    "del": ["RM", "delete"],
    "unlink": ["RM", "delete"],
    "exists": ["RO"],
    "touch": ["RO"],
    "type": ["RO"],
    "watch": ["RO"],
    "persist": ["RW", "update"],
    "expire": ["RW", "update"],
    "pexpire": ["RW", "update"],
    "expireat": ["RW", "update"],
    "pexpireat": ["RW", "update"],
    "ttl": ["RO", "access"],
    "pttl": ["RO", "access"],
    "expiretime": ["RO", "access"],
    "pexpiretime": ["RO", "access"],
}


# -- one command -----------------------------------------------------------------------------------------------------


def categories(command: Command) -> list[str]:
    """ACL categories, derived from flags and group as Redis derives them."""
    flags = command.flags
    found: list[str] = []
    if command.is_write:
        found.append("@write")
    if "readonly" in flags:
        found.append("@read")
    if "admin" in flags:
        found.append("@admin")
    if (command.group == "generic" and command.first_key) or command.name in _KEYSPACE:
        found.append("@keyspace")
    if command.group in _GROUP_CATEGORIES and not command.subcommands:
        found.append(_GROUP_CATEGORIES[command.group])
    elif command.name.startswith("command") or command.name == "wait":
        found.append("@connection")
    found.append("@fast" if "fast" in flags else "@slow")
    if "blocking" in flags:
        found.append("@blocking")
    if "admin" in flags or command.name in _DANGEROUS:
        found.append("@dangerous")
    return found


# Commands without keys on what a key is about, and those that are dangerous without being an administrator's.
_KEYSPACE: Final = frozenset({"keys", "scan", "dbsize", "randomkey", "flushall", "flushdb"})
_DANGEROUS: Final = frozenset({"keys", "flushall", "flushdb", "info"})


def describe(command: Command) -> Reply:
    """A command as COMMAND shows it: ten elements, the last its subcommands."""
    subcommands: list[Reply] = [describe(one) for one in command.subcommands.values()]
    return [
        command.name.encode(),
        command.arity,
        SetReply(_simple(command.flags)),
        command.first_key,
        command.last_key,
        command.key_step,
        SetReply(_simple(categories(command))),
        SetReply([]),
        SetReply(_key_specifications(command)),
        subcommands,
    ]


def _flags_of(command: Command) -> list[str]:
    flags = _KEY_FLAGS.get(command.name)
    if flags is None:
        return ["RW", "access", "update"] if command.is_write else ["RO", "access"]
    return flags


def _simple(names: list[str]) -> list[Reply]:
    return [SimpleString(name.encode()) for name in names]


def key_flags(command: Command) -> list[Reply]:
    """What a command does with its keys."""
    return _simple(_flags_of(command))


def _key_specifications(command: Command) -> list[Reply]:
    after = _KEYS_AFTER.get(command.key)
    if after is not None:
        begin = _typed(b"keyword", [b"keyword", after[0], b"startfrom", after[1]])
        find = _typed(b"range", [b"lastkey", -1, b"keystep", 1, b"limit", 2])
        return [
            MapReply(
                [b"flags", SetReply(key_flags(command)), b"begin_search", begin, b"find_keys", find]
            )
        ]
    if not command.first_key:
        return []
    second = _SECOND_KEYS.get(command.name)
    if second is not None:
        return [
            _keys_at(command.first_key, 0, 1, _simple(_flags_of(command))),
            _keys_at(second[0], 0, 1, _simple(second[1])),
        ]
    last = command.last_key if command.last_key < 0 else command.last_key - command.first_key
    return [_keys_at(command.first_key, last, command.key_step, key_flags(command))]


def _keys_at(first: int, last: int, step: int, flags: list[Reply]) -> Reply:
    """Keys from a place on; `last` counts from there, or from the end where it is negative."""
    begin = _typed(b"index", [b"index", first])
    find = _typed(b"range", [b"lastkey", last, b"keystep", step, b"limit", 0])
    return MapReply([b"flags", SetReply(flags), b"begin_search", begin, b"find_keys", find])


def _typed(kind: bytes, specification: list[Reply]) -> Reply:
    return MapReply([b"type", kind, b"spec", MapReply(specification)])


def document(command: Command) -> Reply:
    """A command as COMMAND DOCS shows it."""
    flat: list[Reply] = [
        b"summary",
        command.summary.encode(),
        b"since",
        command.since.encode(),
        b"group",
        command.group.encode(),
    ]
    if command.syntax:
        flat += [b"syntax", command.syntax.encode()]
    if command.reply:
        flat += [b"reply", command.reply.encode()]
    if command.subcommands:
        inner: list[Reply] = []
        for one in command.subcommands.values():
            inner += [one.name.encode(), document(one)]
        flat += [b"subcommands", MapReply(inner)]
    return MapReply(flat)


# -- finding commands ------------------------------------------------------------------------------------------------


def lookup(core: Core, name: bytes) -> Optional[Command]:
    """The command of that name; a subcommand's is ``container|subcommand``."""
    container, separator, rest = name.upper().partition(b"|")
    command = core.commands.get(container)
    if command is None or not separator:
        return command
    return command.subcommands.get(rest)


def keys_of(command: Command, words: list[bytes]) -> list[bytes]:
    """The keys that a command line names; raises when it cannot be told."""
    after = _KEYS_AFTER.get(command.key)
    if after is not None:
        return _keys_after(words, after[0], after[1])
    if not command.first_key:
        return []
    last = command.last_key if command.last_key >= 0 else len(words) + command.last_key
    return words[command.first_key : last + 1 : command.key_step]


def _keys_after(words: list[bytes], keyword: bytes, first: int) -> list[bytes]:
    """Half of what follows the keyword: the other half are IDs."""
    for index in range(first, len(words)):
        if words[index].upper() == keyword:
            count = (len(words) - index - 1) // 2
            if count:
                return words[index + 1 : index + 1 + count]
            break
    raise CommandError("ERR Invalid arguments specified for command")


def _command_of(core: Core, words: list[bytes]) -> Command:
    """The command that a whole command line calls, its arity checked, with keys."""
    command = core.commands.get(words[0].upper())
    if command is not None and command.subcommands and len(words) > 1:
        command = command.subcommands.get(words[1].upper())
    if command is None:
        raise CommandError("ERR Invalid command specified")
    if not command.first_key and command.key not in _KEYS_AFTER:
        raise CommandError("ERR The command has no key arguments")
    if len(words) < abs(command.arity) or (command.arity > 0 and len(words) != command.arity):
        raise CommandError("ERR Invalid number of arguments specified for command")
    return command


# -- handlers --------------------------------------------------------------------------------------------------------


def command_(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND: every command."""
    return [describe(command) for command in core.commands.values()]


def count(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND COUNT."""
    return len(core.commands)


def info(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND INFO [name …]: null where there is no such command."""
    if len(argv) == 2:
        return command_(core, session, argv)
    reply: list[Reply] = []
    for name in argv[2:]:
        command = lookup(core, name)
        reply.append(None if command is None else describe(command))
    return reply


def docs(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND DOCS [name …]: what is unknown is left out."""
    flat: list[Reply] = []
    commands = list(core.commands.values())
    if len(argv) > 2:
        commands = [
            command for command in (lookup(core, name) for name in argv[2:]) if command is not None
        ]
    for command in commands:
        flat += [command.name.encode(), document(command)]
    return MapReply(flat)


def list_(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]: with a filter, subcommands too."""
    if len(argv) == 2:
        return [command.name.encode() for command in core.commands.values()]
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
    for container in core.commands.values():
        for command in [container, *container.subcommands.values()]:
            name = command.name.encode()
            if (kind == b"PATTERN" and pattern.matches(name)) or (
                kind == b"ACLCAT" and category in categories(command)
            ):
                names.append(name)
    return names


def getkeys(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND GETKEYS command …."""
    command = _command_of(core, argv[2:])
    keys: list[Reply] = []
    keys += keys_of(command, argv[2:])
    return keys


def getkeysandflags(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND GETKEYSANDFLAGS command …: each key with what is done with it."""
    command = _command_of(core, argv[2:])
    return [[key, SetReply(key_flags(command))] for key in keys_of(command, argv[2:])]


def help_(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """COMMAND HELP."""
    return help_reply(
        "COMMAND",
        [
            "(no subcommand)",
            "    All commands, with arity, flags and keys.",
            "COUNT",
            "    How many commands there are.",
            "DOCS [<command-name> ...]",
            "    What commands do.",
            "GETKEYS <full-command>",
            "    The keys that a command names.",
            "GETKEYSANDFLAGS <full-command>",
            "    The keys that a command names, and what it does with them.",
            "INFO [<command-name> ...]",
            "    The named commands, or all.",
            "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
            "    Names of commands.",
        ],
    )


_SHOWN: Final = "loading stale"

COMMANDS: Final = [
    Command(
        "command", -1, _SHOWN, command_, "Every command, with arity, flags and keys.", reply="array", group="server", since="2.8.13",
        subcommands=[
            Command("command|count", 2, _SHOWN, count, "How many commands there are.", reply="integer", group="server", since="2.8.13"),
            Command(
                "command|docs", -2, _SHOWN, docs, "What commands do.", reply="map", group="server", since="7.0.0",
                syntax="[command-name ...]"
            ),
            Command(
                "command|getkeys", -3, _SHOWN, getkeys, "The keys that a command names.", reply="array", group="server", since="2.8.13",
                syntax="command [arg ...]",
            ),
            Command(
                "command|getkeysandflags", -3, _SHOWN, getkeysandflags, "The keys that a command names, and what it does with them.",
                reply="array", group="server", since="7.0.0", syntax="command [arg ...]",
            ),
            Command(
                "command|info", -2, _SHOWN, info, "The named commands, or all.", reply="array", group="server", since="2.8.13",
                syntax="[command-name ...]",
            ),
            Command(
                "command|list", -2, _SHOWN, list_, "Names of commands.", reply="array", group="server", since="7.0.0",
                syntax="[FILTERBY MODULE name | ACLCAT category | PATTERN pattern]",
            ),
            Command("command|help", 2, _SHOWN, help_, "Shows what COMMAND can do.", reply="array", group="server", since="5.0.0"),
        ],
    )
]  # fmt: skip
