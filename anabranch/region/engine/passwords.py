"""Commands without the passwords in them, for records of commands that others may read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SETTING: Final = b"requirepass"


def without_passwords(words: Sequence[bytes], hidden: bytes) -> list[bytes]:
    """The words of a command, with `hidden` for the passwords of AUTH, HELLO and CONFIG SET.

    There are no words if a call is no command.
    """
    shown = list(words)
    name = words[0].upper() if words else b""
    if name == b"AUTH":
        shown[1:] = [hidden] * (len(words) - 1)
    elif name == b"HELLO":
        for index, word in enumerate(words[1:], 1):
            if word.upper() == b"AUTH":
                shown[index + 1 : index + 3] = [hidden] * len(shown[index + 1 : index + 3])
    elif name == b"CONFIG":
        for index, word in enumerate(words[1:-1], 1):
            if word.lower() == _SETTING:
                shown[index + 1] = hidden
    return shown
