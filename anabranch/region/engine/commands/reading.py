"""XLEN, XRANGE, XREVRANGE and XREAD: they read the logical stream (S7.1, S7.2)."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import ids, merge
from anabranch.crdt.stream import Stream
from anabranch.region.engine.commands.arguments import (
    SYNTAX_ERROR,
    entry_id,
    integer,
    range_end,
    range_start,
    timeout_ms,
)
from anabranch.region.engine.replies import (
    NULL_ARRAY,
    REPLY_LATER,
    CommandError,
    EntriesReply,
    MapReply,
    Reply,
)
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command


def xlen(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XLEN key: the number of entries."""
    stream = state.existing(argv[1])
    return 0 if stream is None else stream.length()


def _count(argv: list[bytes], index: int) -> int:
    """The COUNT at `index`: -1 if it is not given, 0 if it is 0 or negative."""
    count = -1
    while index < len(argv):
        if index + 1 >= len(argv) or argv[index].upper() != b"COUNT":
            raise CommandError(SYNTAX_ERROR)
        count = max(integer(argv[index + 1]), 0)
        index += 2
    return count


def xrange(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XRANGE key start end [COUNT n]: entries in ascending order."""
    start = range_start(argv[2])
    end = range_end(argv[3])
    count = _count(argv, 4)
    stream = state.existing(argv[1])
    if count == 0:
        return NULL_ARRAY if stream is not None else []
    if stream is None:
        return []
    return EntriesReply(merge.forward(stream.logs, start, end, count))


def xrevrange(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XREVRANGE key end start [COUNT n]: entries in descending order."""
    end = range_end(argv[2])
    start = range_start(argv[3])
    count = _count(argv, 4)
    stream = state.existing(argv[1])
    if count == 0:
        return NULL_ARRAY if stream is not None else []
    if stream is None:
        return []
    return EntriesReply(merge.backward(stream.logs, start, end, count))


class ReadRequest:
    """The arguments of an XREAD or XREADGROUP."""

    def __init__(self) -> None:
        # Entries per stream at most; 0: no limit.
        self.count = 0
        # Time to wait for entries; -1: do not block; 0: block without a time-out.
        self.block_ms = -1
        self.no_ack = False
        self.group = b""
        self.consumer = b""
        self.is_group = False
        self.keys: list[bytes] = []
        self.ids: list[bytes] = []
        # Index of the first ID in argv.
        self.ids_at = 0


def parse_read(argv: list[bytes], is_group: bool) -> ReadRequest:
    """Parses the options up to STREAMS, then keys and IDs. Raises `CommandError`."""
    name = "xreadgroup" if is_group else "xread"
    request = ReadRequest()
    index = 1
    while index < len(argv):
        option = argv[index].upper()
        more = len(argv) - index - 1
        if option == b"BLOCK" and more:
            request.block_ms = timeout_ms(argv[index + 1])
            index += 2
        elif option == b"COUNT" and more:
            request.count = max(integer(argv[index + 1]), 0)
            index += 2
        elif option == b"GROUP" and more >= 2:
            if not is_group:
                raise CommandError(
                    "ERR The GROUP option is only supported by XREADGROUP. "
                    "You called XREAD instead."
                )
            request.is_group = True
            request.group = argv[index + 1]
            request.consumer = argv[index + 2]
            index += 3
        elif option == b"NOACK":
            if not is_group:
                raise CommandError(
                    "ERR The NOACK option is only supported by XREADGROUP. "
                    "You called XREAD instead."
                )
            request.no_ack = True
            index += 1
        elif option == b"STREAMS" and more:
            _parse_streams(argv, index + 1, name, request)
            break
        else:
            raise CommandError(SYNTAX_ERROR)
    if not request.keys:
        raise CommandError(SYNTAX_ERROR)
    if is_group and not request.is_group:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    return request


def _parse_streams(argv: list[bytes], index: int, name: str, request: ReadRequest) -> None:
    words = argv[index:]
    if len(words) % 2:
        symbol = ">" if name == "xreadgroup" else "$"
        raise CommandError(
            f"ERR Unbalanced '{name}' list of streams: "
            f"for each stream key an ID, '+', or '{symbol}' must be specified."
            if name == "xread"
            else f"ERR Unbalanced '{name}' list of streams: "
            f"for each stream key an ID or '{symbol}' must be specified."
        )
    half = len(words) // 2
    request.keys = words[:half]
    request.ids = words[half:]
    request.ids_at = index + half


def keyed_reply(session: Session, results: list[tuple[bytes, Reply]]) -> Reply:
    """Streams with their entries as a reply: a map in RESP3, an array of pairs in RESP2."""
    if session.protocol >= 3:
        flat: list[Reply] = []
        for key, entries in results:
            flat.append(key)
            flat.append(entries)
        return MapReply(flat)
    pairs: list[Reply] = []
    for key, entries in results:
        pairs.append([key, entries])
    return pairs


def _last_id(stream: Optional[Stream]) -> int:
    return 0 if stream is None else stream.header.last_id()


def xread(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XREAD: the entries above an ID of each stream; blocks if there are none and BLOCK is given.

    Entries that arrive late, below the last ID read, may be skipped. They are counted in
    `crdt_xread_late_arrivals` (S7.2).
    """
    request = parse_read(argv, False)
    resolved = list(argv)
    results: list[tuple[bytes, Reply]] = []
    for position, key in enumerate(request.keys):
        text = request.ids[position]
        stream = state.existing(key)
        if text == b">":
            raise CommandError(
                "ERR The > ID can be specified only when calling XREADGROUP "
                "using the GROUP <group> <consumer> option."
            )
        if text == b"$":
            above = _last_id(stream)
            resolved[request.ids_at + position] = ids.format_id(above)
        elif text == b"+":
            newest = None if stream is None else merge.last_entry(stream.logs)
            if newest is not None and stream is not None:
                stream.xread_high_id = max(stream.xread_high_id, newest.entry_id)
                # More than one if regions duplicated the ID.
                last = merge.forward(stream.logs, newest.entry_id, ids.MAX_ID, -1)
                results.append((key, EntriesReply(last)))
            resolved[request.ids_at + position] = ids.format_id(_last_id(stream))
            continue
        else:
            above = entry_id(text)
        if stream is None or above == ids.MAX_ID:
            continue
        entries = merge.forward(
            stream.logs, above + 1, ids.MAX_ID, request.count if request.count else -1
        )
        if entries.count:
            stream.xread_high_id = max(stream.xread_high_id, entries.last_id())
            results.append((key, EntriesReply(entries)))
    if results:
        return keyed_reply(session, results)
    if request.block_ms >= 0 and not state.waiting.is_executing:
        deadline_ms = state.clock.deadline_ms(request.block_ms)
        state.waiting.block(session, request.keys, resolved, deadline_ms)
        return REPLY_LATER
    return NULL_ARRAY


COMMANDS: Final = [
    Command(
        "xlen",
        2,
        "readonly fast",
        xlen,
        "Returns the number of entries.",
        key_flags="RO",
        keys=(1, 1, 1),
        reply="integer",
        since="5.0.0",
        syntax="key",
    ),
    Command(
        "xrange",
        -4,
        "readonly",
        xrange,
        "Returns the entries with IDs in a range.",
        keys=(1, 1, 1),
        reply="array",
        since="5.0.0",
        syntax="key start end [COUNT count]",
    ),
    Command(
        "xrevrange",
        -4,
        "readonly",
        xrevrange,
        "Returns the entries with IDs in a range, newest first.",
        keys=(1, 1, 1),
        reply="array",
        since="5.0.0",
        syntax="key end start [COUNT count]",
    ),
    Command(
        "xread",
        -4,
        "readonly blocking movablekeys",
        xread,
        "Returns the entries above given IDs of one or more streams; can block.",
        keyword=(b"STREAMS", 1),
        reply="map or null",
        since="5.0.0",
        syntax="[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] "
        "id | $ | + [id | $ | + ...]",
    ),
]
