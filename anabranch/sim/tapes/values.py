"""Replies, effects and calls as bytes.

A call holds what the twin needs: which fields follow depends on its kind. Settings are written only
when they have changed since the former call.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.block import Block
from anabranch.crdt.effect_bytes import put_effect, read_effect
from anabranch.crdt.encoding import Malformed, Reader, put_bytes, put_varint, put_vector
from anabranch.region.engine.replies import (
    NO_REPLY,
    NULL_ARRAY,
    REPLY_LATER,
    AddedIds,
    EntriesReply,
    ErrorReply,
    MapReply,
    NoReply,
    NullArray,
    PendingReply,
    Reply,
    ReplyLater,
    SetReply,
    SimpleString,
    VerbatimText,
    listed,
)
from anabranch.region.engine.setting import Value
from anabranch.sim import calls
from anabranch.sim.calls import Call, EngineFacts, Following, Issued, RowFacts
from anabranch.sim.tapes.passwords import without_password, without_passwords

_KINDS: Final = (
    calls.START,
    calls.EXECUTE,
    calls.MERGE,
    calls.JOIN,
    calls.TICK,
    calls.COMMIT,
    calls.COMMITTED,
    calls.CUT,
    calls.HEAR,
    calls.DISCONNECT,
    calls.REFUSED,
    calls.OTHER,
)
_STATES: Final = ("starting", "serving", "recovery", "lost", "apart")
_ROWS: Final = ("block", "records", "snapshot", "clock")
# The settings on which replies and effects depend.
SETTINGS: Final = (
    "stream-idmp-duration",
    "stream-idmp-maxsize",
    "crdt-idmp-retired-max",
    "crdt-uncommitted-max-bytes",
    "crdt-unit-max-bytes",
    "crdt-xadd-id-uniqueness-mode",
    "crdt-expiry-grace-ms",
)


# -- plain values


def put_int(out: bytearray, value: int) -> None:
    """A signed number."""
    put_varint(out, (value << 1) if value >= 0 else (~value << 1) | 1)


def read_int(reader: Reader) -> int:
    number = reader.varint()
    return ~(number >> 1) if number & 1 else number >> 1


def _put_text(out: bytearray, text: str) -> None:
    put_bytes(out, text.encode())


def _read_text(reader: Reader) -> str:
    return reader.bytes_().decode()


def put_words(out: bytearray, words: tuple[bytes, ...]) -> None:
    """The words of a command."""
    put_varint(out, len(words))
    for word in words:
        put_bytes(out, word)


def read_words(reader: Reader) -> tuple[bytes, ...]:
    return tuple([reader.bytes_() for _ in range(reader.count())])


# -- replies

_NONE, _INT, _BYTES, _LIST, _SIMPLE, _ERROR, _NULL, _MAP, _SET, _TEXT, _LATER, _SILENT = range(12)
_FLOAT, _BOOL, _IDS = 12, 13, 14


def put_reply(out: bytearray, reply: Reply) -> None:
    """Appends a reply."""
    if reply is None:
        out.append(_NONE)
    elif isinstance(reply, bool):
        out += bytes((_BOOL, reply))
    elif isinstance(reply, int):
        out.append(_INT)
        put_int(out, reply)
    elif isinstance(reply, bytes):
        out.append(_BYTES)
        put_bytes(out, reply)
    elif isinstance(reply, float):
        out.append(_FLOAT)
        _put_text(out, repr(reply))
    elif isinstance(reply, (SimpleString, VerbatimText)):
        out.append(_SIMPLE if isinstance(reply, SimpleString) else _TEXT)
        put_bytes(out, reply.text)
    elif isinstance(reply, ErrorReply):
        out.append(_ERROR)
        _put_text(out, reply.message)
    elif isinstance(reply, (NullArray, ReplyLater, NoReply)):
        kinds = {NullArray: _NULL, ReplyLater: _LATER, NoReply: _SILENT}
        out.append(kinds[type(reply)])
    elif isinstance(reply, (EntriesReply, PendingReply)):
        put_reply(out, listed(reply))
    elif isinstance(reply, AddedIds):
        out.append(_IDS)
        for number in (reply.ms, reply.first_seq, reply.count):
            put_varint(out, number)
    else:
        _put_many(out, reply)


def _put_many(out: bytearray, reply: MapReply | SetReply | list[Reply]) -> None:
    if isinstance(reply, MapReply):
        out.append(_MAP)
        items = reply.flat
    elif isinstance(reply, SetReply):
        out.append(_SET)
        items = reply.items
    else:
        out.append(_LIST)
        items = reply
    put_varint(out, len(items))
    for item in items:
        put_reply(out, item)


def read_reply(reader: Reader) -> Reply:
    """Reads what `put_reply` wrote."""
    kind = reader.varint()
    if kind in (_LIST, _MAP, _SET):
        items = [read_reply(reader) for _ in range(reader.count())]
        if kind == _LIST:
            return items
        return MapReply(items) if kind == _MAP else SetReply(items)
    if kind == _INT:
        return read_int(reader)
    if kind in (_BYTES, _SIMPLE, _TEXT):
        data = reader.bytes_()
        if kind == _BYTES:
            return data
        return SimpleString(data) if kind == _SIMPLE else VerbatimText(data)
    if kind == _ERROR:
        return ErrorReply(_read_text(reader))
    if kind == _FLOAT:
        return float(_read_text(reader))
    if kind == _BOOL:
        return reader.varint() == 1
    if kind == _IDS:
        ms, first_seq, count = [reader.varint() for _ in range(3)]
        return AddedIds(ms, first_seq, count)
    plain: dict[int, Reply] = {_NONE: None, _NULL: NULL_ARRAY, _LATER: REPLY_LATER}
    plain[_SILENT] = NO_REPLY
    if kind not in plain:
        raise Malformed("a reply of an unknown kind")
    return plain[kind]


# -- calls


def put_facts(out: bytearray, facts: EngineFacts) -> None:
    """Appends the facts about a region after a call."""
    put_vector(out, facts.vector)
    for number in (facts.position, facts.is_open, facts.clock_ms, facts.steady_ms):
        put_varint(out, int(number))
    put_varint(out, facts.floor_ms)
    put_varint(out, _STATES.index(facts.state))
    _put_text(out, facts.error)
    put_varint(out, facts.pending_bytes)
    put_varint(out, len(facts.members))
    for region in facts.members:
        put_varint(out, region)


def read_facts(reader: Reader) -> EngineFacts:
    """Reads what `put_facts` wrote."""
    vector = reader.vector()
    position, is_open, clock_ms, steady_ms = [reader.varint() for _ in range(4)]
    floor_ms = reader.varint()
    state = _STATES[reader.varint()]
    error, pending_bytes = _read_text(reader), reader.varint()
    members = tuple(reader.varint() for _ in range(reader.varint()))
    times = (clock_ms, steady_ms, floor_ms)
    return EngineFacts(vector, position, is_open == 1, *times, state, error, pending_bytes, members)


def put_issued(out: bytearray, issued: list[Issued]) -> None:
    """Appends effects with their counters."""
    put_varint(out, len(issued))
    for counter, effect in issued:
        put_varint(out, counter)
        put_effect(out, effect)


def read_issued(reader: Reader) -> list[Issued]:
    """Reads what `put_issued` wrote."""
    found: list[Issued] = []
    for _ in range(reader.count()):
        counter = reader.varint()
        found.append((counter, read_effect(reader, counter)))
    return found


class CallWriter:
    """Writes the calls of one region, one after the other."""

    def __init__(self) -> None:
        self._settings: dict[str, Value] = {}

    def put(self, out: bytearray, call: Call) -> None:
        """Appends a call."""
        out.append(_KINDS.index(call.kind))
        put_varint(out, call.now_ms)
        put_facts(out, call.facts)
        put_issued(out, call.issued)
        put_varint(out, len(call.rows))
        for row in call.rows:
            put_varint(out, _ROWS.index(row.kind))
            for number in (row.position, row.origin, row.first, row.last):
                put_varint(out, number)
        put_varint(out, len(call.late))
        for session, reply in call.late:
            put_varint(out, session)
            put_reply(out, without_password(reply))
        self._put_settings(out, call)
        _put_rest(out, call)

    def _put_settings(self, out: bytearray, call: Call) -> None:
        values = {name: call.settings[name] for name in SETTINGS}
        changed = [] if values == self._settings else list(SETTINGS)
        self._settings = values
        put_varint(out, len(changed))
        for name in changed:
            value = values[name]
            put_varint(out, isinstance(value, int))
            _put_text(out, str(value))


def _put_rest(out: bytearray, call: Call) -> None:
    if call.kind in (calls.EXECUTE, calls.DISCONNECT):
        put_varint(out, call.session)
        put_words(out, without_passwords(call.argv))
        _put_following(out, call.following)
        put_varint(out, len(call.replies))
        for reply in call.replies:
            put_reply(out, without_password(reply))
    elif call.kind == calls.MERGE:
        put_varint(out, call.source)
        put_varint(out, call.is_taken)
        put_varint(out, len(call.blocks))
        for block in call.blocks:
            for number in (block.origin, block.first, block.last):
                put_varint(out, number)
            put_bytes(out, block.body)
            put_bytes(out, block.chain)
    elif call.kind in (calls.JOIN, calls.CUT):
        put_varint(out, call.source)
        put_varint(out, call.is_taken)
        put_varint(out, call.cut)
    elif call.kind in (calls.COMMIT, calls.START):
        put_int(out, -1 if call.position is None else call.position)


def _put_following(out: bytearray, following: Optional[Following]) -> None:
    """The commands of a batch after the first one; 0 without any."""
    put_varint(out, following.count if following is not None else 0)
    if following is None:
        return
    _put_text(out, following.shape)
    for number in (following.word, following.first_value, following.as_entries):
        put_varint(out, int(number))
    put_words(out, tuple(following.words))
    put_bytes(out, following.data)
    put_varint(out, len(following.ends))
    for end in following.ends:
        put_varint(out, end)


def _read_following(reader: Reader) -> Optional[Following]:
    count = reader.varint()
    if not count:
        return None
    shape = _read_text(reader)
    word, first_value, as_entries = [reader.varint() for _ in range(3)]
    words, data = list(read_words(reader)), reader.bytes_()
    ends = [reader.varint() for _ in range(reader.count())]
    return Following(shape, count, word, first_value, as_entries == 1, words, data, ends)


class CallReader:
    """Reads the calls of one region."""

    def __init__(self, region: int) -> None:
        self._region: Final = region
        self._settings: dict[str, Value] = {}

    def read(self, reader: Reader) -> Call:
        """The next call."""
        kind = _KINDS[reader.varint()]
        now_ms = reader.varint()
        facts = read_facts(reader)
        issued = read_issued(reader)
        rows: list[RowFacts] = []
        for _ in range(reader.count()):
            row_kind = _ROWS[reader.varint()]
            position, origin, first, last = [reader.varint() for _ in range(4)]
            rows.append(RowFacts(position, row_kind, origin, first, last))
        late: list[tuple[int, Reply]] = []
        for _ in range(reader.count()):
            session = reader.varint()
            late.append((session, read_reply(reader)))
        self._read_settings(reader)
        call = Call(self._region, kind, now_ms, facts, issued, rows, late, self._settings)
        call.at_ms = now_ms or facts.clock_ms
        _read_rest(reader, call)
        return call

    def _read_settings(self, reader: Reader) -> None:
        if reader.varint():
            values: dict[str, Value] = {}
            for name in SETTINGS:
                is_number = reader.varint()
                text = _read_text(reader)
                values[name] = int(text) if is_number else text
            self._settings = values


def _read_rest(reader: Reader, call: Call) -> None:
    if call.kind in (calls.EXECUTE, calls.DISCONNECT):
        call.session = reader.varint()
        call.argv = read_words(reader)
        call.following = _read_following(reader)
        call.replies = [read_reply(reader) for _ in range(reader.count())]
    elif call.kind == calls.MERGE:
        call.source = reader.varint()
        call.is_taken = reader.varint() == 1
        for _ in range(reader.count()):
            origin, first, last = [reader.varint() for _ in range(3)]
            body = reader.bytes_()
            call.blocks.append(Block(origin, first, last, body, reader.bytes_()))
    elif call.kind in (calls.JOIN, calls.CUT):
        call.source = reader.varint()
        call.is_taken = reader.varint() == 1
        call.cut = reader.varint()
    elif call.kind in (calls.COMMIT, calls.START):
        position = read_int(reader)
        call.position = None if position < 0 else position
