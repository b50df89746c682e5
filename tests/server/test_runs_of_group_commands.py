"""Runs of XACK and XREADGROUP: a pipeline has the replies and the state of its commands alone."""

from __future__ import annotations

from random import Random

import pytest

from anabranch.crdt.apply import apply
from anabranch.crdt.block import read_effects
from anabranch.crdt.effects import dots_of
from anabranch.crdt.ids import format_id
from anabranch.crdt.local import apply_local, read_records
from anabranch.region.engine.rows import RecordsRow
from tests.server.test_runs_of_adds import NOW_MS, Region, command

KEY, GROUP = b"s", b"g"


def read(count: int, *options: bytes, consumer: bytes = b"c") -> bytes:
    words = [b"XREADGROUP", b"GROUP", GROUP, consumer, b"COUNT", b"%d" % count, *options]
    return command(*words, b"STREAMS", KEY, b">")


def acknowledge(*entry_ids: bytes) -> bytes:
    return command(b"XACK", KEY, GROUP, *entry_ids)


class Twins:
    """Two regions that get the same: one in pipelines, the other command by command."""

    def __init__(self) -> None:
        self.piped, self.alone = Region(7), Region(7)
        self.both([command(b"XGROUP", b"CREATE", KEY, GROUP, b"0", b"MKSTREAM")])

    def both(self, commands: list[bytes], name: str = "a") -> None:
        self.piped.feed(b"".join(commands), name)
        for one in commands:
            self.alone.feed(one, name)
        self.check()

    def merge(self, other: Region) -> None:
        """Both take what another region has added."""
        other.commit()
        for region in (self.piped, self.alone):
            keyspace = region.engine.keyspace
            origin = other.engine.region_id
            for row in other.blocks:
                counter = row.block.first
                for effect in read_effects(row.block):
                    apply(keyspace, effect, origin, counter, NOW_MS, False)
                    counter += dots_of(effect)
                keyspace.vector[origin] = row.block.last
        other.blocks.clear()

    def check(self) -> None:
        assert self.piped.shown() == self.alone.shown()
        for asked in ([b"CRDT.GROUPS", KEY], [b"XINFO", b"STREAM", KEY, b"FULL"]):
            told = [bytes(region.asked(*asked)) for region in (self.piped, self.alone)]
            assert told[0] == told[1]


def entry_ids(region: Region) -> list[bytes]:
    return [format_id(entry.entry_id) for entry in region.entries(KEY)]


@pytest.mark.parametrize("seed", range(40))
def test_a_pipeline_is_its_commands_one_by_one(seed: int) -> None:
    draw = Random(seed)
    twins = Twins()
    other = Region(8)
    for _ in range(60):
        known = entry_ids(twins.piped) or [b"1-1"]
        begin = draw.randrange(len(known))
        acks = [acknowledge(one) for one in known[begin : begin + draw.choice([1, 4, 40])]]
        acks = draw.choice([acks, sorted(acks), acks[::-1], draw.sample(acks, len(acks))])
        reads = [read(draw.choice([1, 1, 2, 5]), consumer=draw.choice([b"c", b"d"]))]
        reads *= draw.choice([1, 3, 50])
        steps = [
            acks,
            acks * 2,
            reads,
            reads,
            [read(1, b"NOACK")] * 5,
            [*acks[:3], command(b"XACK", KEY, GROUP, b"wrong"), *acks[3:]],
            [command(b"xack", KEY, b"missing", known[0])] * 3,
            [acknowledge(*known[:3])] * 2,
            [command(b"XADD", KEY, b"*", b"f", b"v")] * draw.choice([1, 30]),
            [command(b"XDEL", KEY, draw.choice(known))],
            [command(b"XGROUP", b"SETID", KEY, GROUP, draw.choice(known))],
            [command(b"XGROUP", b"DELCONSUMER", KEY, GROUP, b"d")],
            [command(b"XCLAIM", KEY, GROUP, b"d", b"0", draw.choice(known), b"FORCE")],
            [command(b"MULTI"), *acks[:2], *reads[:2], command(b"EXEC")],
            [command(b"CLIENT", b"REPLY", b"SKIP"), *reads],
            [command(b"HELLO", draw.choice([b"2", b"3"]))],
        ]
        twins.both(draw.choice(steps))
        if draw.random() < 0.3:
            other.feed(command(b"XADD", KEY, b"*", b"f", b"v") * 3)
            twins.merge(other)
        for region in (twins.piped, twins.alone, other):
            region.clock.ms += 1 if draw.random() < 0.3 else 0
        other.clock.ms = twins.piped.clock.ms = twins.alone.clock.ms


def test_a_read_of_a_run_that_finds_nothing_blocks() -> None:
    twins = Twins()
    twins.both([command(b"XADD", KEY, b"*", b"f", b"v")] * 2)
    twins.both([read(1, b"BLOCK", b"0")] * 4, "reader")
    assert twins.piped.got["reader"].count(b"$1\r\nv\r\n") == 2
    twins.both([command(b"XADD", KEY, b"*", b"f", b"w")])
    assert twins.piped.got["reader"].count(b"$1\r\nw\r\n") == 1


def test_a_run_of_any_length_is_executed() -> None:
    """It is executed in parts, so that other clients get their turn."""
    twins = Twins()
    twins.both([command(b"XADD", KEY, b"*", b"f", b"v")] * 700)
    twins.both([read(3)] * 250)
    twins.both([acknowledge(one) for one in entry_ids(twins.piped)])
    assert b":0\r\n" not in twins.piped.got["a"]
    assert twins.piped.got["a"].count(b":1\r\n") == 700


def test_a_run_makes_one_local_record_that_a_start_replays() -> None:
    region = Region(7)
    region.feed(command(b"XGROUP", b"CREATE", KEY, GROUP, b"0", b"MKSTREAM"))
    region.feed(command(b"XADD", KEY, b"*", b"f", b"v") * 20)
    region.feed(read(1) * 16)
    region.feed(b"".join(acknowledge(one) for one in entry_ids(region)[:10]))
    commit = region.engine.disk.take_commit(NOW_MS)
    assert commit is not None
    records = [
        record
        for row in commit.rows
        if isinstance(row, RecordsRow)
        for record in read_records(row.records)
    ]
    # The consumer, the reads, the acknowledgements.
    assert [len(record.entries_only()) for record in records] == [0, 16, 10]
    again = Region(7)
    again.feed(command(b"XGROUP", b"CREATE", KEY, GROUP, b"0", b"MKSTREAM"))
    again.feed(command(b"XADD", KEY, b"*", b"f", b"v") * 20)
    for record in records:
        apply_local(again.engine.keyspace, record)
    assert again.asked(b"CRDT.GROUPS", KEY) == region.asked(b"CRDT.GROUPS", KEY)


def test_acknowledgements_that_change_nothing_are_answered_while_changes_are_refused() -> None:
    """The refusal of an XACK was the reply to the XACKs before it, too, which change nothing."""
    twins = Twins()
    twins.both([command(b"XADD", KEY, b"*", b"f", b"v")] * 4)
    twins.both([read(4)])
    pending = [acknowledge(one) for one in entry_ids(twins.piped)]
    for region in (twins.piped, twins.alone):
        region.engine.disk.take_commit(region.clock.ms)
        region.engine.disk.commit_failed("disk full")
        region.got["a"] = b""
    twins.both([acknowledge(b"1-1"), acknowledge(b"2-2"), *pending])
    assert twins.piped.got["a"].startswith(b":0\r\n:0\r\n-MISCONF")
    assert twins.piped.got["a"].count(b"-MISCONF") == 4
