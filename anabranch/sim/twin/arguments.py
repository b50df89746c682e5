"""Arguments of commands as the twin reads them: integers, entry IDs, bounds of ranges."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from anabranch.region.engine.replies import CommandError

MAX_HALF: Final = (1 << 64) - 1
MAX_ID: Final = (1 << 128) - 1
INVALID_ID: Final = "ERR Invalid stream ID specified as stream command argument"
SYNTAX: Final = "ERR syntax error"
NOT_INTEGER: Final = "ERR value is not an integer or out of range"
NO_KEY: Final = "ERR no such key"

_ID: Final = re.compile(rb"([0-9]+)(?:-([0-9]+))?")


def refuse(message: str) -> NoReturn:
    """Ends the command with an error."""
    raise CommandError(message)


def integer(word: bytes, message: str = NOT_INTEGER) -> int:
    """A signed 64-bit integer."""
    if not re.fullmatch(rb"-?[0-9]+", word) or not -(1 << 63) <= int(word) < 1 << 63:
        refuse(message)
    return int(word)


def entry_id(word: bytes, missing_seq: int = 0) -> int:
    """An entry ID; `missing_seq` where only the ms is given (S4.5)."""
    found = _ID.fullmatch(word)
    if found is None:
        refuse(INVALID_ID)
    ms = int(found[1])
    seq = missing_seq if found[2] is None else int(found[2])
    if ms > MAX_HALF or seq > MAX_HALF:
        refuse(INVALID_ID)
    return ms << 64 | seq


def low_bound(word: bytes) -> int:
    """The lowest ID of a range; `(` excludes the ID itself."""
    if word.startswith(b"("):
        found = _bound(word[1:], 0)
        if found == MAX_ID:
            refuse("ERR invalid start ID for the interval")
        return found + 1
    return _bound(word, 0)


def high_bound(word: bytes) -> int:
    """The highest ID of a range."""
    if word.startswith(b"("):
        found = _bound(word[1:], MAX_HALF)
        if found == 0:
            refuse("ERR invalid end ID for the interval")
        return found - 1
    return _bound(word, MAX_HALF)


def _bound(word: bytes, missing_seq: int) -> int:
    if word == b"-":
        return 0
    if word == b"+":
        return MAX_ID
    return entry_id(word, missing_seq)
