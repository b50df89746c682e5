"""Commands about the connection itself: PING, ECHO, QUIT, RESET, SELECT, AUTH, HELLO."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, integer, shown, wrong_arity
from anabranch.region.engine.replies import OK, PONG, CommandError, MapReply, Reply, SimpleString
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import RUNS, Command

# The newest Redis release whose stream commands are all served.
REDIS_VERSION: Final = "7.4.0"

_WRONG_PASSWORD: Final = "WRONGPASS invalid username-password pair or user is disabled."
_NO_PASSWORD_SET: Final = (
    "ERR AUTH <password> called without any password configured for the default user. "
    "Are you sure your configuration is correct?"
)
_HELLO_NOAUTH: Final = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option "
    "can be used to authenticate the client and select the RESP protocol version at the same time"
)
_RESET_REPLY: Final = SimpleString(b"RESET")


def ping(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """PING [message]."""
    if len(argv) > 2:
        raise CommandError(wrong_arity("ping").message)
    return PONG if len(argv) == 1 else argv[1]


def echo(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """ECHO message."""
    return argv[1]


def quit_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """QUIT: the reply is sent, then the connection is closed."""
    session.closing = True
    return OK


def reset(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """RESET: the connection is as if new, its id and what SETINFO said of the library aside."""
    session.transaction.end()
    session.protocol = 2
    session.name = b""
    session.reply_mode = "on"
    session.no_evict = False
    session.no_touch = False
    session.authenticated = state.settings.text("requirepass") == ""
    return _RESET_REPLY


def select(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """SELECT 0: there is one database."""
    index = integer(argv[1])
    if not -(1 << 31) <= index < 1 << 31:
        raise CommandError(
            "ERR value is out of range, value must between -2147483648 and 2147483647"
        )
    if index != 0:
        raise CommandError("ERR DB index is out of range")
    return OK


# -- who the client is -----------------------------------------------------------------------------------------------


def _equal(given: bytes, password: bytes) -> bool:
    """Compares in a time that does not tell how much of the password was right."""
    difference = len(given) ^ len(password)
    for index in range(len(given)):
        difference |= given[index] ^ (password[index % len(password)] if password else 0)
    return difference == 0


def _authenticate(state: EngineState, session: Session, user: bytes, password: bytes) -> None:
    """Lets the session in, or raises; the only user is `default`, and without `requirepass` any password is right."""
    required = state.settings.text("requirepass").encode("utf-8", "surrogateescape")
    if user != b"default" or (required and not _equal(password, required)):
        raise CommandError(_WRONG_PASSWORD)
    session.authenticated = True


def auth(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """AUTH [user] password."""
    if len(argv) > 3:
        raise CommandError(SYNTAX_ERROR)
    if len(argv) == 2 and state.settings.text("requirepass") == "":
        raise CommandError(_NO_PASSWORD_SET)
    _authenticate(state, session, argv[1] if len(argv) == 3 else b"default", argv[-1])
    return OK


def check_name(name: bytes, what: str) -> bytes:
    """A name that CLIENT LIST can show on its one line; `what` begins the error."""
    for byte in name:
        if not 33 <= byte <= 126:
            raise CommandError(f"ERR {what} cannot contain spaces, newlines or special characters.")
    return name


def hello(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """HELLO [2 | 3 [AUTH user password] [SETNAME name]]."""
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
            _authenticate(state, session, argv[index + 1], argv[index + 2])
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
            b"server", b"redis",
            b"version", REDIS_VERSION.encode(),
            b"proto", protocol,
            b"id", session.session_id,
            b"mode", b"standalone",
            b"role", b"master",
            b"modules", modules,
        ]
    )  # fmt: skip


COMMANDS: Final = [
    Command(
        "ping",
        -1,
        "fast",
        ping,
        "Answers PONG, or the message.",
        reply="simple string or bulk string",
        group="connection",
        since="1.0.0",
        syntax="[message]",
    ),
    Command(
        "echo",
        2,
        "loading stale fast",
        echo,
        "Answers the message.",
        reply="bulk string",
        group="connection",
        since="1.0.0",
        syntax="message",
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
    ),
    Command(
        "reset",
        1,
        "noscript loading stale fast allow_busy no_auth",
        reset,
        "Makes the connection as if new.",
        reply="simple string",
        group="connection",
        since="6.2.0",
        in_multi=RUNS,
    ),
    Command(
        "select",
        2,
        "loading stale fast",
        select,
        "Selects the one database there is.",
        reply="simple string",
        group="connection",
        since="1.0.0",
        syntax="0",
    ),
    Command(
        "auth",
        -2,
        "noscript loading stale fast allow_busy no_auth",
        auth,
        "Gives the password of the setting requirepass.",
        reply="simple string",
        group="connection",
        since="1.0.0",
        syntax="[username] password",
    ),
    Command(
        "hello",
        -1,
        "noscript loading stale fast allow_busy no_auth",
        hello,
        "Chooses the protocol, and says who serves.",
        reply="map",
        group="connection",
        since="6.0.0",
        syntax="[2 | 3 [AUTH username password] [SETNAME clientname]]",
    ),
]
