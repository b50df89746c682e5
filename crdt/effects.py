"""Effects: the replicated form of writes (S1), and their bytes.

An effect's dot is (origin of its block, counter). Counters run on through a block, so the bytes
leave them out. A vector inside an effect covers everything that its region has applied before it.
"""

from __future__ import annotations

from typing import Final, Optional, Union

from librt.strings import BytesWriter
from mypy_extensions import mypyc_attr

from anabranch.crdt.adds import IdempotentAdds
from anabranch.crdt.encoding import (
    Malformed,
    Reader,
    put_bytes,
    put_dots,
    put_id,
    put_varint,
    put_vector,
    with_length,
    write_bytes,
    write_varint,
    write_vector,
)
from anabranch.crdt.ids import SEQ_STRIDE
from anabranch.crdt.node import check_entries, check_fields
from anabranch.crdt.place import Place, at_counters, at_id
from anabranch.crdt.scan import Scan
from anabranch.crdt.spans import SpansByRegion, put_spans_by_region, read_spans_by_region
from anabranch.crdt.vector import Dot, Vector

ADD_RUN: Final = 1
ADD_IDEMPOTENT: Final = 2
REMOVE_ENTRIES: Final = 3
TRIM: Final = 4
DELETE: Final = 5
FLUSH: Final = 6
SET_ID: Final = 7
CREATE_GROUP: Final = 8
DESTROY_GROUP: Final = 9
ACKNOWLEDGE: Final = 10
SET_DEADLINE: Final = 11
REMOVE_OBSERVED: Final = 12
CONFIGURE: Final = 13


@mypyc_attr(acyclic=True)
class AddRun:
    """Consecutive adds of one region to one key; each add has its own dot.

    `data` has the layout of a packed node (`crdt/node.py`); `base_counter` is the counter before
    the first add. Raises ValueError if `data` is malformed, and its subclass Malformed if the run
    is empty, has deleted entries or leaves counters out.
    """

    def __init__(self, key: bytes, names: bytes, data: bytes, base_counter: int) -> None:
        self.key = key
        self.names = names
        self.data = data
        self.base_counter = base_counter
        count, deleted, ms, seq, counter = check_entries(names, data, base_counter)
        if count == 0 or deleted or counter != base_counter + count:
            raise Malformed("a run of adds is empty, has deleted entries or leaves counters out")
        self.count = count
        self.last_ms = ms
        self.last_seq = seq

    def first_id(self) -> int:
        """The ID of the first add, which is the lowest one."""
        scan = Scan(self.data, self.base_counter)
        scan.step()
        return scan.id()


@mypyc_attr(acyclic=True)
class AddIdempotent:
    """`XADD … IDMP pid iid` (S9): an add with its pair.

    `recorded_ms` is the time at which the adder recorded the pair; `vector` covers the effects that
    the adder had applied before it.
    """

    def __init__(
        self,
        key: bytes,
        entry_id: int,
        names: bytes,
        values: bytes,
        pid: bytes,
        iid: bytes,
        recorded_ms: int,
        vector: Vector,
    ) -> None:
        self.key = key
        self.entry_id = entry_id
        self.names = names
        self.values = values
        self.pid = pid
        self.iid = iid
        self.recorded_ms = recorded_ms
        self.vector = vector


class RemoveEntries:
    """XDEL (S5.1): removes the entries with the dots observed."""

    def __init__(self, key: bytes, dots: list[Dot]) -> None:
        self.key = key
        self.dots = dots


class Trim:
    """XTRIM (S5.2): removes a prefix of each region log.

    `prefix` maps region_id → highest counter removed; `drops_references` is the flag DELREF.
    """

    def __init__(self, key: bytes, prefix: Vector, drops_references: bool) -> None:
        self.key = key
        self.prefix = prefix
        self.drops_references = drops_references


class Delete:
    """DEL (S5.4): observed-remove of the contents, delete-wins for the groups."""

    def __init__(self, key: bytes, vector: Vector) -> None:
        self.key = key
        self.vector = vector


class Flush:
    """FLUSHALL (S5.4): as Delete, for every key, including keys that this region does not know."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector


class SetId:
    """XSETID: a new last ID in the header (S3.2)."""

    def __init__(self, key: bytes, entry_id: int) -> None:
        self.key = key
        self.entry_id = entry_id


class CreateGroup:
    """XGROUP CREATE (S6): one create.

    The group starts at `start_id`, or, with `starts_at_vector` (`$`), at `vector`, which covers the
    effects that the creator had applied.
    """

    def __init__(
        self, key: bytes, group: bytes, start_id: int, starts_at_vector: bool, vector: Vector
    ) -> None:
        self.key = key
        self.group = group
        self.start_id = start_id
        self.starts_at_vector = starts_at_vector
        self.vector = vector

    def start(self) -> Place:
        return at_counters(self.vector) if self.starts_at_vector else at_id(self.start_id)


class DestroyGroup:
    """XGROUP DESTROY (S6.1)."""

    def __init__(self, key: bytes, group: bytes) -> None:
        self.key = key
        self.group = group


class Acknowledge:
    """Coalesced acknowledgements (S8.1): spans per region log.

    `creates` are the dots of the live creates that the issuer saw.
    """

    def __init__(self, key: bytes, group: bytes, creates: list[Dot], spans: SpansByRegion) -> None:
        self.key = key
        self.group = group
        self.creates = creates
        self.spans = spans


class SetDeadline:
    """EXPIRE, PERSIST (S10.2): a deadline that replaces those it saw (the dots in `replaces`).

    `at_ms` is in ms since the epoch, or `stream.NEVER`.
    """

    def __init__(self, key: bytes, at_ms: int, replaces: list[Dot]) -> None:
        self.key = key
        self.at_ms = at_ms
        self.replaces = replaces


class RemoveObserved:
    """Observed-remove of a whole key, without delete-wins.

    Three rules issue it: the removal by expiry (S10.3), the removal before a write that creates the
    key (S10.5), and the removal of leftover deadlines and configurations (S10.6).
    """

    def __init__(self, key: bytes, vector: Vector, with_deadlines: bool) -> None:
        self.key = key
        self.vector = vector
        self.with_deadlines = with_deadlines


class Configure:
    """XCFGSET (S9.4): a configuration that replaces those it saw (the dots in `replaces`).

    It clears the pairs that `vector` covers.
    """

    def __init__(
        self, key: bytes, duration_s: int, maxsize: int, replaces: list[Dot], vector: Vector
    ) -> None:
        self.key = key
        self.duration_s = duration_s
        self.maxsize = maxsize
        self.replaces = replaces
        self.vector = vector


Effect = Union[
    AddRun,
    AddIdempotent,
    RemoveEntries,
    Trim,
    Delete,
    Flush,
    SetId,
    CreateGroup,
    DestroyGroup,
    Acknowledge,
    SetDeadline,
    RemoveObserved,
    Configure,
]


def dots_of(effect: Effect) -> int:
    """Returns the number of dots that the effect has."""
    return effect.count if isinstance(effect, AddRun) else 1


def key_of(effect: Effect) -> Optional[bytes]:
    """Returns the key that the effect changes; None if it changes every key."""
    return None if isinstance(effect, Flush) else effect.key


def usual_command(effect: Effect) -> bytes:
    """Returns the command that effects of this kind usually come from, as the table names it.

    A block marks an effect of another command. The result is empty for effects that a region issues
    by itself: announcements (S8.1), and removals by expiry and of leftovers (S10.3, S10.6).
    """
    return _USUAL_COMMANDS.get(type(effect), b"")


_USUAL_COMMANDS: Final[dict[type, bytes]] = {
    AddRun: b"xadd",
    AddIdempotent: b"xadd",
    RemoveEntries: b"xdel",
    Trim: b"xtrim",
    Delete: b"del",
    Flush: b"flushall",
    SetId: b"xsetid",
    CreateGroup: b"xgroup|create",
    DestroyGroup: b"xgroup|destroy",
    SetDeadline: b"expire",
    Configure: b"xcfgset",
}


def put_effect(out: bytearray, effect: Effect) -> None:
    """Appends the bytes of one effect to `out`; the branches are in the order of the kinds."""
    if isinstance(effect, AddRun):
        put_run(out, effect.key, effect.names, effect.data)
    elif isinstance(effect, AddIdempotent):
        _head(out, ADD_IDEMPOTENT, effect.key)
        put_id(out, effect.entry_id)
        put_bytes(out, effect.names)
        put_bytes(out, effect.values)
        put_bytes(out, effect.pid)
        put_bytes(out, effect.iid)
        put_varint(out, effect.recorded_ms)
        put_vector(out, effect.vector)
    elif isinstance(effect, RemoveEntries):
        _head(out, REMOVE_ENTRIES, effect.key)
        put_dots(out, effect.dots)
    elif isinstance(effect, Trim):
        _head(out, TRIM, effect.key)
        put_vector(out, effect.prefix)
        out.append(1 if effect.drops_references else 0)
    elif isinstance(effect, Delete):
        _head(out, DELETE, effect.key)
        put_vector(out, effect.vector)
    elif isinstance(effect, Flush):
        out.append(FLUSH)
        put_vector(out, effect.vector)
    elif isinstance(effect, SetId):
        _head(out, SET_ID, effect.key)
        put_id(out, effect.entry_id)
    else:
        _put_rare(out, effect)


def _put_rare(
    out: bytearray,
    effect: CreateGroup | DestroyGroup | Acknowledge | SetDeadline | RemoveObserved | Configure,
) -> None:
    if isinstance(effect, CreateGroup):
        _head(out, CREATE_GROUP, effect.key)
        put_bytes(out, effect.group)
        out.append(1 if effect.starts_at_vector else 0)
        put_id(out, effect.start_id)
        put_vector(out, effect.vector)
    elif isinstance(effect, DestroyGroup):
        _head(out, DESTROY_GROUP, effect.key)
        put_bytes(out, effect.group)
    elif isinstance(effect, Acknowledge):
        _head(out, ACKNOWLEDGE, effect.key)
        put_bytes(out, effect.group)
        put_dots(out, effect.creates)
        put_spans_by_region(out, effect.spans)
    elif isinstance(effect, SetDeadline):
        _head(out, SET_DEADLINE, effect.key)
        put_varint(out, effect.at_ms)
        put_dots(out, effect.replaces)
    elif isinstance(effect, RemoveObserved):
        _head(out, REMOVE_OBSERVED, effect.key)
        put_vector(out, effect.vector)
        out.append(1 if effect.with_deadlines else 0)
    else:
        _head(out, CONFIGURE, effect.key)
        put_varint(out, effect.duration_s)
        put_varint(out, effect.maxsize)
        put_dots(out, effect.replaces)
        put_vector(out, effect.vector)


def _head(out: bytearray, kind: int, key: bytes) -> None:
    out.append(kind)
    put_bytes(out, key)


def put_run(out: bytearray, key: bytes, names: bytes, data: bytes) -> None:
    writer = BytesWriter()
    write_run(writer, key, names, data)
    out += writer.getvalue()


def write_run(out: BytesWriter, key: bytes, names: bytes, data: bytes) -> None:
    out.append(ADD_RUN)
    write_bytes(out, key)
    write_bytes(out, names)
    write_bytes(out, data)


def write_idempotent_adds(
    out: BytesWriter, key: bytes, adds: IdempotentAdds, recorded_ms: int, dot: Dot, vector: Vector
) -> None:
    """Writes an `AddIdempotent` for each of some adds, as `put_effect` writes one.

    All are recorded at `recorded_ms`. `dot` is that of the first, and `vector` covers all that was
    applied before the first; the vector of each covers those before it, too.
    """
    region_id, counter = dot
    head = BytesWriter()
    head.append(ADD_IDEMPOTENT)
    write_bytes(head, key)
    write_varint(head, adds.ms)
    before_id, names, pid = head.getvalue(), with_length(adds.names), with_length(adds.pid)
    below, above = _around(vector, region_id)
    seq = adds.seq
    for payload, iid in zip(adds.payloads(), adds.iids, strict=True):
        out.write(before_id)
        write_varint(out, seq)
        out.write(names)
        out.write(payload)
        out.write(pid)
        write_bytes(out, iid)
        write_varint(out, recorded_ms)
        if counter > 1:
            out.write(below)
            write_varint(out, counter - 1)
            out.write(above)
        else:
            # Nothing of this region was applied before it.
            write_vector(out, vector)
        seq += SEQ_STRIDE
        counter += 1


def _around(vector: Vector, region_id: int) -> tuple[bytes, bytes]:
    """The bytes of a vector before and after the counter of a region, which is above 0."""
    lower, higher = bytearray(), bytearray()
    put_varint(lower, len(vector) + (region_id not in vector))
    for other in sorted(vector):
        if other < region_id:
            put_varint(lower, other)
            put_varint(lower, vector[other])
        elif other > region_id:
            put_varint(higher, other)
            put_varint(higher, vector[other])
    put_varint(lower, region_id)
    return bytes(lower), bytes(higher)


def read_effect(reader: Reader, counter: int) -> Effect:
    """Reads one effect, whose (first) counter is `counter`; raises Malformed if it is not valid."""
    kind = reader.varint()
    if kind == FLUSH:
        return Flush(reader.vector())
    key = reader.bytes_()
    if kind == ADD_RUN:
        names = reader.bytes_()
        try:
            return AddRun(key, names, reader.bytes_(), counter - 1)
        except ValueError as error:
            raise Malformed(str(error)) from error
    if kind == ADD_IDEMPOTENT:
        entry_id = reader.id_()
        names = reader.bytes_()
        values = reader.bytes_()
        if not check_fields(names, values):
            raise Malformed("the field names or values of an idempotent add are malformed")
        pid = reader.bytes_()
        iid = reader.bytes_()
        recorded_ms = reader.varint()
        return AddIdempotent(key, entry_id, names, values, pid, iid, recorded_ms, reader.vector())
    if kind == REMOVE_ENTRIES:
        return RemoveEntries(key, reader.dots())
    if kind == TRIM:
        prefix = reader.vector()
        return Trim(key, prefix, reader.varint() != 0)
    if kind == DELETE:
        return Delete(key, reader.vector())
    if kind == SET_ID:
        return SetId(key, reader.id_())
    return _read_rare(kind, key, reader)


def _read_rare(kind: int, key: bytes, reader: Reader) -> Effect:
    if kind == CREATE_GROUP:
        group = reader.bytes_()
        starts_at_vector = reader.varint() != 0
        start_id = reader.id_()
        return CreateGroup(key, group, start_id, starts_at_vector, reader.vector())
    if kind == DESTROY_GROUP:
        return DestroyGroup(key, reader.bytes_())
    if kind == ACKNOWLEDGE:
        group = reader.bytes_()
        dots = reader.dots()
        return Acknowledge(key, group, dots, read_spans_by_region(reader))
    if kind == SET_DEADLINE:
        at_ms = reader.varint()
        return SetDeadline(key, at_ms, reader.dots())
    if kind == REMOVE_OBSERVED:
        vector = reader.vector()
        return RemoveObserved(key, vector, reader.varint() != 0)
    if kind == CONFIGURE:
        duration_s = reader.varint()
        maxsize = reader.varint()
        dots = reader.dots()
        return Configure(key, duration_s, maxsize, dots, reader.vector())
    raise Malformed(f"unknown kind of effect: {kind}")
