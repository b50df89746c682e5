"""ACL: the only user, `default`, the categories of commands, and the wrong passwords.

A region has no access control lists: a client that has given the password may do everything.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import islice
from typing import Final

from anabranch.region.engine.access_log import Refusal
from anabranch.region.engine.commands.arguments import container, help_reply, integer, option_error
from anabranch.region.engine.commands.introspection import categories, with_subcommands
from anabranch.region.engine.replies import OK, CommandError, MapReply, Reply, shown
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

_USER: Final = b"default"
# Entries of ACL LOG without a count, as in Redis.
_LOG_ENTRIES: Final = 10


def whoami(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """ACL WHOAMI: the user of this connection."""
    return _USER


def users(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """ACL USERS: the names of all users."""
    return [_USER]


def list_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """ACL LIST: the user as a line of Redis's configuration, with the hash of its password."""
    password = state.settings.text("requirepass").encode("utf-8", "surrogateescape")
    credential = f"#{sha256(password).hexdigest()}" if password else "nopass"
    return [f"user default on {credential} ~* &* +@all".encode()]


def cat(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """ACL CAT [category]: the categories that some command has, or the commands of one."""
    if len(argv) > 3:
        raise option_error(argv)
    by_category = _by_category(state)
    if len(argv) == 2:
        return [name[1:].encode() for name in by_category]
    names = by_category.get("@" + shown(argv[2]).lower())
    if names is None:
        raise CommandError(f"ERR Unknown category '{shown(argv[2])}'")
    return names


def _by_category(state: EngineState) -> dict[str, list[Reply]]:
    """Category → the names of its commands and subcommands; the categories are sorted."""
    found: dict[str, list[Reply]] = {}
    for command in with_subcommands(state):
        for category in categories(command):
            found.setdefault(category, []).append(command.shown)
    return {category: found[category] for category in sorted(found)}


def log(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """ACL LOG [count | RESET]: the wrong passwords, newest first, 10 unless `count` is given."""
    if len(argv) > 3:
        raise option_error(argv)
    if len(argv) == 3 and argv[2].upper() == b"RESET":
        state.statistics.access_log.clear()
        return OK
    most = max(integer(argv[2]), 0) if len(argv) == 3 else _LOG_ENTRIES
    return [_refusal(state, one) for one in islice(state.statistics.access_log.entries, most)]


def _refusal(state: EngineState, one: Refusal) -> Reply:
    age_ms = max(state.clock.now_ms - one.updated_ms, 0)
    return MapReply(
        [
            b"count",
            one.count,
            b"reason",
            b"auth",
            b"context",
            b"toplevel",
            b"object",
            one.command,
            b"username",
            one.user,
            b"age-seconds",
            f"{age_ms / 1000:g}".encode(),
            b"client-info",
            one.client,
            b"entry-id",
            one.number,
            b"timestamp-created",
            one.created_ms,
            b"timestamp-last-updated",
            one.updated_ms,
        ]
    )


def help_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """ACL HELP: describes the subcommands."""
    return help_reply(
        "ACL",
        [
            "CAT [<category>]",
            "    Return the categories of commands, or the commands of one category.",
            "LIST",
            "    Return the only user, and whether it has a password, as Redis's line.",
            "LOG [<count> | RESET]",
            "    Show the wrong passwords that clients gave last, or forget them.",
            "USERS",
            "    Return the name of the only user.",
            "WHOAMI",
            "    Return the user of this connection.",
        ],
    )


_SHOWN: Final = "noscript loading stale"
_ADMIN: Final = "admin noscript loading stale"

COMMANDS: Final = [
    Command(
        "acl",
        -2,
        "",
        container,
        "A container for commands about the user and the categories of commands.",
        group="server",
        since="6.0.0",
        shows_data=False,
        subcommands=[
            Command(
                "acl|cat",
                -2,
                _SHOWN,
                cat,
                "Returns the categories of commands, or the commands of one category.",
                reply="array",
                group="server",
                since="6.0.0",
                syntax="[category]",
            ),
            Command(
                "acl|list",
                2,
                _ADMIN,
                list_,
                "Returns the only user, and whether it has a password, as Redis's line.",
                reply="array",
                group="server",
                since="6.0.0",
            ),
            Command(
                "acl|log",
                -2,
                _ADMIN,
                log,
                "Shows the wrong passwords that clients gave last, or forgets them.",
                reply="array or simple string",
                group="server",
                since="6.0.0",
                syntax="[count | RESET]",
            ),
            Command(
                "acl|users",
                2,
                _ADMIN,
                users,
                "Returns the name of the only user.",
                reply="array",
                group="server",
                since="6.0.0",
            ),
            Command(
                "acl|whoami",
                2,
                _SHOWN,
                whoami,
                "Returns the user of this connection.",
                reply="bulk string",
                group="server",
                since="6.0.0",
            ),
            Command(
                "acl|help",
                2,
                "loading stale",
                help_,
                "Describes the subcommands of ACL.",
                reply="array",
                group="server",
                since="6.0.0",
            ),
        ],
    )
]
