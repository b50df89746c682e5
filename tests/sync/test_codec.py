"""Every message survives its bytes; nothing that comes in can do worse than PeerError."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from anabranch.sync.session import messages as m
from anabranch.sync.session.codec import decode_down, decode_up, encode_down, encode_up
from anabranch.sync.session.fields import COUNTER_MAX, GOSSIP_MAX, MESSAGE_BYTES_MAX
from anabranch.sync.wire import sync_pb2 as wire

regions = st.integers(1, 999)
counters = st.integers(1, COUNTER_MAX)
naturals = st.integers(0, COUNTER_MAX)
vectors = st.dictionaries(regions, counters, max_size=16)
lives = st.dictionaries(regions, naturals, max_size=16)
lost = st.lists(regions, unique=True, max_size=16).map(sorted)
chain_values = st.binary(min_size=16, max_size=16)
texts = st.text(st.characters(codec="utf-8"), max_size=40)
members = st.dictionaries(regions, texts, max_size=16)
directs = st.frozensets(regions, max_size=16)
spans = st.tuples(counters, counters).map(sorted)
blocks = st.builds(
    lambda origin, span, body, chain: Block(origin, span[0], span[1], body, chain),
    regions,
    spans,
    st.binary(max_size=2000),
    chain_values,
)
headers = st.builds(
    lambda origin, span, chain, size: m.Header(origin, span[0], span[1], chain, size),
    regions,
    spans,
    chain_values,
    naturals,
)
gossips = st.builds(
    Gossip,
    st.lists(
        st.builds(Heard, regions, naturals, st.booleans(), vectors, naturals, st.booleans(), lost),
        max_size=5,
    ),
    st.lists(
        st.builds(RecoveryQuestion, regions, naturals, naturals, naturals, lives, lost), max_size=5
    ),
    st.lists(
        st.builds(
            RecoveryAnswer,
            *(regions, naturals, naturals, regions, vectors, naturals, naturals),
            st.booleans(),
            lives,
        ),
        max_size=5,
    ),
)
start_questions = st.builds(StartQuestion, counters, lives, lost)
start_answers = st.builds(StartAnswer, counters, naturals, vectors, naturals, vectors, lives)
refusals = st.builds(m.Refusal, st.sampled_from(m.REASONS), texts, naturals)


def with_chains(data: Any) -> tuple[dict[int, int], dict[int, bytes]]:
    vector = data.draw(vectors)
    return vector, {region_id: data.draw(chain_values) for region_id in vector}


ups = st.one_of(
    st.builds(m.VectorAcknowledgement, vectors, directs, st.none() | gossips),
    st.builds(m.BodyRequest, st.lists(st.tuples(regions, counters), min_size=1, max_size=20)),
    st.builds(m.SnapshotRequest, counters),
    refusals,
    start_questions,
    start_answers,
)
parts = st.builds(
    lambda origin, span, chain, offset, data, more, asked: m.BlockPart(
        origin, span[0], span[1], chain, offset + len(data) + more, offset, data, asked
    ),
    regions,
    spans,
    chain_values,
    st.integers(0, 1 << 40),
    st.binary(min_size=1, max_size=2000),
    st.integers(0, 1000),
    st.booleans(),
)
downs = st.one_of(
    st.builds(m.Batch, st.lists(blocks | headers, min_size=1, max_size=10)),
    parts,
    st.builds(m.Body, blocks),
    st.builds(m.HoldingBack, st.booleans(), vectors),
    st.builds(m.SnapshotChunk, counters, naturals, st.binary(max_size=3000)),
    st.builds(m.SnapshotEnd, counters, naturals),
    st.builds(m.Heartbeat, vectors, st.just(b"") | chain_values, gossips, st.booleans(), texts),
    refusals,
    start_questions,
    start_answers,
)


def plain(value: Any) -> Any:
    """Values with the class they belong to, so that they compare."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    # Compiled classes have no __dict__: the parameters of __init__ name their fields.
    if type(value).__module__.split(".")[0] == "anabranch":
        fields = getattr(type(value), "__dataclass_fields__", None) or list(
            inspect.signature(type(value)).parameters
        )
        return type(value).__name__, {name: plain(getattr(value, name)) for name in fields}
    return value


@given(ups)
def test_up_and_back(message: m.Up) -> None:
    assert plain(decode_up(encode_up(message))) == plain(message)


@given(downs, st.sampled_from(["zstd", "none"]))
def test_down_and_back(message: m.Down, compression: str) -> None:
    assert plain(decode_down(encode_down(message, compression))) == plain(message)


@given(st.data())
def test_handshakes_and_back(data: Any) -> None:
    vector, chains = with_chains(data)
    table, name, life = data.draw(members), data.draw(texts), data.draw(naturals)
    hello = m.Hello(
        m.VERSION,
        "c",
        table,
        7,
        name,
        8,
        life,
        vector,
        chains,
        data.draw(directs),
        data.draw(counters),
        data.draw(naturals),
        data.draw(texts),
    )
    process, place = data.draw(naturals), data.draw(texts)
    welcome = m.Welcome(m.VERSION, "c", table, 8, name, life, vector, chains, process, place)
    begin = m.SnapshotBegin(1, vector, chains)
    assert plain(decode_up(encode_up(hello))) == plain(hello)
    assert plain(decode_down(encode_down(welcome))) == plain(welcome)
    assert plain(decode_down(encode_down(begin))) == plain(begin)


def survives(decode: Any, data: bytes) -> None:
    try:
        decode(data)
    except PeerError:
        pass


@given(st.binary(max_size=400))
@settings(max_examples=500)
def test_noise(data: bytes) -> None:
    survives(decode_up, data)
    survives(decode_down, data)


@given(ups, downs, st.data())
@settings(max_examples=500)
def test_damaged_messages(up: m.Up, down: m.Down, data: Any) -> None:
    for encoded, decode in ((encode_up(up), decode_up), (encode_down(down), decode_down)):
        damaged = bytearray(encoded)
        for _ in range(data.draw(st.integers(1, 4))):
            if damaged:
                damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(
                    st.integers(0, 255)
                )
        cut = data.draw(st.integers(0, len(damaged)))
        survives(decode, bytes(damaged[:cut]))
        survives(decode, bytes(damaged))


def test_a_version_not_spoken_is_refused_as_such() -> None:
    hello = m.Hello(9, "c", {}, 1, "us", 2, 1, {}, {}, frozenset(), 1)
    with pytest.raises(m.LinkRefused) as caught:
        decode_up(encode_up(hello))
    assert caught.value.reason == "version"


def test_a_payload_that_unpacks_to_too_much_is_not_unpacked() -> None:
    import zstandard

    for claimed in (MESSAGE_BYTES_MAX + 1, 1000):
        bomb = zstandard.ZstdCompressor().compress(bytes(MESSAGE_BYTES_MAX + 1))
        down = wire.Down(
            batch=wire.Batch(
                items=wire.Packed(compression=wire.ZSTD, raw_bytes=claimed, payload=bomb)
            )
        )
        with pytest.raises(PeerError):
            decode_down(down.SerializeToString())


@pytest.mark.parametrize(
    "message",
    [
        wire.Up(),
        wire.Up(body_request=wire.BodyRequest()),
        wire.Up(body_request=wire.BodyRequest(dots=[wire.Dot(region_id=1, counter=1)] * 300)),
        wire.Up(
            acknowledgement=wire.VectorAcknowledgement(
                vector=[wire.Counter(region_id=0, counter=1)]
            )
        ),
        wire.Up(
            acknowledgement=wire.VectorAcknowledgement(
                vector=[wire.Counter(region_id=1, counter=1)] * 2
            )
        ),
        wire.Up(acknowledgement=wire.VectorAcknowledgement(vector=[wire.Counter(region_id=1)])),
        wire.Up(acknowledgement=wire.VectorAcknowledgement(direct=[1000])),
        wire.Up(hello=wire.Hello(version=m.VERSION, region_id=1, dialled=2)),
        wire.Up(refusal=wire.Refusal()),
        wire.Up(start_question=wire.StartQuestion()),
        wire.Up(
            start_question=wire.StartQuestion(number=1, lives=[wire.Life(region_id=0, life=1)])
        ),
        wire.Up(
            start_question=wire.StartQuestion(number=1, lives=[wire.Life(region_id=1, life=1)] * 2)
        ),
        wire.Up(start_question=wire.StartQuestion(number=1, lost=[0])),
        wire.Up(
            acknowledgement=wire.VectorAcknowledgement(
                gossip=wire.Gossip(heard=[wire.Heard(region_id=1, lost=[2, 2])])
            )
        ),
        wire.Up(start_question=wire.StartQuestion(number=1, lost=[2, 3, 2])),
        wire.Up(start_answer=wire.StartAnswer(life=1)),
        wire.Up(start_answer=wire.StartAnswer(number=1, vector=[wire.Counter(region_id=1)])),
        wire.Up(start_answer=wire.StartAnswer(number=1, collected=[wire.Counter(region_id=1)])),
        wire.Up(start_answer=wire.StartAnswer(number=1, clock_ms=1 << 63)),
    ],
)
def test_what_no_peer_says_going_up(message: wire.Up) -> None:
    with pytest.raises(PeerError):
        decode_up(message.SerializeToString())


def packed(message: Any) -> wire.Packed:
    raw = message.SerializeToString()
    return wire.Packed(raw_bytes=len(raw), payload=raw)


UNKNOWN: Any = 7
BLOCK = wire.Block(origin=1, first=1, last=1, body=b"b", chain=bytes(16))


@pytest.mark.parametrize(
    "message",
    [
        wire.Down(),
        wire.Down(batch=wire.Batch(items=packed(wire.BatchItems()))),
        wire.Down(batch=wire.Batch(items=packed(wire.BatchItems(items=[wire.BatchItem()])))),
        wire.Down(batch=wire.Batch(items=wire.Packed(raw_bytes=5, payload=b"123"))),
        wire.Down(batch=wire.Batch(items=wire.Packed(compression=UNKNOWN, payload=b""))),
        wire.Down(
            body=wire.Body(block=packed(wire.Block(origin=1, first=2, last=1, chain=bytes(16))))
        ),
        wire.Down(
            body=wire.Body(block=packed(wire.Block(origin=1, first=1, last=1, chain=b"short")))
        ),
        wire.Down(
            part=wire.Part(
                origin=1, first=1, last=1, chain=bytes(16), body_bytes=2, data=packed(BLOCK)
            )
        ),
        wire.Down(heartbeat=wire.Heartbeat(digest=b"short")),
        wire.Down(
            welcome=wire.Welcome(
                version=m.VERSION,
                region_id=1,
                chains=[wire.Chain(region_id=1, counter=4, chain=bytes(16))],
            )
        ),
        wire.Down(snapshot_end=wire.SnapshotEnd()),
        wire.Down(start_question=wire.StartQuestion()),
        wire.Down(start_answer=wire.StartAnswer(number=1, life=1 << 63)),
        wire.Down(
            heartbeat=wire.Heartbeat(
                gossip=wire.Gossip(
                    questions=[wire.RecoveryQuestion(asker=1, lives=[wire.Life(region_id=1000)])]
                )
            )
        ),
    ],
)
def test_what_no_peer_says_coming_down(message: wire.Down) -> None:
    with pytest.raises(PeerError):
        decode_down(message.SerializeToString())


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            wire.Up(refusal=wire.Refusal(reason=wire.Reason.Name(1), text="x" * 1025)),
            "a text of 1025 characters",
        ),
        (
            wire.Down(
                welcome=wire.Welcome(
                    version=m.VERSION,
                    region_id=1,
                    vector=[wire.Counter(region_id=1, counter=3)],
                    chains=[wire.Chain(region_id=1, counter=4, chain=bytes(16))],
                )
            ),
            "not the vector's",
        ),
        (
            wire.Up(
                hello=wire.Hello(
                    version=m.VERSION,
                    region_id=1,
                    dialled=2,
                    window_bytes=1,
                    members=[wire.Member(region_id=1, name="us")] * 2,
                )
            ),
            "a region twice among the members",
        ),
        (
            wire.Down(
                batch=wire.Batch(
                    items=wire.Packed(compression=wire.ZSTD, raw_bytes=5, payload=b"12345")
                )
            ),
            "error when determining content size",
        ),
        (
            wire.Up(
                acknowledgement=wire.VectorAcknowledgement(
                    gossip=wire.Gossip(heard=[wire.Heard(region_id=1)] * (GOSSIP_MAX + 1))
                )
            ),
            "too much gossip",
        ),
    ],
)
def test_the_error_says_what_is_wrong(message: Any, text: str) -> None:
    decode = decode_up if isinstance(message, wire.Up) else decode_down
    with pytest.raises(PeerError, match=text):
        decode(message.SerializeToString())


def test_effects_that_nobody_has_take_no_place() -> None:
    """A vector names no region with counter 0, and no chain value of it (S1.2)."""
    welcome = m.Welcome(
        *(m.VERSION, "c", {}, 2, "eu", 1, {1: 0, 2: 3}, {1: bytes(16), 2: b"c" * 16, 3: bytes(16)})
    )
    heard = decode_down(encode_down(welcome))
    assert isinstance(heard, m.Welcome)
    assert (heard.vector, heard.chains) == ({2: 3}, {2: b"c" * 16})


def test_how_far_clocks_are_ahead_is_told_in_gossip() -> None:
    heard = Heard(1, 5, True, {}, 0, False, [], 0, {2: 7, 3: -4})
    message = m.VectorAcknowledgement({}, frozenset(), Gossip([heard], [], []))
    told = decode_up(encode_up(message))
    assert isinstance(told, m.VectorAcknowledgement) and told.gossip is not None
    assert told.gossip.heard[0].ahead == {2: 7, 3: -4}


def test_a_message_that_is_too_long_is_refused_before_it_is_parsed() -> None:
    for decode in (decode_up, decode_down):
        with pytest.raises(PeerError, match=f"a message of {MESSAGE_BYTES_MAX + 1} bytes"):
            decode(bytes(MESSAGE_BYTES_MAX + 1))
