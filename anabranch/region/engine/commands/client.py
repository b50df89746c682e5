"""CLIENT: lists, names, unblocks and closes client connections, and sets their modes."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, container, help_reply, integer
from anabranch.region.engine.commands.client_ending import client_type, kill, unblock
from anabranch.region.engine.commands.client_line import describe
from anabranch.region.engine.commands.connection import check_name
from anabranch.region.engine.replies import NO_REPLY, OK, CommandError, Reply, VerbatimText, shown
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command


def id_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT ID: the number of this connection."""
    return session.session_id


def info(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT INFO: the line of CLIENT LIST about this connection."""
    return VerbatimText(f"{describe(state, session)}\n".encode("latin-1"))


def list_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT LIST [TYPE type] [ID id …]: the connections, one per line."""
    sessions = list(state.sessions.values())
    if len(argv) == 4 and argv[2].upper() == b"TYPE":
        if client_type(argv[3]) != b"NORMAL":
            sessions = []
    elif len(argv) > 3 and argv[2].upper() == b"ID":
        wanted = dict.fromkeys(integer(text, "ERR Invalid client ID") for text in argv[3:])
        sessions = [state.sessions[number] for number in wanted if number in state.sessions]
    elif len(argv) != 2:
        raise CommandError(SYNTAX_ERROR)
    return VerbatimText("".join(f"{describe(state, one)}\n" for one in sessions).encode("latin-1"))


# -- naming


def setname(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT SETNAME name: names this connection; an empty name removes the name."""
    session.name = check_name(argv[2], "Client names")
    return OK


def getname(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT GETNAME: the name of this connection, or null if it has none."""
    return session.name or None


def setinfo(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT SETINFO LIB-NAME name | LIB-VER version: stores facts about the client's library."""
    option = argv[2].upper()
    if option == b"LIB-NAME":
        session.library_name = check_name(argv[3], "lib-name")
    elif option == b"LIB-VER":
        session.library_version = check_name(argv[3], "lib-ver")
    else:
        raise CommandError(f"ERR Unrecognized option '{shown(argv[2])}'")
    return OK


# -- killing and unblocking


# -- modes


def reply(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT REPLY ON | OFF | SKIP: sets `session.reply_mode`.

    Dispatch sends or withholds replies according to this mode.
    """
    mode = argv[2].upper()
    if mode == b"ON":
        session.reply_mode = "on"
        return OK
    if mode == b"OFF":
        session.reply_mode = "off"
    elif mode == b"SKIP":
        if session.reply_mode != "off":
            session.reply_mode = "skip"
    else:
        raise CommandError(SYNTAX_ERROR)
    return NO_REPLY


def _on_or_off(text: bytes) -> bool:
    word = text.upper()
    if word not in (b"ON", b"OFF"):
        raise CommandError(SYNTAX_ERROR)
    return word == b"ON"


def no_evict(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT NO-EVICT ON | OFF: whether maxmemory-clients may disconnect this client."""
    session.no_evict = _on_or_off(argv[2])
    return OK


def no_touch(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT NO-TOUCH ON | OFF: sets a flag of CLIENT LIST; keys have no access times."""
    session.no_touch = _on_or_off(argv[2])
    return OK


def help_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT HELP: describes the subcommands."""
    return help_reply(
        "CLIENT",
        [
            "GETNAME",
            "    Return the name of this connection.",
            "ID",
            "    Return the ID of this connection.",
            "INFO",
            "    Describe this connection as a line of LIST.",
            "KILL <ip:port>",
            "    Close the connection from that address.",
            "KILL <option> <value> [<option> <value> [...]]",
            "    Close all connections that match: ID, ADDR, LADDR, TYPE, USER, MAXAGE <seconds>.",
            "    SKIPME (YES|NO): whether this connection is skipped (default: yes).",
            "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <id> [<id> ...]]",
            "    List the connections, one per line.",
            "NO-EVICT (ON|OFF)",
            "    Whether this connection is spared above maxmemory-clients.",
            "NO-TOUCH (ON|OFF)",
            "    Accepted for compatibility; changes only CLIENT LIST.",
            "REPLY (ON|OFF|SKIP)",
            "    Turn replies to this connection on or off, or skip the next reply.",
            "SETINFO (LIB-NAME|LIB-VER) <value>",
            "    Set the name or version of the client's library.",
            "SETNAME <name>",
            "    Name this connection.",
            "UNBLOCK <id> [TIMEOUT|ERROR]",
            "    End the wait of a blocked connection.",
        ],
    )


_PLAIN: Final = "noscript loading stale"
_ADMIN: Final = "admin noscript loading stale"

COMMANDS: Final = [
    Command(
        "client",
        -2,
        "",
        container,
        "A container for connection commands.",
        group="connection",
        since="2.4.0",
        shows_data=False,
        subcommands=[
            Command(
                "client|id",
                2,
                _PLAIN,
                id_,
                "Returns the ID of this connection.",
                reply="integer",
                group="connection",
                since="5.0.0",
            ),
            Command(
                "client|info",
                2,
                _PLAIN,
                info,
                "Describes this connection as a line of CLIENT LIST.",
                reply="text",
                group="connection",
                since="6.2.0",
            ),
            Command(
                "client|list",
                -2,
                _ADMIN,
                list_,
                "Lists the connections, one per line.",
                reply="text",
                group="connection",
                since="2.4.0",
                syntax="[TYPE NORMAL | MASTER | REPLICA | PUBSUB] [ID client-id [client-id ...]]",
            ),
            Command(
                "client|setname",
                3,
                _PLAIN,
                setname,
                "Names this connection.",
                reply="simple string",
                group="connection",
                since="2.6.9",
                syntax="connection-name",
            ),
            Command(
                "client|getname",
                2,
                _PLAIN,
                getname,
                "Returns the name of this connection.",
                reply="bulk string or null",
                group="connection",
                since="2.6.9",
            ),
            Command(
                "client|setinfo",
                4,
                _PLAIN,
                setinfo,
                "Sets the name or version of the client's library.",
                reply="simple string",
                group="connection",
                since="7.2.0",
                syntax="LIB-NAME libname | LIB-VER libver",
            ),
            Command(
                "client|kill",
                -3,
                _ADMIN,
                kill,
                "Closes connections.",
                reply="simple string or integer",
                group="connection",
                since="2.4.0",
                syntax="ip:port | [ID client-id] [ADDR ip:port] [LADDR ip:port] [TYPE type] "
                "[USER username] [SKIPME YES | NO] [MAXAGE seconds]",
            ),
            Command(
                "client|unblock",
                -3,
                _ADMIN,
                unblock,
                "Ends the wait of a blocked connection.",
                reply="integer",
                group="connection",
                since="5.0.0",
                syntax="client-id [TIMEOUT | ERROR]",
            ),
            Command(
                "client|reply",
                3,
                _PLAIN,
                reply,
                "Turns replies to this connection on or off, or skips the next reply.",
                reply="simple string or nothing",
                group="connection",
                since="3.2.0",
                syntax="ON | OFF | SKIP",
            ),
            Command(
                "client|no-evict",
                3,
                _ADMIN,
                no_evict,
                "Sets whether this connection is spared above maxmemory-clients.",
                reply="simple string",
                group="connection",
                since="7.0.0",
                syntax="ON | OFF",
            ),
            Command(
                "client|no-touch",
                3,
                _PLAIN,
                no_touch,
                "Accepted for compatibility; changes only CLIENT LIST.",
                reply="simple string",
                group="connection",
                since="7.2.0",
                syntax="ON | OFF",
            ),
            Command(
                "client|help",
                2,
                "loading stale",
                help_,
                "Describes the subcommands of CLIENT.",
                reply="array",
                group="connection",
                since="5.0.0",
            ),
        ],
    )
]
