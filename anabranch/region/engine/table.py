"""The classes of the command table.

Dispatch, COMMAND, COMMAND DOCS and the users' documentation derive from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Optional, TypeVar

from anabranch.region.engine.batch import Packed, Shape
from anabranch.region.engine.replies import Reply
from anabranch.region.engine.session import Session

# The type of the state that handlers use: `state.EngineState`, which this module does not import.
State = TypeVar("State")
Handler = Callable[[State, Session, list[bytes]], Reply]
# It gets the first command of a batch and those after it.
BatchHandler = Callable[[State, Session, list[bytes], Packed], tuple[list[Reply], int]]

# So many commands follow the first one of a batch at most.
BATCH_MAX: Final = 32

# Treatment of a command inside MULTI.
IS_QUEUED: Final = "is queued"
RUNS: Final = "runs at once"
IS_REFUSED: Final = "is refused"


class Keys:
    """The places of a command's keys among its arguments, and how it uses them.

    `first`, `last` and `step` are as in COMMAND; `first` is 0 if no keys have fixed places. With
    `keyword`, the keys follow that word, which is searched from `search_from`, and fill the first
    half of the remaining arguments. `flags` are those of the key specification, `second_flags`
    those of a second key with other flags, which follows the first.
    """

    def __init__(
        self,
        places: tuple[int, int, int],
        keyword: Optional[tuple[bytes, int]],
        flags: list[str],
        second_flags: list[str],
    ) -> None:
        self.first: Final = places[0]
        self.last: Final = places[1]
        self.step: Final = places[2]
        self.keyword: Final = b"" if keyword is None else keyword[0]
        self.search_from: Final = 0 if keyword is None else keyword[1]
        self.flags: Final = flags
        self.second_flags: Final = second_flags

    def __bool__(self) -> bool:
        return self.first > 0 or self.keyword != b""

    def count(self, words: list[bytes]) -> int:
        """Returns how many keys a command line names, which may be wrong in other respects."""
        if self.keyword:
            for index in range(self.search_from, len(words)):
                if words[index].upper() == self.keyword:
                    return (len(words) - index - 1) // 2
            return 0
        if not self.first:
            return 0
        last = self.last if self.last >= 0 else len(words) + self.last
        return max(last - self.first + self.step, 0) // self.step


class Kind(Generic[State]):
    """A kind of batch: the shape of its commands, and the handler that executes them.

    The handler returns the replies, in order, and how many commands it has taken, the first one at
    least. Those that it leaves come again as a batch of their own. It raises `CommandError` only if
    it has executed none; that is the reply of the first one. Limits are checked once for all of
    them, as for the commands of a transaction.
    """

    def __init__(self, shape: Shape, execute: BatchHandler[State]) -> None:
        self.shape: Final = shape
        self.execute: Final = execute


class Documentation:
    """The texts of a command in COMMAND DOCS and in the users' documentation."""

    def __init__(self, summary: str, since: str, group: str, syntax: str, reply: str) -> None:
        self.summary: Final = summary
        self.since: Final = since
        self.group: Final = group
        self.syntax: Final = syntax
        self.reply: Final = reply


class Command(Generic[State]):
    """One command.

    `arity` counts the name too; a negative arity means at least that many words. `flags` are those
    of COMMAND; a command with `no_auth` may be sent before AUTH. `categories` are ACL categories in
    addition to those derived from flags and group. `changes_local_state` marks a write that issues
    no effect, so that it works while no effects may be issued (S13.8). `shows_data` is False for a
    command whose reply shows the region, its settings, links and figures, and no data: while
    commits fail, the reply does not wait for one (S13.4). A command with `subcommands` is a
    container: its second word selects the subcommand, and all of them show data, or none. `many`
    are the kinds of batches that begin with the command; a command of no kind is executed alone, by
    `handler`.
    """

    def __init__(
        self,
        name: str,
        arity: int,
        flags: str,
        handler: Handler[State],
        summary: str,
        *,
        keys: tuple[int, int, int] = (0, 0, 0),
        keyword: Optional[tuple[bytes, int]] = None,
        key_flags: str = "",
        second_key_flags: str = "",
        categories: str = "",
        reply: str = "",
        group: str = "stream",
        syntax: str = "",
        since: str = "",
        in_multi: str = IS_QUEUED,
        changes_local_state: bool = False,
        shows_data: bool = True,
        subcommands: Optional[list[Command[State]]] = None,
        many: Sequence[Kind[State]] = (),
    ) -> None:
        self.name: Final = name
        self.arity: Final = arity
        self.flags: Final = flags.split()
        self.handler: Final = handler
        self.many: Final = list(many)
        self.is_write: Final = "write" in self.flags
        self.needs_password: Final = "no_auth" not in self.flags
        self.issues_effects: Final = self.is_write and not changes_local_state
        self.in_multi: Final = in_multi
        self.shows_data: Final = shows_data
        # What a region that was never a member answers with an error (S13.6).
        self.asks_for_data: Final = (
            shows_data and in_multi != RUNS and "admin" not in self.flags and "crdt." not in name
        )
        self.categories: Final = categories.split()
        usual = "RW access update" if self.is_write else "RO access"
        self.keys: Final = Keys(
            keys, keyword, (key_flags or usual).split(), second_key_flags.split()
        )
        self.docs: Final = Documentation(summary, since, group, syntax, reply)
        self.subcommands: Final = {
            sub.name.split("|")[1].upper().encode(): sub for sub in subcommands or []
        }
        self.key: Final = name.upper().encode()
        self.shown: Final = name.encode()

    def takes(self, words: int) -> bool:
        """Whether the command, its name included, may have so many words."""
        return words == self.arity if self.arity > 0 else words >= -self.arity
