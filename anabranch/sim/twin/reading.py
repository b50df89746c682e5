"""XRANGE, XREVRANGE, XLEN, XREAD and XREADGROUP (S7)."""

from __future__ import annotations

from typing import Final, NamedTuple, Optional, TypeVar

from anabranch.crdt.ids import format_id
from anabranch.region.engine.replies import NULL_ARRAY, REPLY_LATER, ErrorReply, MapReply, Reply
from anabranch.sim.twin.arguments import (
    MAX_ID,
    NOT_INTEGER,
    SYNTAX,
    entry_id,
    high_bound,
    integer,
    low_bound,
    refuse,
)
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.records import Claimed, ConsumerMade, Delivered
from anabranch.sim.twin.replies import entry_reply
from anabranch.sim.twin.session import Blocked, Session
from anabranch.sim.twin.state import Entry, Group, Key, Pending, State
from anabranch.sim.twin.vectors import Dot

_NO_COUNT: Final = 1 << 60

T = TypeVar("T", Entry, Pending)


def cut_at(state: State, entries: list[T], count: int) -> list[T]:
    """The first `count` entries; COUNT never cuts between entries of one ID (S7.1)."""
    end = count
    while 0 < end < len(entries) and entries[end].entry_id == entries[end - 1].entry_id:
        end += 1
    if end > count:
        state.count("S7.1")
    return entries[:end]


def xrange(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XRANGE and XREVRANGE."""
    is_reverse = argv[0].upper() == b"XREVRANGE"
    low, high = (argv[3], argv[2]) if is_reverse else (argv[2], argv[3])
    least, most = low_bound(low), high_bound(high)
    count = max(integer(argv[5]), 0) if len(argv) > 5 else _NO_COUNT
    key = twin.state.visible(argv[1])
    if key is None:
        return []
    if count == 0:
        return NULL_ARRAY
    entries = key.between(least, most)
    if is_reverse:
        entries.reverse()
    if entries and (_is_partial(low) or _is_partial(high)):
        twin.state.count("S4.5")
    return [entry_reply(entry) for entry in cut_at(twin.state, entries, count)]


def _is_partial(bound: bytes) -> bool:
    """Whether a bound is exclusive, or names the ms alone."""
    return bound.startswith(b"(") or bound.isdigit()


def xlen(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XLEN."""
    key = twin.state.visible(argv[1])
    return 0 if key is None else len(key.entries)


class Read(NamedTuple):
    """The words of XREAD or XREADGROUP. `block_ms` is -1 without BLOCK."""

    group: bytes
    consumer: bytes
    most: int
    block_ms: int
    no_ack: bool
    keys: tuple[bytes, ...]
    positions: tuple[bytes, ...]


def parse(argv: tuple[bytes, ...]) -> Read:
    """Reads the words of XREAD or XREADGROUP."""
    group = consumer = b""
    count, block_ms, no_ack = _NO_COUNT, -1, False
    place = 1
    while place < len(argv):
        name = argv[place].upper()
        if name == b"GROUP":
            group, consumer = argv[place + 1 : place + 3]
            place += 2
        elif name == b"COUNT":
            count = integer(argv[place + 1], NOT_INTEGER)
            count = count if count > 0 else _NO_COUNT
            place += 1
        elif name == b"BLOCK":
            block_ms = integer(argv[place + 1])
            place += 1
        elif name == b"NOACK":
            no_ack = True
        elif name == b"STREAMS":
            rest = argv[place + 1 :]
            if len(rest) % 2 or not rest:
                refuse(SYNTAX)
            half = len(rest) // 2
            return Read(group, consumer, count, block_ms, no_ack, rest[:half], rest[half:])
        place += 1
    refuse(SYNTAX)


def xread(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XREAD (S7.1)."""
    read = parse(argv)
    answer: list[tuple[bytes, list[Reply]]] = []
    positions: list[bytes] = []
    for name, word in zip(read.keys, read.positions, strict=True):
        key = twin.state.visible(name)
        after = _after(key, word)
        positions.append(format_id(after))
        entries = key.between(after + 1, MAX_ID) if key is not None else []
        if entries:
            shown = cut_at(twin.state, entries, read.most)
            if key is not None:
                key.read_to = max(key.read_to, shown[-1].entry_id)
            answer.append((name, [entry_reply(entry) for entry in shown]))
    if answer:
        return _keyed(twin, answer)
    return _wait(twin, session, argv, read, positions)


def _keyed(twin: TwinCore, answer: list[tuple[bytes, list[Reply]]]) -> list[Reply]:
    """Entries by key: a map for a client with RESP3, else a list of pairs."""
    if isinstance(twin.reply, MapReply):
        return [part for pair in answer for part in pair]
    return [[name, rows] for name, rows in answer]


def _after(key: Optional[Key], word: bytes) -> int:
    """The ID above which an XREAD reads."""
    if word == b"$":
        return key.last_id() if key is not None else 0
    if word == b"+":
        if key is None:
            return 0
        return key.order.keys()[-1][0] - 1 if key.order else key.last_id()
    return entry_id(word)


def _wait(
    twin: TwinCore, session: Session, argv: tuple[bytes, ...], read: Read, positions: list[bytes]
) -> object:
    """Nothing is readable: the command waits if it may."""
    if twin.is_reading:
        return REPLY_LATER
    if read.block_ms < 0 or session.queued is not None:
        return NULL_ARRAY
    until_ms = twin.facts.steady_ms + read.block_ms if read.block_ms else 0
    words = (*argv[: len(argv) - len(positions)], *positions)
    twin.blocked.append(Blocked(session, words, list(read.keys), until_ms))
    return REPLY_LATER


def xreadgroup(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XREADGROUP: new entries (S7.3), or the pending ones of the consumer (S7.5)."""
    read = parse(argv)
    keys: list[Key] = []
    for name, word in zip(read.keys, read.positions, strict=True):
        key = twin.state.visible(name)
        if key is None or read.group not in key.groups:
            refuse(
                f"NOGROUP No such key '{name.decode()}' or consumer group "
                f"'{read.group.decode()}' in XREADGROUP with GROUP option"
            )
        if word != b">":
            entry_id(word)
        keys.append(key)
    answer: list[tuple[bytes, list[Reply]]] = []
    for key, word in zip(keys, read.positions, strict=True):
        _see(twin, key, read)
        if word == b">":
            rows = _deliver(twin, key, read)
            if rows:
                answer.append((key.name, rows))
        else:
            answer.append((key.name, _pending(twin, key, read, entry_id(word))))
    if answer:
        return _keyed(twin, answer)
    return _wait(twin, session, argv, read, list(read.positions))


def _see(twin: TwinCore, key: Key, read: Read) -> None:
    """The consumer exists from now on, and was seen now."""
    see(twin, key, read.group, read.consumer)


def see(twin: TwinCore, key: Key, group: bytes, name: bytes) -> None:
    """A command of the consumer: it exists from now on, and was seen now."""
    now_ms = twin.state.clock_ms
    consumers = key.groups[group].local.consumers
    if name not in consumers:
        twin.record(ConsumerMade(key, group, now_ms, name))
    if not isinstance(twin.reply, ErrorReply):  # a command that is refused changes nothing (S13.4)
        one = consumers[name]
        one.seen_ms = max(one.seen_ms, now_ms)


def undelivered(key: Key, group: Group) -> list[Entry]:
    """The entries that `>` would deliver, in the order of IDs (S7.3)."""
    entries = key.between(0, MAX_ID)
    return [entry for entry in entries if group.is_undelivered(entry.dot, entry.entry_id)]


def handed(key: Key, entries: list[Entry]) -> list[tuple[Dot, int, int]]:
    """Entries as a record of their delivery has them."""
    return [(one.dot, one.entry_id, key.before_in_log(one.dot)) for one in entries]


def _deliver(twin: TwinCore, key: Key, read: Read) -> list[Reply]:
    """Hands out the undelivered entries."""
    group = key.groups[read.group]
    found = cut_at(twin.state, undelivered(key, group), read.most)
    if found:
        local = group.local
        if found[0].entry_id < local.highest:
            twin.state.count("S7.3")
        if any(one.dot in local.set_back for one in found):
            twin.state.count("S7.4")
            local.set_back = set()
        now_ms, entries = twin.state.clock_ms, handed(key, found)
        twin.record(Delivered(key, read.group, now_ms, read.consumer, entries, read.no_ack))
        local.has_no_ack = local.has_no_ack or read.no_ack
    return [entry_reply(entry) for entry in found]


def _pending(twin: TwinCore, key: Key, read: Read, after: int) -> list[Reply]:
    """Reads pending entries again, which counts as a delivery."""
    now_ms = twin.state.clock_ms
    rows = [
        one for one in key.groups[read.group].local.pending(read.consumer) if one.entry_id > after
    ]
    rows = cut_at(twin.state, rows, read.most)
    if len({one.dot[0] for one in rows}) > 1:
        twin.state.count("S7.5")
    claims = [
        Pending(one.dot, one.entry_id, read.consumer, now_ms, one.deliveries + 1)
        for one in rows
        if one.dot in key.entries
    ]
    if claims:
        twin.record(Claimed(key, read.group, now_ms, read.consumer, claims))
    answer: list[Reply] = []
    for one in rows:
        entry = key.entries.get(one.dot)
        answer.append(
            [format_id(one.entry_id), NULL_ARRAY] if entry is None else entry_reply(entry)
        )
    return answer
