"""The conversion of parts of messages to and from protobuf.

These parts are vectors, chains, members, blocks, gossip and packed bytes. A ``get_…`` function
checks its input and raises PeerError when a part is malformed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import zstandard

from anabranch.crdt.block import Block
from anabranch.crdt.errors import PeerError
from anabranch.crdt.gossip import (
    Gossip,
    Heard,
    RecoveryAnswer,
    RecoveryQuestion,
    StartAnswer,
    StartQuestion,
)
from anabranch.crdt.ids import REGION_ID_MAX
from anabranch.crdt.vector import Vector
from anabranch.sync.session import messages as m
from anabranch.sync.wire import sync_pb2 as wire

MESSAGE_BYTES_MAX: Final = 32 << 20
COUNTER_MAX: Final = (1 << 63) - 1
TEXT_MAX: Final = 1024
GOSSIP_MAX: Final = 4096
# Smaller payloads are not compressed: they gain nothing.
PACK_FROM_BYTES: Final = 256
CHAIN_BYTES: Final = 16

_compressor = zstandard.ZstdCompressor(level=1)
_decompressor = zstandard.ZstdDecompressor()


# -- checks of incoming values


def region(region_id: int) -> int:
    if not 1 <= region_id <= REGION_ID_MAX:
        raise PeerError(f"region_id {region_id}")
    return region_id


def counter(counter: int, lowest: int = 1) -> int:
    if not lowest <= counter <= COUNTER_MAX:
        raise PeerError(f"counter {counter}")
    return counter


def chain(chain: bytes) -> bytes:
    if len(chain) != CHAIN_BYTES:
        raise PeerError(f"a chain value of {len(chain)} bytes")
    return chain


def text(text: str) -> str:
    if len(text) > TEXT_MAX:
        raise PeerError(f"a text of {len(text)} characters")
    return text


def span(first: int, last: int) -> tuple[int, int]:
    if not 1 <= first <= last <= COUNTER_MAX:
        raise PeerError(f"a block from {first} to {last}")
    return first, last


# -- parts, in both directions


def put_vector(counters: Any, vector: Vector) -> None:
    for region_id in sorted(vector):
        if vector[region_id] > 0:
            counters.add(region_id=region_id, counter=vector[region_id])


def get_vector(counters: Iterable[wire.Counter]) -> Vector:
    vector: Vector = {}
    for one in counters:
        if region(one.region_id) in vector:
            raise PeerError("a region twice in a vector")
        vector[one.region_id] = counter(one.counter)
    return vector


def put_chains(target: Any, vector: Vector, chains: dict[int, bytes]) -> None:
    for region_id in sorted(chains):
        if vector.get(region_id, 0) > 0:
            target.add(region_id=region_id, counter=vector[region_id], chain=chains[region_id])


def get_chains(source: Iterable[wire.Chain], vector: Vector) -> dict[int, bytes]:
    chains: dict[int, bytes] = {}
    for one in source:
        if vector.get(region(one.region_id)) != one.counter or one.region_id in chains:
            raise PeerError("a chain value of a counter that is not the vector's")
        chains[one.region_id] = chain(one.chain)
    return chains


def put_members(target: Any, members: dict[int, str]) -> None:
    for region_id in sorted(members):
        target.add(region_id=region_id, name=members[region_id])


def get_members(source: Iterable[wire.Member]) -> dict[int, str]:
    members: dict[int, str] = {}
    for one in source:
        if region(one.region_id) in members:
            raise PeerError("a region twice among the members")
        members[one.region_id] = text(one.name)
    return members


def pack(raw: bytes, compression: str) -> wire.Packed:
    if compression == "zstd" and len(raw) >= PACK_FROM_BYTES:
        payload = _compressor.compress(raw)
        if len(payload) < len(raw):
            return wire.Packed(compression=wire.ZSTD, raw_bytes=len(raw), payload=payload)
    return wire.Packed(compression=wire.NONE, raw_bytes=len(raw), payload=raw)


def unpack(packed: wire.Packed) -> bytes:
    if packed.raw_bytes > MESSAGE_BYTES_MAX:
        raise PeerError(f"{packed.raw_bytes} bytes in one message")
    raw = packed.payload
    if packed.compression == wire.ZSTD:
        try:
            # The decompressor allocates the size that the frame names, so check that size first.
            if zstandard.frame_content_size(raw) != packed.raw_bytes:
                raise PeerError("a packed payload of another size")
            raw = _decompressor.decompress(raw, max_output_size=packed.raw_bytes)
        except zstandard.ZstdError as error:
            raise PeerError(str(error)) from error
    elif packed.compression != wire.NONE:
        raise PeerError(f"compression {packed.compression}")
    if len(raw) != packed.raw_bytes:
        raise PeerError("a payload of another size")
    return raw


def put_block(block: Block) -> wire.Block:
    return wire.Block(
        origin=block.origin, first=block.first, last=block.last, body=block.body, chain=block.chain
    )


def get_block(one: wire.Block) -> Block:
    first, last = span(one.first, one.last)
    return Block(
        origin=region(one.origin), first=first, last=last, body=one.body, chain=chain(one.chain)
    )


def put_gossip(gossip: Gossip) -> wire.Gossip:
    result = wire.Gossip()
    for heard in gossip.heard:
        one = result.heard.add(
            region_id=heard.region_id,
            life=heard.life,
            counts=heard.counts,
            clock_ms=heard.clock_ms,
            asks_stable=heard.asks_stable,
            lost=sorted(heard.lost),
            read_ms=heard.read_ms,
        )
        put_vector(one.vector, heard.vector)
        for region_id in sorted(heard.ahead):
            one.ahead.add(region_id=region_id, ms=heard.ahead[region_id])
    for asked in gossip.questions:
        question = result.questions.add(
            asker=asked.asker, life=asked.life, number=asked.number, recovery=asked.recovery
        )
        put_lives(question.lives, asked.lives)
        question.lost.extend(asked.lost)
    for answer in gossip.answers:
        said = result.answers.add(
            asker=answer.asker,
            life=answer.life,
            number=answer.number,
            answerer=answer.answerer,
            recovery=answer.recovery,
            clock_ms=answer.clock_ms,
            has_salvage=answer.has_salvage,
        )
        put_vector(said.vector, answer.vector)
        put_lives(said.lives, answer.lives)
    return result


def get_gossip(gossip: wire.Gossip) -> Gossip:
    if len(gossip.heard) + len(gossip.questions) + len(gossip.answers) > GOSSIP_MAX:
        raise PeerError("too much gossip")
    heard = [
        Heard(
            region(one.region_id),
            counter(one.life, 0),
            one.counts,
            get_vector(one.vector),
            counter(one.clock_ms, 0),
            one.asks_stable,
            get_lost(one.lost),
            counter(one.read_ms, 0),
            {region(each.region_id): each.ms for each in one.ahead},
        )
        for one in gossip.heard
    ]
    questions = [
        RecoveryQuestion(
            region(one.asker),
            counter(one.life, 0),
            counter(one.number, 0),
            counter(one.recovery, 0),
            get_lives(one.lives),
            get_lost(one.lost),
        )
        for one in gossip.questions
    ]
    answers = [
        RecoveryAnswer(
            region(one.asker),
            counter(one.life, 0),
            counter(one.number, 0),
            region(one.answerer),
            get_vector(one.vector),
            counter(one.recovery, 0),
            counter(one.clock_ms, 0),
            one.has_salvage,
            get_lives(one.lives),
        )
        for one in gossip.answers
    ]
    return Gossip(heard, questions, answers)


def put_lives(target: Any, lives: dict[int, int]) -> None:
    for region_id in sorted(lives):
        target.add(region_id=region_id, life=lives[region_id])


def get_lives(source: Iterable[wire.Life]) -> dict[int, int]:
    lives: dict[int, int] = {}
    for one in source:
        if region(one.region_id) in lives:
            raise PeerError("a region twice among the lives")
        lives[one.region_id] = counter(one.life, 0)
    return lives


def get_lost(source: Iterable[int]) -> list[int]:
    lost = [region(one) for one in source]
    if len(set(lost)) < len(lost):
        raise PeerError("a region twice among the lost members")
    return lost


def put_start_question(question: StartQuestion) -> wire.StartQuestion:
    result = wire.StartQuestion(number=question.number, lost=question.lost)
    put_lives(result.lives, question.lives)
    return result


def get_start_question(question: wire.StartQuestion) -> StartQuestion:
    return StartQuestion(
        counter(question.number), get_lives(question.lives), get_lost(question.lost)
    )


def put_start_answer(answer: StartAnswer) -> wire.StartAnswer:
    result = wire.StartAnswer(
        number=answer.number, life=answer.life, clock_ms=answer.clock_ms, read_ms=answer.read_ms
    )
    put_vector(result.vector, answer.vector)
    put_vector(result.collected, answer.collected)
    put_lives(result.lives, answer.lives)
    return result


def get_start_answer(answer: wire.StartAnswer) -> StartAnswer:
    return StartAnswer(
        counter(answer.number),
        counter(answer.life, 0),
        get_vector(answer.vector),
        counter(answer.clock_ms, 0),
        get_vector(answer.collected),
        get_lives(answer.lives),
        counter(answer.read_ms, 0),
    )


def put_refusal(refusal: m.Refusal) -> wire.Refusal:
    return wire.Refusal(
        reason=wire.Reason.Name(m.REASONS.index(refusal.reason) + 1),
        text=refusal.text[:TEXT_MAX],
        life=refusal.life,
    )


def get_refusal(refusal: wire.Refusal) -> m.Refusal:
    if not 1 <= refusal.reason <= len(m.REASONS):
        raise PeerError(f"reason {refusal.reason}")
    return m.Refusal(m.REASONS[refusal.reason - 1], text(refusal.text), counter(refusal.life, 0))
