"""Messages ⇄ bytes (proto/anabranch/sync/v1). Whatever comes in is checked: `PeerError` for anything malformed.

A message never exceeds `MESSAGE_BYTES_MAX`, packed or unpacked, whatever the settings of either side: that is part of the wire contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import zstandard
from google.protobuf.message import DecodeError

from crdt.block import Block
from crdt.vector import Dot, Vector
from region.engine.errors import PeerError
from region.engine.gossip import Answer, Gossip, Heard, Question
from sync import messages as m
from sync.wire import sync_pb2 as wire

MESSAGE_BYTES_MAX: Final = 32 << 20
REGION_ID_MAX: Final = 999
COUNTER_MAX: Final = (1 << 63) - 1
TEXT_MAX: Final = 1024
DOTS_MAX: Final = 256
GOSSIP_MAX: Final = 4096
ITEMS_MAX: Final = 1 << 18
_PACK_FROM_BYTES: Final = 256  # smaller payloads gain nothing
_CHAIN_BYTES: Final = 16

_compressor = zstandard.ZstdCompressor(level=1)
_decompressor = zstandard.ZstdDecompressor()


# ---- Checks of what comes in


def _region(region_id: int) -> int:
    if not 1 <= region_id <= REGION_ID_MAX:
        raise PeerError(f"malformed: region_id {region_id}")
    return region_id


def _counter(counter: int, lowest: int = 1) -> int:
    if not lowest <= counter <= COUNTER_MAX:
        raise PeerError(f"malformed: counter {counter}")
    return counter


def _chain(chain: bytes) -> bytes:
    if len(chain) != _CHAIN_BYTES:
        raise PeerError(f"malformed: a chain value of {len(chain)} bytes")
    return chain


def _text(text: str) -> str:
    if len(text) > TEXT_MAX:
        raise PeerError(f"malformed: a text of {len(text)} characters")
    return text


def _span(first: int, last: int) -> tuple[int, int]:
    if not 1 <= first <= last <= COUNTER_MAX:
        raise PeerError(f"malformed: a block from {first} to {last}")
    return first, last


# ---- Parts, both ways


def _put_vector(counters: Any, vector: Vector) -> None:
    for region_id in sorted(vector):
        if vector[region_id] > 0:
            counters.add(region_id=region_id, counter=vector[region_id])


def _get_vector(counters: Iterable[wire.Counter]) -> Vector:
    vector: Vector = {}
    for one in counters:
        if _region(one.region_id) in vector:
            raise PeerError("malformed: a region twice in a vector")
        vector[one.region_id] = _counter(one.counter)
    return vector


def _put_chains(target: Any, vector: Vector, chains: dict[int, bytes]) -> None:
    for region_id in sorted(chains):
        if vector.get(region_id, 0) > 0:
            target.add(region_id=region_id, counter=vector[region_id], chain=chains[region_id])


def _get_chains(source: Iterable[wire.Chain], vector: Vector) -> dict[int, bytes]:
    chains: dict[int, bytes] = {}
    for one in source:
        if vector.get(_region(one.region_id)) != one.counter or one.region_id in chains:
            raise PeerError("malformed: a chain value that does not stand at the vector")
        chains[one.region_id] = _chain(one.chain)
    return chains


def _put_members(target: Any, members: dict[int, str]) -> None:
    for region_id in sorted(members):
        target.add(region_id=region_id, name=members[region_id])


def _get_members(source: Iterable[wire.Member]) -> dict[int, str]:
    members: dict[int, str] = {}
    for one in source:
        if _region(one.region_id) in members:
            raise PeerError("malformed: a region twice among the members")
        members[one.region_id] = _text(one.name)
    return members


def _pack(raw: bytes, compression: str) -> wire.Packed:
    if compression == "zstd" and len(raw) >= _PACK_FROM_BYTES:
        payload = _compressor.compress(raw)
        if len(payload) < len(raw):
            return wire.Packed(compression=wire.ZSTD, raw_bytes=len(raw), payload=payload)
    return wire.Packed(compression=wire.NONE, raw_bytes=len(raw), payload=raw)


def _unpack(packed: wire.Packed) -> bytes:
    if packed.raw_bytes > MESSAGE_BYTES_MAX:
        raise PeerError(f"malformed: {packed.raw_bytes} bytes in one message")
    raw = packed.payload
    if packed.compression == wire.ZSTD:
        try:
            # The size that the frame itself names is what gets allocated: check it first.
            if zstandard.frame_content_size(raw) != packed.raw_bytes:
                raise PeerError("malformed: a packed payload of another size")
            raw = _decompressor.decompress(raw, max_output_size=packed.raw_bytes)
        except zstandard.ZstdError as error:
            raise PeerError(f"malformed: {error}") from error
    elif packed.compression != wire.NONE:
        raise PeerError(f"malformed: compression {packed.compression}")
    if len(raw) != packed.raw_bytes:
        raise PeerError("malformed: a payload of another size")
    return raw


def _put_block(block: Block) -> wire.Block:
    return wire.Block(origin=block.origin, first=block.first, last=block.last, body=block.body, chain=block.chain)


def _get_block(one: wire.Block) -> Block:
    first, last = _span(one.first, one.last)
    return Block(origin=_region(one.origin), first=first, last=last, body=one.body, chain=_chain(one.chain))


def _put_gossip(gossip: Gossip) -> wire.Gossip:
    result = wire.Gossip()
    for heard in gossip.heard:
        one = result.heard.add(region_id=heard.region_id, life=heard.life, counts=heard.counts, clock_ms=heard.clock_ms)
        _put_vector(one.vector, heard.vector)
    for asked in gossip.questions:
        result.questions.add(asker=asked.asker, life=asked.life, number=asked.number, recovery=asked.recovery)
    for answer in gossip.answers:
        said = result.answers.add(
            asker=answer.asker, life=answer.life, number=answer.number, answerer=answer.answerer, recovery=answer.recovery
        )
        _put_vector(said.vector, answer.vector)
    return result


def _get_gossip(gossip: wire.Gossip) -> Gossip:
    if len(gossip.heard) + len(gossip.questions) + len(gossip.answers) > GOSSIP_MAX:
        raise PeerError("malformed: too much gossip")
    heard = [
        Heard(_region(one.region_id), _counter(one.life, 0), one.counts, _get_vector(one.vector), _counter(one.clock_ms, 0))
        for one in gossip.heard
    ]
    questions = [
        Question(_region(one.asker), _counter(one.life, 0), _counter(one.number, 0), _counter(one.recovery, 0)) for one in gossip.questions
    ]
    answers = [
        Answer(
            _region(one.asker), _counter(one.life, 0), _counter(one.number, 0), _region(one.answerer), _get_vector(one.vector),
            _counter(one.recovery, 0),
        )
        for one in gossip.answers
    ]  # fmt: skip
    return Gossip(heard, questions, answers)


def _put_refusal(refusal: m.Refusal) -> wire.Refusal:
    return wire.Refusal(reason=wire.Reason.Name(m.REASONS.index(refusal.reason) + 1), text=refusal.text[:TEXT_MAX])


def _get_refusal(refusal: wire.Refusal) -> m.Refusal:
    if not 1 <= refusal.reason <= len(m.REASONS):
        raise PeerError(f"malformed: reason {refusal.reason}")
    return m.Refusal(m.REASONS[refusal.reason - 1], _text(refusal.text))


# ---- Up


def encode_up(message: m.Up) -> bytes:
    """The bytes of one message of the dialler."""
    up = wire.Up()
    if isinstance(message, m.Hello):
        up.hello.CopyFrom(_put_hello(message))
    elif isinstance(message, m.Acknowledge):
        _put_vector(up.acknowledge.vector, message.vector)
        up.acknowledge.direct.extend(sorted(message.direct))
        up.acknowledge.SetInParent()
        if message.gossip is not None:
            up.acknowledge.gossip.CopyFrom(_put_gossip(message.gossip))
    elif isinstance(message, m.BodyRequest):
        up.body_request.SetInParent()
        for region_id, counter in message.dots:
            up.body_request.dots.add(region_id=region_id, counter=counter)
    elif isinstance(message, m.SnapshotRequest):
        up.snapshot_request.CopyFrom(wire.SnapshotRequest(number=message.number))
    else:
        up.refusal.CopyFrom(_put_refusal(message))
    return up.SerializeToString()


def decode_up(data: bytes) -> m.Up:
    """One message of the dialler; PeerError when malformed, LinkRefused for a version not spoken here."""
    up = wire.Up()
    kind = _parse(up, data)
    if kind == "hello":
        return _get_hello(up.hello)
    if kind == "acknowledge":
        gossip = _get_gossip(up.acknowledge.gossip) if up.acknowledge.HasField("gossip") else None
        return m.Acknowledge(_get_vector(up.acknowledge.vector), _get_regions(up.acknowledge.direct), gossip)
    if kind == "body_request":
        return m.BodyRequest(_get_dots(up.body_request.dots))
    if kind == "snapshot_request":
        return m.SnapshotRequest(_counter(up.snapshot_request.number))
    return _get_refusal(up.refusal)


def _put_hello(message: m.Hello) -> wire.Hello:
    hello = wire.Hello(
        version=message.version, cluster=message.cluster, region_id=message.region_id, name=message.name,
        dialled=message.dialled, life=message.life, direct=sorted(message.direct), window_bytes=message.window_bytes,
    )  # fmt: skip
    _put_members(hello.members, message.members)
    _put_vector(hello.vector, message.vector)
    _put_chains(hello.chains, message.vector, message.chains)
    return hello


def _get_hello(hello: wire.Hello) -> m.Hello:
    _check_version(hello.version)
    vector = _get_vector(hello.vector)
    return m.Hello(
        version=hello.version, cluster=_text(hello.cluster), members=_get_members(hello.members), region_id=_region(hello.region_id),
        name=_text(hello.name), dialled=_region(hello.dialled), life=_counter(hello.life, 0), vector=vector,
        chains=_get_chains(hello.chains, vector), direct=_get_regions(hello.direct), window_bytes=_counter(hello.window_bytes),
    )  # fmt: skip


def _check_version(version: int) -> None:
    """First of all: a later version may mean something else by every other field."""
    if version != m.VERSION:
        raise m.LinkRefused("version", f"the peer speaks protocol version {version}, this region speaks {m.VERSION}")


def _get_regions(region_ids: Iterable[int]) -> frozenset[int]:
    return frozenset(_region(region_id) for region_id in region_ids)


def _get_dots(dots: Any) -> list[Dot]:
    if not 1 <= len(dots) <= DOTS_MAX:
        raise PeerError(f"malformed: a request of {len(dots)} bodies")
    return [(_region(dot.region_id), _counter(dot.counter)) for dot in dots]


# ---- Down


def encode_down(message: m.Down, compression: str = "zstd") -> bytes:
    """The bytes of one message of the sender; `compression` is that of `crdt-compression`."""
    down = wire.Down()
    if isinstance(message, m.Batch):
        down.batch.items.CopyFrom(_pack(_batch_items(message.items), compression))
    elif isinstance(message, m.Heartbeat):
        down.heartbeat.digest = message.digest
        _put_vector(down.heartbeat.vector, message.vector)
        down.heartbeat.gossip.CopyFrom(_put_gossip(message.gossip))
    elif isinstance(message, m.Part):
        down.part.CopyFrom(
            wire.Part(
                origin=message.origin, first=message.first, last=message.last, chain=message.chain, body_bytes=message.body_bytes,
                offset=message.offset, data=_pack(message.data, compression), asked=message.asked,
            )
        )  # fmt: skip
    elif isinstance(message, m.Body):
        down.body.block.CopyFrom(_pack(_put_block(message.block).SerializeToString(), compression))
    elif isinstance(message, m.HoldingBack):
        down.holding_back.holding = message.holding
        down.holding_back.SetInParent()
        _put_vector(down.holding_back.vector, message.vector)
    elif isinstance(message, m.Welcome):
        down.welcome.CopyFrom(_put_welcome(message))
    elif isinstance(message, m.Refusal):
        down.refusal.CopyFrom(_put_refusal(message))
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
        version=message.version, cluster=message.cluster, region_id=message.region_id, name=message.name, life=message.life
    )
    _put_members(welcome.members, message.members)
    _put_vector(welcome.vector, message.vector)
    _put_chains(welcome.chains, message.vector, message.chains)
    return welcome


def _put_snapshot(down: wire.Down, message: m.SnapshotBegin | m.SnapshotChunk | m.SnapshotEnd, compression: str) -> None:
    if isinstance(message, m.SnapshotBegin):
        down.snapshot_begin.number = message.number
        _put_vector(down.snapshot_begin.vector, message.vector)
        _put_chains(down.snapshot_begin.chains, message.vector, message.chains)
    elif isinstance(message, m.SnapshotChunk):
        chunk = wire.SnapshotChunk(number=message.number, index=message.index, data=_pack(message.data, compression))
        down.snapshot_chunk.CopyFrom(chunk)
    else:
        down.snapshot_end.CopyFrom(wire.SnapshotEnd(number=message.number, chunks=message.chunks))


def decode_down(data: bytes) -> m.Down:
    """One message of the sender; PeerError when malformed, LinkRefused for a version not spoken here."""
    down = wire.Down()
    return _DOWN[_parse(down, data)](down)


def _get_batch(down: wire.Down) -> m.Batch:
    parsed = _parse_inner(wire.BatchItems(), _unpack(down.batch.items))
    if not 1 <= len(parsed.items) <= ITEMS_MAX:
        raise PeerError(f"malformed: a batch of {len(parsed.items)} items")
    items: list[m.Item] = []
    for one in parsed.items:
        kind = one.WhichOneof("item")
        if kind == "block":
            items.append(_get_block(one.block))
        elif kind == "header":
            first, last = _span(one.header.first, one.header.last)
            items.append(
                m.Header(_region(one.header.origin), first, last, _chain(one.header.chain), _counter(one.header.body_bytes, 0))
            )
        else:
            raise PeerError("malformed: an empty batch item")
    return m.Batch(items)


def _get_part(down: wire.Down) -> m.Part:
    part = down.part
    first, last = _span(part.first, part.last)
    data = _unpack(part.data)
    if not data or part.offset + len(data) > _counter(part.body_bytes):
        raise PeerError("malformed: a part outside its block")
    return m.Part(_region(part.origin), first, last, _chain(part.chain), part.body_bytes, part.offset, data, part.asked)


def _get_body(down: wire.Down) -> m.Body:
    return m.Body(_get_block(_parse_inner(wire.Block(), _unpack(down.body.block))))


def _get_welcome(down: wire.Down) -> m.Welcome:
    welcome = down.welcome
    _check_version(welcome.version)
    vector = _get_vector(welcome.vector)
    return m.Welcome(
        version=welcome.version, cluster=_text(welcome.cluster), members=_get_members(welcome.members),
        region_id=_region(welcome.region_id), name=_text(welcome.name), life=_counter(welcome.life, 0), vector=vector,
        chains=_get_chains(welcome.chains, vector),
    )  # fmt: skip


def _get_snapshot_begin(down: wire.Down) -> m.SnapshotBegin:
    begin = down.snapshot_begin
    vector = _get_vector(begin.vector)
    return m.SnapshotBegin(_counter(begin.number), vector, _get_chains(begin.chains, vector))


def _get_snapshot_chunk(down: wire.Down) -> m.SnapshotChunk:
    chunk = down.snapshot_chunk
    return m.SnapshotChunk(_counter(chunk.number), _counter(chunk.index, 0), _unpack(chunk.data))


def _get_snapshot_end(down: wire.Down) -> m.SnapshotEnd:
    return m.SnapshotEnd(_counter(down.snapshot_end.number), _counter(down.snapshot_end.chunks, 0))


def _get_heartbeat(down: wire.Down) -> m.Heartbeat:
    beat = down.heartbeat
    if len(beat.digest) not in (0, 16):
        raise PeerError(f"malformed: a digest of {len(beat.digest)} bytes")
    return m.Heartbeat(_get_vector(beat.vector), beat.digest, _get_gossip(beat.gossip))


_DOWN: Final[dict[str, Callable[[wire.Down], m.Down]]] = {
    "welcome": _get_welcome,
    "refusal": lambda down: _get_refusal(down.refusal),
    "batch": _get_batch,
    "part": _get_part,
    "body": _get_body,
    "holding_back": lambda down: m.HoldingBack(down.holding_back.holding, _get_vector(down.holding_back.vector)),
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
