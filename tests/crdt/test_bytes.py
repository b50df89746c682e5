"""Encodings for the wire and the disk: round trips, and malformed bytes (S1.4, S11.2, S13.1)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from anabranch.crdt import effects as fx
from anabranch.crdt.adds import IdempotentAdds
from anabranch.crdt.apply import apply, apply_block
from anabranch.crdt.block import NO_CHAIN, Block, BlockWriter, chain_after, read_effects
from anabranch.crdt.effect_bytes import put_effect, read_effect, write_idempotent_adds
from anabranch.crdt.encoding import (
    Malformed,
    Reader,
    put_bytes,
    put_dots,
    put_id,
    put_varint,
    put_vector,
    stands_at,
    varint,
    with_length,
    write_part,
    write_varint,
)
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.ids import SEQ_STRIDE, make
from anabranch.crdt.images import StateImage
from anabranch.crdt.join import join as join_snapshot
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import (
    Claim,
    Claimed,
    ConsumerDeleted,
    ConsumerMade,
    Delivered,
    FloorRaised,
    FloorSet,
    LocalRecord,
    RecordHead,
    Removed,
    apply_local,
    read_records,
)
from anabranch.crdt.merge import forward
from anabranch.crdt.node import FOLLOWS, decode_fields, encode_names, encode_values, put_entry
from anabranch.crdt.pair import pair_of
from anabranch.crdt.pel_chunk import entry_ref
from anabranch.crdt.place import at_counters, at_id, put_place
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.scan import FOLLOWS_WORD, SAME_NAMES, Scan
from anabranch.crdt.snapshot import SNAPSHOT_VERSION, read_snapshot
from anabranch.crdt.spans import Spans, put_spans_by_region
from anabranch.crdt.state import (
    STATE_VERSION,
    NodeImage,
    cut_converged,
    push_node,
    put_local,
    read_converged,
    read_local,
    read_node,
)
from anabranch.crdt.stream import NEVER, Stream
from anabranch.crdt.vector import Vector
from anabranch.sim.twin.effects import Add, Announce, Pairing, Plain
from tests.crdt.histories import ACTIONS, History, Step, ids_of, join
from tests.crdt.support import (
    Twin,
    add_run,
    converged,
    effect_of,
    kept,
    locals_of,
    receive,
    snapshot_bytes,
    trimmed_of,
)

numbers = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
entry_ids = st.builds(lambda ms, seq: ms << 64 | seq, numbers, numbers)
names = st.binary(max_size=6)
vectors = st.dictionaries(st.integers(1, 999), st.integers(1, 1 << 40), max_size=4)
dots = st.lists(st.tuples(st.integers(1, 999), st.integers(1, 1 << 40)), max_size=4)


# -- basic types


def test_parts_are_those_of_slices() -> None:
    """Compiled code reads and writes words of eight bytes, of which the last is not whole."""
    data = bytes(n * 7 % 256 for n in range(100))
    for start in (0, 1, 5):
        for size in (0, 1, 7, 8, 9, 15, 16, 17, 38, 63, 64, 65, 90, 95):
            part = data[start : start + size]
            out = BytesWriter()
            write_part(out, data, start, start + size)
            assert out.getvalue() == part
            assert stands_at(data, start, part)
            for at in range(size):
                other = part[:at] + bytes([part[at] ^ 64]) + part[at + 1 :]
                assert not stands_at(data, start, other)
    assert not stands_at(data, 95, data[95:] + b"x"), "the data end before the text"


def test_a_number_of_an_entry_has_at_most_64_bits() -> None:
    """Its ms, seq, counter and length; the compiled walk would go on with a part of it."""
    for place in range(4):
        for number in (1 << 63, 1 << 64, 1 << 72):
            numbers = [0, 0, 0, 0]
            numbers[place] = number
            scan = Scan(b"\0" + b"".join(map(varint, numbers)), 0)
            if number < 1 << 64:
                assert place > 1 or (scan.step() and (scan.ms, scan.seq)[place] == number)
                continue
            with pytest.raises(ValueError, match="more than 64 bits"):
                scan.step()


def test_a_number_below_0_is_no_varint() -> None:
    for value in (-1, -129, -(1 << 70)):
        with pytest.raises(ValueError):
            varint(value)
        with pytest.raises(ValueError):
            write_varint(BytesWriter(), value)


def test_the_word_of_an_entry_that_follows() -> None:
    assert FOLLOWS_WORD.to_bytes(3, "little") == FOLLOWS


@given(st.integers(0, (1 << 140) - 1), st.binary(), entry_ids, vectors, dots)
def test_words_round_trip(
    number: int, data: bytes, entry_id: int, vector: dict[int, int], several: list[tuple[int, int]]
) -> None:
    out = bytearray()
    put_varint(out, number)
    put_bytes(out, data)
    put_id(out, entry_id)
    put_vector(out, vector)
    put_dots(out, several)
    reader = Reader(bytes(out))
    assert (reader.varint(), reader.bytes_(), reader.id_(), reader.vector(), reader.dots()) == (
        number,
        data,
        entry_id,
        vector,
        several,
    )
    assert reader.at_end()
    for length in range(len(out)):
        with pytest.raises(Malformed):
            reader = Reader(bytes(out[:length]))
            reader.varint(), reader.bytes_(), reader.id_(), reader.vector(), reader.dots()


def test_promises_are_not_believed() -> None:
    """A count or length beyond the data present is refused before anything is allocated."""
    for reads in (Reader.vector, Reader.dots, Reader.bytes_):
        out = bytearray()
        put_varint(out, 1 << 60)
        with pytest.raises(Malformed):
            reads(Reader(bytes(out)))
    with pytest.raises(Malformed):
        Reader(b"\xff" * 100).varint()


@pytest.mark.parametrize(("ms", "seq"), [(1 << 64, 0), (0, 1 << 64), (1 << 80, 1 << 80)])
def test_ids_beyond_128_bits_are_refused(ms: int, seq: int) -> None:
    """S4.5: an ID has 64+64 bits. A longer seq would overflow into the ms."""
    out = bytearray()
    put_varint(out, ms)
    put_varint(out, seq)
    with pytest.raises(Malformed):
        Reader(bytes(out)).id_()


# -- effects and blocks

fields = st.lists(st.tuples(names, names), min_size=1, max_size=3).map(
    lambda pairs: [part for pair in pairs for part in pair]
)
pairings = st.builds(Pairing, st.just(b"pid"), names, numbers, vectors)
counters = st.dictionaries(
    st.integers(1, 9), st.frozensets(st.integers(1, 20), min_size=1), max_size=3
).map(lambda spans: {(region_id, counter) for region_id in spans for counter in spans[region_id]})
keys = st.sampled_from([b"", b"k", b"key\x00\xff"])
operations: st.SearchStrategy[Plain] = st.one_of(
    st.builds(Add, keys, entry_ids, fields),
    st.builds(Add, keys, entry_ids, fields, pairings),
    st.builds(fx.RemoveEntries, keys, dots),
    st.builds(fx.Trim, keys, vectors, st.booleans()),
    st.builds(fx.Delete, keys, vectors),
    st.builds(fx.Flush, vectors),
    st.builds(fx.SetId, keys, entry_ids),
    st.builds(fx.CreateGroup, keys, names, entry_ids, st.just(False), vectors),
    st.builds(fx.CreateGroup, keys, names, st.just(0), st.just(True), vectors),
    st.builds(fx.DestroyGroup, keys, names),
    st.builds(Announce, keys, names, dots, counters, st.just({})),
    st.builds(fx.SetDeadline, keys, st.sampled_from([0, 5, NEVER]), dots),
    st.builds(fx.RemoveObserved, keys, vectors, st.booleans()),
    st.builds(fx.Configure, keys, numbers, numbers, dots, vectors),
)


def plain(value: object) -> object:
    """An effect as comparable values: its class and fields, spans as lists."""
    if isinstance(value, Spans):
        return (value.starts, value.ends, value.end_ids)
    if isinstance(value, (int, bytes, bool)):
        return value
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    slots = [
        name
        for name in dir(value)
        if not name.startswith("_") and not callable(getattr(value, name))
    ]
    return (type(value).__name__, {name: plain(getattr(value, name)) for name in slots})


def single_adds(effects: list[fx.Effect], first: int) -> list[object]:
    """The effects, each with its counter; runs of adds are split into single adds."""
    result: list[object] = []
    counter = first
    for effect in effects:
        if isinstance(effect, fx.AddRun):
            keyspace = Keyspace(1, NodeLimits(0, 0))
            apply(keyspace, effect, 1, counter, 0, False)
            for entry in forward(keyspace.keys[effect.key].logs, 0, (1 << 128) - 1, -1).listed():
                assert entry.counter == counter
                result.append((counter, effect.key, entry.entry_id, tuple(entry.fields)))
                counter += 1
        else:
            result.append((counter, plain(effect)))
            counter += fx.dots_of(effect)
    return result


@settings(max_examples=300)
@given(
    st.lists(operations, max_size=12),
    st.integers(1, 1000),
    st.sampled_from([(0, 0), (2, 0), (100, 40)]),
)
def test_blocks_round_trip(written: list[Plain], first: int, limits: tuple[int, int]) -> None:
    """Writing and reading gives the same effects with the same counters; adds become runs."""
    writer = BlockWriter(3, first, *limits)
    assert writer.size() == 0
    expected: list[object] = []
    counter = first
    for each in written:
        if isinstance(each, Add) and each.pairing is None:
            writer.add(
                each.key,
                each.entry_id >> 64,
                each.entry_id & ((1 << 64) - 1),
                encode_names(each.fields[::2]),
                encode_values(each.fields[1::2]),
            )
            expected.append((counter, each.key, each.entry_id, tuple(each.fields)))
        else:
            effect = effect_of(each, (3, counter))
            writer.put(effect)
            expected.append((counter, plain(effect)))
        counter += 1
        assert writer.last == counter - 1
    assert (writer.size() == 0) == (not written)
    body = writer.body()
    block = Block(3, first, counter - 1, body, chain_after(NO_CHAIN, body))
    assert single_adds(read_effects(block), first) == expected
    for origin, begin, end in (
        (4, first, counter - 1),
        (3, first + 1, counter - 1),
        (3, first, counter),
    ):
        with pytest.raises(Malformed):
            read_effects(Block(origin, begin, end, body, block.chain))


@pytest.mark.parametrize("limits", [(2, 0), (0, 24)])
def test_runs_are_cut_to_nodes(limits: tuple[int, int]) -> None:
    """A run is at most as large as a node, so that the receiver can store it as one (S12.1)."""
    writer = BlockWriter(1, 1, *limits)
    for ms in range(1, 8):
        writer.add(b"k", ms, 0, encode_names([b"f"]), encode_values([b"v" * 5]))
    body = writer.body()
    runs = read_effects(Block(1, 1, 7, body, chain_after(NO_CHAIN, body)))
    assert all(
        isinstance(run, fx.AddRun) and (run.count <= 2 and len(run.data) <= 24) for run in runs
    )
    assert [run.count for run in runs if isinstance(run, fx.AddRun)] == [2, 2, 2, 1]


def test_chain_depends_on_every_block_and_its_place() -> None:
    """S13.5: the chain value depends on the bytes and the order of all blocks."""
    one, two = chain_after(NO_CHAIN, b"one"), chain_after(NO_CHAIN, b"two")
    assert len({one, two, chain_after(one, b"two"), chain_after(two, b"one"), NO_CHAIN}) == 5
    assert chain_after(NO_CHAIN, b"one") == one and len(one) == 16


def test_fields_round_trip() -> None:
    for several in (
        [b"a", b"1"],
        [b"", b""],
        [b"a", b"1", b"a", b"2"],
        [b"x" * 300, b"\x00\xff" * 200],
    ):
        assert decode_fields(encode_names(several[::2]), encode_values(several[1::2])) == several


# -- malformed bytes


def mutations(body: bytes, seed: int) -> list[bytes]:
    """Corrupted copies of `body`: all truncations, and 300 random changes drawn from `seed`.

    A change overwrites, inserts or deletes bytes, or flips a bit.
    """
    chance = random.Random(seed)
    result = [body[:length] for length in range(len(body))]
    for _ in range(300):
        mutated = bytearray(body)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(mutated) + 1)
            kind = chance.randrange(4)
            if kind == 0 and place < len(mutated):
                mutated[place] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
            elif kind == 1:
                mutated[place:place] = bytes(
                    chance.randrange(256) for _ in range(chance.randint(1, 12))
                )
            elif kind == 2:
                del mutated[place : place + chance.randint(1, 5)]
            elif place < len(mutated):
                mutated[place] ^= 1 << chance.randrange(8)
        result.append(bytes(mutated))
    return result


def every_effect() -> list[fx.Effect]:
    """One effect of each kind."""
    run = add_run(b"k", [(5 << 64 | 1, (b"f", b"v")), (5 << 64 | 2, (b"f", b"w"))], 1)
    others: list[Plain] = [
        Add(b"k", 9, [b"f", b"v"], Pairing(b"p", b"i", 1000, {1: 2})),
        fx.RemoveEntries(b"k", [(1, 1), (2, 5)]),
        fx.Trim(b"k", {1: 2, 3: 4}, True),
        fx.Delete(b"k", {1: 4}),
        fx.Flush({1: 5}),
        fx.SetId(b"k", 99 << 64),
        fx.CreateGroup(b"k", b"g", 7, False, {1: 7}),
        fx.CreateGroup(b"k", b"g", 0, True, {1: 8}),
        fx.DestroyGroup(b"k", b"g"),
        Announce(b"k", b"g", [(1, 9)], {(1, 1), (1, 2), (1, 5)}, {}),
        fx.SetDeadline(b"k", NEVER, [(1, 3)]),
        fx.RemoveObserved(b"k", {1: 12}, True),
        fx.Configure(b"k", 60, 100, [(2, 1)], {1: 13}),
    ]
    return [run, *(effect_of(each, (1, number)) for number, each in enumerate(others, 3))]


def refuses_or_reads(read: Callable[[bytes], object], body: bytes) -> int:
    """The number of mutations of `body` that `read` refuses with a ValueError.

    Any other exception fails the test.
    """
    read(body)
    refused = 0
    for seed in range(3):
        for mutated in mutations(body, seed):
            try:
                read(mutated)
            except ValueError:
                refused += 1
    return refused


def test_malformed_effects_are_refused() -> None:
    for number, effect in enumerate(every_effect()):
        out = bytearray()
        put_effect(out, effect)

        def read(body: bytes) -> None:
            reader = Reader(body)
            while not reader.at_end():
                read_effect(reader, 5)

        if isinstance(effect, fx.AddRun):
            assert refuses_or_reads(read, bytes(out)) > 100, number
        else:
            assert refuses_or_reads(read, bytes(out)) > 20, number


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (b"", b""),
        (b"\x05", b""),
        (b"\x01\x01f", b""),
        (b"\x01\x01f", b"\x02v"),
        (b"\x01\x01f", b"\x01v\x01w"),
        (b"\x01\x01fx", b"\x01v"),
        (b"\x01\x01f", b"\xff\xff"),
    ],
)
def test_fields_that_could_not_be_read_are_refused(names: bytes, values: bytes) -> None:
    """Such an add was once applied, and every read of its key failed from then on."""
    add = fx.AddIdempotent(b"k", 1 << 64, names, values, b"p", b"i", 1, {})
    out = bytearray()
    put_effect(out, add)
    with pytest.raises(Malformed):
        read_effect(Reader(bytes(out)), 5)
    run = bytearray()
    put_entry(run, SAME_NAMES, 1, 0, 1, values)
    with pytest.raises(ValueError):
        fx.AddRun(b"k", names, bytes(run), 4)


def test_a_run_has_one_set_of_field_names() -> None:
    """`RegionLog` appends each entry of a run with the names of the run (S12.3)."""
    run = bytearray()
    put_entry(run, 0, 1, 0, 1, b"\x01\x01g\x01v")
    with pytest.raises(ValueError, match="other field names"):
        fx.AddRun(b"k", b"\x01\x01f", bytes(run), 4)


def test_malformed_blocks_are_refused_and_what_is_read_can_be_applied() -> None:
    """Reading and applying a malformed block raises nothing but ValueError.

    A peer's mistake must never crash this region.
    """
    writer = BlockWriter(1, 1, 100, 4096)
    for effect in every_effect():
        writer.put(effect)
    body = writer.body()

    def read(mutated: bytes) -> None:
        keyspace = Keyspace(2, NodeLimits(2, 60))
        apply_block(keyspace, Block(1, 1, writer.last, mutated, NO_CHAIN), 1000, False)
        keyspace.digest()

    assert refuses_or_reads(read, body) > 500


def random_steps(chance: random.Random, count: int) -> list[Step]:
    return [
        (
            chance.randrange(len(ACTIONS)),
            chance.randrange(3),
            chance.randrange(66),
            chance.randrange(60),
        )
        for _ in range(count)
    ]


def full_twin() -> Twin:
    """A region with every kind of state, after a random history and some fixed commands."""
    history = History(checks=False)
    chance = random.Random(11)
    history.run(random_steps(chance, 300))
    twin = history.twins[1]
    twin.add(b"m", (b"f", b"v"), 0, b"p", b"i")
    twin.create(b"m", b"g", 0)
    twin.issue([fx.Configure(b"m", 60, 100, [], dict(twin.model.vector))])
    for _ in range(5):
        twin.add(b"m")
    twin.read(b"m", b"g", b"c0", 4)
    twin.acknowledge(b"m", b"g", set(ids_of(twin, b"m")[:1]))
    twin.announce(b"m", b"g")
    twin.delete_consumer(b"m", b"g", b"c0")
    twin.read(b"m", b"g", b"c1", 1)
    twin.expire_at(b"m", 5000)
    twin.create(b"m", b"h", None)
    twin.set_floor(b"m", b"h", 3)
    twin.issue([fx.DestroyGroup(b"m", b"none")])
    twin.keyspace.chains[1] = bytes(range(16))
    twin.check()
    return twin


def test_malformed_snapshots_are_refused() -> None:
    twin = full_twin()
    body = b"".join(snapshot_bytes(twin.keyspace))
    assert refuses_or_reads(lambda mutated: read_snapshot([mutated], twin.limits), body) > 200


def test_malformed_state_is_refused() -> None:
    stream = full_twin().keyspace.keys[b"m"]
    out = converged_state(stream)
    assert (
        refuses_or_reads(
            lambda mutated: read_converged(Reader(mutated), Stream(b"m", NodeLimits())), out
        )
        > 100
    )
    local = bytearray()
    put_local(local, stream)
    assert (
        refuses_or_reads(
            lambda mutated: read_local(Reader(mutated), Stream(b"m", NodeLimits())), bytes(local)
        )
        > 100
    )
    node = stream.logs[1].node_map.nodes[0]
    assert refuses_or_reads(read_node, NodeImage(1, node).encoded()) > 50


# -- state


def test_checkpoint_round_trip() -> None:
    """A start reads from a checkpoint the state that was written (S13.1).

    This covers a key's header, groups, local state and nodes.
    """
    for seed in range(40):
        history = History(checks=False)
        chance = random.Random(seed)
        history.run(random_steps(chance, 80))
        for twin in history.twins.values():
            again = Keyspace(twin.region_id, NodeLimits(3, 200))
            again.vector = dict(twin.keyspace.vector)
            again.flush_tombstone, again.flush_clears = (
                dict(twin.keyspace.flush_tombstone),
                dict(twin.keyspace.flush_clears),
            )
            for key, stream in twin.keyspace.keys.items():
                loaded = again.get_or_create(key)
                body = bytearray(converged_state(stream))
                reader = Reader(bytes(body))
                assert read_converged(reader, loaded) == STATE_VERSION
                assert reader.at_end()
                for region_id, log in stream.logs.items():
                    for node in log.node_map.nodes:
                        push_node(
                            loaded, region_id, read_node(NodeImage(region_id, node).encoded())
                        )
                body = bytearray()
                put_local(body, stream)
                reader = Reader(bytes(body))
                read_local(reader, loaded)
                assert reader.at_end()
                again.touch(loaded)
            assert converged(again) == converged(twin.keyspace)
            assert kept(again) == kept(twin.keyspace)
            assert locals_of(again) == locals_of(twin.keyspace)
            assert again.digest() == twin.keyspace.digest()


def stream_with_pairs(adds: list[tuple[bytes, bytes]], maxsizes: dict[bytes, int]) -> Stream:
    """A stream with these (pid, iid) pairs; pairs above a producer's maxsize are retired."""
    stream = Stream(b"k", NodeLimits(), PairLimits())
    for number, (pid, iid) in enumerate(adds, 1):
        dot = (1 + number % 2, number)
        stream.pairs.add(pair_of(pid, iid, dot, number << 64, 900, {1: number}, 1000 + number))
        if pid in maxsizes:
            stream.pairs.retire(pid, maxsizes[pid])
    return stream


def pairs_of(stream: Stream) -> dict[bytes, list[object]]:
    """Producer → its pairs in their order, with all fields."""
    return {
        pid: [plain(pair) for pair in producer.everything()]
        for pid, producer in stream.pairs.producers.items()
    }


def converged_state(stream: Stream) -> bytes:
    """The bytes of a key without its entries and its local part."""
    image = StateImage()
    cut_converged(image, stream)
    return image.encoded()


def state_of(stream: Stream) -> bytes:
    out = bytearray(converged_state(stream))
    put_local(out, stream)
    return bytes(out)


def begins_of(stream: Stream) -> Vector:
    """region_id → where that log began."""
    return {region_id: log.began for region_id, log in stream.logs.items()}


def state_of_version(version: int, stream: Stream) -> bytes:
    """The state as a former release wrote it, of a stream in which no pair is retired."""
    converged, local, marks, begins = converged_state(stream), bytearray(), bytearray(), bytearray()
    put_local(local, stream)
    put_vector(marks, trimmed_of(stream))
    put_vector(begins, begins_of(stream))
    assert converged[0] == STATE_VERSION == 4 and converged.endswith(marks + begins)
    assert local[-1] == 0, "no producer has retired pairs"
    left_out = len(begins) if version == 3 else len(marks + begins)
    former = bytes([version]) + converged[1 : len(converged) - left_out]
    return bytes(former + (local[:-1] if version == 1 else local))


def read_state(body: bytes, limits: PairLimits) -> Stream:
    stream = Stream(b"k", NodeLimits(), limits)
    reader = Reader(body)
    read_local(reader, stream, read_converged(reader, stream))
    assert reader.at_end()
    return stream


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from([b"", b"p", b"q"]), st.sampled_from([b"i", b"j", b"k"])),
        max_size=20,
    ),
    st.dictionaries(st.sampled_from([b"", b"p", b"q"]), st.integers(0, 4)),
)
def test_a_checkpoint_says_which_pairs_are_retired(
    adds: list[tuple[bytes, bytes]], maxsizes: dict[bytes, int]
) -> None:
    """S9.3, S13.1: a start restores pairs with all fields; retired pairs stay retired."""
    stream = stream_with_pairs(adds, maxsizes)
    limits = PairLimits()
    # A start must not drop pairs that are on the disk because of the limit.
    limits.retired_max = 0
    again = read_state(state_of(stream), limits)
    assert pairs_of(again) == pairs_of(stream)
    assert again.pairs.count_answering() == stream.pairs.count_answering()
    retired = sum(pair.is_retired for pair in stream.pairs.everything())
    assert (limits.retired, limits.forgotten_early) == (retired, 0)
    for pid in (b"", b"p", b"q"):
        for iid in (b"i", b"j", b"k"):
            one, other = (each.pairs.answer(pid, iid, 1010, 50) for each in (stream, again))
            assert (None if one is None else one.dot) == (None if other is None else other.dot)
    assert state_of(again) == state_of(stream)


def test_state_of_version_1_has_no_retired_pairs() -> None:
    """In a checkpoint of the former release no pair is retired.

    The reader must end exactly at the end of that shorter layout.
    """
    stream = full_twin().keyspace.keys[b"m"]
    for number in range(3):
        stream.pairs.add(pair_of(b"p", b"%d" % number, (2, number + 1), 5, 900, {}, 1000))
    body = state_of(stream)
    former = state_of_version(1, stream)
    limits = PairLimits()
    again = read_state(former, limits)
    assert pairs_of(again) == pairs_of(stream)
    assert again.pairs.count_answering() == stream.pairs.count() and limits.retired == 0
    assert begins_of(again) == dict.fromkeys(begins_of(stream), 1)
    for version in (0, 5, 127):
        with pytest.raises(Malformed):
            read_state(bytes([version]) + body[1:], PairLimits())


def test_state_of_version_2_does_not_say_where_logs_were_trimmed() -> None:
    """In a checkpoint or a snapshot of the former release, no log was trimmed."""
    stream = full_twin().keyspace.keys[b"m"]
    stream.trim(2, 7, 0)
    stream.trim(9, 1 << 40, 0)
    stream.trim(2, 5, 0)
    assert trimmed_of(stream) == trimmed_of(read_state(state_of(stream), PairLimits()))
    assert trimmed_of(stream)[2] >= 7 and trimmed_of(stream)[9] == 1 << 40
    again = read_state(state_of_version(2, stream), PairLimits())
    assert trimmed_of(again) == {}


def test_state_of_version_3_does_not_say_where_logs_began() -> None:
    """Every log of such a state began at 1, so no reader is told that it was removed (S5.4).

    A log whose entries are all gone has only a head. It must not seem to begin with its next entry.
    """
    stream = full_twin().keyspace.keys[b"m"]
    stream.header.note(9, 70, 5, 1)
    assert begins_of(read_state(state_of(stream), PairLimits())) == begins_of(stream)
    again = read_state(state_of_version(3, stream), PairLimits())
    assert begins_of(again) == dict.fromkeys({*begins_of(stream), 9}, 1)
    assert trimmed_of(again) == trimmed_of(stream)


def test_more_retired_pairs_than_there_are_pairs() -> None:
    """Malformed state: more retired pairs than there are pairs, and an unknown producer."""
    stream = stream_with_pairs([(b"p", b"i"), (b"p", b"j")], {b"p": 0})
    body = state_of(stream)
    assert body.endswith(b"\x01\x01p\x02")
    limits = PairLimits()
    again = read_state(body[:-1] + b"\x7f", limits)
    assert [pair.is_retired for pair in again.pairs.everything()] == [True, True]
    assert limits.retired == 2
    limits = PairLimits()
    again = read_state(body[:-2] + b"q\x02", limits)
    assert [pair.is_retired for pair in again.pairs.everything()] == [False, False]
    assert limits.retired == 0


def test_a_snapshot_does_not_say_which_pairs_are_retired() -> None:
    """S11.3: each region decides by its own pairs and maxsize which pairs are retired."""
    keyspace = Keyspace(1, NodeLimits())
    keyspace.pair_limits.maxsize = 2
    for counter in range(1, 6):
        pairing = Pairing(b"p", b"%d" % counter, 1000, {})
        add = Add(b"k", counter << 64, [b"f", b"v"], pairing)
        receive(keyspace, add, (1, counter), 1000, True)
    assert keyspace.pair_limits.retired == 3
    other = read_snapshot(snapshot_bytes(keyspace), NodeLimits())
    assert [(pair.iid, pair.is_retired) for pair in other.keys[b"k"].pairs.everything()] == [
        (b"%d" % counter, False) for counter in range(1, 6)
    ]
    assert other.pair_limits.retired == 0
    here = Keyspace(2, NodeLimits())
    here.pair_limits.maxsize = 4
    join_snapshot(here, other, 2000)
    assert [
        (pair.iid, pair.held_ms, pair.is_retired) for pair in here.keys[b"k"].pairs.everything()
    ] == [(b"%d" % counter, 2000, counter == 1) for counter in range(1, 6)]
    assert here.pair_limits.retired == 1


def snapshot_of_version(version: int, keyspace: Keyspace) -> list[bytes]:
    """The snapshot as an earlier release wrote it: version 1 did not say what was collected."""
    (chunk,) = snapshot_bytes(keyspace, 1 << 30)
    reader = Reader(chunk)
    head = reader.bytes_()
    rest = chunk[reader.offset :]
    assert head[1] == SNAPSHOT_VERSION == 2
    collected = bytearray()
    put_vector(collected, keyspace.collected)
    count = bytearray()
    put_varint(count, len(keyspace.keys) + sum(_nodes_of(keyspace)))
    assert head.endswith(bytes(collected + count))
    before = head[2 : len(head) - len(collected) - len(count)]
    out = bytearray()
    put_bytes(out, bytes([head[0], version]) + before + bytes(count))
    return [bytes(out) + rest]


def _nodes_of(keyspace: Keyspace) -> list[int]:
    return [
        len(log.node_map.nodes) for stream in keyspace.keys.values() for log in stream.logs.values()
    ]


def test_a_snapshot_says_what_was_collected() -> None:
    keyspace = full_twin().keyspace
    keyspace.collected = {1: 3, 2: 200}
    assert read_snapshot(snapshot_bytes(keyspace), NodeLimits()).collected == {1: 3, 2: 200}
    other = Keyspace(2, NodeLimits())
    other.collected = {1: 5, 3: 1}
    join_snapshot(other, read_snapshot(snapshot_bytes(keyspace), NodeLimits()), 2000)
    assert other.collected == {1: 5, 2: 200, 3: 1}


def test_a_snapshot_of_version_1_is_read_and_says_nothing_of_that() -> None:
    """It may have been staged on disk before the update."""
    keyspace = full_twin().keyspace
    keyspace.collected = {1: 3, 2: 200}
    former = read_snapshot(snapshot_of_version(1, keyspace), NodeLimits())
    assert former.collected == {}
    assert (former.vector, former.chains) == (keyspace.vector, keyspace.chains)
    assert former.flush_tombstone == keyspace.flush_tombstone
    assert former.flush_clears == keyspace.flush_clears
    keyspace.collected = {}
    assert snapshot_bytes(former) == snapshot_bytes(keyspace), "and all else is the same"
    for version in (0, 3, 127):
        with pytest.raises(Malformed):
            read_snapshot(snapshot_of_version(version, keyspace), NodeLimits())


def test_a_snapshot_with_a_key_twice_is_malformed() -> None:
    keyspace = Keyspace(1, NodeLimits())
    for counter, key in enumerate((b"a", b"b"), 1):
        receive(keyspace, Add(key, counter << 64, [b"f", b"v"]), (1, counter), 1000, True)
    head, one, other = snapshot_bytes(keyspace, 1)
    assert sorted(read_snapshot([head, one, other], NodeLimits()).keys) == [b"a", b"b"]
    with pytest.raises(Malformed, match="twice"):
        read_snapshot([head, one, one], NodeLimits())


# -- local records


def every_record() -> list[LocalRecord]:
    """Local records of each kind."""
    head = RecordHead(b"k", b"g", [(1, 2), (3, 4)], 1234)
    entries = [entry_ref(1, 2, 7 << 64 | 1), entry_ref(2, 9, 8 << 64)]
    given_ = {1: Spans()}
    given_[1].add(0, 5, 77)
    return [
        Delivered(head, b"c", entries, given_, 12, False),
        Delivered(head, b"c", entries, given_, 12, True),
        Removed(head, entries),
        Claimed(head, b"c", [Claim(entry, 55, 3) for entry in entries]),
        ConsumerMade(head, b"c"),
        ConsumerDeleted(head, b"c"),
        FloorSet(head, at_id(5 << 64), entries, 12),
        FloorSet(head, at_counters({1: 2}), entries, 12),
        FloorRaised(head, 9 << 64),
    ]


def test_local_records_round_trip() -> None:
    written = every_record()
    assert {record.kind for record in written} == set(range(1, 8))
    writer = BytesWriter()
    for record in written:
        record.put(writer)
    out = writer.getvalue()
    again = read_records(out)
    assert [plain(record) for record in again] == [plain(record) for record in written]
    assert refuses_or_reads(read_records, out) > 300


def test_kinds_of_records_on_disks_stay_what_they_are() -> None:
    kinds: list[type[LocalRecord]]
    kinds = [Delivered, Removed, Claimed, ConsumerMade, ConsumerDeleted, FloorSet, FloorRaised]
    assert [kind.kind for kind in kinds] == [1, 2, 3, 4, 5, 6, 7]


def test_the_layout_of_records_on_disks_stays_what_it_is() -> None:
    """All kinds share one layout; the fields that a kind does not use are empty or 0.

    Only claims have times, and only FloorSet has a place.
    """
    for record in every_record():
        out = bytearray([record.kind])
        put_bytes(out, b"k")
        put_bytes(out, b"g")
        put_dots(out, [(1, 2), (3, 4)])
        put_varint(out, 1234)
        put_bytes(out, getattr(record, "consumer", b""))
        if isinstance(record, (ConsumerMade, ConsumerDeleted, FloorRaised)):
            put_varint(out, 0)
        else:
            put_varint(out, 2)
            for region_id, counter, entry_id in ((1, 2, 7 << 64 | 1), (2, 9, 8 << 64)):
                put_varint(out, region_id)
                put_varint(out, counter)
                put_id(out, entry_id)
                if isinstance(record, Claimed):
                    put_varint(out, 55)
                    put_varint(out, 3)
        put_spans_by_region(out, record.spans if isinstance(record, Delivered) else {})
        if isinstance(record, FloorSet):
            put_place(out, record.floor)
        put_id(out, 9 << 64 if isinstance(record, FloorRaised) else 0)
        put_varint(out, 12 if isinstance(record, (Delivered, FloorSet)) else 0)
        out.append(1 if isinstance(record, Delivered) and record.no_ack else 0)
        written = BytesWriter()
        record.put(written)
        assert written.getvalue() == out, type(record)


@pytest.mark.parametrize("kind", [0, 8, 9, 127])
def test_records_of_unknown_kinds_are_refused(kind: int) -> None:
    out = BytesWriter()
    ConsumerMade(RecordHead(b"k", b"g", [(1, 2)], 5), b"c").put(out)
    out[0] = kind
    with pytest.raises(Malformed):
        read_records(out.getvalue())


def test_replay_of_records_is_what_was_live() -> None:
    """Replaying effects and encoded records in their order restores the local state (S13.1).

    A record is void, and does nothing, if none of its creates is live.
    """
    replayed_records = 0
    for seed in range(60):
        history = History(checks=False)
        chance = random.Random(1000 + seed)
        # Snapshots are not in the log, so the history must not contain joins.
        history.run([step for step in random_steps(chance, 100) if ACTIONS[step[0]] is not join])
        for twin in history.twins.values():
            replayed_records += len(twin.records)
            replayed = Twin(twin.region_id, twin.limits)
            records = list(twin.records)
            for number in range(len(twin.log) + 1):
                while records and records[0][0] == number:
                    out = BytesWriter()
                    records.pop(0)[1].put(out)
                    for record in read_records(out.getvalue()):
                        apply_local(replayed.keyspace, record)
                if number < len(twin.log):
                    sent = twin.log[number]
                    receive(
                        replayed.keyspace, sent.effect, sent.dot, 0, sent.dot[0] == twin.region_id
                    )
            assert locals_of(replayed.keyspace) == locals_of(twin.keyspace)
    assert replayed_records > 300


@settings(max_examples=200)
@given(
    st.integers(1, 999),
    st.dictionaries(st.integers(1, 999), st.integers(1, 1 << 40), max_size=4),
    st.lists(st.tuples(st.binary(max_size=200), st.binary(min_size=1, max_size=200)), min_size=1),
)
def test_idempotent_adds_of_a_run_have_the_bytes_that_each_has_alone(
    region_id: int, vector: Vector, adds: list[tuple[bytes, bytes]]
) -> None:
    ms, first_seq, names = 1_700_000_000_000, 5 * SEQ_STRIDE + region_id, encode_names([b"f"])
    counter = vector.get(region_id, 0) + 1
    alone, data, ends = bytearray(), bytearray(), []
    for place, (value, iid) in enumerate(adds):
        values = encode_values([value])
        seen = dict(vector)
        if counter + place > 1:
            seen[region_id] = counter + place - 1
        entry_id = make(ms, first_seq + place * SEQ_STRIDE)
        effect = fx.AddIdempotent(b"key", entry_id, names, values, b"p", iid, ms - 5, seen)
        put_effect(alone, effect)
        data += FOLLOWS + with_length(values)
        ends.append(len(data))
    out = BytesWriter()
    iids = [iid for _, iid in adds]
    dot = (region_id, counter)
    run = IdempotentAdds(names, bytes(data), ends, ms, first_seq, b"p", iids)
    write_idempotent_adds(out, b"key", run, ms - 5, dot, vector)
    assert out.getvalue() == bytes(alone)
