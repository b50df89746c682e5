"""CRDT.HISTORY and CRDT.EXPLAIN on a region with a disk, and the index of the log by key."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from xxhash import xxh3_128_intdigest

from anabranch.crdt.block import Block
from anabranch.crdt.named import Named
from anabranch.region.engine.replies import ErrorReply, ReplyLater
from anabranch.region.engine.rows import BlockRow, ClockRow, LogRow, RecordsRow
from anabranch.region.storage import key_index
from anabranch.region.storage.key_index import KeyIndex
from tests.storage.direct import new_disk
from tests.storage.region import Clock, Region, late_reply
from tests.support.engines import execute
from tests.support.replies import plain

START_MS = 1_000_000


class Alone:
    """A cluster of one region."""

    def __init__(self, **values: int | str) -> None:
        self.rng = Random(1)
        self.clock = Clock(START_MS)
        self.members = {"us": 1}
        self.values: dict[str, int | str] = dict(values)
        self.looks = 0.0
        self.collects = True


class Us:
    """The only region of a cluster; `call` performs a command and its commit."""

    def __init__(self, **values: int | str) -> None:
        self.cluster = Alone(**values)
        self.region = Region(self.cluster, "us")

    def call(self, *words: str | bytes) -> Any:
        argv = [word.encode() if isinstance(word, str) else word for word in words]
        self.cluster.clock.passes(1)
        engine = self.region.engine
        reply = execute(engine, self.region.session, argv, self.cluster.clock.wall_ms)
        self.region.commit_all()
        if isinstance(reply, ReplyLater):
            reply = late_reply(self.region)
        assert not isinstance(reply, ErrorReply), reply.message
        return plain(reply, "utf-8")

    def restart(self) -> None:
        """Kills the process and starts from the disk."""
        self.region.begin()

    def events(self, key: str, *options: str) -> list[tuple[str, str]]:
        """Command and kind of each event of the history of a key."""
        reply = self.call("CRDT.HISTORY", key, *options)
        return [(event["command"], event["kind"]) for event in reply["events"]]


def test_each_command_is_named() -> None:
    us = Us()
    us.call("XADD", "k", "*", "a", "1")
    us.call("XADD", "k", "MAXLEN", "1", "*", "a", "2")
    us.call("XADD", "k", "*", "a", "3")
    last = us.call("XADD", "k", "*", "a", "4")
    us.call("XDEL", "k", last)
    us.call("EXPIRE", "k", "100")
    us.call("PERSIST", "k")
    us.call("XGROUP", "CREATE", "k", "g", "$")
    us.call("XGROUP", "DESTROY", "k", "g")
    us.call("UNLINK", "k")
    us.call("FLUSHDB")
    assert us.events("k") == [
        ("xadd", "add"),
        ("xadd", "add"),
        ("xadd", "trim"),
        ("xadd", "add"),
        ("xadd", "add"),
        ("xdel", "remove-entries"),
        ("expire", "set-deadline"),
        ("persist", "set-deadline"),
        ("xgroup|create", "create-group"),
        ("xgroup|destroy", "destroy-group"),
        ("unlink", "delete"),
        ("flushdb", "flush"),
    ]


def test_a_rename_is_a_rename_on_both_keys() -> None:
    us = Us()
    us.call("XADD", "one", "*", "a", "1")
    us.call("XADD", "b", "*", "x", "y")
    us.call("RENAME", "one", "two")
    us.call("RENAME", "two", "three")
    moved = us.call("CRDT.HISTORY", "two")["events"]
    assert [(one["command"], one["kind"], one.get("other-key")) for one in moved] == [
        ("rename", "add", "one"),
        ("rename", "set-id", "one"),
        ("rename", "delete", "three"),
    ]
    assert us.call("CRDT.HISTORY", "one")["events"][-1]["other-key"] == "two"
    assert us.events("b") == [("xadd", "add")]


def test_commands_in_a_transaction_have_their_own_names() -> None:
    us = Us()
    us.call("MULTI")
    us.call("XADD", "k", "*", "a", "1")
    us.call("RENAME", "k", "l")
    us.call("XADD", "l", "*", "a", "2")
    us.call("EXEC")
    assert us.events("l") == [("rename", "add"), ("rename", "set-id"), ("xadd", "add")]


def test_it_survives_a_restart() -> None:
    us = Us()
    added = us.call("XADD", "k", "*", "a", "1")
    us.call("XGROUP", "CREATE", "k", "g", "0")
    us.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "k", ">")
    us.call("DEL", "k")
    before = us.call("CRDT.HISTORY", "k")
    us.restart()
    after = us.call("CRDT.HISTORY", "k")
    assert after["events"] == before["events"] and after["log-floor"] == []
    kinds = [event["kind"] for event in after["events"]]
    assert "delivered" in kinds and kinds[-1] == "delete"
    told = us.call("CRDT.EXPLAIN", "k", added)
    assert told["entries"] == [] and told["events"][-1]["command"] == "del"


def test_an_id_narrows_the_entries() -> None:
    us = Us()
    ids = [us.call("XADD", "k", "*", "a", str(number)) for number in range(5)]
    us.call("XDEL", "k", ids[0])
    us.call("XDEL", "k", ids[1])
    found = us.call("CRDT.HISTORY", "k", "ID", ids[1])["events"]
    assert [event["kind"] for event in found] == ["add", "remove-entries"]
    assert found[0]["fields"] == ["a", "1"] and found[1]["dots"] == [found[0]["dot"]]


def test_pages_follow_each_other() -> None:
    us = Us()
    for number in range(30):
        us.call("XADD", "k", "*", "a", str(number))
    whole = us.call("CRDT.HISTORY", "k")["events"]
    assert len(whole) == 30
    paged: list[Any] = []
    after = 0
    while True:
        page = us.call("CRDT.HISTORY", "k", "AFTER", str(after), "COUNT", "7")
        paged += page["events"]
        if page["next"] is None:
            break
        after = page["next"]
    assert paged == whole
    newest = us.call("CRDT.HISTORY", "k", "NEWEST", "4")
    assert newest["events"] == whole[-4:] and newest["left-out"] == 26
    times = [event["clock-ms"] for event in whole]
    part = us.call("CRDT.HISTORY", "k", "SINCE", str(times[3]), "UNTIL", str(times[9]))
    assert part["events"] == whole[3:10]


@pytest.mark.parametrize("command", ["CRDT.EXPLAIN", "CRDT.HISTORY"])
def test_an_answer_tells_nothing_after_its_question(command: str) -> None:
    """The simulator found events that the vector of the same reply did not cover.

    Commands that followed before the commit went into the block that was open at the question. So
    an entry that the state showed as present had a removal, and one was told that had not arrived.
    """
    us = Us()
    us.call("XGROUP", "CREATE", "k", "g", "0", "MKSTREAM")
    engine, region, now_ms = us.region.engine, us.region, us.cluster.clock.wall_ms
    execute(engine, region.session, [b"XADD", b"k", b"5-*", b"a", b"1"], now_ms)
    asker = engine.clients.connect("", "", now_ms)
    asked = execute(engine, asker, [command.encode(), b"k"], now_ms)
    assert isinstance(asked, ReplyLater)
    read = [b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"k", b">"]
    for words in (read, [b"XADD", b"k", b"6-*", b"a", b"2"], [b"DEL", b"k"]):
        execute(engine, region.session, words, now_ms)
    region.commit_all()
    reply = plain(late_reply(region), "utf-8")
    assert reply["vector"] == [1, 2]
    kinds = [event["kind"] for event in reply["events"]]
    assert kinds == ["create-group", "add"][: 1 if command == "CRDT.EXPLAIN" else 2]


@pytest.mark.parametrize(
    "words",
    [
        ("CRDT.HISTORY", "k", "COUNT"),
        ("CRDT.HISTORY", "k", "COUNT", "0"),
        ("CRDT.HISTORY", "k", "NEWEST", "10001"),
        ("CRDT.HISTORY", "k", "AFTER", "-1"),
        ("CRDT.HISTORY", "k", "ID", "x"),
        ("CRDT.HISTORY", "k", "NO", "1"),
        ("CRDT.EXPLAIN", "k", "1-1", "more"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...]) -> None:
    us = Us()
    argv = [word.encode() for word in words]
    assert isinstance(execute(us.region.engine, us.region.session, argv, START_MS), ErrorReply)


def test_retention_is_told() -> None:
    us = Us(**{"crdt-log-max-effects": 20})
    for number in range(100):
        us.call("XADD", "k", "*", "a", str(number))
        if number % 20 == 19:
            us.region.checkpoint()
    reply = us.call("CRDT.HISTORY", "k")
    dots = [event["dot"][1] for event in reply["events"]]
    floor = dict(zip(reply["log-floor"][::2], reply["log-floor"][1::2], strict=True))
    assert 0 < floor[1] < 100 and dots == list(range(floor[1] + 1, 101))


def test_the_newest_events_end_within_runs_of_adds() -> None:
    """A run of adds is one effect and many events, and its first ones may be left out."""
    us = Us()
    for size in (5, 1, 7):
        us.call("MULTI")
        for number in range(size):
            us.call("XADD", "k", "*", "n", str(number))
        us.call("XADD", "k", "*", "m", "other names end the run")
        us.call("EXEC")
        us.call("XTRIM", "k", "MAXLEN", "3")
    whole = us.call("CRDT.HISTORY", "k")["events"]
    assert len(whole) == 5 + 1 + 7 + 3 + 3
    for number in range(1, len(whole) + 2):
        newest = us.call("CRDT.HISTORY", "k", "NEWEST", str(number))
        assert newest["events"] == whole[-number:]
        assert newest["left-out"] == max(len(whole) - number, 0)


# -- the index


OTHER = -1
Changed = dict[bytes, set[int]]
"""Key → the IDs of its entries, and OTHER if something else happens to it."""


def _rows(draw: Random, keys: list[bytes], count: int) -> list[tuple[LogRow, Changed]]:
    """Rows of a log with what each changes. IDs mostly ascend."""
    rows: list[tuple[LogRow, Changed]] = []
    for position in range(1, count + 1):
        named, changed = Named(), Changed()
        for key in draw.sample(keys, draw.randint(1, 3)):
            if draw.random() < 0.1:
                changed[key] = {OTHER}
                named.other(key)
            else:
                first = 10 * position + draw.choice([0, 3, 50])
                changed[key] = {first, first + 2}
                named.entries(key, 0, first, 0, first + 2)
        kind = draw.random()
        row: LogRow
        if kind < 0.1:
            row, changed = ClockRow(position, 0), Changed()
        elif kind < 0.3:
            row = RecordsRow(position, 0, b"x", named)
        else:
            row = BlockRow(position, 0, Block(1, position, position, b"x", bytes(16)), 0, named)
        rows.append((row, changed))
    return rows


def _is_within(position: int, stretches: list[tuple[int, int]]) -> bool:
    return any(first <= position <= last for first, last in stretches)


def _segments(draw: Random, rows: list[tuple[LogRow, Changed]]) -> list[tuple[object, ...]]:
    disk, index = new_disk(), KeyIndex(0)
    for row, _ in rows:
        index.note(row, key_index.STRETCH_BYTES // draw.choice([1, 3, 20]))
        for sql, parameters in index.take_due():
            disk.execute(sql, parameters)
    return disk.execute(key_index.SEGMENTS).fetchall()


@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_a_filter_has_the_bits_of_its_keys_on_disk(count: int) -> None:
    """Filters of former builds stay on disk, so the bits of a key never change."""
    keys = [b"key%d" % number for number in range(count)]
    bits = (max(10 * count, 64) + 7) // 8 * 8
    expected = 0
    for key in keys:
        value = xxh3_128_intdigest(key)
        first, step = value & ((1 << 64) - 1), (value >> 64) | 1
        for number in range(7):
            expected |= 1 << (first + number * step) % bits
    found = key_index.make_filter(keys)
    assert found == expected.to_bytes(bits // 8, "little")
    assert all(key_index.may_contain(found, key) for key in keys)


@pytest.mark.parametrize("seed", range(20))
def test_the_index_excludes_no_row_of_a_key(seed: int) -> None:
    """Whatever the filters say, the rows of a key are outside the stretches that exclude it."""
    draw = Random(seed)
    keys = [b"key%d" % number for number in range(200)]
    rows = _rows(draw, keys, 400)
    segments = _segments(draw, rows)
    assert segments
    excluded_rows = 0
    for key in keys:
        excluded = key_index.stretches_without(key, segments)
        for row, changed in rows:
            is_excluded = _is_within(row.position, excluded)
            excluded_rows += is_excluded
            assert not (is_excluded and key in changed)
    # Most stretches change few of the keys, and most of the others are excluded.
    assert excluded_rows > len(rows) * len(keys) // 2


@pytest.mark.parametrize("seed", range(20))
def test_of_a_busy_key_only_the_stretches_of_an_entry_are_read(seed: int) -> None:
    """A question about one entry, or about no entry, passes over the adds of the others."""
    draw = Random(seed)
    key = b"busy"
    rows = _rows(draw, [key, b"b", b"c"], 400)
    segments = _segments(draw, rows)
    without_entries = key_index.stretches_without(key, segments, has_entries=False)
    excluded_rows = 0
    for wanted in range(0, 4000, 37):
        excluded = key_index.stretches_without(key, segments, wanted)
        for row, changed in rows:
            found = changed.get(key, set())
            if _is_within(row.position, excluded):
                excluded_rows += 1
                assert not found & {OTHER, wanted}
            assert not (OTHER in found and _is_within(row.position, without_entries))
    assert without_entries and excluded_rows > 109 * 400 // 2


def test_an_entry_of_a_busy_stream_is_explained_as_without_the_index() -> None:
    """Adds, removals, deliveries and IDs that an earlier region log has, too."""
    draw = Random(5)
    us = Us()
    us.call("XADD", "s", "*", "a", "b")
    us.call("XGROUP", "CREATE", "s", "g", "0")
    entries: list[bytes] = []
    for number in range(60):
        entries.append(us.call("XADD", "s", "*", "a", "x" * 120_000))
        word = draw.random()
        if word < 0.05:
            us.call("XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", "s", ">")
        elif word < 0.1:
            us.call("XDEL", "s", draw.choice(entries))
        elif word < 0.12:
            us.call("XTRIM", "s", "MAXLEN", "40")
        if number == 30:
            us.restart()
    wanted = [(), *((one,) for one in entries[::8])]
    with_index = [us.call("CRDT.EXPLAIN", "s", *one)["events"] for one in wanted]
    assert us.region.disk.execute("SELECT COUNT(*) FROM log_ids").fetchone()[0] > 2
    us.region.disk.execute("DELETE FROM log_keys")
    assert [us.call("CRDT.EXPLAIN", "s", *one)["events"] for one in wanted] == with_index


def test_a_row_that_fills_a_stretch_is_in_that_stretch_alone() -> None:
    """Each stretch of the index begins after the last row of the one before.

    Here every row fills a stretch. A stretch that also claimed the row before would exclude it for
    that row's own key, and CRDT.HISTORY would pass over the add of `a`.
    """
    us = Us()
    for key in ("a", "b"):
        us.call("XADD", key, "*", "f", "x" * key_index.STRETCH_BYTES)
    assert us.region.disk.execute("SELECT COUNT(*) FROM log_keys").fetchone()[0] == 2
    assert us.events("a") == us.events("b") == [("xadd", "add")]


def test_a_stretch_ends_within_a_commit() -> None:
    """A commit of a fast writer has many MiB, and a stretch is read as a whole."""
    index = KeyIndex(0)
    for position in range(1, 8):
        index.note(RecordsRow(position, 0, b"x", Named()), key_index.STRETCH_BYTES // 2)
    disk = new_disk()
    for sql, parameters in index.take_due():
        disk.execute(sql, parameters)
    stretches = [(first, last) for first, last, *_ in disk.execute(key_index.SEGMENTS)]
    assert stretches == [(1, 2), (3, 4), (5, 6)]
    assert index.take_due() == []


def test_a_damaged_segment_excludes_nothing() -> None:
    disk = new_disk()
    index = KeyIndex(0)
    named = Named()
    named.entries(b"a", 0, 5, 0, 5)
    index.note(RecordsRow(1, 0, b"x", named), key_index.STRETCH_BYTES)
    for sql, parameters in index.take_due():
        disk.execute(sql, parameters)
    segments = disk.execute(key_index.SEGMENTS).fetchall()
    assert key_index.stretches_without(b"other", segments) == [(1, 1)]
    segments = disk.execute(key_index.SEGMENTS).fetchall()
    assert key_index.stretches_without(b"a", segments, 6) == [(1, 1)]
    disk.execute("UPDATE log_ids SET high = zeroblob(16)")
    segments = disk.execute(key_index.SEGMENTS).fetchall()
    assert key_index.stretches_without(b"a", segments, 5) == []
    disk.execute("UPDATE log_keys SET filter = zeroblob(8)")
    segments = disk.execute(key_index.SEGMENTS).fetchall()
    assert key_index.stretches_without(b"a", segments) == []


@pytest.mark.parametrize("seed", range(5))
def test_histories_with_the_index_are_those_without(seed: int) -> None:
    """The index only saves reading: without its rows, every history stays what it was."""
    draw = Random(seed)
    us = Us()
    keys = [f"k{number}" for number in range(12)]
    for _ in range(150):
        key = draw.choice(keys)
        word = draw.random()
        if word < 0.7:
            us.call("XADD", key, "*", "a", "x" * 40_000)
        elif word < 0.8:
            us.call("DEL", key)
        elif word < 0.85:
            us.call("FLUSHALL")
        elif word < 0.9:
            us.restart()
        elif us.call("EXISTS", key):
            us.call("RENAME", key, draw.choice(keys))
    with_index = {key: us.call("CRDT.HISTORY", key)["events"] for key in keys}
    segments = us.region.disk.execute("SELECT COUNT(*) FROM log_keys").fetchone()[0]
    assert segments
    us.region.disk.execute("DELETE FROM log_keys")
    assert {key: us.call("CRDT.HISTORY", key)["events"] for key in keys} == with_index
