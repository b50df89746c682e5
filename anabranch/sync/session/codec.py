"""The conversion of messages to and from bytes (proto/anabranch/sync/v1).

Decoding checks every field and raises PeerError for a malformed message. A message never exceeds
`MESSAGE_BYTES_MAX`, packed or unpacked, under any settings of either side. This limit is part of
the wire contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError

from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.crdt.vector import Dot
from anabranch.sync.session import fields
from anabranch.sync.session import messages as m
from anabranch.sync.session.fields import MESSAGE_BYTES_MAX
from anabranch.sync.wire import sync_pb2 as wire

ITEMS_MAX: Final = 1 << 18


def encode(message: m.Message, is_dialler: bool, compression: str = "zstd") -> bytes:
    """Returns the bytes of a message of the dialler, or of the side that was dialled."""
    # The hub makes only Up messages for the dialler and only Down messages for the other side.
    if is_dialler:
        return encode_up(message)  # type: ignore[arg-type]
    return encode_down(message, compression)  # type: ignore[arg-type]


# -- up


def encode_up(message: m.Up) -> bytes:
    """Returns the bytes of one message of the dialler."""
    up = wire.Up()
    if isinstance(message, m.Hello):
        up.hello.CopyFrom(_put_hello(message))
    elif isinstance(message, m.VectorAcknowledgement):
        fields.put_vector(up.acknowledgement.vector, message.vector)
        up.acknowledgement.direct.extend(sorted(message.direct))
        up.acknowledgement.SetInParent()
        if message.gossip is not None:
            up.acknowledgement.gossip.CopyFrom(fields.put_gossip(message.gossip))
    elif isinstance(message, m.BodyRequest):
        up.body_request.SetInParent()
        for region_id, counter in message.dots:
            up.body_request.dots.add(region_id=region_id, counter=counter)
    elif isinstance(message, m.SnapshotRequest):
        up.snapshot_request.CopyFrom(wire.SnapshotRequest(number=message.number))
    elif isinstance(message, StartQuestion):
        up.start_question.CopyFrom(fields.put_start_question(message))
    elif isinstance(message, StartAnswer):
        up.start_answer.CopyFrom(fields.put_start_answer(message))
    else:
        up.refusal.CopyFrom(fields.put_refusal(message))
    return up.SerializeToString()


def decode_up(data: bytes) -> m.Up:
    """Returns one message of the dialler.

    Raises PeerError when it is malformed, LinkRefused for a protocol version not supported here.
    """
    up = wire.Up()
    return _UP[_parse(up, data)](up)


def _get_acknowledgement(up: wire.Up) -> m.VectorAcknowledgement:
    one = up.acknowledgement
    gossip = fields.get_gossip(one.gossip) if one.HasField("gossip") else None
    return m.VectorAcknowledgement(fields.get_vector(one.vector), _get_regions(one.direct), gossip)


def _put_hello(message: m.Hello) -> wire.Hello:
    hello = wire.Hello(
        version=message.version,
        cluster=message.cluster,
        region_id=message.region_id,
        name=message.name,
        dialled=message.dialled,
        life=message.life,
        direct=sorted(message.direct),
        window_bytes=message.window_bytes,
        process=message.process,
        place=message.place,
    )
    fields.put_members(hello.members, message.members)
    fields.put_vector(hello.vector, message.vector)
    fields.put_chains(hello.chains, message.vector, message.chains)
    return hello


def _get_hello(hello: wire.Hello) -> m.Hello:
    _check_version(hello.version)
    vector = fields.get_vector(hello.vector)
    return m.Hello(
        version=hello.version,
        cluster=fields.text(hello.cluster),
        members=fields.get_members(hello.members),
        region_id=fields.region(hello.region_id),
        name=fields.text(hello.name),
        dialled=fields.region(hello.dialled),
        life=fields.counter(hello.life, 0),
        vector=vector,
        chains=fields.get_chains(hello.chains, vector),
        direct=_get_regions(hello.direct),
        window_bytes=fields.counter(hello.window_bytes),
        process=fields.counter(hello.process, 0),
        place=fields.text(hello.place),
    )


def _check_version(version: int) -> None:
    """Checks the version before any other field, because a version may redefine every field."""
    if version != m.VERSION:
        raise m.LinkRefused(
            "version", f"the peer speaks protocol version {version}, this region speaks {m.VERSION}"
        )


def _get_regions(region_ids: Iterable[int]) -> frozenset[int]:
    return frozenset(fields.region(region_id) for region_id in region_ids)


def _get_dots(dots: Any) -> list[Dot]:
    if not 1 <= len(dots) <= m.DOTS_MAX:
        raise PeerError(f"a request of {len(dots)} bodies")
    return [(fields.region(dot.region_id), fields.counter(dot.counter)) for dot in dots]


_UP: Final[dict[str, Callable[[wire.Up], m.Up]]] = {
    "hello": lambda up: _get_hello(up.hello),
    "acknowledgement": _get_acknowledgement,
    "body_request": lambda up: m.BodyRequest(_get_dots(up.body_request.dots)),
    "snapshot_request": lambda up: m.SnapshotRequest(fields.counter(up.snapshot_request.number)),
    "refusal": lambda up: fields.get_refusal(up.refusal),
    "start_question": lambda up: fields.get_start_question(up.start_question),
    "start_answer": lambda up: fields.get_start_answer(up.start_answer),
}


# -- down


def encode_down(message: m.Down, compression: str = "zstd") -> bytes:
    """Returns the bytes of one message of the sender; `compression` is from `crdt-compression`."""
    down = wire.Down()
    if isinstance(message, m.Batch):
        down.batch.items.CopyFrom(fields.pack(_batch_items(message.items), compression))
    elif isinstance(message, m.Heartbeat):
        down.heartbeat.digest = message.digest
        fields.put_vector(down.heartbeat.vector, message.vector)
        down.heartbeat.gossip.CopyFrom(fields.put_gossip(message.gossip))
        down.heartbeat.stops = message.stops
        down.heartbeat.double = message.double
    elif isinstance(message, m.BlockPart):
        down.part.CopyFrom(
            wire.Part(
                origin=message.origin,
                first=message.first,
                last=message.last,
                chain=message.chain,
                body_bytes=message.body_bytes,
                offset=message.offset,
                data=fields.pack(message.data, compression),
                asked=message.asked,
            )
        )
    elif isinstance(message, m.Body):
        down.body.block.CopyFrom(
            fields.pack(fields.put_block(message.block).SerializeToString(), compression)
        )
    elif isinstance(message, m.HoldingBack):
        down.holding_back.holding = message.holding
        down.holding_back.SetInParent()
        fields.put_vector(down.holding_back.vector, message.vector)
    elif isinstance(message, m.Welcome):
        down.welcome.CopyFrom(_put_welcome(message))
    elif isinstance(message, StartQuestion):
        down.start_question.CopyFrom(fields.put_start_question(message))
    elif isinstance(message, StartAnswer):
        down.start_answer.CopyFrom(fields.put_start_answer(message))
    elif isinstance(message, m.Refusal):
        down.refusal.CopyFrom(fields.put_refusal(message))
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
        process=message.process,
        place=message.place,
    )
    fields.put_members(welcome.members, message.members)
    fields.put_vector(welcome.vector, message.vector)
    fields.put_chains(welcome.chains, message.vector, message.chains)
    return welcome


def _put_snapshot(
    down: wire.Down, message: m.SnapshotBegin | m.SnapshotChunk | m.SnapshotEnd, compression: str
) -> None:
    if isinstance(message, m.SnapshotBegin):
        down.snapshot_begin.number = message.number
        fields.put_vector(down.snapshot_begin.vector, message.vector)
        fields.put_chains(down.snapshot_begin.chains, message.vector, message.chains)
    elif isinstance(message, m.SnapshotChunk):
        chunk = wire.SnapshotChunk(
            number=message.number, index=message.index, data=fields.pack(message.data, compression)
        )
        down.snapshot_chunk.CopyFrom(chunk)
    else:
        down.snapshot_end.CopyFrom(wire.SnapshotEnd(number=message.number, chunks=message.chunks))


def decode_down(data: bytes) -> m.Down:
    """Returns one message of the sender.

    Raises PeerError when it is malformed, LinkRefused for a protocol version not supported here.
    """
    down = wire.Down()
    return _DOWN[_parse(down, data)](down)


def _get_batch(down: wire.Down) -> m.Batch:
    parsed = _parse_inner(wire.BatchItems(), fields.unpack(down.batch.items))
    if not 1 <= len(parsed.items) <= ITEMS_MAX:
        raise PeerError(f"a batch of {len(parsed.items)} items")
    items: list[m.Item] = []
    for one in parsed.items:
        kind = one.WhichOneof("item")
        if kind == "block":
            items.append(fields.get_block(one.block))
        elif kind == "header":
            first, last = fields.span(one.header.first, one.header.last)
            size = fields.counter(one.header.body_bytes, 0)
            items.append(
                m.Header(
                    fields.region(one.header.origin),
                    first,
                    last,
                    fields.chain(one.header.chain),
                    size,
                )
            )
        else:
            raise PeerError("an empty batch item")
    return m.Batch(items)


def _get_part(down: wire.Down) -> m.BlockPart:
    part = down.part
    first, last = fields.span(part.first, part.last)
    data = fields.unpack(part.data)
    if not data or part.offset + len(data) > fields.counter(part.body_bytes):
        raise PeerError("a part outside its block")
    return m.BlockPart(
        fields.region(part.origin),
        first,
        last,
        fields.chain(part.chain),
        part.body_bytes,
        part.offset,
        data,
        part.asked,
    )


def _get_body(down: wire.Down) -> m.Body:
    return m.Body(fields.get_block(_parse_inner(wire.Block(), fields.unpack(down.body.block))))


def _get_welcome(down: wire.Down) -> m.Welcome:
    welcome = down.welcome
    _check_version(welcome.version)
    vector = fields.get_vector(welcome.vector)
    return m.Welcome(
        version=welcome.version,
        cluster=fields.text(welcome.cluster),
        members=fields.get_members(welcome.members),
        region_id=fields.region(welcome.region_id),
        name=fields.text(welcome.name),
        life=fields.counter(welcome.life, 0),
        vector=vector,
        chains=fields.get_chains(welcome.chains, vector),
        process=fields.counter(welcome.process, 0),
        place=fields.text(welcome.place),
    )


def _get_snapshot_begin(down: wire.Down) -> m.SnapshotBegin:
    begin = down.snapshot_begin
    vector = fields.get_vector(begin.vector)
    return m.SnapshotBegin(
        fields.counter(begin.number), vector, fields.get_chains(begin.chains, vector)
    )


def _get_snapshot_chunk(down: wire.Down) -> m.SnapshotChunk:
    chunk = down.snapshot_chunk
    return m.SnapshotChunk(
        fields.counter(chunk.number), fields.counter(chunk.index, 0), fields.unpack(chunk.data)
    )


def _get_snapshot_end(down: wire.Down) -> m.SnapshotEnd:
    return m.SnapshotEnd(
        fields.counter(down.snapshot_end.number), fields.counter(down.snapshot_end.chunks, 0)
    )


def _get_heartbeat(down: wire.Down) -> m.Heartbeat:
    beat = down.heartbeat
    if len(beat.digest) not in (0, 16):
        raise PeerError(f"a digest of {len(beat.digest)} bytes")
    gossip = fields.get_gossip(beat.gossip)
    double = fields.text(beat.double)
    return m.Heartbeat(fields.get_vector(beat.vector), beat.digest, gossip, beat.stops, double)


_DOWN: Final[dict[str, Callable[[wire.Down], m.Down]]] = {
    "welcome": _get_welcome,
    "refusal": lambda down: fields.get_refusal(down.refusal),
    "batch": _get_batch,
    "part": _get_part,
    "body": _get_body,
    "holding_back": lambda down: m.HoldingBack(
        down.holding_back.holding, fields.get_vector(down.holding_back.vector)
    ),
    "snapshot_begin": _get_snapshot_begin,
    "snapshot_chunk": _get_snapshot_chunk,
    "snapshot_end": _get_snapshot_end,
    "heartbeat": _get_heartbeat,
    "start_question": lambda down: fields.get_start_question(down.start_question),
    "start_answer": lambda down: fields.get_start_answer(down.start_answer),
}


# -- parsing


def _parse(target: Any, data: bytes) -> str:
    if len(data) > MESSAGE_BYTES_MAX:
        raise PeerError(f"a message of {len(data)} bytes")
    kind = _parse_inner(target, data).WhichOneof("message")
    if kind is None:
        raise PeerError("an empty message, or one of a later version")
    return str(kind)


def _parse_inner(target: Any, data: bytes) -> Any:
    try:
        target.ParseFromString(data)
    except DecodeError as error:
        raise PeerError(str(error)) from error
    return target
