"""Commands on whole keys: DEL, EXISTS, RENAME, KEYS, SCAN, FLUSHALL and so on (S3, S5.4, S10.1)."""

from __future__ import annotations

from typing import Final

from anabranch.crdt import ids, merge
from anabranch.crdt.effects import Delete, Flush, SetDeadline, SetId
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.stream import Stream
from anabranch.region.engine.commands.arguments import NO_SUCH_KEY, SYNTAX_ERROR, integer
from anabranch.region.engine.glob import Glob
from anabranch.region.engine.replies import OK, CommandError, Reply, SimpleString
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

# The number of cursors of SCAN: each hash is one, and 0 is the first.
CURSORS: Final = 1 << 64
# The most keys that one SCAN looks at. Its COUNT is a wish, and the reply says where to go on.
SCAN_MAX: Final = 10_000


def delete(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """DEL, UNLINK: observed-remove for the contents, delete-wins for the groups (S5.4)."""
    deleted = 0
    for key in argv[1:]:
        if state.existing(key) is not None:
            state.writer.require_issue()
            state.writer.issue(Delete(key, dict(state.keyspace.vector)))
            deleted += 1
    return deleted


def exists(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """EXISTS, TOUCH: the number of given keys that exist."""
    return sum(1 for key in argv[1:] if state.existing(key) is not None)


def type_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """TYPE key: `stream`, or `none` if the key does not exist."""
    return SimpleString(b"none" if state.existing(argv[1]) is None else b"stream")


def keys(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """KEYS pattern: the keys that match a glob pattern."""
    pattern = Glob(argv[1])
    clock_ms = state.clock.now_ms
    return [
        key
        for key, stream in state.keyspace.keys.items()
        if stream.exists_at(clock_ms) and pattern.matches(key)
    ]


def scan(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """SCAN cursor [MATCH pattern] [COUNT n] [TYPE t].

    Keys come in the order of their hashes. A key that exists during the whole iteration is
    therefore returned exactly once.
    """
    cursor = int(argv[1]) if argv[1].isdigit() and len(argv[1]) <= 20 else CURSORS
    if cursor >= CURSORS:
        raise CommandError("ERR invalid cursor")
    pattern = Glob(b"*")
    count = 10
    wanted_type = b"stream"
    index = 2
    while index < len(argv):
        option = argv[index].upper()
        if index + 1 >= len(argv):
            raise CommandError(SYNTAX_ERROR)
        if option == b"MATCH":
            pattern = Glob(argv[index + 1])
        elif option == b"COUNT":
            count = integer(argv[index + 1])
            if count < 1:
                raise CommandError(SYNTAX_ERROR)
            count = min(count, SCAN_MAX)
        elif option == b"TYPE":
            wanted_type = argv[index + 1].lower()
        else:
            raise CommandError(SYNTAX_ERROR)
        index += 2
    found: list[Reply] = []
    last_hash = -1
    next_cursor = 0
    for seen, (key_hash, key) in enumerate(state.keyspace.scan_order.from_hash(cursor)):
        if seen >= count and key_hash != last_hash:
            next_cursor = key_hash
            break
        last_hash = key_hash
        if wanted_type == b"stream" and state.existing(key) is not None and pattern.matches(key):
            found.append(key)
    return [b"%d" % next_cursor, found]


def dbsize(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """DBSIZE: the number of keys."""
    return state.contents.read(state.clock.now_ms).keys


def randomkey(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """RANDOMKEY: the engine has no randomness, so the number of commands so far chooses the key."""
    existing = [
        key for key, stream in state.keyspace.keys.items() if stream.exists_at(state.clock.now_ms)
    ]
    return existing[state.statistics.commands % len(existing)] if existing else None


def flush(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """FLUSHALL, FLUSHDB [ASYNC | SYNC]: deletes every key.

    One effect carries one vector and one tombstone for all groups of all keys (S5.4).
    """
    if len(argv) > 2 or (len(argv) == 2 and argv[1].upper() not in (b"ASYNC", b"SYNC")):
        raise CommandError(SYNTAX_ERROR)
    state.writer.require_issue()
    state.writer.issue(Flush(dict(state.keyspace.vector)))
    return OK


def _bytes_of(stream: Stream) -> int:
    return sum(
        len(node.data) + len(node.names)
        for log in stream.logs.values()
        for node in log.node_map.nodes
    )


def _rename(state: EngineState, source_key: bytes, target_key: bytes) -> None:
    """Moves a stream to another key, in one unit (S10.1)."""
    source = state.existing(source_key)
    assert source is not None
    limit = state.settings.integer("crdt-unit-max-bytes")
    size = _bytes_of(source)
    if size > limit:
        state.statistics.unit_max_bytes_refused += 1
        raise CommandError(
            f"ERR the stream has {size} bytes, more than one RENAME may move "
            f"(crdt-unit-max-bytes is {limit})"
        )
    state.writer.require_issue()
    entries = merge.forward(source.logs, 0, ids.MAX_ID, -1).listed()
    last_id = source.header.last_id()
    deadline = source.winning_deadline()
    state.writer.issue(Delete(source_key, dict(state.keyspace.vector)))
    if state.existing(target_key) is not None:
        state.writer.issue(Delete(target_key, dict(state.keyspace.vector)))
    target = state.writer.for_creation(target_key)
    previous_id = -1
    for entry in entries:
        if entry.entry_id != previous_id:
            state.journal.add(
                target,
                ids.ms_of(entry.entry_id),
                ids.seq_of(entry.entry_id),
                encode_names(entry.fields[::2]),
                encode_values(entry.fields[1::2]),
            )
            state.stability.time.note_renamed(entry.entry_id)
            previous_id = entry.entry_id
    state.writer.issue(SetId(target_key, last_id))
    if deadline is not None:
        state.writer.issue(SetDeadline(target_key, deadline[1], list(target.deadlines)))


def rename(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """RENAME key newkey: groups and idempotency state are dropped (S10.1)."""
    if state.existing(argv[1]) is None:
        raise CommandError(NO_SUCH_KEY)
    if argv[1] != argv[2]:
        _rename(state, argv[1], argv[2])
    return OK


def renamenx(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """RENAMENX key newkey: renames unless `newkey` exists; returns 1 if renamed, else 0."""
    if state.existing(argv[1]) is None:
        raise CommandError(NO_SUCH_KEY)
    if state.existing(argv[2]) is not None:
        return 0
    _rename(state, argv[1], argv[2])
    return 1


COMMANDS: Final = [
    Command(
        "del",
        -2,
        "write",
        delete,
        "Deletes keys.",
        key_flags="RM delete",
        keys=(1, -1, 1),
        reply="integer",
        group="generic",
        since="1.0.0",
        syntax="key [key ...]",
    ),
    Command(
        "unlink",
        -2,
        "write fast",
        delete,
        "Deletes keys, as DEL does.",
        key_flags="RM delete",
        keys=(1, -1, 1),
        reply="integer",
        group="generic",
        since="4.0.0",
        syntax="key [key ...]",
    ),
    Command(
        "exists",
        -2,
        "readonly fast",
        exists,
        "Returns how many of the keys exist.",
        key_flags="RO",
        keys=(1, -1, 1),
        reply="integer",
        group="generic",
        since="1.0.0",
        syntax="key [key ...]",
    ),
    Command(
        "touch",
        -2,
        "readonly fast",
        exists,
        "Returns how many of the keys exist.",
        key_flags="RO",
        keys=(1, -1, 1),
        reply="integer",
        group="generic",
        since="3.2.1",
        syntax="key [key ...]",
    ),
    Command(
        "type",
        2,
        "readonly fast",
        type_,
        "Returns stream, or none if the key does not exist.",
        key_flags="RO",
        keys=(1, 1, 1),
        reply="simple string",
        group="generic",
        since="1.0.0",
        syntax="key",
    ),
    Command(
        "keys",
        2,
        "readonly",
        keys,
        "Returns the keys that match a pattern.",
        categories="@keyspace @dangerous",
        reply="array",
        group="generic",
        since="1.0.0",
        syntax="pattern",
    ),
    Command(
        "scan",
        -2,
        "readonly",
        scan,
        "Iterates over the keys.",
        categories="@keyspace",
        reply="array",
        group="generic",
        since="2.8.0",
        syntax="cursor [MATCH pattern] [COUNT count] [TYPE type]",
    ),
    Command(
        "dbsize",
        1,
        "readonly fast",
        dbsize,
        "Returns the number of keys.",
        categories="@keyspace",
        reply="integer",
        group="server",
        since="1.0.0",
    ),
    Command(
        "randomkey",
        1,
        "readonly",
        randomkey,
        "Returns one of the keys.",
        categories="@keyspace",
        reply="bulk string or null",
        group="generic",
        since="1.0.0",
    ),
    Command(
        "flushall",
        -1,
        "write",
        flush,
        "Deletes every key, in every region.",
        categories="@keyspace @dangerous",
        reply="simple string",
        group="server",
        since="1.0.0",
        syntax="[ASYNC | SYNC]",
    ),
    Command(
        "flushdb",
        -1,
        "write",
        flush,
        "Deletes every key, in every region, as FLUSHALL does.",
        categories="@keyspace @dangerous",
        reply="simple string",
        group="server",
        since="1.0.0",
        syntax="[ASYNC | SYNC]",
    ),
    Command(
        "rename",
        3,
        "write",
        rename,
        "Renames a key; its groups are dropped.",
        key_flags="RW access delete",
        second_key_flags="OW update",
        keys=(1, 2, 1),
        reply="simple string",
        group="generic",
        since="1.0.0",
        syntax="key newkey",
    ),
    Command(
        "renamenx",
        3,
        "write fast",
        renamenx,
        "Renames a key unless the new name exists.",
        key_flags="RW access delete",
        second_key_flags="OW insert",
        keys=(1, 2, 1),
        reply="integer",
        group="generic",
        since="1.0.0",
        syntax="key newkey",
    ),
]
