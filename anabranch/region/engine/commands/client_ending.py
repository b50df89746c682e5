"""CLIENT KILL and CLIENT UNBLOCK."""

from __future__ import annotations

from typing import Final

from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, integer, option_error
from anabranch.region.engine.replies import NULL_ARRAY, OK, CommandError, ErrorReply, Reply, shown
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState

_TYPES: Final = frozenset({b"NORMAL", b"MASTER", b"REPLICA", b"SLAVE", b"PUBSUB"})
_UNBLOCKED: Final = "UNBLOCKED client unblocked via CLIENT UNBLOCK"


def client_type(text: bytes) -> bytes:
    """The type of clients that an argument names, in upper case. Raises `CommandError`."""
    name = text.upper()
    if name not in _TYPES:
        raise CommandError(f"ERR Unknown client type '{shown(text)}'")
    return name


class KillFilter:
    """The filter of CLIENT KILL. A criterion that the client did not give matches every session."""

    def __init__(self) -> None:
        self.session_id = 0
        self.address = b""
        self.local_address = b""
        # False if TYPE names another type than NORMAL. All clients of a region are normal clients.
        self.admits_normal_clients = True
        self.skip_me = True
        self.age_s_min = 0

    def matches(self, state: EngineState, session: Session) -> bool:
        """Whether the session meets all criteria; `skip_me` is left to the caller."""
        if not self.admits_normal_clients or (
            self.session_id and session.session_id != self.session_id
        ):
            return False
        if self.address and session.address.encode() != self.address:
            return False
        if self.local_address and session.local_address.encode() != self.local_address:
            return False
        return state.clock.now_ms - session.connected_ms >= self.age_s_min * 1000


def _read_filter(argv: list[bytes]) -> KillFilter:
    kill = KillFilter()
    for index in range(2, len(argv), 2):
        if index + 1 >= len(argv):
            raise CommandError(SYNTAX_ERROR)
        option = argv[index].upper()
        value = argv[index + 1]
        if option == b"ID":
            kill.session_id = _positive(
                value,
                "ERR client-id should be greater than 0",
                "ERR client-id should be greater than 0",
            )
        elif option == b"MAXAGE":
            kill.age_s_min = _positive(
                value,
                "ERR maxage is not an integer or out of range",
                "ERR maxage should be greater than 0",
            )
        elif option == b"TYPE":
            kill.admits_normal_clients = client_type(value) == b"NORMAL"
        elif option == b"ADDR":
            kill.address = value
        elif option == b"LADDR":
            kill.local_address = value
        elif option == b"USER":
            if value != b"default":
                raise CommandError(f"ERR No such user '{shown(value)}'")
        elif option == b"SKIPME" and value.upper() in (b"YES", b"NO"):
            kill.skip_me = value.upper() == b"YES"
        else:
            raise CommandError(SYNTAX_ERROR)
    return kill


def _positive(text: bytes, no_integer: str, too_low: str) -> int:
    value = integer(text, no_integer)
    if value < 1:
        raise CommandError(too_low)
    return value


def kill(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT KILL: closes the connection of an address, or all that match the options.

    The address may be that of the caller.
    """
    if len(argv) == 3:
        for one in list(state.sessions.values()):
            if one.address.encode() == argv[2]:
                _close(state, session, one)
                return OK
        raise CommandError("ERR No such client")
    chosen = _read_filter(argv)
    killed = 0
    for one in list(state.sessions.values()):
        if chosen.matches(state, one) and not (one is session and chosen.skip_me):
            _close(state, session, one)
            killed += 1
    return killed


def _close(state: EngineState, caller: Session, session: Session) -> None:
    """Closes a session; the caller's own session is closed after its reply."""
    if session is caller:
        session.closing = True
    else:
        state.outbox.sessions_to_close.append(session.session_id)


def unblock(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CLIENT UNBLOCK id [TIMEOUT | ERROR]: 1 if the client was blocked, else 0."""
    with_error = False
    if len(argv) == 4:
        reason = argv[3].upper()
        if reason not in (b"TIMEOUT", b"ERROR"):
            raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
        with_error = reason == b"ERROR"
    elif len(argv) > 4:
        raise option_error(argv)
    number = integer(argv[2])
    blocked = state.waiting.reads.remove(number)
    if blocked is not None:
        state.outbox.answer(blocked.session, ErrorReply(_UNBLOCKED) if with_error else NULL_ARRAY)
        return 1
    for waiter in list(state.waiting.waiters):
        if waiter.session.session_id == number:
            if with_error:
                state.waiting.waiters.remove(waiter)
                state.outbox.answer(waiter.session, ErrorReply(_UNBLOCKED))
            else:
                # A deadline in the past: the next step answers the waiter as timed out.
                waiter.deadline_ms = 1
            return 1
    return 0
