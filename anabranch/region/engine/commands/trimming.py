"""XTRIM, and the trim options that XADD shares with it (S5.2, S5.3)."""

from __future__ import annotations

from typing import Final

from anabranch.crdt import merge
from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.effects import Trim
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector
from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, entry_id, integer
from anabranch.region.engine.replies import CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

# The default LIMIT of an approximate trim, in full packed nodes, as in Redis.
DEFAULT_TRIM_LIMIT_NODES: Final = 100


class TrimRequest:
    """MAXLEN or MINID with its options."""

    def __init__(self) -> None:
        # "MAXLEN", "MINID", or "" if the command does not trim.
        self.strategy = ""
        # Whether `~` was given: only whole nodes are removed.
        self.is_approximate = False
        # Entries to keep (MAXLEN), or the lowest entry ID to keep (MINID).
        self.threshold = 0
        # Entries to remove at most; -1: not given; 0: no limit.
        self.limit = -1
        # "KEEPREF", "DELREF", "ACKED", or "" if not given, which acts as KEEPREF.
        self.references = ""


def _parse_trim(argv: list[bytes], index: int, strategy: str, trim: TrimRequest) -> int:
    """Reads the arguments after MAXLEN or MINID at `index`; returns the index after them."""
    if trim.strategy:
        raise CommandError(
            "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
        )
    trim.strategy = strategy
    index += 1
    if index < len(argv) - 1 and argv[index] in (b"~", b"="):
        trim.is_approximate = argv[index] == b"~"
        index += 1
    if index >= len(argv):
        raise CommandError(SYNTAX_ERROR)
    if strategy == "MAXLEN":
        trim.threshold = integer(argv[index])
        if trim.threshold < 0:
            raise CommandError("ERR The MAXLEN argument must be >= 0.")
    else:
        trim.threshold = entry_id(argv[index])
    return index + 1


def parse_trim_option(argv: list[bytes], index: int, option: bytes, trim: TrimRequest) -> int:
    """Reads MAXLEN, MINID, LIMIT, KEEPREF, DELREF or ACKED at `index` into `trim`.

    `option` is the argument at `index` in upper case. Returns the index after the option, or
    `index` if the argument is none of these options. Raises `CommandError`.
    """
    if option in (b"MAXLEN", b"MINID"):
        return _parse_trim(argv, index, option.decode(), trim)
    if option == b"LIMIT" and index + 1 < len(argv):
        trim.limit = integer(argv[index + 1])
        if trim.limit < 0:
            raise CommandError("ERR The LIMIT argument must be >= 0.")
        return index + 2
    if option in (b"KEEPREF", b"DELREF", b"ACKED"):
        if trim.references:
            raise CommandError(SYNTAX_ERROR)
        trim.references = option.decode()
        return index + 1
    return index


def check_trim(trim: TrimRequest, default_limit: int) -> None:
    """Raises `CommandError` if the options contradict each other; fills in the default LIMIT."""
    if trim.limit >= 0 and not trim.strategy:
        raise CommandError(
            "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
        )
    if trim.limit >= 0 and not trim.is_approximate:
        raise CommandError("ERR syntax error, LIMIT cannot be used without the special ~ option")
    if trim.limit < 0 and trim.is_approximate:
        trim.limit = default_limit


def trim(state: EngineState, stream: Stream, request: TrimRequest) -> int:
    """Trims by a decision on the local logical stream (S5.2).

    Returns the number of entries removed. Raises as `Writer.require_issue` does, if entries would
    be removed while this region may not issue effects.
    """
    prefix = _prefix(stream, request)
    if prefix and request.references == "ACKED":
        prefix = {
            region_id: _acked_limit(stream, region_id, counter)
            for region_id, counter in prefix.items()
        }
    if prefix and request.is_approximate:
        prefix = merge.whole_nodes(stream.logs, prefix, request.limit)
    before = stream.length()
    prefix = {
        region_id: counter
        for region_id, counter in prefix.items()
        if _removes(stream.logs[region_id], counter)
    }
    if prefix:
        state.writer.require_issue()
        state.writer.issue(Trim(stream.key, prefix, request.references == "DELREF"))
    return before - stream.length()


def room_before_trim(stream: Stream, request: TrimRequest) -> int:
    """How many entries can be added to the stream, and `trim` still removes none.

    0 unless the request is MAXLEN with `~`, which removes whole nodes only.
    """
    if request.strategy != "MAXLEN" or not request.is_approximate:
        return 0
    smallest = min(
        (log.node_map.nodes[0].live() for log in stream.logs.values() if log.node_map.nodes),
        default=0,
    )
    return max(smallest - 1 - (stream.length() - request.threshold), 0)


def _prefix(stream: Stream, request: TrimRequest) -> Vector:
    """The prefix of each region log that exact trimming removes."""
    if request.strategy == "MINID":
        return merge.prefix_below_id(stream.logs, request.threshold)
    excess = stream.length() - request.threshold
    if excess <= 0:
        return {}
    if request.is_approximate and not any(
        log.node_map.nodes and log.node_map.nodes[0].live() <= excess
        for log in stream.logs.values()
    ):
        return {}
    return merge.prefix_of_count(stream.logs, excess)


def _removes(log: RegionLog, counter: int) -> bool:
    """Whether the prefix holds an entry."""
    return log.last_counter_up_to(counter) > 0


def _acked_limit(stream: Stream, region_id: int, counter: int) -> int:
    """The end of the prefix up to `counter` that ACKED may remove (S5.3).

    The prefix stops before the first entry that some group known here still references.
    """
    cursor = LogCursor(stream.logs[region_id])
    cursor.seek_counter(0)
    limit = 0
    while cursor.valid and cursor.counter <= counter:
        if is_referenced(stream, region_id, cursor.counter, cursor.id()):
            break
        limit = cursor.counter
        cursor.step()
    return limit


def is_referenced(stream: Stream, region_id: int, counter: int, entry_id_: int) -> bool:
    """Whether the entry is pending, or above the floor and not given, for some group here."""
    if stream.rare is None:
        return False
    for group in stream.groups.values():
        delivery = group.delivery
        if delivery.pel.contains(region_id, counter, entry_id_):
            return True
        given = delivery.given.get(region_id)
        if (given is None or not given.contains(counter)) and group.is_above_floor(
            region_id, counter, entry_id_
        ):
            return True
    return False


def xtrim(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XTRIM key MAXLEN | MINID …: removes the oldest entries; returns how many."""
    request = TrimRequest()
    index = 2
    while index < len(argv):
        after = parse_trim_option(argv, index, argv[index].upper(), request)
        if after == index:
            raise CommandError(SYNTAX_ERROR)
        index = after
    check_trim(request, DEFAULT_TRIM_LIMIT_NODES * state.keyspace.limits.max_entries)
    if not request.strategy:
        raise CommandError("ERR syntax error, XTRIM must be called with a trimming strategy")
    stream = state.existing(argv[1])
    return 0 if stream is None else trim(state, stream, request)


COMMANDS: Final = [
    Command(
        "xtrim",
        -4,
        "write",
        xtrim,
        "Removes entries from the beginning of a stream.",
        key_flags="RW delete",
        keys=(1, 1, 1),
        reply="integer",
        since="5.0.0",
        syntax="key MAXLEN | MINID [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
    )
]
