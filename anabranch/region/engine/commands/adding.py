"""XADD (S4, S9), and batches of it."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import ids
from anabranch.crdt.adds import ROOM_MAX
from anabranch.crdt.node import encode_names, encode_values
from anabranch.crdt.pair import automatic_iid
from anabranch.crdt.stream import Stream
from anabranch.region.engine.adds import FOLLOWING_MAX, follow, follow_idempotent, may_go_elsewhere
from anabranch.region.engine.batch import Packed, Places, Shape
from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, wrong_arity
from anabranch.region.engine.commands.trimming import (
    DEFAULT_TRIM_LIMIT_NODES,
    TrimRequest,
    check_trim,
    parse_trim_option,
    room_before_trim,
    trim,
)
from anabranch.region.engine.idempotency import configuration
from anabranch.region.engine.replies import CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command, Kind


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


def _request(state: EngineState, argv: list[bytes]) -> Optional[AddRequest]:
    """The options of an XADD; None for a plain one: no options, and `*` for its ID."""
    if argv[2] == b"*" and len(argv) % 2 == 1:
        return None
    return _parse_add(argv, DEFAULT_TRIM_LIMIT_NODES * state.keyspace.limits.max_entries)


def xadd(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XADD: chooses an ID (S4), issues an add, and trims.

    Returns the ID, or null if the key does not exist and NOMKSTREAM is given.
    """
    return _add(state, argv, _request(state, argv))[0]


def _add(
    state: EngineState, argv: list[bytes], request: Optional[AddRequest]
) -> tuple[Reply, Optional[Stream], bytes, int, int]:
    """Executes an XADD with these options.

    Returns the reply. If there is a new entry, its stream, encoded field names, ms and seq follow;
    otherwise None, an empty text, 0 and 0.
    """
    stream = state.existing(argv[1])
    fields_at = 3
    iid = b""
    if request is not None:
        if stream is None and not request.creates_key:
            if request.id.is_zero():
                raise CommandError(ids.ERR_ZERO)
            return None, None, b"", 0, 0
        fields_at = request.fields_at
        if request.is_idmp:
            iid = automatic_iid(argv[fields_at:]) if request.is_idmp_auto else request.iid
            answer = _known_pair(state, stream, request.pid, iid)
            if answer:
                return answer, None, b"", 0, 0
    state.writer.require_issue()
    now_ms = state.clock.now_ms
    if now_ms < state.stability.time.id_floor_ms:
        now_ms = state.stability.time.id_floor_ms
    ms, seq = _choose_id(state, stream, ids.ANY if request is None else request.id, now_ms)
    if stream is None:
        stream = state.writer.for_creation(argv[1])
    if state.schedule.oldest_unsaved_ms == 0:
        state.schedule.oldest_unsaved_ms = state.clock.steady_ms
    names = encode_names(argv[fields_at::2])
    values = encode_values(argv[fields_at + 1 :: 2])
    if not iid:
        state.journal.add(stream, ms, seq, names, values)
    else:
        assert request is not None
        state.journal.add_idempotent(stream, ms, seq, names, values, request.pid, iid)
    if request is not None:
        if request.id.kind != ids.AUTO:
            state.stability.time.note_given(ids.make(ms, seq))
        if request.trim.strategy:
            trim(state, stream, request.trim)
    return b"%d-%d" % (ms, seq), stream, names, ms, seq


def _known_pair(state: EngineState, stream: Optional[Stream], pid: bytes, iid: bytes) -> bytes:
    """The first entry's ID, if the pair still answers retries here (S9.1); otherwise empty."""
    if stream is None or stream.rare is None:
        return b""
    duration_s = configuration(state, stream)[0]
    pair = stream.pairs.answer(pid, iid, state.clock.now_ms, duration_s * 1000)
    if pair is None:
        return b""
    stream.iids_duplicates += 1
    state.keyspace.touch_local(stream)
    return ids.format_id(pair.entry_id)


def _choose_id(
    state: EngineState, stream: Optional[Stream], wanted: ids.IdRequest, now_ms: int
) -> tuple[int, int]:
    """The halves of the ID of a new entry (S4). Raises `CommandError`."""
    try:
        if wanted.kind == ids.AUTO:
            last_ms, last_seq = (0, 0) if stream is None else stream.header.last_halves()
            return ids.generate_halves(state.members.region_id, last_ms, last_seq, now_ms)
        last_id = 0 if stream is None else stream.header.last_id()
        new_id = ids.choose(wanted, state.cached.id_mode, state.members.region_id, last_id, now_ms)
    except ids.IdError as error:
        raise CommandError(str(error)) from None
    return ids.ms_of(new_id), ids.seq_of(new_id)


# -- batches of XADD


_PLAIN_RUN: Final = Places(0, 4, as_entries=True)
_ELSEWHERE: Final = Places(1, 4)


def _parsed_for_batch(argv: list[bytes]) -> Optional[AddRequest]:
    """The options of an XADD that others may follow in a batch; None if none may.

    The ID of such an XADD is `*`.
    """
    try:
        request = _parse_add(argv, 0)
    except CommandError:
        return None
    return request if request.id.kind == ids.AUTO else None


def _is_plain(argv: list[bytes]) -> bool:
    return len(argv) % 2 == 1 and argv[2] == b"*"


def _run_places(argv: list[bytes]) -> Optional[Places]:
    """The places of a run of plain adds."""
    if _is_plain(argv):
        return _PLAIN_RUN
    request = _parsed_for_batch(argv)
    if request is None or request.is_idmp:
        return None
    return Places(0, request.fields_at + 1, as_entries=True)


def _idempotent_places(argv: list[bytes]) -> Optional[Places]:
    """The places of a run of idempotent adds."""
    request = None if _is_plain(argv) else _parsed_for_batch(argv)
    if request is None or not request.is_idmp:
        return None
    return Places(request.iid_at, request.fields_at + 1, as_entries=True)


def _elsewhere_places(argv: list[bytes]) -> Optional[Places]:
    """The places of adds to several keys, which have no options."""
    return _ELSEWHERE if _is_plain(argv) else None


def _xadd_run(
    state: EngineState, session: Session, argv: list[bytes], packed: Packed
) -> tuple[list[Reply], int]:
    """An XADD with a run of adds, plain or idempotent."""
    request = _request(state, argv)
    reply, stream, names, ms, seq = _add(state, argv, request)
    if stream is None:
        return [reply], 1
    room = ROOM_MAX
    if request is not None and request.trim.strategy:
        room = room_before_trim(stream, request.trim)
    if request is not None and request.is_idmp:
        added = follow_idempotent(state, stream, names, ms, seq, room, request.pid, packed)
    else:
        added = follow(state, stream, names, ms, seq, room, packed)
    return ([reply, added], 1 + added.count) if added.count else ([reply], 1)


def _xadd_elsewhere(
    state: EngineState, session: Session, argv: list[bytes], packed: Packed
) -> tuple[list[Reply], int]:
    """A plain XADD with some to other keys, up to the first that makes its key or is refused."""
    reply, stream, names, _, _ = _add(state, argv, None)
    replies = [reply]
    if stream is None or not may_go_elsewhere(state, packed):
        return replies, 1
    # The first add may have cleared its key, and a mark tells of that command.
    state.journal.begin_command(b"xadd")
    now_ms = max(state.clock.now_ms, state.stability.time.id_floor_ms)
    begin = 0
    for key, end in zip(packed.words, packed.ends, strict=True):
        stream = state.existing(key)
        if stream is None:
            break
        try:
            ms, seq = _choose_id(state, stream, ids.ANY, now_ms)
        except CommandError:
            break
        state.journal.add(stream, ms, seq, names, packed.data[begin:end])
        replies.append(b"%d-%d" % (ms, seq))
        begin = end
    return replies, len(replies)


# -- XDEL and XSETID


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
        many=[
            Kind(Shape("adds", _run_places, FOLLOWING_MAX), _xadd_run),
            Kind(Shape("idempotent adds", _idempotent_places, FOLLOWING_MAX), _xadd_run),
            Kind(Shape("adds to several keys", _elsewhere_places, FOLLOWING_MAX), _xadd_elsewhere),
        ],
    )
]
