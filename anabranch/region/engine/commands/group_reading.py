"""XREADGROUP (S7.3 to S7.5)."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import ids, undelivered
from anabranch.crdt.groups import Group
from anabranch.crdt.local import Claim, Claimed, ConsumerMade, Delivered, entry_of
from anabranch.crdt.merge import Finder
from anabranch.crdt.pel_chunk import EntryRef
from anabranch.crdt.pel_slices import Pending
from anabranch.crdt.slices import Entries
from anabranch.crdt.stream import Stream
from anabranch.region.engine.batch import Packed, Places, Shape
from anabranch.region.engine.commands.arguments import entry_id, id_and_fields, no_group
from anabranch.region.engine.commands.groups import head_of
from anabranch.region.engine.commands.reading import ReadRequest, keyed_reply, parse_read
from anabranch.region.engine.replies import (
    NULL_ARRAY,
    REPLY_LATER,
    CommandError,
    EntriesReply,
    Reply,
)
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import BATCH_MAX, Command, Kind

# Entries after which reads that follow are executed anew, so that others get their turn.
_MANY_ENTRIES: Final = 128
_MEANINGLESS: Final = (
    "ERR The {0} ID is meaningless in the context of XREADGROUP: you want to read the history of "
    "this consumer by specifying a proper ID, or use the > ID to get new messages. The {0} ID "
    "would just return an empty result set."
)


def _found(
    state: EngineState, request: ReadRequest
) -> tuple[list[tuple[Stream, Group]], list[int]]:
    """Looks up the stream and the group of each key, and parses the ID to read above (-1 for `>`).

    Raises the error of the first key that is wrong: a missing group or a wrong ID.
    """
    found: list[tuple[Stream, Group]] = []
    above: list[int] = []
    for n, key in enumerate(request.keys):
        text = request.ids[n]
        stream = state.existing(key)
        group: Optional[Group] = None if stream is None else stream.find_group(request.group)
        if stream is None or group is None:
            raise no_group(key, request.group, " in XREADGROUP with GROUP option")
        if text in (b"$", b"+"):
            raise CommandError(_MEANINGLESS.format(text.decode()))
        found.append((stream, group))
        above.append(-1 if text == b">" else entry_id(text))
    return found, above


def xreadgroup(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XREADGROUP: with `>` the entries not given yet, with an ID the caller's pending entries.

    Blocks if there are none and BLOCK is given.
    """
    return _read(state, session, argv, parse_read(argv, True))


def _last_word(argv: list[bytes]) -> Optional[Places]:
    """The place of `>` in a read of new entries of one stream."""
    return Places(len(argv) - 1) if argv[-1] == b">" and argv[-3].upper() == b"STREAMS" else None


def xreadgroups(
    state: EngineState, session: Session, argv: list[bytes], packed: Packed
) -> tuple[list[Reply], int]:
    """Several equal reads with `>` of one stream, up to the first that finds nothing."""
    request = parse_read(argv, True)
    if request.count == 0:
        return [_read(state, session, argv, request)], 1
    reads = 1
    while reads <= packed.count and packed.words[reads - 1] == b">":
        reads += 1
    stream, group = _found(state, request)[0][0]
    _make_consumers(state, [(stream, group)], request)
    replies: list[Reply] = []
    for entries in _deliver(state, stream, group, request, reads):
        replies.append(keyed_reply(session, [(stream.key, EntriesReply(entries))]))
    if not replies:
        return [_read(state, session, argv, request)], 1
    group.delivery.consumers[request.consumer].seen_ms = state.clock.now_ms
    return replies, len(replies)


def _make_consumers(
    state: EngineState, found: list[tuple[Stream, Group]], request: ReadRequest
) -> None:
    """Makes the consumer in the groups in which it is new."""
    for stream, group in found:
        if request.consumer not in group.delivery.consumers:
            state.writer.record(ConsumerMade(head_of(state, stream, group), request.consumer))


def _read(state: EngineState, session: Session, argv: list[bytes], request: ReadRequest) -> Reply:
    """Executes one XREADGROUP."""
    found, above = _found(state, request)
    _make_consumers(state, found, request)
    results: list[tuple[bytes, Reply]] = []
    for n, (stream, group) in enumerate(found):
        if above[n] >= 0:
            results.append((stream.key, _history(state, stream, group, request, above[n])))
            continue
        for entries in _deliver(state, stream, group, request, 1):
            results.append((stream.key, EntriesReply(entries)))
    # `seen_ms` is a volatile statistic, without a local record. A command that was refused because
    # commits fail has raised an error before this line, and changes nothing (S13.4).
    for _, group in found:
        group.delivery.consumers[request.consumer].seen_ms = state.clock.now_ms
    if results:
        return keyed_reply(session, results)
    if request.block_ms >= 0 and not state.waiting.is_executing:
        deadline_ms = state.clock.deadline_ms(request.block_ms)
        state.waiting.block(session, request.keys, argv, deadline_ms)
        return REPLY_LATER
    return NULL_ARRAY


def _deliver(
    state: EngineState, stream: Stream, group: Group, request: ReadRequest, reads: int
) -> list[Entries]:
    """Delivers the entries that are not given yet (S7.3), to as many reads, while there are any.

    One local record holds the given spans and the PEL entries (S13.1). Further reads end once
    `_MANY_ENTRIES` are delivered.
    """
    handout = undelivered.Handout(stream, group)
    found: list[Entries] = []
    references: list[EntryRef] = []
    while len(found) < reads and (not found or len(references) < _MANY_ENTRIES):
        entries = handout.read(request.count)
        if entries.count == 0:
            break
        found.append(entries)
        entries.put_references(references)
    spans = handout.end()
    if found:
        record = Delivered(
            head_of(state, stream, group),
            request.consumer,
            references,
            spans,
            group.delivery.entries_read + len(references),
            request.no_ack,
        )
        state.writer.record(record)
    return found


def _history(
    state: EngineState, stream: Stream, group: Group, request: ReadRequest, above: int
) -> Reply:
    """The caller's pending entries above an ID, merged from its PELs (S7.5).

    Each entry that is still in the stream counts as delivered once more.
    """
    chosen: list[Pending] = []
    if above < ids.MAX_ID:
        for pending in group.delivery.pel.ascending(above + 1, ids.MAX_ID, request.consumer):
            if (
                request.count
                and len(chosen) >= request.count
                and chosen[-1].entry_id != pending.entry_id
            ):
                break
            chosen.append(pending)
    reply: list[Reply] = []
    claims: list[Claim] = []
    finder = Finder(stream.logs)
    for pending in chosen:
        cursor = finder.find(pending.region_id, pending.counter)
        if cursor is None:
            reply.append([ids.format_id(pending.entry_id), NULL_ARRAY])
            continue
        reply.append(id_and_fields(pending.entry_id, cursor.fields()))
        claims.append(Claim(entry_of(pending), state.clock.now_ms, pending.deliveries + 1))
    if claims:
        state.writer.record(Claimed(head_of(state, stream, group), request.consumer, claims))
    return reply


COMMANDS: Final = [
    Command(
        "xreadgroup",
        -7,
        "write blocking movablekeys",
        xreadgroup,
        "Returns a consumer's entries of a group: new (>) or pending (ID); can block.",
        keyword=(b"STREAMS", 4),
        key_flags="RO access",
        changes_local_state=True,
        reply="map or null",
        since="5.0.0",
        syntax="GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] "
        "STREAMS key [key ...] id | > [id | > ...]",
        many=[Kind(Shape("reads of a group", _last_word, BATCH_MAX), xreadgroups)],
    )
]
