"""Messages ⇄ bytes (proto/anabranch/sync/v1). Whatever comes in is checked: `PeerError` for anything malformed.

A message never exceeds `MESSAGE_BYTES_MAX`, packed or unpacked, whatever the settings of either side: that is part of the wire contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError

from anabranch.crdt.errors import PeerError
from anabranch.crdt.vector import Dot
from anabranch.sync import messages as m
from anabranch.sync import parts
from anabranch.sync.parts import MESSAGE_BYTES_MAX
from anabranch.sync.wire import sync_pb2 as wire

DOTS_MAX: Final = 256
ITEMS_MAX: Final = 1 << 18


def encode(message: m.Message, is_dialler: bool, compression: str = "zstd") -> bytes:
    """The bytes of a message of the dialler, or of the side that was dialled."""
    if is_dialler:
        return encode_up(message)  # type: ignore[arg-type]  # the hub makes no others for it
    return encode_down(message, compression)  # type: ignore[arg-type]


# ---- Up


def encode_up(message: m.Up) -> bytes:
    """The bytes of one message of the dialler."""
    up = wire.Up()
    if isinstance(message, m.Hello):
        up.hello.CopyFrom(_put_hello(message))
    elif isinstance(message, m.Acknowledge):
        parts.put_vector(up.acknowledge.vector, message.vector)
        up.acknowledge.direct.extend(sorted(message.direct))
        up.acknowledge.SetInParent()
        if message.gossip is not None:
            up.acknowledge.gossip.CopyFrom(parts.put_gossip(message.gossip))
    elif isinstance(message, m.BodyRequest):
        up.body_request.SetInParent()
        for region_id, counter in message.dots:
            up.body_request.dots.add(region_id=region_id, counter=counter)
    elif isinstance(message, m.SnapshotRequest):
        up.snapshot_request.CopyFrom(wire.SnapshotRequest(number=message.number))
    else:
        up.refusal.CopyFrom(parts.put_refusal(message))
    return up.SerializeToString()


def decode_up(data: bytes) -> m.Up:
    """One message of the dialler; PeerError when malformed, LinkRefused for a version not spoken here."""
    up = wire.Up()
    kind = _parse(up, data)
    if kind == "hello":
        return _get_hello(up.hello)
    if kind == "acknowledge":
        gossip = (
            parts.get_gossip(up.acknowledge.gossip) if up.acknowledge.HasField("gossip") else None
        )
        return m.Acknowledge(
            parts.get_vector(up.acknowledge.vector), _get_regions(up.acknowledge.direct), gossip
        )
    if kind == "body_request":
        return m.BodyRequest(_get_dots(up.body_request.dots))
    if kind == "snapshot_request":
        return m.SnapshotRequest(parts.counter(up.snapshot_request.number))
    return parts.get_refusal(up.refusal)


def _put_hello(message: m.Hello) -> wire.Hello:
    hello = wire.Hello(
        version=message.version, cluster=message.cluster, region_id=message.region_id, name=message.name,
        dialled=message.dialled, life=message.life, direct=sorted(message.direct), window_bytes=message.window_bytes,
    )  # fmt: skip
    parts.put_members(hello.members, message.members)
    parts.put_vector(hello.vector, message.vector)
    parts.put_chains(hello.chains, message.vector, message.chains)
    return hello


def _get_hello(hello: wire.Hello) -> m.Hello:
    _check_version(hello.version)
    vector = parts.get_vector(hello.vector)
    return m.Hello(
        version=hello.version, cluster=parts.text(hello.cluster), members=parts.get_members(hello.members),
        region_id=parts.region(hello.region_id),
        name=parts.text(hello.name), dialled=parts.region(hello.dialled), life=parts.counter(hello.life, 0), vector=vector,
        chains=parts.get_chains(hello.chains, vector), direct=_get_regions(hello.direct), window_bytes=parts.counter(hello.window_bytes),
    )  # fmt: skip


def _check_version(version: int) -> None:
    """First of all: a later version may mean something else by every other field."""
    if version != m.VERSION:
        raise m.LinkRefused(
            "version", f"the peer speaks protocol version {version}, this region speaks {m.VERSION}"
        )


def _get_regions(region_ids: Iterable[int]) -> frozenset[int]:
    return frozenset(parts.region(region_id) for region_id in region_ids)


def _get_dots(dots: Any) -> list[Dot]:
    if not 1 <= len(dots) <= DOTS_MAX:
        raise PeerError(f"malformed: a request of {len(dots)} bodies")
    return [(parts.region(dot.region_id), parts.counter(dot.counter)) for dot in dots]


# ---- Down


def encode_down(message: m.Down, compression: str = "zstd") -> bytes:
    """The bytes of one message of the sender; `compression` is that of `crdt-compression`."""
    down = wire.Down()
    if isinstance(message, m.Batch):
        down.batch.items.CopyFrom(parts.pack(_batch_items(message.items), compression))
    elif isinstance(message, m.Heartbeat):
        down.heartbeat.digest = message.digest
        parts.put_vector(down.heartbeat.vector, message.vector)
        down.heartbeat.gossip.CopyFrom(parts.put_gossip(message.gossip))
    elif isinstance(message, m.Part):
        down.part.CopyFrom(
            wire.Part(
                origin=message.origin, first=message.first, last=message.last, chain=message.chain, body_bytes=message.body_bytes,
                offset=message.offset, data=parts.pack(message.data, compression), asked=message.asked,
            )
        )  # fmt: skip
    elif isinstance(message, m.Body):
        down.body.block.CopyFrom(
            parts.pack(parts.put_block(message.block).SerializeToString(), compression)
        )
    elif isinstance(message, m.HoldingBack):
        down.holding_back.holding = message.holding
        down.holding_back.SetInParent()
        parts.put_vector(down.holding_back.vector, message.vector)
    elif isinstance(message, m.Welcome):
        down.welcome.CopyFrom(_put_welcome(message))
    elif isinstance(message, m.Refusal):
        down.refusal.CopyFrom(parts.put_refusal(message))
    else:
        _put_snapshot(down, message, compression)
    return down.SerializeToString()


def _batch_items(items: list[m.Item]) -> bytes:
    result = wire.BatchItems()
    for item in items:
        if isinstance(item, m.Header):
            header = result.items.add().header
            header.origin, header.first, header.last = item.origin, item.first, item.last
            header.chain, header.body_bytes = item.chain, item.body_bytes
        else:
            block = result.items.add().block
            block.origin, block.first, block.last = item.origin, item.first, item.last
            block.body, block.chain = item.body, item.chain
    return result.SerializeToString()


def _put_welcome(message: m.Welcome) -> wire.Welcome:
    welcome = wire.Welcome(
        version=message.version,
        cluster=message.cluster,
        region_id=message.region_id,
        name=message.name,
        life=message.life,
    )
    parts.put_members(welcome.members, message.members)
    parts.put_vector(welcome.vector, message.vector)
    parts.put_chains(welcome.chains, message.vector, message.chains)
    return welcome


def _put_snapshot(
    down: wire.Down, message: m.SnapshotBegin | m.SnapshotChunk | m.SnapshotEnd, compression: str
) -> None:
    if isinstance(message, m.SnapshotBegin):
        down.snapshot_begin.number = message.number
        parts.put_vector(down.snapshot_begin.vector, message.vector)
        parts.put_chains(down.snapshot_begin.chains, message.vector, message.chains)
    elif isinstance(message, m.SnapshotChunk):
        chunk = wire.SnapshotChunk(
            number=message.number, index=message.index, data=parts.pack(message.data, compression)
        )
        down.snapshot_chunk.CopyFrom(chunk)
    else:
        down.snapshot_end.CopyFrom(wire.SnapshotEnd(number=message.number, chunks=message.chunks))


def decode_down(data: bytes) -> m.Down:
    """One message of the sender; PeerError when malformed, LinkRefused for a version not spoken here."""
    down = wire.Down()
    return _DOWN[_parse(down, data)](down)


def _get_batch(down: wire.Down) -> m.Batch:
    parsed = _parse_inner(wire.BatchItems(), parts.unpack(down.batch.items))
    if not 1 <= len(parsed.items) <= ITEMS_MAX:
        raise PeerError(f"malformed: a batch of {len(parsed.items)} items")
    items: list[m.Item] = []
    for one in parsed.items:
        kind = one.WhichOneof("item")
        if kind == "block":
            items.append(parts.get_block(one.block))
        elif kind == "header":
            first, last = parts.span(one.header.first, one.header.last)
            size = parts.counter(one.header.body_bytes, 0)
            items.append(
                m.Header(
                    parts.region(one.header.origin),
                    first,
                    last,
                    parts.chain(one.header.chain),
                    size,
                )
            )
        else:
            raise PeerError("malformed: an empty batch item")
    return m.Batch(items)


def _get_part(down: wire.Down) -> m.Part:
    part = down.part
    first, last = parts.span(part.first, part.last)
    data = parts.unpack(part.data)
    if not data or part.offset + len(data) > parts.counter(part.body_bytes):
        raise PeerError("malformed: a part outside its block")
    return m.Part(
        parts.region(part.origin),
        first,
        last,
        parts.chain(part.chain),
        part.body_bytes,
        part.offset,
        data,
        part.asked,
    )


def _get_body(down: wire.Down) -> m.Body:
    return m.Body(parts.get_block(_parse_inner(wire.Block(), parts.unpack(down.body.block))))


def _get_welcome(down: wire.Down) -> m.Welcome:
    welcome = down.welcome
    _check_version(welcome.version)
    vector = parts.get_vector(welcome.vector)
    return m.Welcome(
        version=welcome.version, cluster=parts.text(welcome.cluster), members=parts.get_members(welcome.members),
        region_id=parts.region(welcome.region_id), name=parts.text(welcome.name), life=parts.counter(welcome.life, 0), vector=vector,
        chains=parts.get_chains(welcome.chains, vector),
    )  # fmt: skip


def _get_snapshot_begin(down: wire.Down) -> m.SnapshotBegin:
    begin = down.snapshot_begin
    vector = parts.get_vector(begin.vector)
    return m.SnapshotBegin(
        parts.counter(begin.number), vector, parts.get_chains(begin.chains, vector)
    )


def _get_snapshot_chunk(down: wire.Down) -> m.SnapshotChunk:
    chunk = down.snapshot_chunk
    return m.SnapshotChunk(
        parts.counter(chunk.number), parts.counter(chunk.index, 0), parts.unpack(chunk.data)
    )


def _get_snapshot_end(down: wire.Down) -> m.SnapshotEnd:
    return m.SnapshotEnd(
        parts.counter(down.snapshot_end.number), parts.counter(down.snapshot_end.chunks, 0)
    )


def _get_heartbeat(down: wire.Down) -> m.Heartbeat:
    beat = down.heartbeat
    if len(beat.digest) not in (0, 16):
        raise PeerError(f"malformed: a digest of {len(beat.digest)} bytes")
    return m.Heartbeat(parts.get_vector(beat.vector), beat.digest, parts.get_gossip(beat.gossip))


_DOWN: Final[dict[str, Callable[[wire.Down], m.Down]]] = {
    "welcome": _get_welcome,
    "refusal": lambda down: parts.get_refusal(down.refusal),
    "batch": _get_batch,
    "part": _get_part,
    "body": _get_body,
    "holding_back": lambda down: m.HoldingBack(
        down.holding_back.holding, parts.get_vector(down.holding_back.vector)
    ),
    "snapshot_begin": _get_snapshot_begin,
    "snapshot_chunk": _get_snapshot_chunk,
    "snapshot_end": _get_snapshot_end,
    "heartbeat": _get_heartbeat,
}


# ---- Parsing


def _parse(target: Any, data: bytes) -> str:
    if len(data) > MESSAGE_BYTES_MAX:
        raise PeerError(f"malformed: a message of {len(data)} bytes")
    kind = _parse_inner(target, data).WhichOneof("message")
    if kind is None:
        raise PeerError("malformed: an empty message, or one of a later version")
    return str(kind)


def _parse_inner(target: Any, data: bytes) -> Any:
    try:
        target.ParseFromString(data)
    except DecodeError as error:
        raise PeerError(f"malformed: {error}") from error
    return target
