"""What the twin keeps of a client's connection, and which commands may issue effects."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.sim.twin.vectors import Vector


class Session:
    """One connection of a client: its transaction and its watched keys."""

    def __init__(self, number: int) -> None:
        self.number: Final = number
        self.queued: Optional[list[tuple[bytes, ...]]] = None
        self.has_failed = False
        # key → (changes, whether it existed) when it was watched.
        self.watched: dict[bytes, tuple[int, bool]] = {}
        # The vector at the first WATCH.
        self.watched_at: Vector = {}
        # The command that waits is judged by others only.
        self.is_unjudged = False
        # It is CRDT.HISTORY: the key and the last row of its answer; no key: it is not.
        self.history_of = b""
        self.history_to = 0

    def end(self) -> None:
        """The transaction is over."""
        self.queued = None
        self.has_failed = False
        self.watched = {}


class Blocked:
    """A read that waits. `argv` has IDs instead of `$`; `until_ms` is steady time, 0: for ever."""

    def __init__(
        self, session: Session, argv: tuple[bytes, ...], keys: list[bytes], until_ms: int
    ) -> None:
        self.session: Final = session
        self.argv: Final = argv
        self.keys: Final = keys
        self.until_ms: Final = until_ms


# Commands that may issue effects, by their names: a transaction with one waits for the end of the
# start (S13.6), and is refused in recovery (S13.8).
_ISSUING: Final = frozenset(
    b"XADD XTRIM XDEL XSETID XCFGSET XIDMP XGROUP DEL UNLINK FLUSHALL FLUSHDB RENAME RENAMENX"
    b" EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST".split()
)
_LOCAL_GROUP_COMMANDS: Final = frozenset(b"SETID CREATECONSUMER DELCONSUMER".split())


def may_issue(argv: tuple[bytes, ...]) -> bool:
    """Whether a command may issue effects, judged by its name."""
    name = argv[0].upper()
    if name == b"XGROUP":
        return argv[1].upper() not in _LOCAL_GROUP_COMMANDS
    return name in _ISSUING


class StartNotOver(Exception):
    """The command would issue an effect before the start is over: it waits (S13.6)."""
