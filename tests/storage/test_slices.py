"""The statements that write captured keys: few calls, and no reading of whole tables."""

from __future__ import annotations

import sqlite3
from collections import Counter

from anabranch.crdt.images import PelImage, StateImage
from anabranch.crdt.node import PackedNode
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import entry_ref
from anabranch.crdt.state import NodeImage
from anabranch.region.storage import schema
from anabranch.region.storage.checkpoint import STRETCH
from anabranch.region.storage.schema import Statement, in_bulk, meta
from anabranch.region.storage.slices import GONE, KeyCut, slices

FIRST = meta("collected", b"")


def keys(count: int, *, stored: bool) -> list[KeyCut]:
    """Keys of one entry each; `stored`: an earlier checkpoint stored their nodes, too."""
    found = []
    for n in range(1, count + 1):
        cut = KeyCut(b"key-%d" % n, 7, n, 0)
        cut.state = [b"st", b"ate"]
        cut.has_older = stored
        node = PackedNode(b"\x01a", 1)
        node.number = 1
        cut.images = [NodeImage(1, node)]
        cut.rewritten = [(1, 1)] if stored else []
        found.append(cut)
    return found


def written(cuts: list[KeyCut], cut: int, max_bytes: int = 1 << 20) -> list[list[Statement]]:
    return list(slices(cuts, cut, max_bytes, STRETCH, FIRST))


def new_database() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", isolation_level=None)
    for table in schema.TABLES:
        database.execute(table)
    return database


def contents(database: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    tables = {"part": "number, cut", "node": "number, region, node, cut", "key_state": "key, cut"}
    return {
        table: database.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}").fetchall()
        for table, columns in tables.items()
    }


def test_rows_of_a_kind_share_statements() -> None:
    """Each statement costs the engine a turn, so a row must not be a statement of its own."""
    (new,) = written(keys(128, stored=False), 1)
    assert len(new) == 1 + 3 * 2
    (again,) = written(keys(128, stored=True), 2)
    assert len(again) == 1 + 5 * 2


def test_older_rows_are_removed_and_others_stay() -> None:
    database = new_database()
    first = keys(9, stored=False)
    again = keys(9, stored=True)[:5]
    again[0].dropped = [(1, 2)]
    gone = KeyCut(b"key-9", 8, GONE, 9)
    for cut, cuts in ((1, first), (2, [*again, gone])):
        for statements in written(cuts, cut):
            for statement in statements:
                database.execute(*statement)
    numbers = [(n, 2 if n <= 5 else 1) for n in range(1, 9)]
    assert contents(database) == {
        "part": numbers,
        "node": [(number, 1, 1, cut) for number, cut in numbers],
        "key_state": [(b"key-%d" % n, cut) for n, cut in numbers] + [(b"key-9", 2)],
    }


def test_slices_end_in_time_and_make_no_key_valid_too_early() -> None:
    """A stop between two slices leaves each key with all rows of one cut, old or new."""
    before = new_database()
    for statements in written(keys(20, stored=False), 1):
        for statement in statements:
            before.execute(*statement)
    parts = written(keys(20, stored=True), 2, max_bytes=500)
    assert len(parts) > 20
    for stop in range(len(parts)):
        database = new_database()
        before.backup(database)
        for statements in parts[:stop]:
            for statement in statements:
                database.execute(*statement)
        found = contents(database)
        rows = Counter(found["part"]) + Counter((n, cut) for n, _, _, cut in found["node"])
        for key, cut in found["key_state"]:
            assert isinstance(key, bytes)
            assert rows[int(key.removeprefix(b"key-")), cut] == 2


def test_every_removal_finds_its_rows_by_the_primary_key() -> None:
    """A scan of a table for each slice made a checkpoint of many keys quadratic."""
    database = new_database()
    cuts = keys(9, stored=True)
    cuts[0].dropped = [(1, 2)]
    cuts.append(KeyCut(b"gone", 8, GONE, 9))
    (statements,) = written(cuts, 2)
    removals = [one for one in statements if one[0].startswith("DELETE")]
    assert len(removals) >= 5
    for sql, parameters in removals:
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]
        scanned = [step for step in plan if step.startswith("SCAN")]
        assert not any(table in step for step in scanned for table in ("node", "part")), plan
        assert any(step.startswith("SEARCH") and "PRIMARY KEY" in step for step in plan), plan


def test_rows_in_bulk_keep_their_order() -> None:
    rows = [(n, b"%d" % n) for n in range(150)]
    made = list(in_bulk("INSERT INTO t (a, b) VALUES {}", rows))
    assert [values for _, parameters in made for values in parameters[::2]] == list(range(150))
    assert {sql.count("(?, ?)") for sql, _ in made} == {64, 8, 1}
    assert list(in_bulk("DELETE FROM t WHERE a IN (VALUES {}) AND b < ?", [(1,)], (9,))) == [
        ("DELETE FROM t WHERE a IN (VALUES (?)) AND b < ?", (1, 9))
    ]
    assert list(in_bulk("INSERT INTO t (a, b) VALUES {}", [])) == []


def test_the_encoding_of_many_pending_entries_rests() -> None:
    """An empty transaction is a rest, in which clients are served."""
    (one,) = keys(1, stored=False)
    pel = Pel()
    pel.assign_all([entry_ref(1, n, n << 64) for n in range(1, 5001)], b"alice", 1)
    image = PelImage(pel)
    image.add(b"head", pel.numbers[b"alice"])
    one.image = StateImage()
    one.image.add(image)
    steps = list(slices([one], 1, 1 << 20, 1000, FIRST))
    assert steps[:4] == [[]] * 4 and len(steps) >= 5 and all(steps[-1:])
