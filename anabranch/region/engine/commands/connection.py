"""Commands about the connection itself: PING, ECHO, QUIT, RESET, SELECT, AUTH, HELLO."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, integer, wrong_arity
from anabranch.region.engine.commands.client_line import describe
from anabranch.region.engine.replies import (
    OK,
    PONG,
    CommandError,
    MapReply,
    Reply,
    SimpleString,
    shown,
)
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import RUNS, Command

# The newest Redis release all of whose stream commands are implemented.
REDIS_VERSION: Final = "7.4.0"

_WRONG_PASSWORD: Final = "WRONGPASS invalid username-password pair or user is disabled."
_NO_PASSWORD_SET: Final = (
    "ERR AUTH <password> called without any password configured for the default user. "
    "Are you sure your configuration is correct?"
)
_HELLO_NOAUTH: Final = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
    "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
    "protocol version at the same time"
)
_RESET_REPLY: Final = SimpleString(b"RESET")


def ping(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """PING [message]: PONG, or the message."""
    if len(argv) > 2:
        raise wrong_arity("ping")
    return PONG if len(argv) == 1 else argv[1]


def echo(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """ECHO message: the message."""
    return argv[1]


def quit_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """QUIT: the server sends the reply, then closes the connection."""
    session.closing = True
    return OK


def reset(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """RESET: the session as after connecting; its ID and the values of CLIENT SETINFO stay."""
    session.transaction.end()
    session.protocol = 2
    session.name = b""
    if session.reply_mode == "off":
        session.reply_mode = "on"
    session.no_evict = False
    session.no_touch = False
    session.authenticated = state.settings.text("requirepass") == ""
    return _RESET_REPLY


def select(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """SELECT 0: the only database is number 0."""
    index = integer(argv[1])
    if not -(1 << 31) <= index < 1 << 31:
        raise CommandError(
            "ERR value is out of range, value must between -2147483648 and 2147483647"
        )
    if index != 0:
        raise CommandError("ERR DB index is out of range: a region has only database 0")
    return OK


# -- authentication and protocol


def _equal(given: bytes, password: bytes) -> bool:
    """Compares in a time that does not depend on how many bytes of the password are right."""
    difference = len(given) ^ len(password)
    for index in range(len(given)):
        difference |= given[index] ^ (password[index % len(password)] if password else 0)
    return difference == 0


def _authenticate(
    state: EngineState, session: Session, command: bytes, user: bytes, password: bytes
) -> None:
    """Marks the session as authenticated, or notes the wrong password and raises `CommandError`.

    The only user is `default`. If `requirepass` is empty, any password is accepted. `command` is
    the name of the command as the client wrote it.
    """
    required = state.settings.text("requirepass").encode("utf-8", "surrogateescape")
    if user != b"default" or (required and not _equal(password, required)):
        state.statistics.wrong_passwords += 1
        line = describe(state, session).encode("latin-1")
        state.statistics.access_log.add(command, user, line, state.clock.now_ms)
        raise CommandError(_WRONG_PASSWORD)
    session.authenticated = True


def auth(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """AUTH [user] password: authenticates the session."""
    if len(argv) > 3:
        raise CommandError(SYNTAX_ERROR)
    if len(argv) == 2 and state.settings.text("requirepass") == "":
        raise CommandError(_NO_PASSWORD_SET)
    user = argv[1] if len(argv) == 3 else b"default"
    _authenticate(state, session, argv[0], user, argv[-1])
    return OK


def check_name(name: bytes, what: str) -> bytes:
    """Returns `name` if CLIENT LIST can show it: printable ASCII without spaces.

    Otherwise raises `CommandError`; `what` names the value in its text.
    """
    for byte in name:
        if not 33 <= byte <= 126:
            raise CommandError(f"ERR {what} cannot contain spaces, newlines or special characters.")
    return name


def hello(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """HELLO [2 | 3 [AUTH user password] [SETNAME name]].

    Sets the protocol version, and authenticates and names the connection if asked to. Returns
    facts about the server. A failing HELLO leaves protocol and name as they were.
    """
    protocol = session.protocol
    if len(argv) > 1:
        protocol = integer(argv[1], "ERR Protocol version is not an integer or out of range")
        if protocol not in (2, 3):
            raise CommandError("NOPROTO unsupported protocol version")
    name = session.name
    index = 2
    while index < len(argv):
        option = argv[index].upper()
        if option == b"AUTH" and index + 2 < len(argv):
            _authenticate(state, session, argv[0], argv[index + 1], argv[index + 2])
            index += 3
        elif option == b"SETNAME" and index + 1 < len(argv):
            name = check_name(argv[index + 1], "Client names")
            index += 2
        else:
            raise CommandError(f"ERR Syntax error in HELLO option '{shown(argv[index])}'")
    if not session.authenticated:
        raise CommandError(_HELLO_NOAUTH)
    session.name = name
    session.protocol = protocol
    modules: list[Reply] = []
    return MapReply(
        [
            b"server",
            b"redis",
            b"version",
            REDIS_VERSION.encode(),
            b"proto",
            protocol,
            b"id",
            session.session_id,
            b"mode",
            b"standalone",
            b"role",
            b"master",
            b"modules",
            modules,
        ]
    )


COMMANDS: Final = [
    Command(
        "ping",
        -1,
        "fast",
        ping,
        "Returns PONG, or the message.",
        reply="simple string or bulk string",
        group="connection",
        since="1.0.0",
        syntax="[message]",
        shows_data=False,
    ),
    Command(
        "echo",
        2,
        "loading stale fast",
        echo,
        "Returns the message.",
        reply="bulk string",
        group="connection",
        since="1.0.0",
        syntax="message",
        shows_data=False,
    ),
    Command(
        "quit",
        -1,
        "noscript loading stale fast allow_busy no_auth",
        quit_,
        "Closes the connection.",
        reply="simple string",
        group="connection",
        since="1.0.0",
        in_multi=RUNS,
        shows_data=False,
    ),
    Command(
        "reset",
        1,
        "noscript loading stale fast allow_busy no_auth",
        reset,
        "Resets the connection to its initial state.",
        reply="simple string",
        group="connection",
        since="6.2.0",
        in_multi=RUNS,
        shows_data=False,
    ),
    Command(
        "select",
        2,
        "loading stale fast",
        select,
        "Selects the database; only database 0 exists.",
        reply="simple string",
        group="connection",
        since="1.0.0",
        syntax="0",
        shows_data=False,
    ),
    Command(
        "auth",
        -2,
        "noscript loading stale fast allow_busy no_auth",
        auth,
        "Authenticates the connection with the password of the setting requirepass.",
        reply="simple string",
        group="connection",
        since="1.0.0",
        syntax="[username] password",
        shows_data=False,
    ),
    Command(
        "hello",
        -1,
        "noscript loading stale fast allow_busy no_auth",
        hello,
        "Sets the protocol version and describes the server.",
        reply="map",
        group="connection",
        since="6.0.0",
        syntax="[2 | 3 [AUTH username password] [SETNAME clientname]]",
        shows_data=False,
    ),
]
