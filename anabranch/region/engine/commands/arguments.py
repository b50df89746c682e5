"""Parses arguments, and builds the replies and errors that several commands share.

The error texts are those of Redis.
"""

from __future__ import annotations

from typing import Final, cast

from anabranch.crdt import ids
from anabranch.crdt.slices import Entry
from anabranch.region.engine.replies import (
    CommandError,
    Reply,
    SimpleString,
    shown,
    wrong_arity_text,
)
from anabranch.region.engine.session import Session

SYNTAX_ERROR: Final = "ERR syntax error"
NOT_AN_INTEGER: Final = "ERR value is not an integer or out of range"
NO_SUCH_KEY: Final = "ERR no such key"
# The parenthesis before a bound that is not in its range, and the digit 0.
OPEN: Final = 40
ZERO: Final = 48
INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)


def integer(text: bytes, error: str = NOT_AN_INTEGER) -> int:
    """Parses a signed 64-bit integer as Redis does: no spaces, no plus sign, no leading zeros.

    Raises `CommandError` with the text `error`.
    """
    if ids.IS_COMPILED:
        number, end = ids.digits(text, 0)
        if 0 < end == len(text) and (text[0] != ZERO or end == 1):
            return int(number)
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19 or (digits[0] == ZERO and len(text) > 1):
        raise CommandError(error)
    value = int(text)
    if not INT64_MIN <= value <= INT64_MAX:
        raise CommandError(error)
    return value


def timeout_ms(text: bytes) -> int:
    """Parses a time-out in ms, where 0 means no time-out. Raises `CommandError`."""
    value = integer(text, "ERR timeout is not an integer or out of range")
    if value < 0:
        raise CommandError("ERR timeout is negative")
    return value


def entry_id(text: bytes, missing_seq: int = 0) -> int:
    """Parses an entry ID; `missing_seq` is the seq of an ID without one. Raises `CommandError`."""
    try:
        return ids.parse(text, missing_seq)
    except ids.IdError as error:
        raise CommandError(str(error)) from None


def id_halves(text: bytes) -> tuple[int, int]:
    """Parses an entry ID; returns its halves. Raises `CommandError`."""
    try:
        return ids.halves(text)
    except ids.IdError as error:
        raise CommandError(str(error)) from None


def id_or_bound(text: bytes, missing_seq: int = 0) -> int:
    """As `entry_id`; also takes `-` for the lowest and `+` for the highest ID."""
    try:
        return ids.parse_bound(text, missing_seq)
    except ids.IdError as error:
        raise CommandError(str(error)) from None


def range_start(text: bytes) -> int:
    """Parses the lower bound of a range: `-`, an ID, or `(` and an ID.

    Returns the lowest ID in the range. Raises `CommandError`.
    """
    if text and text[0] == OPEN:
        value = entry_id(text[1:])
        if value == ids.MAX_ID:
            raise CommandError("ERR invalid start ID for the interval")
        return value + 1
    return id_or_bound(text)


def range_end(text: bytes) -> int:
    """Parses the upper bound of a range: `+`, an ID, or `(` and an ID.

    Returns the highest ID in the range. Raises `CommandError`.
    """
    if text and text[0] == OPEN:
        value = entry_id(text[1:], ids.MAX_HALF)
        if value == 0:
            raise CommandError("ERR invalid end ID for the interval")
        return value - 1
    return id_or_bound(text, ids.MAX_HALF)


def entry_reply(entry: Entry) -> Reply:
    """An entry as a reply: [ID, [field, value, …]]."""
    return id_and_fields(entry.entry_id, entry.fields)


def id_and_fields(entry_id_: int, fields: list[bytes]) -> Reply:
    """The ID and the fields of an entry as a reply, which holds `fields` itself."""
    return [ids.format_id(entry_id_), cast("list[Reply]", fields)]


def wrong_arity(name: str) -> CommandError:
    """Redis's error for a wrong number of arguments; `name` is in lower case."""
    return CommandError(wrong_arity_text(name))


def no_group(key: bytes, group: bytes, where: str = "") -> CommandError:
    """Redis's NOGROUP error; `where` is appended to its text."""
    return CommandError(
        f"NOGROUP No such key '{shown(key)}' or consumer group '{shown(group)}'{where}"
    )


def no_group_of_key(key: bytes, group: bytes) -> CommandError:
    """Redis's NOGROUP error of the commands that ask about a group of a key that exists."""
    return CommandError(
        f"NOGROUP No such consumer group '{shown(group)}' for key name '{shown(key)}'"
    )


def option_error(argv: list[bytes]) -> CommandError:
    """Redis's error for wrong options of the subcommand `argv[1]` of the container `argv[0]`."""
    name = shown(argv[0]).upper()
    return CommandError(
        f"ERR unknown subcommand or wrong number of arguments for '{shown(argv[1])}'. "
        f"Try {name} HELP."
    )


def container(state: object, session: Session, argv: list[bytes]) -> Reply:
    """The handler of a container. Never called: dispatch refuses one without a subcommand."""
    raise CommandError(SYNTAX_ERROR)


def help_reply(name: str, lines: list[str]) -> Reply:
    """The reply to HELP of the container `name`; `lines` describe its other subcommands."""
    texts = [
        f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        *lines,
        "HELP",
        "    Prints this help.",
    ]
    return [SimpleString(text.encode()) for text in texts]
