"""ROLE, LASTSAVE and MODULE: facts that tools ask any server for."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.commands.arguments import container, help_reply
from anabranch.region.engine.commands.info import last_save_s, replication_offset
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command


def role(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """ROLE: every region takes writes, so it is a master, and has no followers.

    The offset is that of INFO's section # Replication. CRDT.PEERS shows the other regions.
    """
    return [b"master", replication_offset(state), []]


def lastsave(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """LASTSAVE: the time that INFO shows as `rdb_last_save_time`."""
    return last_save_s(state)


def module_list(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """MODULE LIST: an empty array, because a region loads no modules."""
    return []


def module_help(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """MODULE HELP: describes the subcommands."""
    return help_reply(
        "MODULE", ["LIST", "    Return an empty list: a region does not load modules."]
    )


COMMANDS: Final = [
    Command(
        "role",
        1,
        "noscript loading stale fast",
        role,
        "Returns master, the number of this region's own effects, and no followers.",
        categories="@admin @dangerous",
        reply="array",
        group="server",
        since="2.8.12",
        shows_data=False,
    ),
    Command(
        "lastsave",
        1,
        "loading stale fast",
        lastsave,
        "Returns when the last checkpoint ended, or the region started: seconds since 1970.",
        categories="@admin @dangerous",
        reply="integer",
        group="server",
        since="1.0.0",
        shows_data=False,
    ),
    Command(
        "module",
        -2,
        "",
        container,
        "A container for commands about modules.",
        group="server",
        since="4.0.0",
        shows_data=False,
        subcommands=[
            Command(
                "module|list",
                2,
                "admin noscript",
                module_list,
                "Returns an empty array: a region does not load modules.",
                reply="array",
                group="server",
                since="4.0.0",
            ),
            Command(
                "module|help",
                2,
                "loading stale",
                module_help,
                "Describes the subcommands of MODULE.",
                reply="array",
                group="server",
                since="5.0.0",
            ),
        ],
    ),
]
