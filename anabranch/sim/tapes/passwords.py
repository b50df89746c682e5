"""Tapes hold no passwords: what a client sends or gets as one is replaced.

The twin judges none of these words, so a tape is judged as before.
"""

from __future__ import annotations

from typing import Final

from anabranch.region.engine import passwords
from anabranch.region.engine.replies import MapReply, Reply

HIDDEN: Final = b"(hidden)"
_SETTING: Final = b"requirepass"


def without_passwords(words: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The words of a command, of AUTH, HELLO and CONFIG SET without passwords.

    There are no words if a call is no command.
    """
    return tuple(passwords.without_passwords(words, HIDDEN))


def without_password(reply: Reply) -> Reply:
    """A reply in which CONFIG GET, alone or in a transaction, shows no password."""
    if isinstance(reply, MapReply):
        flat = list(reply.flat)
        for index in range(0, len(flat) - 1, 2):
            if flat[index] == _SETTING:
                flat[index + 1] = HIDDEN
        return MapReply(flat)
    if isinstance(reply, list):
        return [without_password(one) for one in reply]
    return reply
