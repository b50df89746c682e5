"""The bytes of effects, as they stand in a block (`crdt/block.py`).

    effect   kind, key, attributes in the order of the class     (FLUSH has no key)

Counters run on through a block, so the bytes leave dots out.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from anabranch.crdt.adds import IdempotentAdds
from anabranch.crdt.effects import (
    Acknowledge,
    AddIdempotent,
    AddRun,
    Configure,
    CreateGroup,
    Delete,
    DestroyGroup,
    Effect,
    Flush,
    RemoveEntries,
    RemoveObserved,
    SetDeadline,
    SetId,
    Trim,
)
from anabranch.crdt.encoding import (
    Malformed,
    Reader,
    put_bytes,
    put_dots,
    put_id,
    put_varint,
    put_vector,
    varint,
    with_length,
    write_bytes,
    write_part,
    write_varint,
    write_vector,
)
from anabranch.crdt.ids import SEQ_STRIDE
from anabranch.crdt.node import FOLLOWS, check_fields
from anabranch.crdt.spans import put_spans_by_region, read_spans_by_region
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
    recorded = varint(recorded_ms)
    below, above = _around(vector, region_id)
    data, iids = adds.data, adds.iids
    seq = adds.seq
    begin: i64 = 0
    for n in range(adds.count()):
        end: i64 = adds.ends[n]
        out.write(before_id)
        write_varint(out, seq)
        out.write(names)
        # The values after their length, which a node, a block and an effect have alike.
        write_part(out, data, begin + len(FOLLOWS), end)
        out.write(pid)
        write_bytes(out, iids[n])
        out.write(recorded)
        if counter > 1:
            out.write(below)
            write_varint(out, counter - 1)
            out.write(above)
        else:
            # Nothing of this region was applied before it.
            write_vector(out, vector)
        seq += SEQ_STRIDE
        counter += 1
        begin = end


def _around(vector: Vector, region_id: int) -> tuple[bytes, bytes]:
    """The bytes of a vector before and after the counter of a region, which is above 0."""
    lower, higher = BytesWriter(), BytesWriter()
    write_varint(lower, len(vector) + (region_id not in vector))
    for other in sorted(vector):
        if other != region_id:
            side = lower if other < region_id else higher
            write_varint(side, other)
            write_varint(side, vector[other])
    write_varint(lower, region_id)
    return lower.getvalue(), higher.getvalue()


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
