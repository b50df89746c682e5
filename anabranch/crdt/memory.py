"""About how many bytes of memory a stream takes in this region.

The sizes of the parts are those of the compiled modules, measured with `tracemalloc`. Where a
stream has many parts of a kind, some of them stand for all: a call looks at a bounded number.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.delivery import Delivery
from anabranch.crdt.groups import Group
from anabranch.crdt.idempotency import Pairs
from anabranch.crdt.log_reading import about_bytes
from anabranch.crdt.producer import Producer
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.stream import Stream

# Groups, and producers, at which a call looks; and runs of a producer, and consumers of a group.
PARTS_MAX: Final = 512
INNER_MAX: Final = 16

# Bytes of a part beside its contents. That of a stream includes its place in the keyspace.
_STREAM: Final = 500
_LOG: Final = 150
_NODE: Final = 330
_RARE: Final = 1040
_GROUP: Final = 1000
_CREATE: Final = 350
_CONSUMER: Final = 120
_PEL_PART: Final = 1500
_PRODUCER: Final = 650
_RUN: Final = 350
# An item of a table of idempotent IDs, with its share of the table.
_PAIR: Final = 12
# Bytes of one item: a pending entry, a span, a counter of `Delivery.dropped`, a dict's item.
_PENDING: Final = 42
_SPAN: Final = 130
_DROPPED: Final = 70
_ITEM: Final = 200


def about_memory(stream: Stream) -> int:
    """Returns about how many bytes of memory the state of the stream takes."""
    total = _STREAM + len(stream.key)
    for log in stream.each_log():
        total += _LOG + about_bytes(log) + _NODE * log.node_map.size()
    rare = stream.rare
    if rare is None:
        return total
    total += _RARE + _groups(rare.groups) + _pairs(rare.pairs)
    items = len(rare.deadlines) + len(rare.configurations) + len(rare.tombstones)
    return total + _ITEM * (items + len(rare.tombstone_of_all) + len(rare.clears))


def _scaled(total: int, looked_at: int, count: int) -> int:
    """Returns the total of `count` parts, if that of `looked_at` of them is `total`."""
    return total * count // looked_at if looked_at else 0


def _groups(groups: dict[bytes, Group]) -> int:
    total = looked_at = 0
    for group in groups.values():
        if looked_at == PARTS_MAX:
            break
        looked_at += 1
        total += _GROUP + len(group.name) + _delivery(group.delivery)
        for create in group.creates.values():
            total += _CREATE + _spans(create.acked)
    return _scaled(total, looked_at, len(groups))


def _delivery(delivery: Delivery) -> int:
    names = looked_at = 0
    for name in delivery.consumers:
        if looked_at == INNER_MAX:
            break
        looked_at += 1
        names += len(name)
    count = len(delivery.consumers)
    total = _CONSUMER * count + _scaled(names, looked_at, count)
    for part in delivery.pel.parts.values():
        total += _PEL_PART + _PENDING * part.length
    for counters in delivery.dropped.values():
        total += _ITEM + _DROPPED * len(counters)
    return total + _spans(delivery.given)


def _spans(by_region: SpansByRegion) -> int:
    return sum(_ITEM + _SPAN * len(spans.starts) for spans in by_region.values())


def _pairs(pairs: Pairs) -> int:
    total = looked_at = 0
    for producer in pairs.producers.values():
        if looked_at == PARTS_MAX:
            break
        looked_at += 1
        total += _producer(producer)
    return _scaled(total, looked_at, len(pairs.producers))


def _producer(producer: Producer) -> int:
    runs = producer.runs
    count = len(runs)
    looked_at = min(count, INNER_MAX)
    data = sum(len(runs[n * count // looked_at].data) for n in range(looked_at))
    rest = _PRODUCER + len(producer.pid) + _RUN * count + _PAIR * producer.count
    return rest + _scaled(data, looked_at, count)
