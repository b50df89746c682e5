"""The commands that a recorded scenario cannot hold, with the reasons."""

from __future__ import annotations

import re
from typing import Final

from anabranch.sim.history import Words

# A command in a cell has at most so many bytes.
COMMAND_BYTES_MAX: Final = 64 << 10
_USE_DIRECTIVES: Final = "type sync, cut or heal at the recorder instead"
_REFUSED: Final[dict[bytes, str]] = {
    b"CRDT.LINK": _USE_DIRECTIVES,
    b"CRDT.SYNC": _USE_DIRECTIVES,
    b"WAIT": "links are closed but in Sync rows, so it would only time out",
    b"CRDT.WAIT": "links are closed but in Sync rows, so it would only time out",
    b"CRDT.MEMBER": "it cannot be taken back",
    b"SHUTDOWN": "the region would end",
    b"DEBUG": "its effects cannot be repeated",
    b"MONITOR": "its replies have no end",
    b"HELLO": "scenarios speak RESP2",
    b"QUIT": "hang up instead",
}
# Subcommands of CLIENT that leave other connections, and the order of replies, alone.
_HARMLESS: Final = frozenset(b"SETINFO SETNAME GETNAME ID INFO LIST NO-EVICT NO-TOUCH".split())


class Refused(Exception):
    """A command or an act that a scenario cannot hold; the text says why."""


def check_words(words: Words) -> None:
    """Raises Refused if a scenario cannot hold the command."""
    name = words[0].upper()
    shown = words[0].decode("utf-8", "backslashreplace")
    if not re.fullmatch(rb"[A-Za-z][\w.-]*", words[0]):
        raise Refused(f"a cell cannot hold a command called {shown!r}")
    if name in _REFUSED:
        raise Refused(f"a scenario cannot hold {shown}: {_REFUSED[name]}")
    if name == b"CLIENT" and len(words) > 1 and words[1].upper() not in _HARMLESS:
        raise Refused("a scenario cannot hold this form of CLIENT: it acts on connections")
    size = sum(map(len, words))
    if size > COMMAND_BYTES_MAX:
        raise Refused(
            f"a cell holds a command of at most {COMMAND_BYTES_MAX} bytes, this one has {size}"
        )
