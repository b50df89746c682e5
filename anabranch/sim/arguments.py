"""A naive parser of commands. It reads those that a region accepted, and explains no errors."""

from __future__ import annotations

from typing import NamedTuple

Words = tuple[bytes, ...]


def shown(one: int) -> bytes:
    return b"%d-%d" % (one >> 64, one & ((1 << 64) - 1))


def name_of(words: Words) -> bytes:
    """The command's name in capitals, with the second word if the first is a container command."""
    name = words[0].upper()
    if name in (b"XGROUP", b"XINFO", b"XIDMP", b"CONFIG") and len(words) > 1:
        return name + b" " + words[1].upper()
    return name


class AddRequest(NamedTuple):
    """The arguments of an XADD. `pid` is empty without an idempotency pair."""

    has_clock: bool
    """The region chooses the whole ID (`*`)."""
    pid: bytes
    fields: list[bytes]


def add_request(words: Words) -> AddRequest:
    """The arguments of an XADD; IndexError if it is incomplete."""
    pid, place = b"", 2
    while words[place] != b"*":
        option = words[place].upper()
        if option in (b"NOMKSTREAM", b"KEEPREF", b"DELREF", b"ACKED"):
            place += 1
        elif option in (b"MAXLEN", b"MINID"):
            place += 3 if words[place + 1] in (b"~", b"=") else 2
        elif option == b"LIMIT":
            place += 2
        elif option in (b"IDMP", b"IDMPAUTO"):
            pid = words[place + 1]
            place += 3 if option == b"IDMP" else 2
        else:
            break
    return AddRequest(words[place] == b"*", pid, list(words[place + 1 :]))
