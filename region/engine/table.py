"""The command table's rows (STYLE 10): dispatch, COMMAND, COMMAND DOCS and the user docs derive from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Optional

from anabranch.region.engine.replies import Reply
from anabranch.region.engine.session import Session

if TYPE_CHECKING:
    from anabranch.region.engine.core import Core

Handler = Callable[["Core", Session, "list[bytes]"], Reply]
# Writes that change local group state alone: they work while no effect may be issued (S13.8).
LOCAL_WRITES: Final = frozenset(
    {
        "xack",
        "xclaim",
        "xautoclaim",
        "xreadgroup",
        "xgroup|setid",
        "xgroup|createconsumer",
        "xgroup|delconsumer",
    }
)


class Command:
    """One command.

    `arity` counts the name too; negative: at least that many. `flags` are those that COMMAND shows. `first_key`, `last_key`, `key_step` as
    in COMMAND (0: no keys). `reply` names the reply type for readers.
    `subcommands` make it a container: the second word chooses.
    """

    def __init__(
        self,
        name: str,
        arity: int,
        flags: str,
        handler: Handler,
        summary: str,
        *,
        keys: tuple[int, int, int] = (0, 0, 0),
        reply: str = "",
        group: str = "stream",
        syntax: str = "",
        since: str = "",
        in_multi: bool = True,
        subcommands: Optional[list[Command]] = None,
    ) -> None:
        self.name: Final = name
        self.arity: Final = arity
        self.flags: Final = flags.split()
        self.handler: Final = handler
        self.summary: Final = summary
        self.first_key: Final = keys[0]
        self.last_key: Final = keys[1]
        self.key_step: Final = keys[2]
        self.reply: Final = reply
        self.group: Final = group
        self.syntax: Final = syntax
        self.since: Final = since
        self.in_multi: Final = in_multi
        self.subcommands: Final = {
            sub.name.split("|")[1].upper().encode(): sub for sub in subcommands or []
        }
        self.is_write: Final = "write" in self.flags
        self.issues: Final = self.is_write and name not in LOCAL_WRITES
        self.key: Final = name.upper().encode()
        self.shown: Final = name.encode()
