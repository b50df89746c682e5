"""The digest of a key (S13.9): a sum of 128-bit hashes over its converged state alone.

A sum does not depend on the order of the elements or on the layout of the nodes.
"""

from __future__ import annotations

from xxhash import xxh3_128_intdigest

from anabranch.crdt.encoding import put_bytes, put_id, put_varint
from anabranch.crdt.groups import Create, Group
from anabranch.crdt.node import DIGEST_MASK
from anabranch.crdt.place import put_place
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Dot


def of_stream(stream: Stream) -> int:
    """Returns the digest of one key, name included; 0 if the key has no converged state."""
    total = _contents(stream)
    if total == 0:
        return 0
    named = bytearray()
    put_bytes(named, stream.key)
    named += (total & DIGEST_MASK).to_bytes(16, "big")
    return xxh3_128_intdigest(named)


def _contents(stream: Stream) -> int:
    """Sums the hashes of the converged state.

    These are entries (dot, ID, fields), header, live creates with starts and acked spans,
    deadlines and configurations.
    """
    total = 0
    for log in stream.logs.values():
        total += log.digest_share()
    for region_id, (counter, entry_id) in stream.header.heads.items():
        item = _item(b"h", (region_id, counter))
        put_id(item, entry_id)
        total += xxh3_128_intdigest(item)
    if stream.rare is None:
        return total
    for group in stream.groups.values():
        for dot, create in group.creates.items():
            total += _of_create(group, dot, create)
    for dot, at_ms in stream.deadlines.items():
        item = _item(b"d", dot)
        put_varint(item, at_ms)
        total += xxh3_128_intdigest(item)
    for dot, (duration_s, maxsize) in stream.configurations.items():
        item = _item(b"i", dot)
        put_varint(item, duration_s)
        put_varint(item, maxsize)
        total += xxh3_128_intdigest(item)
    return total


def _item(kind: bytes, dot: Dot) -> bytearray:
    item = bytearray(kind)
    put_varint(item, dot[0])
    put_varint(item, dot[1])
    return item


def _of_create(group: Group, dot: Dot, create: Create) -> int:
    item = _item(b"c", dot)
    put_bytes(item, group.name)
    put_place(item, create.start)
    for region_id in sorted(create.acked):
        spans = create.acked[region_id]
        for index in range(len(spans.starts)):
            put_varint(item, region_id)
            put_varint(item, spans.starts[index])
            put_varint(item, spans.ends[index])
    return xxh3_128_intdigest(item)
