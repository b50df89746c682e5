"""Runs of adds: a pipeline has the effects and replies that its commands have one by one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from anabranch.crdt import merge
from anabranch.crdt.apply import apply, apply_block
from anabranch.crdt.block import read_effects, read_units
from anabranch.crdt.effects import AddIdempotent, AddRun, dots_of
from anabranch.crdt.idempotency import PairLimits
from anabranch.crdt.ids import MAX_HALF, MAX_ID, make
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.pair import Pair
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.scan import Scan
from anabranch.crdt.slices import Entry
from anabranch.crdt.stream import Stream
from anabranch.region.driver.client_connection import ClientConnection
from anabranch.region.driver.clients import Clients
from anabranch.region.driver.command_execution import ALONE_AFTER, Ahead
from anabranch.region.engine.adds import FOLLOWING_MAX
from anabranch.region.engine.replies import QUEUED, AddedIds
from anabranch.region.engine.rows import BlockRow
from anabranch.region.engine.settings import Settings
from tests.support.engines import batch_of, execute, single

NOW_MS = 1_700_000_000_000


class StillClock:
    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms

    def steady_ms(self) -> int:
        return self.ms

    def steady_ns(self) -> int:
        return self.ms * 1_000_000


class Region:
    """A region with clients, and the bytes that each of them has got."""

    def __init__(self, region_id: int = 1, **settings: str) -> None:
        self.clock = StillClock()
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        self.engine = single(region_id, NOW_MS, Settings({"appendfsync": "no", **named}))
        self.clients = Clients(self.engine.clients, self.clock, self.engine.settings)
        self.connections: dict[str, ClientConnection] = {}
        self.got: dict[str, bytes] = {}
        self.blocks: list[BlockRow] = []

    def client(self, name: str) -> ClientConnection:
        if name not in self.connections:
            self.connections[name] = self.clients.connect("127.0.0.1:1", "127.0.0.1:2")
            self.got[name] = b""
        return self.connections[name]

    def feed(self, data: bytes, name: str = "a") -> None:
        connection = self.client(name)
        connection.received(data)
        while connection.wants_turn:
            connection.turn()
        for late in self.engine.clients.take_replies():
            self.clients.answer(late)
        self.collect()

    def asked(self, *words: bytes) -> bytes:
        """The reply to a command of a client of its own."""
        before = len(self.got.get("asking", b""))
        self.feed(command(*words), "asking")
        return self.got["asking"][before:]

    def collect(self) -> None:
        for name, connection in self.connections.items():
            while connection.wants_turn:
                connection.turn()
            self.got[name] += connection.take_output()

    def commit(self) -> None:
        commit = self.engine.disk.take_commit(self.clock.ms)
        if commit is not None:
            self.blocks += [row for row in commit.rows if isinstance(row, BlockRow)]
            self.engine.disk.committed(self.clock.ms)
            self.clients.released(self.engine.committed_position)
        self.collect()

    def entries(self, key: bytes) -> list[Entry]:
        stream = self.engine.keyspace.get(key)
        return [] if stream is None else merge.forward(stream.logs, 0, MAX_ID, -1).listed()

    def shown(self) -> tuple[object, ...]:
        """All that the two ways of sending must agree in."""
        keyspace = self.engine.keyspace
        statistics = self.engine.state.statistics
        return (
            self.got,
            dict(keyspace.vector),
            keyspace.digest(),
            {key: vars_of(self.entries(key)) for key in sorted(keyspace.keys)},
            {key: stream.entries_added for key, stream in sorted(keyspace.keys.items())},
            {key: dict(stream.header.heads) for key, stream in sorted(keyspace.keys.items())},
            {key: pairs_of(stream) for key, stream in sorted(keyspace.keys.items())},
            (keyspace.pair_limits.retired, keyspace.pair_limits.forgotten_early),
            statistics.commands,
            statistics.calls,
            {name: connection.session and connection.session.write_counter
             for name, connection in self.connections.items()},
        )  # fmt: skip


def vars_of(entries: list[Entry]) -> list[tuple[int, int, int, list[bytes]]]:
    return [(one.entry_id, one.region_id, one.counter, one.fields) for one in entries]


def times_of(pair: Pair) -> tuple[int, int]:
    return pair.recorded_ms, pair.held_ms


def pairs_of(stream: Stream) -> tuple[object, ...]:
    """The pairs in their order with all that they hold, and the statistics of idempotent adds."""
    return (
        stream.iids_added,
        stream.iids_duplicates,
        [
            (one.pid, one.iid, one.dot, one.entry_id, one.vector, one.is_retired, *times_of(one))
            for one in stream.pairs.everything()
        ],
    )


def told(blocks: list[BlockRow]) -> list[tuple[bytes, int, str, object]]:
    """Each effect with the command that issued it: what a reader of the log is told."""
    found: list[tuple[bytes, int, str, object]] = []
    for row in blocks:
        for unit in read_units(row.block):
            counter = unit.first
            for effect in unit.effects:
                kind = type(effect).__name__
                if isinstance(effect, AddRun):
                    scan = Scan(effect.data, effect.base_counter)
                    while scan.step():
                        found.append((unit.command, scan.counter, kind, scan.id()))
                else:
                    what = vars_in(effect) if isinstance(effect, AddIdempotent) else 0
                    found.append((unit.command, counter, kind, what))
                counter += dots_of(effect)
    return found


def vars_in(effect: AddIdempotent) -> tuple[object, ...]:
    pair = (effect.pid, effect.iid, effect.recorded_ms, effect.vector)
    return effect.key, effect.entry_id, effect.names, effect.values, *pair


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(one), one) for one in words)


def random_commands(draw: Random, count: int) -> list[bytes]:
    """Commands of which most are adds that are like the one before."""
    commands: list[bytes] = []
    names: tuple[bytes, ...] = (b"f",)
    key = b"s"
    for _ in range(count):
        if draw.random() < 0.15:
            names = draw.choice([(b"f",), (b"f", b"g"), (b"g", b"f"), (b"f", b"f", b"x" * 130), ()])
        if draw.random() < 0.1:
            key = draw.choice([b"s", b"t", b"*"])
        values = [bytes([97 + n]) * draw.choice([0, 1, 16, 33, 127, 128, 700]) for n in range(9)]
        fields = [word for pair in zip(names, values, strict=False) for word in pair]
        others = [
            command(b"XLEN", key),
            command(b"XADD", key, b"MAXLEN", b"~", b"3", b"*", b"f", b"v") * 4,
            command(b"XADD", key, b"MAXLEN", b"~", b"30", b"*", b"f", b"v", b"g", b"w") * 9,
            command(b"XADD", key, b"MAXLEN", b"=", b"9", b"*", b"f", b"v") * 2,
            command(b"XADD", key, b"NOMKSTREAM", b"*", b"f", b"v"),
            command(b"xadd", key, b"*", b"f", b"v"),
            command(b"XADD", key, b"*", b"f"),
            command(b"XADD", key, b"%d-*" % (NOW_MS + 5), b"f", b"v"),
            command(b"XRANGE", key, b"-", b"+", b"COUNT", b"3"),
            command(b"CLIENT", b"REPLY", draw.choice([b"ON", b"ON", b"SKIP", b"OFF"])),
            command(b"DEL", draw.choice([b"s", b"t"])),
            command(b"XTRIM", key, b"MAXLEN", b"2"),
            command(b"WATCH", key),
            command(b"MULTI"),
            command(b"EXEC"),
            command(b"XGROUP", b"CREATE", key, b"g", b"0", b"MKSTREAM"),
            command(b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"2", b"STREAMS", key, b">"),
            b"XADD %b * f v\r\n" % key,
            b"*5\r\n$04\r\nXADD\r\n",
        ][: 18 if draw.random() < 0.99 else 19]
        commands.append(
            draw.choice(others) if draw.random() < 0.12 else command(b"XADD", key, b"*", *fields)
        )
    return commands


def random_commands_to_keys(draw: Random, count: int) -> list[bytes]:
    """Commands of which most are adds with the same names to one of a few keys."""
    commands: list[bytes] = []
    names: tuple[bytes, ...] = (b"f",)
    for _ in range(count):
        if draw.random() < 0.08:
            names = draw.choice([(b"f",), (b"f", b"g"), (b"g", b"f", b"f")])
        key = draw.choice([b"s", b"t", b"t" * 200, b"", b"u"])
        values = [bytes([97 + n]) * draw.choice([0, 1, 16, 33, 127, 128, 700]) for n in range(3)]
        fields = [word for pair in zip(names, values, strict=False) for word in pair]
        others = [
            command(b"XLEN", key),
            command(b"XADD", key, b"MAXLEN", b"~", b"3", b"*", b"f", b"v"),
            command(b"XADD", key, b"%d-*" % (NOW_MS + 5), b"f", b"v"),
            command(b"XSETID", key, b"%d-%d" % (MAX_HALF, MAX_HALF - 1500)),
            command(b"CLIENT", b"REPLY", draw.choice([b"ON", b"ON", b"SKIP", b"OFF"])),
            command(b"DEL", key),
            command(b"PEXPIREAT", key, b"1"),
            command(b"MULTI"),
            command(b"EXEC"),
            command(b"XGROUP", b"CREATE", key, b"g", b"0", b"MKSTREAM"),
            command(b"XADD", key, b"IDMPAUTO", b"p", b"*", b"f", b"v"),
        ]
        commands.append(
            draw.choice(others) if draw.random() < 0.1 else command(b"XADD", key, b"*", *fields)
        )
    return commands


def random_idempotent_commands(draw: Random, count: int) -> list[bytes]:
    """Commands of which most are idempotent adds that are like the one before."""
    commands: list[bytes] = []
    form: tuple[bytes, ...] = (b"IDMP", b"p")
    names: tuple[bytes, ...] = (b"f",)
    key = b"s"
    for number in range(1, count + 1):
        if draw.random() < 0.1:
            form = draw.choice([(b"IDMP", b"p"), (b"IDMP", b"q" * 200), (b"IDMPAUTO", b"p"), ()])
            names = draw.choice([(b"f",), (b"f", b"g"), (b"g", b"f", b"f")])
            key = draw.choice([b"s", b"s", b"t"])
        # Some come again: retries, of pairs that still answer or were pushed out.
        told = number if draw.random() < 0.9 else draw.randrange(max(number - 9, 0), number)
        iid = (b"%d" % told) * draw.choice([1, 1, 1, 60]) if draw.random() < 0.99 else b""
        values = [b"%d" % told] + [b"w" * draw.choice([0, 1, 130]) for _ in names[1:]]
        fields = [word for pair in zip(names, values, strict=True) for word in pair]
        options = draw.choice([(), (), (), (b"NOMKSTREAM",), (b"MAXLEN", b"~", b"30")])
        iids = (iid,) if form[:1] == (b"IDMP",) else ()
        add = command(b"XADD", key, *options, *form, *iids, b"*", *fields)
        if draw.random() < 0.9:
            # Without options, so that many are alike.
            add = command(b"XADD", key, *form, *iids, b"*", *fields)
        others = [
            command(b"XCFGSET", key, b"IDMP-MAXSIZE", draw.choice([b"1", b"4", b"100"])),
            command(b"XADD", key, b"IDMP", b"p", iid, b"IDMP", b"p", iid, b"*", b"f", b"v"),
            command(b"XADD", key, b"IDMP", b"p", iid, b"1-1", b"f", b"v"),
            command(b"DEL", key),
            command(b"XLEN", key),
            command(b"XTRIM", key, b"MAXLEN", b"2"),
            command(b"MULTI"),
            command(b"EXEC"),
            command(b"XGROUP", b"CREATE", key, b"g", b"0", b"MKSTREAM"),
        ]
        commands.append(draw.choice(others) if draw.random() < 0.06 else add)
    return commands


@pytest.mark.parametrize(
    "makes", [random_commands, random_commands_to_keys, random_idempotent_commands]
)
@pytest.mark.parametrize("seed", range(40))
def test_a_pipeline_is_its_commands_one_by_one(
    seed: int, makes: Callable[[Random, int], list[bytes]]
) -> None:
    draw = Random(seed)
    commands = makes(draw, 150)
    settings = {
        "stream_node_max_entries": str(draw.choice([0, 3, 100])),
        "stream_idmp_maxsize": str(draw.choice([1, 5, 100])),
        "crdt_idmp_retired_max": str(draw.choice([3, 1000])),
    }
    one_by_one, piped = Region(7, **settings), Region(7, **settings)
    n = 0
    while n < len(commands):
        stop = n + draw.choice([1, 2, 16, 100])
        for each in commands[n:stop]:
            one_by_one.feed(each)
        data = b"".join(commands[n:stop])
        cut = draw.randrange(len(data) + 1) if draw.random() < 0.3 else len(data)
        piped.feed(data[:cut])
        if cut < len(data):
            piped.feed(data[cut:])
        assert piped.shown() == one_by_one.shown()
        if draw.random() < 0.3:
            piped.commit()
            one_by_one.commit()
        n = stop
    piped.commit()
    one_by_one.commit()
    assert told(piped.blocks) == told(one_by_one.blocks)
    again = Keyspace(7, NodeLimits(), PairLimits())
    again.pair_limits.maxsize = piped.engine.keyspace.pair_limits.maxsize
    again.pair_limits.retired_max = piped.engine.keyspace.pair_limits.retired_max
    other = Keyspace(8, NodeLimits())
    for row in piped.blocks:
        apply_block(again, row.block, NOW_MS, True)
        counter = row.block.first
        for effect in read_effects(row.block):
            apply(other, effect, 7, counter, NOW_MS, False)
            counter += dots_of(effect)
        other.vector[7] = row.block.last
    assert other.digest() == again.digest() == piped.engine.keyspace.digest()
    for key, stream in piped.engine.keyspace.keys.items():
        assert pairs_of(again.keys[key])[2] == pairs_of(stream)[2]


def test_a_run_wakes_readers_at_its_first_add() -> None:
    """A reader that blocks gets the entry of the first add, as it does without pipelining."""
    region = Region()
    region.feed(command(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"), "reader")
    region.feed(command(b"XADD", b"s", b"*", b"f", b"v") * 3)
    assert region.got["reader"].count(b"$1\r\nv\r\n") == 1
    assert len(region.entries(b"s")) == 3


def test_a_run_does_not_pass_a_reader_that_blocks_still() -> None:
    """The first add serves one consumer of the group. The second must serve the next one alone."""
    region = Region()
    region.feed(command(b"XGROUP", b"CREATE", b"s", b"g", b"$", b"MKSTREAM"))
    for consumer in ("one", "two"):
        words = (b"XREADGROUP", b"GROUP", b"g", consumer.encode(), b"BLOCK", b"0")
        region.feed(command(*words, b"STREAMS", b"s", b">"), consumer)
    region.feed(b"".join(command(b"XADD", b"s", b"*", b"f", b"v%d" % n) for n in range(4)))
    for place, consumer in enumerate(("one", "two")):
        values = [n for n in range(4) if b"\r\nv%d\r\n" % n in region.got[consumer]]
        assert values == [place]
    assert len(region.entries(b"s")) == 4


def test_adds_to_other_keys_wake_a_reader_at_its_first_entry() -> None:
    region = Region()
    for key in (b"s", b"t"):
        region.feed(command(b"XADD", key, b"*", b"f", b"v"))
    region.feed(command(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"), "reader")
    adds = [command(b"XADD", key, b"*", b"f", b"new") for key in (b"t", b"s", b"s", b"t")]
    region.feed(b"".join(adds))
    assert region.got["reader"].count(b"$3\r\nnew\r\n") == 1
    assert len(region.entries(b"s")) == 3


def test_a_run_ends_where_too_much_waits_for_the_disk() -> None:
    """Under `crdt-uncommitted-max-bytes` the same add is refused as without pipelining."""
    add = command(b"XADD", b"s", b"*", b"f", b"v" * 100)
    one_by_one, piped = (Region(crdt_uncommitted_max_bytes="2000") for _ in range(2))
    for _ in range(40):
        one_by_one.feed(add)
    piped.feed(add * 40)
    assert b"-MISCONF" in piped.got["a"]
    assert piped.shown() == one_by_one.shown()


@pytest.mark.parametrize("names", [(b"f",), (b"f", b"g"), (b"f", b"g", b"f")])
def test_adds_with_automatic_iids_are_taken_together(names: tuple[bytes, ...]) -> None:
    """The ends of their packed values were not known, so each was executed alone.

    No seed caught planted bug 219, because nothing ran the line that it changes.
    """
    region = Region()
    beginning = [b"XADD", b"s", b"IDMPAUTO", b"p", b"*"]
    adds = [
        beginning + [word for name in names for word in (name, value)]
        for value in (b"1", b"22", b"333")
    ]
    session = region.engine.clients.connect("127.0.0.1:1", "127.0.0.1:2", NOW_MS)
    batch = batch_of(region.engine, *adds)
    replies, taken = region.engine.clients.execute_batch(session, batch, NOW_MS)
    assert taken == 3
    first, others = replies
    assert isinstance(others, AddedIds) and others.count == 2
    # A retry that comes alone finds the entry of the run.
    retried = [execute(region.engine, session, add, NOW_MS) for add in adds]
    assert retried == [first, b"%d-1001" % NOW_MS, b"%d-2001" % NOW_MS]


def test_fewer_commands_are_taken_while_they_are_given_back() -> None:
    """Each of a thousand XADDs to new keys was parsed up to 128 times: four times slower."""
    ahead = Ahead()
    assert ahead.most() == FOLLOWING_MAX
    ahead.took(FOLLOWING_MAX, 0)
    assert [ahead.most() for _ in range(ALONE_AFTER)] == [0] * ALONE_AFTER
    for expected in (1, 2, 4):
        assert ahead.most() == expected
        ahead.took(expected, expected)
    ahead.took(8, 3)
    assert ahead.most() == 3, "as many as were executed, and none alone"
    ahead.took(3, 0)
    ahead.begin()
    assert ahead.most() == FOLLOWING_MAX, "another client"


@pytest.mark.parametrize("size", [118, 119, 120, 307, 308, 448, 449])
def test_nodes_of_a_pipeline_are_taken_whole_by_a_peer(size: int) -> None:
    """A node of a run may pass the limit by the ID of its first entry. A peer took such a node for
    one of a region with other limits, and added its entries one by one."""
    region, peer = Region(7), Region(9)
    region.feed(command(b"XADD", b"s", b"*", b"f", b"v" * size) * 512)
    region.commit()
    for row in region.blocks:
        counter = row.block.first
        for effect in read_effects(row.block):
            apply(peer.engine.keyspace, effect, 7, counter, NOW_MS, False)
            counter += dots_of(effect)
    nodes = [
        [node.count for node in one.engine.keyspace.keys[b"s"].logs[7].node_map.nodes]
        for one in (region, peer)
    ]
    assert nodes[0] == nodes[1] and len(nodes[0]) > 10


def test_a_run_makes_a_block_little_larger() -> None:
    """A block of the effect log must fit a message to a peer (S14)."""
    region = Region(crdt_block_max_bytes="1024")
    region.feed(command(b"XADD", b"s", b"*", b"f", b"v" * 50_000) * 20)
    region.commit()
    assert len(region.entries(b"s")) == 20
    assert max(len(row.block.body) for row in region.blocks) < 250_000


@pytest.mark.parametrize("rest", [b"*", b"*5\r", b"*5\r\n$4\r\nXADD", command(b"ECHO", b"x")])
def test_what_follows_a_short_command_is_not_compared(rest: bytes) -> None:
    for short in (command(b"INFO"), command(b"ECHO", b"x"), command(b"CLIENT", b"ID")):
        region = Region()
        region.feed(short * 2 + rest)
        alone = Region()
        alone.feed(short * 2)
        got = region.got["a"]
        assert got[:1] in (b"$", b":") and got.count(b"\r\n") >= alone.got["a"].count(b"\r\n")


def test_seqs_do_not_overflow() -> None:
    """The run ends at the last seq of a ms; the next add has the next ms."""
    region = Region()
    last = make(NOW_MS, MAX_HALF - 2500)
    region.feed(command(b"XADD", b"s", b"%d-*" % NOW_MS, b"f", b"v"))
    region.feed(command(b"XSETID", b"s", b"%d-%d" % (NOW_MS, MAX_HALF - 2500)))
    region.feed(command(b"XADD", b"s", b"*", b"f", b"v") * 6)
    ids = [entry.entry_id for entry in region.entries(b"s")][1:]
    assert len(ids) == 6 and ids == sorted(ids) and ids[0] > last
    assert all(one % 1000 == 1 for one in (entry_id & MAX_HALF for entry_id in ids))
    assert ids[2] >> 64 == NOW_MS + 1 or ids[3] >> 64 == NOW_MS + 1


def test_replies_under_always_wait_for_the_commit() -> None:
    region = Region(appendfsync="always")
    region.feed(command(b"XADD", b"s", b"*", b"f", b"v") * 5)
    assert region.got["a"] == b""
    region.commit()
    assert region.got["a"].count(b"\r\n") == 10


def test_an_add_with_maxlen_begins_a_batch_but_for_one_in_a_transaction() -> None:
    """Commands that MULTI queues are queued one by one, and come again after the first."""
    engine = Region().engine
    session = engine.clients.connect("127.0.0.1:1", "127.0.0.1:2", NOW_MS)
    add = [b"XADD", b"s", b"MAXLEN", b"~", b"1000", b"*", b"f", b"v"]
    batch = batch_of(engine, add, add, add)
    assert batch.count() == 3
    assert engine.clients.execute_batch(session, batch, NOW_MS)[1] == 3
    execute(engine, session, [b"MULTI"], NOW_MS)
    assert engine.clients.execute_batch(session, batch, NOW_MS) == ([QUEUED], 1)
    reply = execute(engine, session, [b"EXEC"], NOW_MS)
    assert isinstance(reply, list) and len(reply) == 1


@pytest.mark.parametrize("node", ["2", "3", "5"])
def test_a_run_that_trims_is_as_long_as_its_adds_one_by_one(node: str) -> None:
    """The add after which a node must go ends the run; a run that passed it left the node there."""
    add = command(b"XADD", b"s", b"MAXLEN", b"~", b"7", b"*", b"f", b"v")
    one_by_one, piped = Region(stream_node_max_entries=node), Region(stream_node_max_entries=node)
    for count in range(1, 24):
        piped.feed(add * count)
        for _ in range(count):
            one_by_one.feed(add)
        assert len(piped.entries(b"s")) == len(one_by_one.entries(b"s")) >= min(7, count)
        piped.feed(command(b"DEL", b"s"))
        one_by_one.feed(command(b"DEL", b"s"))
