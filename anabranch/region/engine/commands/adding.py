"""XADD, XDEL and XSETID (S3.2, S4, S5.1, S9)."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import ids, merge
from anabranch.crdt.adds import ROOM_MAX
from anabranch.crdt.effects import RemoveEntries, SetId
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.pair import automatic_iid
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Dot
from anabranch.region.engine.commands.arguments import (
    NO_SUCH_KEY,
    SYNTAX_ERROR,
    entry_id,
    integer,
    wrong_arity,
)
from anabranch.region.engine.commands.trimming import (
    DEFAULT_TRIM_LIMIT_NODES,
    TrimRequest,
    check_trim,
    parse_trim_option,
    room_before_trim,
    trim,
)
from anabranch.region.engine.idempotency import configuration
from anabranch.region.engine.replies import OK, CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command


class AddRequest:
    """The options and the ID of an XADD. `fields_at` is the index of the first field in argv."""

    def __init__(self) -> None:
        self.creates_key = True
        self.trim = TrimRequest()
        self.pid = b""
        self.iid = b""
        # The index of the iid in argv; 0: it is made of the fields.
        self.iid_at = 0
        self.is_idmp = False
        self.is_idmp_auto = False
        self.id = ids.ANY
        self.fields_at = 3


# -- parsing


def _parse_idempotency(argv: list[bytes], index: int, option: bytes, request: AddRequest) -> int:
    """Reads IDMP pid iid or IDMPAUTO pid at `index`; returns the index after them."""
    if request.is_idmp:
        raise CommandError("ERR syntax error, IDMP/IDMPAUTO specified multiple times")
    request.is_idmp = True
    name = option.decode()
    if option == b"IDMPAUTO":
        request.is_idmp_auto = True
        needed = 1
    else:
        needed = 2
    if index + needed >= len(argv):
        raise CommandError(SYNTAX_ERROR)
    request.pid = argv[index + 1]
    if not request.pid:
        raise CommandError(f"ERR syntax error, {name} requires a non-empty producer ID")
    if needed == 2:
        request.iid = argv[index + 2]
        request.iid_at = index + 2
        if not request.iid:
            raise CommandError("ERR syntax error, IDMP requires a non-empty idempotent ID")
    return index + needed + 1


def _parse_add(argv: list[bytes], default_limit: int) -> AddRequest:
    """Parses the options and the ID of an XADD, and checks the number of fields."""
    request = AddRequest()
    index = 2
    while index < len(argv):
        option = argv[index].upper()
        if option == b"NOMKSTREAM":
            request.creates_key = False
            index += 1
        elif option in (b"IDMP", b"IDMPAUTO"):
            index = _parse_idempotency(argv, index, option, request)
        else:
            after = parse_trim_option(argv, index, option, request.trim)
            if after == index:
                break
            index = after
    if index >= len(argv):
        raise wrong_arity("xadd")
    try:
        request.id = ids.parse_request(argv[index])
    except ids.IdError as error:
        raise CommandError(str(error)) from None
    if request.is_idmp and request.id.kind != ids.AUTO:
        raise CommandError(
            "ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"
        )
    check_trim(request.trim, default_limit)
    request.fields_at = index + 1
    fields = len(argv) - request.fields_at
    if fields < 2 or fields % 2:
        raise wrong_arity("xadd")
    return request


# -- XADD


def xadd(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XADD: chooses an ID (S4), issues an add, and trims.

    Returns the ID, or null if the key does not exist and NOMKSTREAM is given.
    """
    if argv[2] == b"*" and len(argv) % 2 == 1:
        request = None
        fields_at = 3
    else:
        request = _parse_add(argv, DEFAULT_TRIM_LIMIT_NODES * state.keyspace.limits.max_entries)
        fields_at = request.fields_at
    key = argv[1]
    stream = state.existing(key)
    if request is not None:
        if stream is None and not request.creates_key:
            if (
                request.id.kind in (ids.FULL, ids.MS_ONLY)
                and request.id.ms == 0
                and request.id.seq == 0
            ):
                raise CommandError(ids.ERR_ZERO)
            return None
        if request.is_idmp:
            return _add_idempotent(state, request, stream, argv)
    state.writer.require_issue()
    now_ms = state.clock.now_ms
    if now_ms < state.stability.time.id_floor_ms:
        now_ms = state.stability.time.id_floor_ms
    ms, seq = _choose_id(state, stream, ids.ANY if request is None else request.id, now_ms)
    if stream is None:
        stream = state.writer.for_creation(key)
    if state.schedule.oldest_unsaved_ms == 0:
        state.schedule.oldest_unsaved_ms = state.clock.steady_ms
    names = encode_names(argv[fields_at::2])
    state.journal.add(stream, ms, seq, names, encode_values(argv[fields_at + 1 :: 2]))
    run = state.writer.run
    if request is None:
        if not state.waiting.is_executing:
            run.begin(stream, names, ms, seq, argv, fields_at + 1)
    else:
        if request.id.kind != ids.AUTO:
            state.stability.time.note_given(ids.make(ms, seq))
        if request.trim.strategy:
            trim(state, stream, request.trim)
            if request.id.kind == ids.AUTO and not state.waiting.is_executing:
                room = room_before_trim(stream, request.trim)
                run.begin(stream, names, ms, seq, argv, fields_at + 1, room)
    return b"%d-%d" % (ms, seq)


def add_elsewhere(
    state: EngineState, names: bytes, keys: list[bytes], data: bytes, ends: list[int]
) -> list[bytes]:
    """XADDs with `*` that a client sent one right after the other, with the same field names.

    `data` holds their values, encoded; those of each end at one of `ends`. `require_issue` was
    called for the add before them. Returns the replies of those before the first whose key must be
    made, or which is refused.
    """
    now_ms = max(state.clock.now_ms, state.stability.time.id_floor_ms)
    replies: list[bytes] = []
    begin = 0
    for key, end in zip(keys, ends, strict=True):
        stream = state.existing(key)
        if stream is None:
            break
        try:
            ms, seq = _choose_id(state, stream, ids.ANY, now_ms)
        except CommandError:
            break
        state.journal.add(stream, ms, seq, names, data[begin:end])
        replies.append(b"%d-%d" % (ms, seq))
        begin = end
    return replies


def _choose_id(
    state: EngineState, stream: Optional[Stream], wanted: ids.IdRequest, now_ms: int
) -> tuple[int, int]:
    """The halves of the ID of a new entry (S4). Raises `CommandError`."""
    try:
        if wanted.kind == ids.AUTO:
            last_ms, last_seq = (0, 0) if stream is None else stream.last_halves()
            return ids.generate_halves(state.members.region_id, last_ms, last_seq, now_ms)
        last_id = 0 if stream is None else stream.last_id()
        new_id = ids.choose(wanted, state.cached.id_mode, state.members.region_id, last_id, now_ms)
    except ids.IdError as error:
        raise CommandError(str(error)) from None
    return ids.ms_of(new_id), ids.seq_of(new_id)


def _add_idempotent(
    state: EngineState, request: AddRequest, stream: Optional[Stream], argv: list[bytes]
) -> Reply:
    """XADD … IDMP | IDMPAUTO (S9).

    If the pair still answers retries here (S9.1), the reply is the first entry's ID, and nothing
    changes.
    """
    fields = argv[request.fields_at :]
    iid = automatic_iid(fields) if request.is_idmp_auto else request.iid
    if stream is not None and stream.rare is not None:
        duration_s = configuration(state, stream)[0]
        pair = stream.pairs.answer(request.pid, iid, state.clock.now_ms, duration_s * 1000)
        if pair is not None:
            stream.iids_duplicates += 1
            state.keyspace.touch_local(stream)
            return ids.format_id(pair.entry_id)
    state.writer.require_issue()
    now_ms = max(state.clock.now_ms, state.stability.time.id_floor_ms)
    ms, seq = _choose_id(state, stream, request.id, now_ms)
    if stream is None:
        stream = state.writer.for_creation(argv[1])
    state.schedule.note_unsaved(state.clock.steady_ms)
    names = encode_names(fields[::2])
    values = encode_values(fields[1::2])
    state.journal.add_idempotent(stream, ms, seq, names, values, request.pid, iid)
    room = ROOM_MAX
    if request.trim.strategy:
        trim(state, stream, request.trim)
        room = room_before_trim(stream, request.trim)
    if not state.waiting.is_executing:
        run = state.writer.run
        run.begin(stream, names, ms, seq, argv, request.fields_at + 1, room)
        run.with_pairs(request.pid, request.iid_at)
    return b"%d-%d" % (ms, seq)


# -- XDEL and XSETID


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
    if new_id < stream.last_id():
        raise CommandError(
            "ERR The ID specified in XSETID is smaller than the target stream top item"
        )
    if 0 <= entries_added < stream.length():
        raise CommandError(
            "ERR The entries_added specified in XSETID is smaller than the target stream length"
        )
    if new_id > stream.last_id() or not stream.has_header():
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
        "xadd",
        -5,
        "write denyoom fast",
        xadd,
        "Appends an entry to a stream.",
        key_flags="RW update",
        keys=(1, 1, 1),
        reply="bulk string",
        since="5.0.0",
        syntax="key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMP pid iid | IDMPAUTO pid] "
        "[MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value [field value ...]",
    ),
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
