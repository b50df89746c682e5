"""Malformed bytes and messages for the port where regions meet, drawn from a seed.

A message is malformed if no region of this version sends it: it does not decode, or it breaks the
order of messages or the rules of blocks. Well-formed lies of a member (effects, lives and clocks
that it made up) are no part of this: members trust each other.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Final

import zstandard

from anabranch.cluster.regions import CLUSTER
from anabranch.crdt.block import Block, BlockWriter, chain_after, read_effects
from anabranch.crdt.encoding import Malformed
from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import Gossip, Heard, StartAnswer, StartQuestion
from anabranch.sync.live.carrier import METHOD
from anabranch.sync.session import messages as m
from anabranch.sync.session.codec import decode_down, decode_up, encode_down, encode_up
from anabranch.sync.session.fields import MESSAGE_BYTES_MAX
from anabranch.sync.wire import sync_pb2 as wire

MEMBERS: Final = {1: "us", 2: "eu", 3: "ap"}
# The member that the program plays, and the effects that it says it has.
PLAYED: Final = 3
HELD: Final = 100
WINDOW_BYTES: Final = 1 << 20

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS: Final = {
    ":method": "POST",
    ":scheme": "http",
    ":path": METHOD,
    ":authority": "x",
    "content-type": "application/grpc",
    "te": "trailers",
}


# -- bytes


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    head = struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
    return head + struct.pack(">I", stream) + payload


def request(*data: bytes, flags: int = 0, **changes: str) -> bytes:
    """The bytes of a call over HTTP/2: headers, then a DATA frame for each of `data`.

    `flags` are those of the DATA frames; 1 ends the call. `changes`: other headers.
    """
    headers = {**_HEADERS, **{name.replace("_", "-"): value for name, value in changes.items()}}
    block = b"".join(
        b"\x00" + b"".join(bytes([len(word)]) + word.encode() for word in pair)
        for pair in headers.items()
    )
    frames = b"".join(frame(0, flags, 1, payload) for payload in data)
    return PREFACE + frame(4, 0, 0, b"") + frame(1, 4, 1, block) + frames


def prefixed(body: bytes, size: int | None = None, flag: int = 0) -> bytes:
    """A message of gRPC with its prefix; `size`: the length that the prefix says."""
    return bytes([flag]) + struct.pack(">I", len(body) if size is None else size) + body


def raw_bytes(chance: random.Random) -> tuple[str, bytes]:
    """Bytes that are no call of gRPC, or a broken one; with the kind, for the table at the end."""
    noise = chance.randbytes(chance.randint(1, 300))
    name, data = chance.choice(
        [
            ("random bytes", noise),
            ("HTTP/1", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + noise),
            ("RESP", b"*1\r\n$4\r\nPING\r\n"),
            ("TLS hello", b"\x16\x03\x01\x02\x00\x01" + noise),
            ("random frames", PREFACE + frame(4, 0, 0, b"") + noise),
            ("frames without headers", PREFACE + frame(4, 0, 0, b"") + frame(0, 1, 1, noise)),
            ("wrong prefix", request(prefixed(noise, flag=chance.randint(2, 255)))),
            ("gzip that is none", request(prefixed(noise, flag=1), grpc_encoding="gzip")),
            ("unknown encoding", request(prefixed(noise, flag=1), grpc_encoding="nonsense")),
            ("promised length", request(prefixed(noise, chance.choice([1 << 20, 0xFFFFFFFF])))),
            ("wrong content type", request(prefixed(noise), content_type="text/html")),
            ("truncated call", request(prefixed(noise))),
        ]
    )
    if name == "truncated call":
        data = data[: chance.randrange(len(PREFACE), len(data))]
    return name, data


def mutated(data: bytes, chance: random.Random) -> bytes:
    """`data` with one to three faults."""
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(data) + 1)
        fault = chance.randrange(5)
        if fault == 0:
            data = data[:place] + chance.randbytes(1) + data[place + 1 :]
        elif fault == 1:
            data = data[:place] + data[place + chance.randint(1, 8) :]
        elif fault == 2:
            data = data[:place] + chance.randbytes(chance.randint(1, 8)) + data[place:]
        elif fault == 3:
            data = data[:place]
        else:
            data = data[:place] + b"\xff" * chance.randint(5, 20) + data[place:]
    return data


# -- messages


def hello(region_id: int, name: str, dialled: int, life: int) -> m.Hello:
    """A Hello. With the names of a member, the region that is `dialled` takes it."""
    return m.Hello(
        m.VERSION, CLUSTER, MEMBERS, region_id, name, dialled, life, {}, {}, frozenset(),
        WINDOW_BYTES,
    )  # fmt: skip


def welcome(life: int) -> m.Welcome:
    """The Welcome of the member that the program plays."""
    chains = {PLAYED: bytes(16)}
    name = MEMBERS[PLAYED]
    return m.Welcome(m.VERSION, CLUSTER, MEMBERS, PLAYED, name, life, {PLAYED: HELD}, chains)


def bad_hello(chance: random.Random) -> tuple[str, bytes]:
    """A Hello that a region must refuse."""
    one = hello(PLAYED, MEMBERS[PLAYED], 1, 1)
    kind = chance.choice(["version", "cluster", "name", "region", "dialled", "members", "own"])
    if kind == "version":
        one.version = chance.choice([0, 1, 3, 99])
    elif kind == "cluster":
        one.cluster = chance.choice(["", "other", "\n", "x" * chance.randint(1, 5000)])
    elif kind == "name":
        one.name = chance.choice(["", "eu", "\x00", "é" * 100])
    elif kind == "region":
        one.region_id = chance.choice([2, 4, 15, 1000])
    elif kind == "dialled":
        one.dialled = chance.choice([2, 3, 14])
    elif kind == "members":
        one.members = {1: "us", PLAYED: "ap", 9: chance.choice("abc")}
    else:
        one.region_id, one.name = 1, "us"
    return f"Hello: wrong {kind}", encode_up(one)


def _good_ups(chance: random.Random) -> list[bytes]:
    gossip = Gossip([Heard(PLAYED, 1, True, {PLAYED: 1}, 1)], [], [])
    messages: list[m.Up] = [
        m.VectorAcknowledgement({1: 1, PLAYED: 5}, frozenset({1}), gossip),
        m.BodyRequest([(1, chance.randint(1, 9)), (2, 3)]),
        m.SnapshotRequest(chance.randint(1, 9)),
        m.Refusal("gap", "no reason"),
        StartQuestion(1, {PLAYED: 1}),
        StartAnswer(1, 1, {PLAYED: 1}, 1, {}),
        hello(PLAYED, MEMBERS[PLAYED], 1, 1),
    ]
    return [encode_up(one) for one in messages]


def _refused(decode: Callable[[bytes], object], data: bytes) -> bool:
    try:
        decode(data)
    except PeerError:
        return True
    return False


def bad_up(chance: random.Random) -> tuple[str, bytes]:
    """A message of a dialler that does not decode."""
    while True:
        kind = chance.randrange(5)
        if kind == 0:
            name, data = "random bytes", chance.randbytes(chance.randint(0, 200))
        elif kind == 1:
            name, data = "message of the other side", encode_down(m.SnapshotEnd(1, 1), "none")
        elif kind == 2:
            name, data = "truncated message", chance.choice(_good_ups(chance))[:-1]
        elif kind == 3:
            name, data = "too many dots", encode_up(m.BodyRequest([(1, 1)] * (m.DOTS_MAX + 1)))
        else:
            name, data = "mutated message", mutated(chance.choice(_good_ups(chance)), chance)
        if _refused(decode_up, data):
            return name, data


def huge_up(chance: random.Random) -> bytes:
    """A message near the greatest length, below or above it."""
    size = MESSAGE_BYTES_MAX + chance.choice([-100, 100, 1 << 20])
    return b"\x0a" + bytes(size)


def _block(chance: random.Random) -> Block:
    """A valid block of the member that the program plays."""
    writer = BlockWriter(PLAYED, 1, 0, 0)
    names = b"\x01\x01f"
    for number in range(chance.randint(1, 20)):
        value = chance.randbytes(chance.randint(0, 60))
        writer.add(b"key-%d" % (number // 7), 1000 + number, 3, names, bytes([len(value)]) + value)
    body = writer.body()
    return Block(PLAYED, writer.first, writer.last, body, chain_after(bytes(16), body))


def bad_block(chance: random.Random) -> tuple[str, Block]:
    """A block that a region without effects of its origin must refuse."""
    one = _block(chance)
    kind = chance.choice(["chain", "gap", "origin", "head", "body", "body", "body"])
    if kind == "chain":
        one.chain = chance.randbytes(16)
    elif kind == "gap":
        shift = chance.randint(1, 1 << 40)
        one.first, one.last = one.first + shift, one.last + shift
    elif kind == "origin":
        one.origin = chance.choice([4, 9, 1000])
    elif kind == "head":
        one.last += chance.randint(1, 1 << 40)
    else:
        sound = one.body
        while not _is_malformed(one):
            one.body = mutated(sound, chance)
            one.chain = chain_after(bytes(16), one.body)
    return f"block: wrong {kind}", one


def _is_malformed(block: Block) -> bool:
    try:
        read_effects(block)
    except Malformed:
        return True
    return False


def bad_down(chance: random.Random) -> tuple[str, list[bytes]]:
    """Messages of a side that was dialled, of which one must be refused, after its Welcome."""
    kind = chance.randrange(8)
    if kind <= 2:
        name, block = bad_block(chance)
        return name, [encode_down(m.Batch([block]), chance.choice(["none", "zstd"]))]
    block = _block(chance)
    head = (block.origin, block.first, block.last)
    if kind == 3:
        return "body that was not asked for", [encode_down(m.Body(block), "none")]
    if kind == 4:
        part = m.BlockPart(*head, block.chain, 1000, 500, b"x" * 10, False)
        return "part out of order", [encode_down(part, "none")]
    if kind == 5:
        return "second Welcome", [encode_down(welcome(1), "none")]
    if kind == 6:
        return "packed bytes", [_packed(chance)]
    while True:
        data = mutated(encode_down(m.Batch([block]), "none"), chance)
        if _refused(decode_down, data):
            return "mutated batch", [data]


def _packed(chance: random.Random) -> bytes:
    """A batch whose packed items say a wrong length or compression, or are no items."""
    size = chance.choice([0, 1, 1 << 20, MESSAGE_BYTES_MAX, 1 << 62])
    payload = chance.randbytes(50)
    packed = wire.Packed(compression=wire.ZSTD, raw_bytes=size, payload=payload)
    if chance.random() < 0.3:
        bomb = zstandard.ZstdCompressor().compress(bytes(8 << 20))
        packed = wire.Packed(compression=wire.ZSTD, raw_bytes=8 << 20, payload=bomb)
    elif chance.random() < 0.3:
        packed.compression = wire.NONE
    return bytes(wire.Down(batch=wire.Batch(items=packed)).SerializeToString())


def bad_snapshot(chance: random.Random, number: int) -> tuple[str, list[bytes]]:
    """The messages of a snapshot with `number` that a region must refuse."""
    begin = m.SnapshotBegin(number, {PLAYED: HELD}, {PLAYED: bytes(16)})
    chunk = chance.randbytes(chance.randint(1, 300))
    pieces: list[m.Down] = [begin, m.SnapshotChunk(number, 0, chunk), m.SnapshotEnd(number, 1)]
    kind = chance.randrange(4)
    if kind == 0:
        pieces = pieces[1:]
    elif kind == 1:
        pieces[1] = m.SnapshotChunk(number, 7, chunk)
    elif kind == 2:
        pieces[2] = m.SnapshotEnd(number, 3)
    name = ["without beginning", "out of order", "cut off", "of noise"][kind]
    return f"snapshot {name}", [encode_down(piece, "none") for piece in pieces]
