"""Reading arguments, with Redis's own error texts."""

from __future__ import annotations

from typing import Final

from anabranch.crdt import ids
from anabranch.crdt.merge import Entry
from anabranch.region.engine.replies import CommandError, ErrorReply, Reply, SimpleString

SYNTAX_ERROR: Final = "ERR syntax error"
NOT_AN_INTEGER: Final = "ERR value is not an integer or out of range"
NO_SUCH_KEY: Final = "ERR no such key"
INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)


def integer(text: bytes, error: str = NOT_AN_INTEGER) -> int:
    """A signed 64-bit integer as Redis reads one: no spaces, no plus, no leading zeros."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19 or (digits[0] == 48 and len(text) > 1):
        raise CommandError(error)
    value = int(text)
    if not INT64_MIN <= value <= INT64_MAX:
        raise CommandError(error)
    return value


def timeout_ms(text: bytes) -> int:
    """A time-out in ms; 0: none."""
    value = integer(text, "ERR timeout is not an integer or out of range")
    if value < 0:
        raise CommandError("ERR timeout is negative")
    return value


def entry_id(text: bytes, missing_seq: int = 0) -> int:
    """An entry ID, complete or with its seq missing."""
    try:
        return ids.parse(text, missing_seq)
    except ids.IdError as error:
        raise CommandError(str(error)) from None


def range_start(text: bytes) -> int:
    """A range's lower bound: `-`, an ID, or `(` and an ID."""
    try:
        if text[:1] == b"(":
            value = ids.parse(text[1:], 0)
            if value == ids.MAX_ID:
                raise CommandError("ERR invalid start ID for the interval")
            return value + 1
        return ids.parse_bound(text, 0)
    except ids.IdError as error:
        raise CommandError(str(error)) from None


def range_end(text: bytes) -> int:
    """A range's upper bound: `+`, an ID, or `(` and an ID; -1 where nothing can be below."""
    try:
        if text[:1] == b"(":
            value = ids.parse(text[1:], ids.MAX_HALF)
            if value == 0:
                raise CommandError("ERR invalid end ID for the interval")
            return value - 1
        return ids.parse_bound(text, ids.MAX_HALF)
    except ids.IdError as error:
        raise CommandError(str(error)) from None


def entry_reply(entry: Entry) -> Reply:
    """[ID, [field, value, …]]"""
    fields: list[Reply] = list(entry.fields)
    return [ids.format_id(entry.entry_id), fields]


def wrong_arity(name: str) -> ErrorReply:
    return ErrorReply(f"ERR wrong number of arguments for '{name}' command")


def wrong_arity_error(name: str) -> CommandError:
    return CommandError(wrong_arity(name).message)


def no_group(key: bytes, group: bytes, where: str = "") -> CommandError:
    """NOGROUP as Redis says it; `where` is appended."""
    return CommandError(
        f"NOGROUP No such key '{shown(key)}' or consumer group '{shown(group)}'{where}"
    )


def shown(data: bytes) -> str:
    """Bytes of a client in an error text."""
    return data.decode("utf-8", "replace")


def option_error(argv: list[bytes]) -> CommandError:
    """What Redis says of wrong options of a subcommand."""
    container = shown(argv[0]).upper()
    return CommandError(
        f"ERR unknown subcommand or wrong number of arguments for '{shown(argv[1])}'. Try {container} HELP."
    )


def help_reply(container: str, lines: list[str]) -> Reply:
    """The reply of a container's HELP."""
    texts = [
        f"{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        *lines,
        "HELP",
        "    Prints this help.",
    ]
    return [SimpleString(text.encode()) for text in texts]
