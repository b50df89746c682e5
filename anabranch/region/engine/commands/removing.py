"""XDEL and XSETID (S3.2, S5.1)."""

from __future__ import annotations

from typing import Final

from anabranch.crdt import merge
from anabranch.crdt.effects import RemoveEntries, SetId
from anabranch.crdt.vector import Dot
from anabranch.region.engine.commands.arguments import NO_SUCH_KEY, SYNTAX_ERROR, entry_id, integer
from anabranch.region.engine.replies import OK, CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command


def xdel(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XDEL: removes every entry that has one of the IDs (S5.1); returns the number of entries."""
    stream = state.existing(argv[1])
    if stream is None:
        return 0
    wanted = [entry_id(text) for text in argv[2:]]
    dots: list[Dot] = []
    for one in dict.fromkeys(wanted):
        dots.extend(merge.with_id(stream.logs, one))
    if dots:
        state.writer.require_issue()
        state.writer.issue(RemoveEntries(argv[1], dots))
    return len(dots)


def xsetid(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XSETID key last-id: raises the last ID; an ID below the current last ID is refused (S3.2).

    ENTRIESADDED and MAXDELETEDID set local statistics (S3.4).
    """
    new_id = entry_id(argv[2])
    entries_added = -1
    max_deleted = -1
    index = 3
    while index < len(argv):
        option = argv[index].upper()
        if index + 1 >= len(argv):
            raise CommandError(SYNTAX_ERROR)
        if option == b"ENTRIESADDED":
            entries_added = integer(argv[index + 1])
            if entries_added < 0:
                raise CommandError("ERR entries_added must be positive")
        elif option == b"MAXDELETEDID":
            max_deleted = entry_id(argv[index + 1])
            if new_id < max_deleted:
                raise CommandError(
                    "ERR The ID specified in XSETID is smaller than "
                    "the provided max_deleted_entry_id"
                )
        else:
            raise CommandError(SYNTAX_ERROR)
        index += 2
    stream = state.existing(argv[1])
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    if new_id < stream.header.last_id():
        raise CommandError(
            "ERR The ID specified in XSETID is smaller than the target stream top item"
        )
    if 0 <= entries_added < stream.length():
        raise CommandError(
            "ERR The entries_added specified in XSETID is smaller than the target stream length"
        )
    if new_id > stream.header.last_id() or not stream.header.has_heads():
        state.writer.require_issue()
        state.writer.issue(SetId(argv[1], new_id))
    if entries_added >= 0:
        stream.entries_added = entries_added
    if max_deleted >= 0:
        stream.max_deleted_id = max_deleted
    state.keyspace.touch_local(stream)
    return OK


COMMANDS: Final = [
    Command(
        "xdel",
        -3,
        "write fast",
        xdel,
        "Removes entries by ID.",
        key_flags="RW delete",
        keys=(1, 1, 1),
        reply="integer",
        since="5.0.0",
        syntax="key id [id ...]",
    ),
    Command(
        "xsetid",
        -3,
        "write denyoom fast",
        xsetid,
        "Raises a stream's last ID.",
        key_flags="RW update",
        keys=(1, 1, 1),
        reply="simple string",
        since="5.0.0",
        syntax="key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
    ),
]
