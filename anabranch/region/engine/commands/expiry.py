"""EXPIRE, TTL, PERSIST and their relatives (S10.2).

The deadlines of a key are an observed-remove set, of which the longest wins. PERSIST sets an
infinite deadline.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.effects import SetDeadline
from anabranch.crdt.stream import NEVER, Stream
from anabranch.region.engine.commands.arguments import INT64_MAX, INT64_MIN, integer
from anabranch.region.engine.replies import CommandError, Reply, shown
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command


def _deadline_ms(stream: Stream) -> int:
    """The deadline in force, in ms since 1970; NEVER if there is none."""
    winner = stream.winning_deadline()
    return NEVER if winner is None else winner[1]


def _allowed(options: set[bytes], current_ms: int, at_ms: int) -> bool:
    """Whether NX, XX, GT or LT allow the deadline `at_ms`; no deadline counts as infinite."""
    if b"NX" in options and current_ms != NEVER:
        return False
    if b"XX" in options and current_ms == NEVER:
        return False
    if b"GT" in options and at_ms <= current_ms:
        return False
    return not (b"LT" in options and at_ms >= current_ms)


def _options(argv: list[bytes]) -> set[bytes]:
    options = {word.upper() for word in argv[3:]}
    for word in argv[3:]:
        if word.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise CommandError(f"ERR Unsupported option {shown(word)}")
    if b"NX" in options and len(options) > 1:
        raise CommandError("ERR NX and XX, GT or LT options at the same time are not compatible")
    if b"GT" in options and b"LT" in options:
        raise CommandError("ERR GT and LT options at the same time are not compatible")
    return options


def _expire(state: EngineState, argv: list[bytes], unit_ms: int, is_relative: bool) -> Reply:
    """Sets a deadline given in units of `unit_ms`, from now or from 1970; returns 1.

    Returns 0 if the key does not exist or the options do not allow the deadline.
    """
    name = argv[0].decode("latin-1").lower()
    options = _options(argv)
    value = integer(argv[2])
    at_ms = value * unit_ms + (state.clock.now_ms if is_relative else 0)
    if not INT64_MIN <= value * unit_ms <= INT64_MAX or at_ms > INT64_MAX:
        raise CommandError(f"ERR invalid expire time in '{name}' command")
    stream = state.existing(argv[1])
    if stream is None or not _allowed(options, _deadline_ms(stream), at_ms):
        return 0
    state.writer.require_issue()
    if at_ms == state.clock.now_ms:
        # Redis deletes at once if the deadline is not in the future, so hide the key at once.
        at_ms = state.clock.now_ms - 1
    state.writer.issue(SetDeadline(argv[1], max(at_ms, 0), list(stream.deadlines)))
    return 1


def expire(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """EXPIRE key seconds [NX | XX | GT | LT]."""
    return _expire(state, argv, 1000, True)


def pexpire(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """PEXPIRE key milliseconds [NX | XX | GT | LT]."""
    return _expire(state, argv, 1, True)


def expireat(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """EXPIREAT key unix-seconds [NX | XX | GT | LT]."""
    return _expire(state, argv, 1000, False)


def pexpireat(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """PEXPIREAT key unix-milliseconds [NX | XX | GT | LT]."""
    return _expire(state, argv, 1, False)


def _remaining(state: EngineState, key: bytes, unit_ms: int, is_relative: bool) -> int:
    """The time left, or the deadline, in units of `unit_ms`; -2: no such key; -1: no deadline."""
    stream = state.existing(key)
    if stream is None:
        return -2
    at_ms = _deadline_ms(stream)
    if at_ms == NEVER:
        return -1
    value = at_ms - state.clock.now_ms if is_relative else at_ms
    # Redis rounds both to the nearest second.
    return (value + unit_ms // 2) // unit_ms


def ttl(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """TTL key: the time left in seconds, rounded."""
    return _remaining(state, argv[1], 1000, True)


def pttl(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """PTTL key: the time left in ms."""
    return _remaining(state, argv[1], 1, True)


def expiretime(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """EXPIRETIME key: the deadline in seconds since 1970, rounded."""
    return _remaining(state, argv[1], 1000, False)


def pexpiretime(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """PEXPIRETIME key: the deadline in ms since 1970."""
    return _remaining(state, argv[1], 1, False)


def persist(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """PERSIST key: sets an infinite deadline, which is longer than any other (S10.2)."""
    stream = state.existing(argv[1])
    if stream is None or _deadline_ms(stream) == NEVER:
        return 0
    state.writer.require_issue()
    state.writer.issue(SetDeadline(argv[1], NEVER, list(stream.deadlines)))
    return 1


_WHEN: Final = "[NX | XX | GT | LT]"

COMMANDS: Final = [
    Command(
        "expire",
        -3,
        "write fast",
        expire,
        "Sets a deadline in seconds from now; across regions the longest wins.",
        key_flags="RW update",
        keys=(1, 1, 1),
        reply="integer",
        group="generic",
        since="1.0.0",
        syntax=f"key seconds {_WHEN}",
    ),
    Command(
        "pexpire",
        -3,
        "write fast",
        pexpire,
        "Sets a deadline in milliseconds from now.",
        key_flags="RW update",
        keys=(1, 1, 1),
        reply="integer",
        group="generic",
        since="2.6.0",
        syntax=f"key milliseconds {_WHEN}",
    ),
    Command(
        "expireat",
        -3,
        "write fast",
        expireat,
        "Sets a deadline as Unix time in seconds.",
        key_flags="RW update",
        keys=(1, 1, 1),
        reply="integer",
        group="generic",
        since="1.2.0",
        syntax=f"key unix-time-seconds {_WHEN}",
    ),
    Command(
        "pexpireat",
        -3,
        "write fast",
        pexpireat,
        "Sets a deadline as Unix time in milliseconds.",
        key_flags="RW update",
        keys=(1, 1, 1),
        reply="integer",
        group="generic",
        since="2.6.0",
        syntax=f"key unix-time-milliseconds {_WHEN}",
    ),
    Command(
        "ttl",
        2,
        "readonly fast",
        ttl,
        "Returns the seconds left until the deadline.",
        keys=(1, 1, 1),
        reply="integer",
        group="generic",
        since="1.0.0",
        syntax="key",
    ),
    Command(
        "pttl",
        2,
        "readonly fast",
        pttl,
        "Returns the milliseconds left until the deadline.",
        keys=(1, 1, 1),
        reply="integer",
        group="generic",
        since="2.6.0",
        syntax="key",
    ),
    Command(
        "expiretime",
        2,
        "readonly fast",
        expiretime,
        "Returns the deadline as Unix time in seconds.",
        keys=(1, 1, 1),
        reply="integer",
        group="generic",
        since="7.0.0",
        syntax="key",
    ),
    Command(
        "pexpiretime",
        2,
        "readonly fast",
        pexpiretime,
        "Returns the deadline as Unix time in milliseconds.",
        keys=(1, 1, 1),
        reply="integer",
        group="generic",
        since="7.0.0",
        syntax="key",
    ),
    Command(
        "persist",
        2,
        "write fast",
        persist,
        "Removes the deadline.",
        key_flags="RW update",
        keys=(1, 1, 1),
        reply="integer",
        group="generic",
        since="2.2.0",
        syntax="key",
    ),
]
